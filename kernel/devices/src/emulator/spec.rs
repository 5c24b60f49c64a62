//! What guests write to an emulator's ports, and what they find there.

/// What a read of the debug console gives: the port's own number, by which a guest knows that it is there.
pub(super) const DEBUG_CONSOLE_PRESENT: u8 = 0xe9;
/// The word that, letter by letter, switches Bochs off.
pub(super) const SHUTDOWN_WORD: &[u8] = b"Shutdown";
/// SLP_EN with SLP_TYP 0 in a PM1 control register (ACPI 6.5, 4.8.3.2.1): S5 of those emulators.
pub(super) const SLP_EN: u32 = 1 << 13;
/// The field that has to be 0.
pub(super) const SLP_TYP: u32 = 7 << 10;
