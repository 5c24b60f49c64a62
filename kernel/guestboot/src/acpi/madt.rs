//! The Multiple APIC Description Table (ACPI 6.5, 5.2.12).

use super::root::address32;
use super::table;
use crate::platform::{
    IOAPIC_BASE, IOAPIC_GSI_BASE, IOAPIC_ID, LAPIC_BASE, MAX_CPUS, PIT_GSI, PIT_IRQ, SCI_IRQ,
};
use alloc::vec::Vec;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{Immutable, IntoBytes};

/// Revision of the table (ACPI 6.5).
const REVISION: u8 = 5;
/// Flag of the table: there are 8259s as well.
const PCAT_COMPAT: u32 = 1 << 0;
/// Flag of a processor: it can be used.
const ENABLED: u32 = 1 << 0;
/// First APIC ID that needs the wide structure: 255 is broadcast in the narrow one.
const FIRST_X2APIC_ID: u32 = 255;
/// ACPI processor UIDs that mean "all".
const ALL_PROCESSORS: u8 = 0xff;
const ALL_PROCESSORS_X2APIC: u32 = 0xffff_ffff;
/// MPS INTI flags (ACPI 6.5, 5.2.12.5): as the bus has it, or active high and level-triggered.
const CONFORMS: u16 = 0;
const ACTIVE_HIGH_LEVEL: u16 = 0b11 << 2 | 0b01;
/// Bus of interrupt source overrides.
const ISA: u8 = 0;
/// Local interrupt input that takes NMIs.
const LINT1: u8 = 1;

/// Type and length, at the beginning of each structure.
#[repr(C)]
#[derive(Clone, Copy, IntoBytes, Immutable)]
struct Head {
    kind: u8,
    length: u8,
}

impl Head {
    const fn of<T>(kind: u8) -> Self {
        Self { kind, length: size_of::<T>() as u8 }
    }
}

/// The table's own fields.
#[repr(C)]
#[derive(Clone, Copy, IntoBytes, Immutable)]
struct Fixed {
    local_apic_address: U32,
    flags: U32,
}

/// Type 0 (5.2.12.2).
#[repr(C)]
#[derive(Clone, Copy, IntoBytes, Immutable)]
struct LocalApic {
    head: Head,
    uid: u8,
    apic_id: u8,
    flags: U32,
}

/// Type 1 (5.2.12.3).
#[repr(C)]
#[derive(Clone, Copy, IntoBytes, Immutable)]
struct IoApic {
    head: Head,
    id: u8,
    reserved: u8,
    address: U32,
    gsi_base: U32,
}

/// Type 2 (5.2.12.5).
#[repr(C)]
#[derive(Clone, Copy, IntoBytes, Immutable)]
struct SourceOverride {
    head: Head,
    bus: u8,
    source: u8,
    gsi: U32,
    flags: U16,
}

/// Type 4 (5.2.12.7).
#[repr(C)]
#[derive(Clone, Copy, IntoBytes, Immutable)]
struct LocalApicNmi {
    head: Head,
    uid: u8,
    flags: U16,
    lint: u8,
}

/// Type 9 (5.2.12.12).
#[repr(C)]
#[derive(Clone, Copy, IntoBytes, Immutable)]
struct LocalX2Apic {
    head: Head,
    reserved: U16,
    apic_id: U32,
    flags: U32,
    uid: U32,
}

/// Type 10 (5.2.12.13).
#[repr(C)]
#[derive(Clone, Copy, IntoBytes, Immutable)]
struct LocalX2ApicNmi {
    head: Head,
    flags: U16,
    uid: U32,
    lint: u8,
    reserved: [u8; 3],
}

/// The table for this many CPUs. A CPU's APIC ID and ACPI UID are its number.
pub(super) fn madt(cpus: u32) -> Vec<u8> {
    let mut body = Vec::new();
    let fixed = Fixed { local_apic_address: address32(LAPIC_BASE), flags: PCAT_COMPAT.into() };
    body.extend_from_slice(fixed.as_bytes());
    for id in 0..cpus.min(MAX_CPUS) {
        push_processor(&mut body, id);
    }
    let io_apic = IoApic {
        head: Head::of::<IoApic>(1),
        id: IOAPIC_ID,
        reserved: 0,
        address: address32(IOAPIC_BASE),
        gsi_base: IOAPIC_GSI_BASE.into(),
    };
    body.extend_from_slice(io_apic.as_bytes());
    body.extend_from_slice(source_override(PIT_IRQ, PIT_GSI, CONFORMS).as_bytes());
    body.extend_from_slice(source_override(SCI_IRQ, SCI_IRQ.into(), ACTIVE_HIGH_LEVEL).as_bytes());
    push_nmi(&mut body, cpus);
    table(*b"APIC", REVISION, &body)
}

fn push_processor(body: &mut Vec<u8>, id: u32) {
    let flags = ENABLED.into();
    if id < FIRST_X2APIC_ID {
        let (uid, apic_id) = (id as u8, id as u8);
        body.extend_from_slice(LocalApic { head: Head::of::<LocalApic>(0), uid, apic_id, flags }.as_bytes());
    } else {
        let head = Head::of::<LocalX2Apic>(9);
        let (uid, apic_id) = (id.into(), id.into());
        body.extend_from_slice(LocalX2Apic { head, reserved: 0.into(), apic_id, flags, uid }.as_bytes());
    }
}

fn source_override(source: u8, gsi: u32, flags: u16) -> SourceOverride {
    let head = Head::of::<SourceOverride>(2);
    SourceOverride { head, bus: ISA, source, gsi: gsi.into(), flags: flags.into() }
}

/// NMIs arrive at LINT1 of every CPU, edge-triggered and active high as always.
fn push_nmi(body: &mut Vec<u8>, cpus: u32) {
    let flags: U16 = CONFORMS.into();
    let head = Head::of::<LocalApicNmi>(4);
    body.extend_from_slice(LocalApicNmi { head, uid: ALL_PROCESSORS, flags, lint: LINT1 }.as_bytes());
    if cpus > FIRST_X2APIC_ID {
        let head = Head::of::<LocalX2ApicNmi>(10);
        let uid = ALL_PROCESSORS_X2APIC.into();
        body.extend_from_slice(LocalX2ApicNmi { head, flags, uid, lint: LINT1, reserved: [0; 3] }.as_bytes());
    }
}
