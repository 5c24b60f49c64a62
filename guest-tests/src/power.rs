//! Switching the machine off.

use crate::hw::port::{inw, outb, outw};
use crate::{interrupt, machine, serial, time};

/// PM1 control register (ACPI 6.5, 4.8.3.2.1).
const SLP_TYP_SHIFT: u32 = 10;
const SLP_TYP_MASK: u16 = 7 << SLP_TYP_SHIFT;
const SLP_EN: u16 = 1 << 13;
/// Reset control register of PC chipsets: full reset.
const RESET_CONTROL: u16 = 0xcf9;
const FULL_RESET: u8 = 0xe;

/// Enters S5; a machine without ACPI is reset instead.
pub fn off() -> ! {
    interrupt::disable();
    serial::drain();
    if let Some(acpi) = machine::get().acpi {
        let control = inw(acpi.pm1a_control) & !SLP_TYP_MASK | u16::from(acpi.s5_type) << SLP_TYP_SHIFT;
        outw(acpi.pm1a_control, control);
        outw(acpi.pm1a_control, control | SLP_EN);
        // An emulator may take a while to see it.
        time::spin_us(500_000);
    }
    println!("no power-off through ACPI, resetting");
    serial::drain();
    outb(RESET_CONTROL, FULL_RESET);
    loop {
        interrupt::halt();
    }
}
