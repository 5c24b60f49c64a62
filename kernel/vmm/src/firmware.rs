//! What the host's ACPI tables say (ACPI 6.5, chapter 5): every length and offset in them is checked, since
//! firmware is wrong often enough. There is no AML interpreter: S5 is found by scanning the DSDT.

use alloc::vec;
use alloc::vec::Vec;
use x86defs::addr::Hpa;

/// Longest table that is read; real ones are far smaller.
const MAX_TABLE: usize = 1 << 20;
/// Most tables that the root table may list.
const MAX_TABLES: usize = 256;
/// Most I/O APICs, and most overrides, that are noted: a table can list far more than any machine has.
const MAX_NOTED: usize = 256;
/// Length of a table's header.
const HEADER: usize = 36;

/// Reads physical memory; `false` if there is none.
pub trait ReadPhysical {
    /// Fills `into` from `at`.
    fn read(&self, at: Hpa, into: &mut [u8]) -> bool;
}

/// An I/O APIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoApic {
    /// Its registers.
    pub address: Hpa,
    /// Its first global system interrupt.
    pub gsi_base: u32,
}

/// Where an ISA interrupt is wired to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Override {
    /// ISA interrupt line.
    pub irq: u8,
    /// Global system interrupt.
    pub gsi: u32,
    /// MPS INTI flags: polarity in bits 1:0, trigger mode in 3:2.
    pub flags: u16,
}

/// How the machine is switched off: what to write to PM1a_CNT and PM1b_CNT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SoftOff {
    /// I/O ports of PM1a_CNT and PM1b_CNT; 0: absent.
    pub ports: [u16; 2],
    /// Values, with SLP_EN.
    pub values: [u16; 2],
}

/// The facts that the hypervisor uses.
#[derive(Debug, Default)]
pub struct Firmware {
    /// I/O APICs.
    pub io_apics: Vec<IoApic>,
    /// Interrupt source overrides.
    pub overrides: Vec<Override>,
    /// CPUs that can be used.
    pub cpus: usize,
    /// I/O port of the power-management timer; 0: absent.
    pub pm_timer: u16,
    /// The way to S5.
    pub soft_off: Option<SoftOff>,
    /// Reset register: I/O port and value.
    pub reset: Option<(u16, u8)>,
}

/// Reads the tables from the RSDP on. What cannot be read is left out.
pub fn read(memory: &impl ReadPhysical, rsdp: Hpa) -> Firmware {
    let mut facts = Firmware::default();
    for address in table_addresses(memory, rsdp) {
        let Some(table) = read_table(memory, address) else { continue };
        match &table[..4] {
            b"APIC" => madt(&table, &mut facts),
            b"FACP" => fadt(memory, &table, &mut facts),
            _ => {}
        }
    }
    facts
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn table_addresses(memory: &impl ReadPhysical, rsdp: Hpa) -> Vec<Hpa> {
    let mut root = [0; 36];
    if !memory.read(rsdp, &mut root) || &root[..8] != b"RSD PTR " {
        return Vec::new();
    }
    let revision = root[15];
    let xsdt = u64_at(&root, 24).filter(|at| revision >= 2 && *at != 0);
    let (address, width) = match xsdt {
        Some(at) => (at, 8),
        None => (u32_at(&root, 16).unwrap_or(0).into(), 4),
    };
    let Some(table) = read_table(memory, Hpa(address)) else { return Vec::new() };
    table[HEADER..]
        .chunks_exact(width)
        .take(MAX_TABLES)
        .map(|entry| Hpa(entry.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte))))
        .collect()
}

fn read_table(memory: &impl ReadPhysical, at: Hpa) -> Option<Vec<u8>> {
    let mut header = [0; HEADER];
    memory.read(at, &mut header).then_some(())?;
    let len = u32_at(&header, 4)? as usize;
    if !(HEADER..=MAX_TABLE).contains(&len) {
        return None;
    }
    let mut table = vec![0; len];
    memory.read(at, &mut table).then_some(())?;
    let sum = table.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
    (sum == 0).then_some(table)
}

/// MADT (5.2.12).
fn madt(table: &[u8], facts: &mut Firmware) {
    let mut rest = table.get(44..).unwrap_or(&[]);
    while let [kind, len, ..] = *rest {
        let Some(entry) = rest.get(..usize::from(len)).filter(|e| e.len() >= 2) else { return };
        // An entry that is too short for its kind says nothing.
        let _ = madt_entry(kind, entry, facts);
        rest = &rest[usize::from(len)..];
    }
}

fn madt_entry(kind: u8, entry: &[u8], facts: &mut Firmware) -> Option<()> {
    const LOCAL_APIC: u8 = 0;
    const IO_APIC: u8 = 1;
    const OVERRIDE: u8 = 2;
    const LOCAL_X2APIC: u8 = 9;
    const ENABLED: u32 = 1;
    match kind {
        LOCAL_APIC => facts.cpus += usize::from(u32_at(entry, 4)? & ENABLED != 0),
        LOCAL_X2APIC => facts.cpus += usize::from(u32_at(entry, 8)? & ENABLED != 0),
        IO_APIC => {
            let (address, gsi_base) = (Hpa(u32_at(entry, 4)?.into()), u32_at(entry, 8)?);
            if facts.io_apics.len() < MAX_NOTED {
                facts.io_apics.push(IoApic { address, gsi_base });
            }
        }
        OVERRIDE => {
            let (irq, gsi, flags) = (*entry.get(3)?, u32_at(entry, 4)?, u16_at(entry, 8)?);
            if facts.overrides.len() < MAX_NOTED {
                facts.overrides.push(Override { irq, gsi, flags });
            }
        }
        _ => {}
    }
    Some(())
}

/// FADT (5.2.9).
fn fadt(memory: &impl ReadPhysical, table: &[u8], facts: &mut Firmware) {
    const SYSTEM_IO: u8 = 1;
    const RESET_REG_SUP: u32 = 1 << 10;
    let port = |at| u32_at(table, at).and_then(|p| u16::try_from(p).ok()).unwrap_or(0);
    facts.pm_timer = port(76);
    let dsdt = u64_at(table, 140).filter(|at| *at != 0).or(u32_at(table, 40).map(u64::from));
    let dsdt = dsdt.and_then(|at| read_table(memory, Hpa(at)));
    if let Some(types) = dsdt.as_deref().and_then(sleep_types) {
        const SLP_EN: u16 = 1 << 13;
        let values = types.map(|kind| u16::from(kind & 7) << 10 | SLP_EN);
        facts.soft_off = Some(SoftOff { ports: [port(64), port(68)], values });
    }
    let has_reset = u32_at(table, 112).is_some_and(|flags| flags & RESET_REG_SUP != 0);
    if has_reset && table.get(116) == Some(&SYSTEM_IO) {
        facts.reset = u64_at(table, 120).and_then(|at| u16::try_from(at).ok()).zip(table.get(128).copied());
    }
}

/// The two SLP_TYP values of the package `\_S5` (7.4.2), found by its name: `_S5_`, PackageOp, PkgLength,
/// count, then two small integers.
fn sleep_types(dsdt: &[u8]) -> Option<[u8; 2]> {
    const PACKAGE_OP: u8 = 0x12;
    let name = dsdt.windows(5).position(|w| w == [b'_', b'S', b'5', b'_', PACKAGE_OP])?;
    let mut at = name + 5;
    at += 1 + usize::from(dsdt.get(at)? >> 6) + 1; // PkgLength, then the count
    let mut values = [0; 2];
    for value in &mut values {
        const BYTE_PREFIX: u8 = 0x0a;
        if *dsdt.get(at)? == BYTE_PREFIX {
            at += 1;
        }
        // ZeroOp and OneOp are their own values.
        *value = *dsdt.get(at)?;
        at += 1;
    }
    Some(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A memory of one piece.
    struct Piece(Vec<u8>);

    impl ReadPhysical for Piece {
        fn read(&self, at: Hpa, into: &mut [u8]) -> bool {
            let from = usize::try_from(at.0).ok().and_then(|at| self.0.get(at..)?.get(..into.len()));
            from.map(|from| into.copy_from_slice(from)).is_some()
        }
    }

    fn table(signature: &[u8; 4], body: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; HEADER];
        bytes[..4].copy_from_slice(signature);
        bytes[4..8].copy_from_slice(&((HEADER + body.len()) as u32).to_le_bytes());
        bytes.extend(body);
        bytes[9] = bytes.iter().fold(0u8, |sum, byte| sum.wrapping_sub(*byte));
        bytes
    }

    fn machine() -> Piece {
        let mut memory = vec![0; 0x1000];
        let mut put = |at: usize, bytes: &[u8]| memory[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, b"RSD PTR ");
        put(16, &0x100u32.to_le_bytes());
        let pointers: Vec<u8> = [0x200u32, 0x300].iter().flat_map(|p| p.to_le_bytes()).collect();
        put(0x100, &table(b"RSDT", &pointers));
        let mut entries = vec![0; 8];
        entries.extend([0, 8, 0, 0, 1, 0, 0, 0]);
        entries.extend([0, 8, 1, 1, 0, 0, 0, 0]);
        entries.extend([1, 12, 0, 0, 0, 0, 0xc0, 0xfe, 0, 0, 0, 0]);
        entries.extend([2, 10, 0, 0, 2, 0, 0, 0, 0, 0]);
        put(0x200, &table(b"APIC", &entries));
        let mut fadt = vec![0; 129 - HEADER];
        fadt[40 - HEADER..][..4].copy_from_slice(&0x600u32.to_le_bytes());
        fadt[64 - HEADER..][..4].copy_from_slice(&0x604u32.to_le_bytes());
        fadt[76 - HEADER..][..4].copy_from_slice(&0x608u32.to_le_bytes());
        fadt[112 - HEADER..][..4].copy_from_slice(&(1u32 << 10).to_le_bytes());
        fadt[116 - HEADER] = 1;
        fadt[120 - HEADER..][..8].copy_from_slice(&0xcf9u64.to_le_bytes());
        fadt[128 - HEADER] = 6;
        put(0x300, &table(b"FACP", &fadt));
        put(0x600, &table(b"DSDT", b"\x08_S5_\x12\x07\x04\x0a\x05\x01\x00\x00"));
        Piece(memory)
    }

    #[test]
    fn reads_a_machine() {
        let facts = read(&machine(), Hpa(0));
        assert_eq!(facts.cpus, 1);
        assert_eq!(facts.io_apics, [IoApic { address: Hpa(0xfec0_0000), gsi_base: 0 }]);
        assert_eq!(facts.overrides, [Override { irq: 0, gsi: 2, flags: 0 }]);
        assert_eq!(facts.pm_timer, 0x608);
        assert_eq!(facts.reset, Some((0xcf9, 6)));
        assert_eq!(
            facts.soft_off,
            Some(SoftOff { ports: [0x604, 0], values: [5 << 10 | 1 << 13, 1 << 10 | 1 << 13] })
        );
    }

    #[test]
    fn a_table_without_end_does_not_exhaust_the_heap() {
        let mut memory = machine();
        let mut entries = vec![0; 8];
        for _ in 0..4 * MAX_NOTED {
            entries.extend([1, 12, 0, 0, 0, 0, 0xc0, 0xfe, 0, 0, 0, 0]);
            entries.extend([2, 10, 0, 0, 2, 0, 0, 0, 0, 0]);
        }
        memory.0.truncate(0x200);
        memory.0.extend(table(b"APIC", &entries));
        let facts = read(&memory, Hpa(0));
        assert_eq!((facts.io_apics.len(), facts.overrides.len()), (MAX_NOTED, MAX_NOTED));
    }

    #[test]
    fn a_flipped_byte_anywhere_is_survived() {
        for at in 0..0x700 {
            for flip in [0x01, 0x80, 0xff] {
                let mut memory = machine();
                memory.0[at] ^= flip;
                read(&memory, Hpa(0));
                memory.0.truncate(at);
                read(&memory, Hpa(0));
            }
        }
    }
}
