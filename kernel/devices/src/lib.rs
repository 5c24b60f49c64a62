//! Device models as pure state machines. They know no vCPU, no VM, no physical port and no clock of their
//! own: time comes in as an argument, everything they cause goes out as [`effects::Effects`].
//!
//! What every register device here keeps to:
//! - Offsets count from the device's first register; `PORTS` says how many there are. An offset beyond them
//!   reads as all ones and ignores writes.
//! - The bus splits an access into pieces of at most the device's `MAX_WIDTH` bytes. A device of bytes
//!   (`MAX_WIDTH` 1) does not look at the width that it is given: it has only bytes to give and to take.
//! - Of a value that was read, the low `width` bytes count.
//! - Interrupt lines are low at the start. Before the guest runs, every device is given one `tick`, since its
//!   effects hold the first deadline.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod acpi_pm;
mod clock;
pub mod effects;
pub mod emulator;
mod fifo;
pub mod fw_cfg;
pub mod hpet;
pub mod i8042;
pub mod ioapic;
pub mod pci;
pub mod pic;
pub mod pit;
pub mod reset;
pub mod rtc;
#[cfg(test)]
mod testing;
pub mod uart;
pub mod vga;

/// What a register that does not exist reads as: nothing drives the bus.
pub(crate) const FLOATING: u32 = u32::MAX;
