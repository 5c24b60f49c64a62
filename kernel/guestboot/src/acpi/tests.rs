use super::*;
use crate::memory_map::{ROM_END, VGA};
use crate::platform::{HPET_ID, HPET_MIN_TICK, MAX_CPUS, PM_TMR, PM1A_CNT, PM1A_EVT};
use std::string::String;

/// The tables as a guest finds them.
struct Found(Vec<Copy>);

impl Found {
    fn new(cpus: u32) -> Self {
        Self(tables(cpus))
    }

    fn at(&self, at: u64) -> &[u8] {
        let copy = self.0.iter().find(|copy| copy.to.0 == at).expect("a table at this address");
        match &copy.source {
            Source::Bytes(bytes) => bytes,
            other => panic!("{other:?}"),
        }
    }

    fn rsdp(&self) -> &[u8] {
        self.at(RSDP.0)
    }

    /// The tables that the XSDT lists.
    fn listed(&self) -> Vec<&[u8]> {
        let xsdt = self.at(u64_at(self.rsdp(), 24));
        xsdt[36..].chunks(8).map(|entry| self.at(u64_at(entry, 0))).collect()
    }

    fn table(&self, signature: &[u8; 4]) -> &[u8] {
        self.listed().into_iter().find(|table| table.starts_with(signature)).expect("a table of this kind")
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap())
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn sum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |sum, byte| sum.wrapping_add(*byte))
}

#[test]
fn root_pointer_has_both_checksums() {
    let found = Found::new(1);
    let rsdp = found.rsdp();
    assert_eq!(&rsdp[..8], b"RSD PTR ");
    assert_eq!(rsdp.len(), 36);
    assert_eq!(u32_at(rsdp, 20), 36);
    assert_eq!((sum(&rsdp[..20]), sum(rsdp)), (0, 0));
}

#[test]
fn every_table_has_its_length_and_checksum() {
    for cpus in [1, 2, 255, 256, MAX_CPUS] {
        let found = Found::new(cpus);
        for copy in &found.0 {
            let table = found.at(copy.to.0);
            if copy.to == RSDP {
                continue;
            }
            let name = String::from_utf8_lossy(&table[..4]);
            assert_eq!(u32_at(table, 4) as usize, table.len(), "{name}");
            if name != "FACS" {
                assert_eq!(sum(table), 0, "{name}");
            }
        }
    }
}

#[test]
fn both_lists_lead_to_the_same_tables() {
    let found = Found::new(1);
    let rsdt = found.at(u32_at(found.rsdp(), 16).into());
    let narrow: Vec<&[u8]> = rsdt[36..].chunks(4).map(|entry| found.at(u32_at(entry, 0).into())).collect();
    assert_eq!(narrow, found.listed());
    assert_eq!(narrow.len(), 3);
}

#[test]
fn tables_stay_in_their_places_and_apart() {
    let found = Found::new(MAX_CPUS);
    let mut extents: Vec<(u64, u64)> =
        found.0.iter().map(|copy| (copy.to.0, copy.to.0 + found.at(copy.to.0).len() as u64)).collect();
    extents.sort_unstable();
    assert!(extents.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{extents:x?}");
    assert!(extents[0].0 == EBDA.0 && extents[0].1 <= VGA.0);
    assert!(extents[1].0 == RSDP.0 && extents.last().unwrap().1 <= ROM_END.0);
}

#[test]
fn fixed_table_agrees_with_itself_and_the_platform() {
    let found = Found::new(1);
    let fadt = found.table(b"FACP");
    assert_eq!(fadt.len(), 276);
    assert_eq!(found.at(u32_at(fadt, 36).into()).get(..4), Some(&b"FACS"[..]));
    assert_eq!(found.at(u32_at(fadt, 40).into()).get(..4), Some(&b"DSDT"[..]));
    assert_eq!(u64_at(fadt, 140), u32_at(fadt, 40).into(), "X_DSDT");
    assert_eq!(u16_at(fadt, 46), 9, "SCI_INT");
    assert_eq!(u32_at(fadt, 48), 0, "SMI_CMD");

    // (old address, old length, extended form)
    let blocks = [(56, 88, 148, PM1A_EVT), (64, 89, 172, PM1A_CNT), (76, 91, 208, PM_TMR)];
    for (address, length, extended, ports) in blocks {
        assert_eq!(u32_at(fadt, address), ports.first.into());
        assert_eq!(u16::from(fadt[length]), ports.count);
        assert_eq!(fadt[extended..extended + 2], [1, (ports.count * 8) as u8], "I/O space and width");
        assert_eq!(u64_at(fadt, extended + 4), ports.first.into());
    }
    assert_eq!(fadt[116..120], [1, 8, 0, 1], "RESET_REG is a byte in I/O space");
    assert_eq!((u64_at(fadt, 120), fadt[128]), (0xcf9, 6));
    let flags = u32_at(fadt, 112);
    assert_eq!(flags & (1 << 10 | 1 << 8), 1 << 10 | 1 << 8, "RESET_REG_SUP and TMR_VAL_EXT");
    assert_eq!(flags & (1 << 20), 0, "not hardware-reduced");
}

#[test]
fn event_timers_have_a_table_of_their_own() {
    let found = Found::new(1);
    let hpet = found.table(b"HPET");
    assert_eq!(hpet.len(), 56);
    assert_eq!(u32_at(hpet, 36), HPET_ID);
    assert_eq!(hpet[40..44], [0, 64, 0, 0], "in memory, 64 bits wide");
    assert_eq!(u64_at(hpet, 44), 0xfed0_0000);
    assert_eq!((hpet[52], u16_at(hpet, 53), hpet[55]), (0, HPET_MIN_TICK, 0));
}

/// The interrupt controller structures of a MADT.
fn structures(madt: &[u8]) -> Vec<&[u8]> {
    let mut rest = &madt[44..];
    let mut all = Vec::new();
    while !rest.is_empty() {
        let (head, tail) = rest.split_at(rest[1].into());
        all.push(head);
        rest = tail;
    }
    all
}

#[test]
fn one_cpu_has_the_classic_structures() {
    let found = Found::new(1);
    let madt = found.table(b"APIC");
    assert_eq!((u32_at(madt, 36), u32_at(madt, 40)), (0xfee0_0000, 1));
    let expected: [&[u8]; 5] = [
        &[0, 8, 0, 0, 1, 0, 0, 0],
        &[1, 12, 0, 0, 0, 0, 0xc0, 0xfe, 0, 0, 0, 0],
        &[2, 10, 0, 0, 2, 0, 0, 0, 0, 0],
        &[2, 10, 0, 9, 9, 0, 0, 0, 0x0d, 0],
        &[4, 6, 0xff, 0, 0, 1],
    ];
    assert_eq!(structures(madt), expected);
}

#[test]
fn apic_ids_from_255_on_are_wide() {
    let found = Found::new(257);
    let structures = structures(found.table(b"APIC"));
    let of_kind = |kind| structures.iter().filter(|s| s[0] == kind).copied().collect::<Vec<&[u8]>>();
    assert_eq!(of_kind(0).len(), 255);
    let wide = of_kind(9);
    assert_eq!(
        wide.iter().map(|s| (u32_at(s, 4), u32_at(s, 12))).collect::<Vec<_>>(),
        [(255, 255), (256, 256)]
    );
    assert_eq!(of_kind(10), [[10, 12, 0, 0, 0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0]]);
}

#[test]
fn devices_are_in_the_namespace() {
    let found = Found::new(1);
    let dsdt = found.at(u32_at(found.table(b"FACP"), 40).into());
    let has = |bytes: &[u8]| dsdt.windows(bytes.len()).any(|window| window == bytes);
    assert!(has(b"\x08_S5_\x12\x06\x04\x00\x00\x00\x00"), "{dsdt:x?}");
    for device in ["PCI0", "HPET", "TIMR", "RTC0", "KBD0", "AUX0", "COM1"] {
        assert!(has(device.as_bytes()), "{device}");
    }
    assert!(has(&[0x22, 0x00, 1 << (12 - 8), 0x79, 0]), "AUX0: IRQ 12 and nothing else");
    assert!(has(&[0x47, 1, 0xf8, 0x03, 0xf8, 0x03, 1, 8, 0x22, 1 << 4, 0]), "COM1: 8 ports, IRQ 4");
}
