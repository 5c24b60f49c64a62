//! The few facts that tests need from the ACPI tables (ACPI 6.5, chapter 5). Tables are checked before use.

use crate::memory::{read8, read16, read32, read64};

const RSDP_SIGNATURE: &[u8; 8] = b"RSD PTR ";
const RSDP_LENGTH: u64 = 20;
/// Where a BIOS puts the RSDP (5.2.5.1).
const BIOS_AREA: core::ops::Range<u64> = 0xe_0000..0x10_0000;
const HEADER_LENGTH: u64 = 36;
const MAX_TABLE_LENGTH: u64 = 1 << 20;
/// Tables must lie in the identity map.
const MAPPED: u64 = 1 << 32;

/// What was found.
#[derive(Clone, Copy, Debug)]
pub struct Acpi {
    /// Manufacturer in the RSDP.
    pub oem: [u8; 6],
    /// Port of the PM1a control register.
    pub pm1a_control: u16,
    /// Port of the PM timer.
    pub pm_timer: u16,
    /// SLP_TYPa of S5.
    pub s5_type: u8,
}

/// A table whose checksum holds.
#[derive(Clone, Copy)]
struct Table {
    address: u64,
    length: u64,
}

impl Table {
    fn at(address: u64, signature: &[u8; 4]) -> Option<Self> {
        if address == 0 || address >= MAPPED || !has_bytes(address, signature) {
            return None;
        }
        let length = read32(address + 4);
        let table = Self { address, length: u64::from(length) };
        let plausible = HEADER_LENGTH..=MAX_TABLE_LENGTH;
        (plausible.contains(&table.length) && checksum(address, table.length) == 0).then_some(table)
    }
    fn end(self) -> u64 {
        self.address + self.length
    }
}

fn has_bytes(address: u64, bytes: &[u8]) -> bool {
    (address..).map(read8).zip(bytes).all(|(a, &b)| a == b)
}

fn checksum(address: u64, length: u64) -> u8 {
    (address..address + length).map(read8).fold(0, u8::wrapping_add)
}

/// Reads the tables that `rsdp` or, without it, the BIOS area leads to.
pub fn find(rsdp: Option<u64>) -> Option<Acpi> {
    let valid = |&a: &u64| has_bytes(a, RSDP_SIGNATURE) && checksum(a, RSDP_LENGTH) == 0;
    let rsdp = rsdp.filter(valid).or_else(|| BIOS_AREA.step_by(16).find(valid))?;
    let fadt = fadt(rsdp)?;
    // FADT, 5.2.9: DSDT, PM1a_CNT_BLK, PM_TMR_BLK.
    let dsdt = Table::at(u64::from(read32(fadt.address + 40)), b"DSDT")?;
    Some(Acpi {
        oem: core::array::from_fn(|i| read8(rsdp + 9 + i as u64)),
        pm1a_control: read16(fadt.address + 64),
        pm_timer: read16(fadt.address + 76),
        s5_type: s5_type(dsdt)?,
    })
}

fn fadt(rsdp: u64) -> Option<Table> {
    // RSDP, 5.2.5.3: revision, RSDT, XSDT.
    let revision = read8(rsdp + 15);
    let xsdt = if revision >= 2 { Table::at(read64(rsdp + 24), b"XSDT") } else { None };
    let (root, width) = match xsdt {
        Some(table) => (table, 8),
        None => (Table::at(u64::from(read32(rsdp + 16)), b"RSDT")?, 4),
    };
    (root.address + HEADER_LENGTH..root.end())
        .step_by(width)
        .map(|entry| if width == 8 { read64(entry) } else { u64::from(read32(entry)) })
        .find_map(|address| Table::at(address, b"FACP"))
}

/// The first element of the package `\_S5_`, found by its bytes: an AML interpreter would be much for this.
fn s5_type(dsdt: Table) -> Option<u8> {
    const PACKAGE_OP: u8 = 0x12;
    const BYTE_PREFIX: u8 = 0x0a;
    const MAX_TYPE: u8 = 7;
    /// Name, PackageOp, PkgLength, NumElements, one element.
    const SHORTEST: u64 = 8;
    let name =
        (dsdt.address + HEADER_LENGTH..dsdt.end() - (SHORTEST - 1)).find(|&a| has_bytes(a, b"_S5_"))?;
    let package = name + 4;
    if read8(package) != PACKAGE_OP {
        return None;
    }
    // PkgLength (20.2.4): bits 7:6 of its first byte count further bytes; then NumElements.
    let elements = package + 1 + u64::from(read8(package + 1) >> 6) + 2;
    let value = match read8(elements) {
        BYTE_PREFIX => read8(elements + 1),
        constant => constant,
    };
    (value <= MAX_TYPE).then_some(value)
}
