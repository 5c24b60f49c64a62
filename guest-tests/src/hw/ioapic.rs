//! I/O APIC (82093AA data sheet, chapter 3).

#![allow(missing_docs, reason = "names of the data sheet")]

use super::mmio::Reg32;

/// Where a PC has it.
pub const BASE: u32 = 0xfec0_0000;
pub const IOREGSEL: Reg32 = Reg32(BASE);
pub const IOWIN: Reg32 = Reg32(BASE + 0x10);

/// Registers behind the window.
pub const IOAPICID: u8 = 0;
pub const IOAPICVER: u8 = 1;
const IOREDTBL: u8 = 0x10;

/// Pin of the PIT by the usual override of the ACPI tables.
pub const PIT_PIN: u8 = 2;

/// Low half of a redirection entry.
pub mod redirection {
    pub const MASKED: u32 = 1 << 16;
    pub const LEVEL: u32 = 1 << 15;
    pub const REMOTE_IRR: u32 = 1 << 14;
    pub const ACTIVE_LOW: u32 = 1 << 13;
}

pub fn read(register: u8) -> u32 {
    IOREGSEL.write(u32::from(register));
    IOWIN.read()
}

pub fn write(register: u8, value: u32) {
    IOREGSEL.write(u32::from(register));
    IOWIN.write(value);
}

/// Number of redirection entries.
pub fn pins() -> u8 {
    (read(IOAPICVER) >> 16) as u8 + 1
}

/// The register of a pin's low half; the high half follows.
pub fn low(pin: u8) -> u8 {
    IOREDTBL + 2 * pin
}

/// Sets an entry that is delivered to the LAPIC with this ID.
pub fn route(pin: u8, low_half: u32, apic_id: u8) {
    write(low(pin) + 1, u32::from(apic_id) << 24);
    write(low(pin), low_half);
}

pub fn mask_all() {
    for pin in 0..pins() {
        write(low(pin), redirection::MASKED);
    }
}
