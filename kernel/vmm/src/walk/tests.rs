use super::*;
use crate::fake::{FakeVcpu, VecMemory};
use crate::memory::NotRam;
use x86defs::segment::SegmentName;

const P: u64 = 1 << 0;
const W: u64 = 1 << 1;
const U: u64 = 1 << 2;
const A: u64 = 1 << 5;
const D: u64 = 1 << 6;
const PS: u64 = 1 << 7;
const NX: u64 = 1 << 63;

/// Tables at 0x1000, 0x2000, ... from the top; the page at 0x9000.
const PAGE: u64 = 0x9000;
/// A linear address whose indices are 1, 2, 3, 4 from the top of long-mode tables.
const AT: Gva = Gva(1 << 39 | 2 << 30 | 3 << 21 | 4 << 12 | 0x567);
const SLOTS: [u64; 4] = [0x1008, 0x2010, 0x3018, 0x4020];

/// Long-mode tables in which every entry down to the page has these flags besides its own.
fn long(flags: [u64; 4]) -> (FakeVcpu, VecMemory) {
    let memory = VecMemory::new(0x8000);
    for (i, slot) in SLOTS.into_iter().enumerate() {
        let to = if i == 3 { PAGE } else { 0x2000 + 0x1000 * i as u64 };
        memory.poke(slot, Width::Qword, to | flags[i]);
    }
    (FakeVcpu::long(0x1000), memory)
}

fn translate(vcpu: &FakeVcpu, memory: &VecMemory, intent: Intent) -> Result<u64, u32> {
    Paging::of(vcpu).translate(memory, AT, intent).map(|gpa| gpa.0).map_err(|fault| {
        assert_eq!(fault.address, AT);
        fault.code.bits()
    })
}

const ALL: [u64; 4] = [P | W | U; 4];
const SUPERVISOR: [u64; 4] = [P | W; 4];

/// `flags` with `change` exclusive-ored into each of the four entries in turn.
fn each_level(flags: [u64; 4], change: u64) -> impl Iterator<Item = [u64; 4]> {
    (0..4).map(move |level| {
        let mut changed = flags;
        changed[level] ^= change;
        changed
    })
}

#[test]
fn without_paging_addresses_are_physical() {
    let memory = VecMemory::new(0);
    let paging = Paging::of(&FakeVcpu::real());
    assert_eq!(paging.translate(&memory, Gva(0x1234), Intent::Write), Ok(Gpa(0x1234)));
}

#[test]
fn long_mode_maps_pages_of_three_sizes() {
    let (vcpu, memory) = long(ALL);
    assert_eq!(translate(&vcpu, &memory, Intent::Read), Ok(PAGE | 0x567));
    memory.poke(SLOTS[2], Width::Qword, 0x4060_0000 | P | PS | 1 << 12);
    assert_eq!(translate(&vcpu, &memory, Intent::Read), Ok(0x4060_4567), "2 MiB; bit 12 is PAT");
    memory.poke(SLOTS[1], Width::Qword, 0x40_0000_0000 | P | PS | 1 << 12);
    assert_eq!(translate(&vcpu, &memory, Intent::Read), Ok(0x40_0060_4567), "1 GiB");
}

#[test]
fn accessed_and_dirty_flags_are_set() {
    let (vcpu, memory) = long(ALL);
    translate(&vcpu, &memory, Intent::Read).unwrap();
    for (i, slot) in SLOTS.into_iter().enumerate() {
        assert_eq!(memory.peek(slot, Width::Byte), P | W | U | A, "read, level {i}");
    }
    translate(&vcpu, &memory, Intent::Write).unwrap();
    assert_eq!(memory.peek(SLOTS[3], Width::Byte), P | W | U | A | D);
    assert_eq!(memory.peek(SLOTS[2], Width::Byte), P | W | U | A, "only the leaf is dirty");
}

#[test]
fn a_refused_access_leaves_no_dirty_flag() {
    let (vcpu, memory) = long([P; 4]);
    assert_eq!(translate(&vcpu, &memory, Intent::Write), Err(0b00011));
    assert_eq!(memory.peek(SLOTS[3], Width::Byte), P);
}

#[test]
fn the_short_way_takes_pages_of_each_size() {
    let (vcpu, memory) = long([P | W | U | A | D; 4]);
    let paging = Paging::of(&vcpu);
    let short = |intent| paging.translate_plainly(&memory, AT, intent).map(|to| to.0);
    assert_eq!(short(Intent::Write), Some(PAGE | 0x567));
    memory.poke(SLOTS[3], Width::Qword, PAGE | P | W | A);
    assert_eq!(short(Intent::Read), Some(PAGE | 0x567));
    assert_eq!(short(Intent::Write), None, "the page is not dirty");
    memory.poke(SLOTS[2], Width::Qword, 0x4060_0000 | P | PS | A | 1 << 12);
    assert_eq!(short(Intent::Read), Some(0x4060_4567));
    memory.poke(SLOTS[1], Width::Qword, 0x40_0000_0000 | P | PS | A);
    assert_eq!(short(Intent::Fetch), Some(0x40_0060_4567));
    memory.poke(SLOTS[0], Width::Qword, 0x2000 | P | PS | A);
    assert_eq!(short(Intent::Read), None);
}

#[test]
fn the_short_way_never_says_otherwise_than_the_full_walk() {
    let interesting = [P, W, U, A, D, PS, NX, 1 << 12, 1 << 13, 1 << 20, 1 << 29, 1 << 51, 1 << 52];
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    let mut taken = 0;
    for _ in 0..3_000 {
        let (mut vcpu, memory) = long([P | W | U | A | D; 4]);
        // One or two bits changed somewhere, in every combination of controls.
        for _ in 0..next() % 3 {
            let slot = SLOTS[(next() % 4) as usize];
            let bit = interesting[next() as usize % interesting.len()];
            memory.poke(slot, Width::Qword, memory.peek(slot, Width::Qword) ^ bit);
        }
        let controls = next();
        vcpu.cpl = if controls & 1 != 0 { 3 } else { 0 };
        vcpu.cr0.set(Cr0::WP, controls & 2 != 0);
        vcpu.cr4.set(Cr4::SMEP, controls & 4 != 0);
        vcpu.cr4.set(Cr4::SMAP, controls & 8 != 0);
        vcpu.rflags.set(Rflags::AC, controls & 16 != 0);
        vcpu.efer.set(Efer::NXE, controls & 32 != 0);
        let paging = Paging { physical_bits: if controls & 64 != 0 { 51 } else { 52 }, ..Paging::of(&vcpu) };
        for intent in [Intent::Read, Intent::Write, Intent::Fetch] {
            if let Some(to) = paging.translate_plainly(&memory, AT, intent) {
                let (full, path) = paging.walk(&memory, AT, intent).expect("the full walk agrees");
                assert_eq!(to, full);
                assert!(path.iter().all(|(_, entry)| entry.contains(Bits::ACCESSED)));
                taken += 1;
            }
        }
    }
    assert!(taken > 1_000, "{taken}");
}

#[test]
fn not_present_at_each_level() {
    for flags in each_level(ALL, P) {
        let (mut vcpu, memory) = long(flags);
        assert_eq!(translate(&vcpu, &memory, Intent::Read), Err(0b00000));
        assert_eq!(translate(&vcpu, &memory, Intent::Write), Err(0b00010));
        assert_eq!(translate(&vcpu, &memory, Intent::Fetch), Err(0b10000));
        vcpu.cpl = 3;
        assert_eq!(translate(&vcpu, &memory, Intent::Read), Err(0b00100));
    }
}

#[test]
fn supervisor_pages_refuse_the_user_at_each_level() {
    for flags in each_level(ALL, U) {
        let (mut vcpu, memory) = long(flags);
        assert!(translate(&vcpu, &memory, Intent::Write).is_ok());
        vcpu.cpl = 3;
        assert_eq!(translate(&vcpu, &memory, Intent::Read), Err(0b00101));
        assert_eq!(translate(&vcpu, &memory, Intent::Write), Err(0b00111));
        assert_eq!(translate(&vcpu, &memory, Intent::Fetch), Err(0b10101));
    }
}

#[test]
fn read_only_pages_and_write_protect() {
    for flags in each_level(ALL, W) {
        let (mut vcpu, memory) = long(flags);
        assert!(translate(&vcpu, &memory, Intent::Read).is_ok());
        assert_eq!(translate(&vcpu, &memory, Intent::Write), Err(0b00011));
        vcpu.cr0 -= Cr0::WP;
        assert!(translate(&vcpu, &memory, Intent::Write).is_ok(), "the supervisor without WP");
        vcpu.cpl = 3;
        assert_eq!(translate(&vcpu, &memory, Intent::Write), Err(0b00111));
    }
}

#[test]
fn no_execute_at_each_level() {
    for flags in each_level(ALL, NX) {
        let (mut vcpu, memory) = long(flags);
        assert!(translate(&vcpu, &memory, Intent::Write).is_ok());
        assert_eq!(translate(&vcpu, &memory, Intent::Fetch), Err(0b10001));
        vcpu.efer -= Efer::NXE;
        assert_eq!(translate(&vcpu, &memory, Intent::Read), Err(0b01001), "reserved without NXE");
        assert_eq!(translate(&vcpu, &memory, Intent::Fetch), Err(0b01001), "and no fetch flag");
    }
}

#[test]
fn smep_refuses_the_supervisor_code_of_users() {
    let (mut vcpu, memory) = long(ALL);
    vcpu.efer -= Efer::NXE;
    assert!(translate(&vcpu, &memory, Intent::Fetch).is_ok());
    vcpu.cr4 |= Cr4::SMEP;
    assert_eq!(translate(&vcpu, &memory, Intent::Fetch), Err(0b10001));
    assert!(translate(&vcpu, &memory, Intent::Read).is_ok());
    vcpu.cpl = 3;
    assert!(translate(&vcpu, &memory, Intent::Fetch).is_ok());
    let (mut vcpu, memory) = long(SUPERVISOR);
    vcpu.cr4 |= Cr4::SMEP;
    assert!(translate(&vcpu, &memory, Intent::Fetch).is_ok());
}

#[test]
fn smap_refuses_the_supervisor_data_of_users() {
    let (mut vcpu, memory) = long(ALL);
    vcpu.cr4 |= Cr4::SMAP;
    assert_eq!(translate(&vcpu, &memory, Intent::Read), Err(0b00001));
    assert_eq!(translate(&vcpu, &memory, Intent::Write), Err(0b00011));
    assert!(translate(&vcpu, &memory, Intent::Fetch).is_ok());
    vcpu.rflags |= Rflags::AC;
    assert!(translate(&vcpu, &memory, Intent::Read).is_ok());
    let implicit = Paging::of(&vcpu).implicit().translate(&memory, AT, Intent::Read);
    assert_eq!(implicit.unwrap_err().code, PageFaultCode::PRESENT, "AC excuses explicit accesses only");
    vcpu.rflags -= Rflags::AC;
    vcpu.cpl = 3;
    assert!(translate(&vcpu, &memory, Intent::Read).is_ok());
}

#[test]
fn implicit_accesses_are_the_supervisors() {
    let (mut vcpu, memory) = long(SUPERVISOR);
    vcpu.cpl = 3;
    assert!(Paging::of(&vcpu).implicit().translate(&memory, AT, Intent::Read).is_ok());
}

#[test]
fn reserved_bits_of_long_mode() {
    let mut large = ALL;
    large[0] |= PS;
    let (vcpu, memory) = long(large);
    assert_eq!(translate(&vcpu, &memory, Intent::Read), Err(0b01001), "PS at the top");
    for (level, low) in [(1, 13), (1, 29), (2, 13), (2, 20)] {
        let mut flags = ALL;
        flags[level] |= PS | 1 << low;
        let (vcpu, memory) = long(flags);
        memory.poke(SLOTS[level], Width::Qword, flags[level]);
        assert_eq!(translate(&vcpu, &memory, Intent::Read), Err(0b01001), "bit {low} at level {level}");
    }
    for flags in each_level(ALL, 1 << 45) {
        let (vcpu, memory) = long(flags);
        let narrow = Paging { physical_bits: 45, ..Paging::of(&vcpu) };
        let code = narrow.translate(&memory, AT, Intent::Read).unwrap_err().code;
        assert_eq!(code, PageFaultCode::PRESENT | PageFaultCode::RESERVED);
    }
    for flags in each_level(ALL, 1 << 52 | 1 << 62 | 1 << 11) {
        let (vcpu, memory) = long(flags);
        assert!(translate(&vcpu, &memory, Intent::Read).is_ok(), "bits for software");
    }
}

#[test]
fn tables_where_no_ram_is_read_as_all_ones() {
    let (mut vcpu, memory) = long(ALL);
    vcpu.cr3 = 0x10_0000;
    assert_eq!(translate(&vcpu, &memory, Intent::Read), Err(0b01001));
}

/// A vCPU with 32-bit or PAE paging, its top table at 0x1000.
fn protected(cr4: Cr4) -> FakeVcpu {
    let mut vcpu = FakeVcpu::protected32();
    vcpu.cr0 |= Cr0::PG | Cr0::WP;
    vcpu.cr3 = 0x1018;
    vcpu.cr4 = cr4;
    vcpu
}

#[test]
fn paging_of_32_bits() {
    let memory = VecMemory::new(0x8000);
    let vcpu = protected(Cr4::empty());
    let at = Gva(3 << 22 | 5 << 12 | 0x89);
    memory.poke(0x100c, Width::Dword, 0x2000 | P | W | U | PS);
    memory.poke(0x2014, Width::Dword, 0xffff_f000 | P | U);
    let paging = Paging::of(&vcpu);
    assert_eq!(paging.translate(&memory, at, Intent::Read), Ok(Gpa(0xffff_f089)), "PS without PSE");
    assert_eq!(memory.peek(0x100c, Width::Byte), P | W | U | PS | A);
    let fault = paging.translate(&memory, at, Intent::Write).unwrap_err();
    assert_eq!(fault.code, PageFaultCode::PRESENT | PageFaultCode::WRITE);
}

#[test]
fn pages_of_4_mib_and_pse36() {
    let memory = VecMemory::new(0x8000);
    let vcpu = protected(Cr4::PSE);
    let at = Gva(3 << 22 | 0x12_3456);
    memory.poke(0x100c, Width::Dword, 0x8040_0000 | P | W | PS | 1 << 12);
    let paging = Paging::of(&vcpu);
    assert_eq!(paging.translate(&memory, at, Intent::Write), Ok(Gpa(0x8052_3456)));
    assert_eq!(memory.peek(0x100c, Width::Byte), P | W | PS | A | D);
    memory.poke(0x100c, Width::Dword, 0x8040_0000 | P | PS | 1 << 20 | 1 << 13);
    assert_eq!(paging.translate(&memory, at, Intent::Read), Ok(Gpa(0x81_8052_3456)));
    let narrow = Paging { physical_bits: 36, ..paging };
    assert!(narrow.translate(&memory, at, Intent::Read).is_err(), "bit 39 of 36");
    memory.poke(0x100c, Width::Dword, 0x8040_0000 | P | PS | 1 << 21);
    assert!(paging.translate(&memory, at, Intent::Read).is_err(), "bit 21 is always reserved");
}

#[test]
fn pae_paging() {
    let memory = VecMemory::new(0x8000);
    let mut vcpu = protected(Cr4::PAE);
    vcpu.cr3 = 0x1020;
    vcpu.efer = Efer::NXE;
    let at = Gva(3 << 30 | 7 << 21 | 9 << 12 | 0x21);
    memory.poke(0x1038, Width::Qword, 0x2000 | P);
    memory.poke(0x2038, Width::Qword, 0x3000 | P | W | U);
    memory.poke(0x3048, Width::Qword, 0x1_2345_6000 | P | W | U | NX);
    let paging = Paging::of(&vcpu);
    assert_eq!(paging.translate(&memory, at, Intent::Write), Ok(Gpa(0x1_2345_6021)));
    assert_eq!(memory.peek(0x1038, Width::Qword), 0x2000 | P, "pointers have no accessed flag");
    assert_eq!(memory.peek(0x3048, Width::Byte), P | W | U | A | D);
    assert_eq!(paging.translate(&memory, at, Intent::Fetch).unwrap_err().code.bits(), 0b10001);

    memory.poke(0x2038, Width::Qword, 0x1_4020_0000 | P | W | PS);
    assert_eq!(paging.translate(&memory, at, Intent::Read), Ok(Gpa(0x1_4020_9021)), "2 MiB");
    memory.poke(0x2038, Width::Qword, 0x3000 | P | 1 << 52);
    assert_eq!(paging.translate(&memory, at, Intent::Read).unwrap_err().code.bits(), 0b01001);
    for reserved in [W, U, PS, 1 << 52, NX] {
        memory.poke(0x1038, Width::Qword, 0x2000 | P | reserved);
        assert_eq!(paging.translate(&memory, at, Intent::Read).unwrap_err().code.bits(), 0b01001);
    }
    memory.poke(0x1038, Width::Qword, 0);
    assert_eq!(paging.translate(&memory, at, Intent::Read).unwrap_err().code.bits(), 0);
}

/// Memory in which another CPU clears the writable flag of the leaf whenever somebody tries to mark it.
struct Contended(VecMemory);

impl GuestMemory for Contended {
    fn read(&self, at: Gpa, into: &mut [u8]) -> Result<(), NotRam> {
        self.0.read(at, into)
    }
    fn write(&self, at: Gpa, from: &[u8]) -> Result<(), NotRam> {
        self.0.write(at, from)
    }
    fn load(&self, at: Gpa, width: Width) -> Result<u64, NotRam> {
        self.0.load(at, width)
    }
    fn store(&self, at: Gpa, width: Width, value: u64) -> Result<(), NotRam> {
        self.0.store(at, width, value)
    }
    fn compare_exchange(
        &self,
        at: Gpa,
        width: Width,
        current: u64,
        new: u64,
    ) -> Result<Result<u64, u64>, NotRam> {
        if at.0 == SLOTS[3] {
            self.0.poke(SLOTS[3], Width::Qword, PAGE | P);
        }
        self.0.compare_exchange(at, width, current, new)
    }
}

#[test]
fn an_entry_that_changes_under_the_walk_is_read_again() {
    let (vcpu, memory) = long(ALL);
    let memory = Contended(memory);
    let fault = Paging::of(&vcpu).translate(&memory, AT, Intent::Write).unwrap_err();
    assert_eq!(fault.code, PageFaultCode::PRESENT | PageFaultCode::WRITE);
}

#[test]
fn the_event_carries_the_code() {
    let mut vcpu = FakeVcpu::long(0x1000);
    vcpu.segment_mut(SegmentName::Cs).selector = 0;
    let fault = Paging::of(&vcpu).translate(&VecMemory::new(0x2000), AT, Intent::Write).unwrap_err();
    assert_eq!(fault.event(), Event::fault(Exception::PageFault, 2));
}
