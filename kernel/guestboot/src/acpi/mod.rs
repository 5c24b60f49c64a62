//! The ACPI tables that a guest finds (ACPI 6.5). All lie in the ROM from [`RSDP`] on, where kernels without
//! a boot loader's help look for them, but the FACS: the guest owns a lock in it, so it lies in RAM.

mod dsdt;
mod fadt;
mod hpet;
mod madt;
mod root;
#[cfg(test)]
mod tests;

use crate::memory_map::EBDA;
use crate::plan::{Copy, Source};
use acpi_tables::Aml;
use acpi_tables::facs::FACS;
use acpi_tables::sdt::Sdt;
use alloc::vec::Vec;
use x86defs::addr::Gpa;
use zerocopy::IntoBytes;

/// The root pointer: on a 16-byte border between 0xE0000 and 0xFFFFF (ACPI 6.5, 5.2.5.1).
pub const RSDP: Gpa = Gpa(0xe_0000);
/// The firmware control structure, on a 64-byte border (ACPI 6.5, 5.2.10).
pub const FIRMWARE_CONTROL: Gpa = EBDA;
/// The other tables.
const TABLES: Gpa = RSDP.offset(ALIGNMENT);

const OEM_ID: [u8; 6] = *b"GOSMER";
const OEM_TABLE_ID: [u8; 8] = *b"GOSSAMER";
const OEM_REVISION: u32 = 1;
/// Tables begin on a cache line.
const ALIGNMENT: u64 = 64;

/// All tables of a virtual machine with this many CPUs (at most [`crate::platform::MAX_CPUS`]).
pub fn tables(cpus: u32) -> Vec<Copy> {
    let mut rom = Rom { next: TABLES, copies: Vec::new() };
    let dsdt = rom.place(dsdt::dsdt());
    let fadt = rom.place(fadt::fadt(dsdt));
    let madt = rom.place(madt::madt(cpus));
    let hpet = rom.place(hpet::hpet());
    let listed = [fadt, madt, hpet];
    let rsdt = rom.place(root::rsdt(&listed));
    let xsdt = rom.place(root::xsdt(&listed));

    let mut copies = rom.copies;
    copies.push(Copy { to: RSDP, source: Source::Bytes(root::rsdp(rsdt, xsdt).as_bytes().to_vec()) });
    copies.push(Copy { to: FIRMWARE_CONTROL, source: Source::Bytes(encode(&FACS::new())) });
    copies
}

/// The bytes at [`RSDP`], for boot protocols that hand out a copy.
pub fn root_pointer(cpus: u32) -> Vec<u8> {
    let bytes = |copy: Copy| match copy.source {
        Source::Bytes(bytes) if copy.to == RSDP => Some(bytes),
        _ => None,
    };
    tables(cpus).into_iter().find_map(bytes).expect("the tables have a root pointer")
}

/// A table with the standard header (ACPI 6.5, 5.2.6), its length and checksum filled in.
fn table(signature: [u8; 4], revision: u8, body: &[u8]) -> Vec<u8> {
    const HEADER: u32 = 36;
    let mut table = Sdt::new(signature, HEADER, revision, OEM_ID, OEM_TABLE_ID, OEM_REVISION);
    table.append_slice(body);
    table.as_slice().to_vec()
}

fn encode(aml: &dyn Aml) -> Vec<u8> {
    let mut bytes = Vec::new();
    aml.to_aml_bytes(&mut bytes);
    bytes
}

/// Hands out addresses in the ROM, upwards.
struct Rom {
    next: Gpa,
    copies: Vec<Copy>,
}

impl Rom {
    fn place(&mut self, bytes: Vec<u8>) -> Gpa {
        let at = self.next;
        self.next = Gpa((at.0 + bytes.len() as u64).next_multiple_of(ALIGNMENT));
        self.copies.push(Copy { to: at, source: Source::Bytes(bytes) });
        at
    }
}
