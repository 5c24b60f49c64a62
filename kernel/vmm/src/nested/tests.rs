use super::*;
use std::collections::BTreeMap;
use std::string::ToString;
use std::vec::Vec;
use x86defs::memory_type::MemoryType;

const K4: u64 = 1 << 12;
const M2: u64 = 1 << 21;
const G1: u64 = 1 << 30;

/// Entries of no vendor: kind in bits 1:0, permissions in 3:2, memory type in 6:4.
struct TestFormat(PageSize);

impl PageFormat for TestFormat {
    fn largest_page(&self) -> PageSize {
        self.0
    }
    fn table(&self, table: Hpa) -> u64 {
        table.0 | 1
    }
    fn leaf(&self, size: PageSize, leaf: Leaf) -> u64 {
        assert!(size <= self.0);
        assert_eq!(leaf.to.0 % size.bytes(), 0);
        leaf.to.0 | 2 | u64::from(leaf.permissions.bits()) << 2 | (leaf.memory_type as u64) << 4
    }
    fn decode(&self, level: u8, entry: u64) -> Entry {
        let address = Hpa(entry & !0xfff);
        match entry & 3 {
            0 => Entry::Empty,
            1 => {
                assert!(level > 0, "a table of 4 KiB pages refers to no table");
                Entry::Table(address)
            }
            _ => Entry::Leaf(Leaf {
                to: address,
                permissions: Permissions::from_bits_truncate((entry >> 2) as u8 & 3),
                memory_type: MemoryType::from_encoding((entry >> 4) as u8 & 7).unwrap(),
            }),
        }
    }
}

/// Tables in a map, with every store on record.
struct FakeTables {
    tables: BTreeMap<u64, [u64; ENTRIES]>,
    stores: Vec<(Hpa, usize, u64)>,
    next: u64,
    left: usize,
}

impl FakeTables {
    fn new() -> FakeTables {
        FakeTables { tables: BTreeMap::new(), stores: Vec::new(), next: 0x1000, left: usize::MAX }
    }
    fn with_room_for(tables: usize) -> FakeTables {
        FakeTables { left: tables, ..FakeTables::new() }
    }
}

impl TableMemory for FakeTables {
    fn allocate(&mut self) -> Option<Hpa> {
        self.left = self.left.checked_sub(1)?;
        let table = self.next;
        self.next += K4;
        self.tables.insert(table, [0; ENTRIES]);
        Some(Hpa(table))
    }
    fn free(&mut self, table: Hpa) {
        self.tables.remove(&table.0).expect("freed once");
        self.left = self.left.saturating_add(1);
    }
    fn read(&self, table: Hpa, index: usize) -> u64 {
        self.tables[&table.0][index]
    }
    fn write(&mut self, table: Hpa, index: usize, entry: u64) {
        self.tables.get_mut(&table.0).expect("a live table")[index] = entry;
        self.stores.push((table, index, entry));
    }
}

fn ram(to: u64) -> Leaf {
    Leaf { to: Hpa(to), permissions: Permissions::all(), memory_type: MemoryType::WriteBack }
}

fn fixture(largest: PageSize) -> (NestedTables<TestFormat>, FakeTables) {
    let mut memory = FakeTables::new();
    let tables = NestedTables::new(TestFormat(largest), &mut memory).unwrap();
    (tables, memory)
}

fn target(tables: &NestedTables<TestFormat>, memory: &FakeTables, gpa: u64) -> Option<(u64, PageSize)> {
    tables.lookup(memory, Gpa(gpa)).map(|t| (t.leaf.to.0, t.size))
}

#[test]
fn uses_the_largest_pages_that_fit() {
    let (mut t, mut m) = fixture(PageSize::Size1G);
    // From the last 4 KiB before 2 MiB to 4 KiB beyond 2 GiB, both sides equally aligned.
    t.map(&mut m, Gpa(M2 - K4), 2 * G1 + 2 * K4 - M2, ram(G1 + M2 - K4)).unwrap();
    assert_eq!(target(&t, &m, M2 - K4 - 1), None);
    assert_eq!(target(&t, &m, M2 - 1), Some((G1 + M2 - 1, PageSize::Size4K)));
    assert_eq!(target(&t, &m, M2 + 5), Some((G1 + M2 + 5, PageSize::Size2M)));
    assert_eq!(target(&t, &m, G1 - 1), Some((2 * G1 - 1, PageSize::Size2M)));
    assert_eq!(target(&t, &m, G1 + 0x1234_5678), Some((2 * G1 + 0x1234_5678, PageSize::Size1G)));
    assert_eq!(target(&t, &m, 2 * G1 + 7), Some((3 * G1 + 7, PageSize::Size4K)));
    assert_eq!(target(&t, &m, 2 * G1 + K4), None);
}

#[test]
fn alignment_of_the_target_and_the_format_limit_the_page() {
    let (mut t, mut m) = fixture(PageSize::Size1G);
    t.map(&mut m, Gpa(0), G1, ram(M2)).unwrap();
    assert_eq!(target(&t, &m, 0), Some((M2, PageSize::Size2M)));
    t.map(&mut m, Gpa(G1), M2, ram(K4)).unwrap();
    assert_eq!(target(&t, &m, G1 + 0x1fffff), Some((K4 + 0x1fffff, PageSize::Size4K)));

    let (mut t, mut m) = fixture(PageSize::Size2M);
    t.map(&mut m, Gpa(0), G1, ram(0)).unwrap();
    assert_eq!(target(&t, &m, G1 - 1), Some((G1 - 1, PageSize::Size2M)));
}

#[test]
fn crosses_the_entries_of_every_level() {
    let (mut t, mut m) = fixture(PageSize::Size2M);
    let at = (1 << 39) - K4;
    t.map(&mut m, Gpa(at), 2 * K4, ram(0x7000)).unwrap();
    assert_eq!(target(&t, &m, at), Some((0x7000, PageSize::Size4K)));
    assert_eq!(target(&t, &m, at + K4), Some((0x8000, PageSize::Size4K)));
    t.map(&mut m, Gpa(GPA_LIMIT - K4), K4, ram(0)).unwrap();
    assert_eq!(target(&t, &m, GPA_LIMIT - 1), Some((0xfff, PageSize::Size4K)));
    assert_eq!(target(&t, &m, GPA_LIMIT), None);
}

#[test]
fn permissions_and_memory_type_reach_the_leaf() {
    let (mut t, mut m) = fixture(PageSize::Size1G);
    let rom =
        Leaf { to: Hpa(0x5000), permissions: Permissions::EXECUTE, memory_type: MemoryType::WriteProtected };
    t.map(&mut m, Gpa(0xf_0000), K4, rom).unwrap();
    let found = t.lookup(&m, Gpa(0xf_0010)).unwrap();
    assert_eq!(found, Translation { size: PageSize::Size4K, leaf: rom.advanced(0x10) });
}

/// Fails if a table got an entry after it was linked; returns the number of links.
fn links_of_complete_tables(format: &TestFormat, stores: &[(Hpa, usize, u64)]) -> usize {
    let mut links = 0;
    for (position, store) in stores.iter().enumerate() {
        if let Entry::Table(table) = format.decode(TOP, store.2) {
            links += 1;
            let later = stores[position..].iter().find(|s| s.0 == table && s.2 != 0);
            assert_eq!(later, None, "{table} was filled after it was linked");
        }
    }
    links
}

#[test]
fn a_table_is_complete_before_it_is_linked() {
    let (mut t, mut m) = fixture(PageSize::Size2M);
    t.map(&mut m, Gpa(M2 - K4), G1, ram(M2 - K4)).unwrap();
    assert_eq!(links_of_complete_tables(&t.format, &m.stores), 5);
    m.stores.clear();
    t.unmap(&mut m, Gpa(M2), K4).unwrap();
    assert_eq!(links_of_complete_tables(&t.format, &m.stores), 1);
    assert_eq!(m.stores.len(), ENTRIES + 2);
}

#[test]
fn unmapping_splits_what_it_cuts() {
    let (mut t, mut m) = fixture(PageSize::Size1G);
    t.map(&mut m, Gpa(0), 2 * G1, ram(4 * G1)).unwrap();
    assert_eq!(t.unmap(&mut m, Gpa(G1 + M2 + K4), K4), Ok(true));
    assert_eq!(target(&t, &m, 0), Some((4 * G1, PageSize::Size1G)));
    assert_eq!(target(&t, &m, G1), Some((5 * G1, PageSize::Size2M)));
    assert_eq!(target(&t, &m, G1 + M2 + K4 - 1), Some((5 * G1 + M2 + K4 - 1, PageSize::Size4K)));
    assert_eq!(target(&t, &m, G1 + M2 + K4), None);
    assert_eq!(target(&t, &m, G1 + M2 + 2 * K4), Some((5 * G1 + M2 + 2 * K4, PageSize::Size4K)));
    assert_eq!(target(&t, &m, G1 + 2 * M2), Some((5 * G1 + 2 * M2, PageSize::Size2M)));
    assert_eq!(t.unmap(&mut m, Gpa(G1 + M2 + K4), K4), Ok(false));
    assert_eq!(t.unmap(&mut m, Gpa(0), 2 * G1), Ok(true));
    assert_eq!(t.unmap(&mut m, Gpa(0), GPA_LIMIT), Ok(false));
}

#[test]
fn protecting_changes_permissions_alone() {
    let (mut tables, mut memory) = fixture(PageSize::Size2M);
    tables.map(&mut memory, Gpa(0), M2, ram(0)).unwrap();
    assert_eq!(tables.protect(&mut memory, Gpa(K4), K4, Permissions::EXECUTE), Ok(true));
    let leaf = |gpa| tables.lookup(&memory, Gpa(gpa)).unwrap().leaf;
    assert_eq!(leaf(K4), Leaf { permissions: Permissions::EXECUTE, ..ram(K4) });
    assert_eq!((leaf(0), leaf(2 * K4)), (ram(0), ram(2 * K4)));
    assert_eq!(tables.protect(&mut memory, Gpa(M2), K4, Permissions::EXECUTE), Ok(false));
}

#[test]
fn what_is_mapped_is_not_mapped_again() {
    let (mut t, mut m) = fixture(PageSize::Size1G);
    t.map(&mut m, Gpa(3 * K4), K4, ram(0)).unwrap();
    let stores = m.stores.len();
    assert_eq!(t.map(&mut m, Gpa(0), M2, ram(0)), Err(NestedError::AlreadyMapped(Gpa(3 * K4))));
    assert_eq!(m.stores.len(), stores);
    t.map(&mut m, Gpa(4 * K4), K4, ram(K4)).unwrap();
}

#[test]
fn bad_ranges_are_named() {
    let (mut t, mut m) = fixture(PageSize::Size1G);
    assert_eq!(t.map(&mut m, Gpa(1), K4, ram(0)), Err(NestedError::Misaligned(1)));
    assert_eq!(t.map(&mut m, Gpa(0), 5, ram(0)), Err(NestedError::Misaligned(5)));
    assert_eq!(t.map(&mut m, Gpa(0), K4, ram(0x123)), Err(NestedError::Misaligned(0x123)));
    let last = Gpa(GPA_LIMIT - K4);
    assert_eq!(t.map(&mut m, last, 2 * K4, ram(0)), Err(NestedError::OutOfReach(last)));
    let wraps = Gpa(u64::MAX - 0xfff);
    assert_eq!(t.unmap(&mut m, wraps, K4), Err(NestedError::OutOfReach(wraps)));
    assert_eq!(
        NestedError::OutOfReach(last).to_string(),
        "the range at guest physical address 0xfffffffff000 ends beyond 0x1000000000000"
    );
}

#[test]
fn running_out_of_tables_undoes_the_mapping() {
    for room in 1..6 {
        let mut m = FakeTables::with_room_for(room);
        let mut t = NestedTables::new(TestFormat(PageSize::Size2M), &mut m).unwrap();
        // Needs two page tables under two directories under one pointer table.
        let result = t.map(&mut m, Gpa(G1 - K4), 2 * K4, ram(0));
        assert_eq!(result, Err(NestedError::OutOfTables), "with {room} tables");
        assert_eq!(target(&t, &m, G1 - K4), None);
        assert_eq!(target(&t, &m, G1), None);
        t.free(&mut m);
        assert!(m.tables.is_empty(), "with {room} tables some leak");
    }
    let mut m = FakeTables::with_room_for(0);
    assert!(NestedTables::new(TestFormat(PageSize::Size2M), &mut m).is_err());
}

#[test]
fn every_table_is_freed() {
    let (mut t, mut m) = fixture(PageSize::Size1G);
    t.map(&mut m, Gpa(K4), 3 * G1, ram(K4)).unwrap();
    t.unmap(&mut m, Gpa(G1), K4).unwrap();
    t.free(&mut m);
    assert!(m.tables.is_empty());
}
