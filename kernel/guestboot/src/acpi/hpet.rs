//! The table of high precision event timers (IA-PC HPET Specification 1.0a, 3.2.4).

use super::{encode, table};
use crate::platform::{HPET_BASE, HPET_ID, HPET_MIN_TICK};
use acpi_tables::gas::{AccessSize, AddressSpace, GAS};
use alloc::vec::Vec;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{Immutable, IntoBytes};

const REVISION: u8 = 1;
const REGISTER_BITS: u8 = 64;

/// What follows the address.
#[repr(C)]
#[derive(IntoBytes, Immutable)]
struct Tail {
    number: u8,
    min_tick: U16,
    /// Nothing else lies in the page, but nobody promises so.
    page_protection: u8,
}

/// The table.
pub(super) fn hpet() -> Vec<u8> {
    let base = GAS::new(AddressSpace::SystemMemory, REGISTER_BITS, 0, AccessSize::Undefined, HPET_BASE.0);
    let tail = Tail { number: 0, min_tick: U16::new(HPET_MIN_TICK), page_protection: 0 };
    let body = [U32::new(HPET_ID).as_bytes(), &encode(&base), tail.as_bytes()].concat();
    table(*b"HPET", REVISION, &body)
}
