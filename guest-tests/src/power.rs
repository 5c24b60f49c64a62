//! Switching the machine off, in the way that the command line chooses (`off=WAY`), or through ACPI.

use crate::boot::Boot;
use crate::hw::port::{inw, outb, outl, outw};
use crate::single::Single;
use crate::{interrupt, machine, serial, time};

/// PM1 control register (ACPI 6.5, 4.8.3.2.1).
const SLP_TYP_SHIFT: u32 = 10;
const SLP_TYP_MASK: u16 = 7 << SLP_TYP_SHIFT;
const SLP_EN: u16 = 1 << 13;
/// Reset control register of PC chipsets: full reset.
const RESET_CONTROL: u16 = 0xcf9;
const FULL_RESET: u8 = 0xe;

/// QEMU's PM1 control register, and where older firmware for emulators puts it. S5 is SLP_TYP 0 in both.
const QEMU_PM1_CONTROL: u16 = 0x604;
const OLD_PM1_CONTROL: u16 = 0xb004;
/// Bochs's shutdown port takes a word.
const BOCHS_SHUTDOWN: u16 = 0x8900;
const SHUTDOWN_WORD: &[u8] = b"Shutdown";
/// Where people put QEMU's isa-debug-exit, and a status for it.
const DEBUG_EXIT: u16 = 0xf4;
const STATUS: u32 = 16;

/// A way to switch off that does without ACPI tables.
static WAY: Single<Option<fn()>> = Single::new(None);

/// Takes the way from the command line.
pub(crate) fn init(boot: &Boot) {
    WAY.store(match boot.value("off") {
        Some("qemu") => Some(|| outw(QEMU_PM1_CONTROL, SLP_EN)),
        Some("old-qemu") => Some(|| outw(OLD_PM1_CONTROL, SLP_EN)),
        Some("bochs") => Some(|| SHUTDOWN_WORD.iter().for_each(|&letter| outb(BOCHS_SHUTDOWN, letter))),
        Some("debug-exit") => Some(|| outl(DEBUG_EXIT, STATUS)),
        Some("reset") => Some(|| outb(RESET_CONTROL, FULL_RESET)),
        _ => None,
    });
}

/// Enters S5; a machine without ACPI is reset instead.
pub fn off() -> ! {
    interrupt::disable();
    serial::drain();
    if let Some(way) = WAY.load() {
        way();
        println!("still on: going through ACPI");
    }
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
