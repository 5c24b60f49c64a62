//! The root pointer and the two lists of tables that it leads to.

use super::{OEM_ID, table};
use alloc::vec::Vec;
use core::mem::offset_of;
use x86defs::addr::Gpa;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{Immutable, IntoBytes};

/// Root System Description Pointer (ACPI 6.5, 5.2.5.3).
#[repr(C)]
#[derive(Clone, Copy, Debug, IntoBytes, Immutable)]
pub(super) struct Rsdp {
    signature: [u8; 8],
    checksum: u8,
    oem_id: [u8; 6],
    revision: u8,
    rsdt_address: U32,
    length: U32,
    xsdt_address: U64,
    extended_checksum: u8,
    reserved: [u8; 3],
}

/// ACPI 2.0 and later.
const RSDP_REVISION: u8 = 2;
/// RSDT (ACPI 6.5, 5.2.7) and XSDT (5.2.8).
const LIST_REVISION: u8 = 1;

/// The pointer to both lists.
pub(super) fn rsdp(rsdt: Gpa, xsdt: Gpa) -> Rsdp {
    let mut rsdp = Rsdp {
        signature: *b"RSD PTR ",
        checksum: 0,
        oem_id: OEM_ID,
        revision: RSDP_REVISION,
        rsdt_address: address32(rsdt),
        length: U32::new(size_of::<Rsdp>() as u32),
        xsdt_address: xsdt.0.into(),
        extended_checksum: 0,
        reserved: [0; 3],
    };
    // The first checksum covers what ACPI 1.0 knew.
    rsdp.checksum = complement(&rsdp.as_bytes()[..offset_of!(Rsdp, length)]);
    rsdp.extended_checksum = complement(rsdp.as_bytes());
    rsdp
}

/// The list for those who know 32-bit addresses only.
pub(super) fn rsdt(tables: &[Gpa]) -> Vec<u8> {
    let entries: Vec<U32> = tables.iter().copied().map(address32).collect();
    table(*b"RSDT", LIST_REVISION, entries.as_bytes())
}

/// The list for everybody else.
pub(super) fn xsdt(tables: &[Gpa]) -> Vec<u8> {
    let entries: Vec<U64> = tables.iter().map(|at| at.0.into()).collect();
    table(*b"XSDT", LIST_REVISION, entries.as_bytes())
}

/// All tables lie below 1 MiB.
pub(super) fn address32(at: Gpa) -> U32 {
    U32::new(at.0 as u32)
}

/// What makes the sum of all bytes zero.
fn complement(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0u8, |sum, byte| sum.wrapping_sub(*byte))
}
