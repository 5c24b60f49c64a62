//! Ways to end, chosen by `end=` on the command line. What does not work here falls back to ACPI.

use crate::boot::Boot;
use crate::hw::port::{outb, outl, outw};
use crate::{power, say, serial, time};

/// QEMU's isa-debug-exit, where the machine is told to put it.
const DEBUG_EXIT: u16 = 0xf4;
/// The status that it is given.
const STATUS: u32 = 42;
/// Power-off of QEMU, without a look at the ACPI tables: SLP_EN with type 0.
const QEMU_POWER: u16 = 0x604;
const QEMU_POWER_OFF: u16 = 1 << 13;
/// Reset control register of PC chipsets: full reset.
const RESET_CONTROL: u16 = 0xcf9;
const FULL_RESET: u8 = 0xe;
/// How long an emulator may take to see it, in microseconds.
const PATIENCE: u64 = 500_000;

/// Ends the machine.
pub(super) fn end(boot: &Boot) -> ! {
    let way = boot.value("end").unwrap_or("acpi");
    say!("end: {way}");
    serial::drain();
    match way {
        "debug-exit" => outl(DEBUG_EXIT, STATUS),
        "qemu" => outw(QEMU_POWER, QEMU_POWER_OFF),
        "reset" => outb(RESET_CONTROL, FULL_RESET),
        _ => power::off(),
    }
    time::spin_us(PATIENCE);
    power::off()
}
