//! Small drivers: registers by their data-sheet names, and the few sequences that several tests need.

pub mod fw_cfg;
pub mod hpet;
pub mod ioapic;
pub mod lapic;
pub mod mmio;
pub mod pic;
pub mod pit;
pub mod port;
pub mod rtc;
pub mod uart;
pub mod vga;
