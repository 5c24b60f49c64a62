//! 8254 interval timer and its gate in port 0x61.

#![allow(missing_docs, reason = "names of the data sheet")]

use super::port::{inb, outb};
use crate::cpu::rdtsc;

/// Input clock in Hz.
pub const FREQUENCY: u64 = 1_193_182;
/// Interrupt line of channel 0.
pub const IRQ: u8 = 0;

const CHANNEL_0: u16 = 0x40;
const CONTROL: u16 = 0x43;

/// Port 0x61 of PC chipsets.
pub const PORT_B: u16 = 0x61;
pub const GATE_2: u8 = 1 << 0;
pub const SPEAKER: u8 = 1 << 1;
pub const OUT_2: u8 = 1 << 5;

/// Control word: access of both bytes, low first.
const ACCESS_WORD: u8 = 3 << 4;
/// Read-back command: counts and status are latched unless their bit is set.
const READ_BACK: u8 = 3 << 6;
const NO_COUNT: u8 = 1 << 5;
const NO_STATUS: u8 = 1 << 4;

/// Bits of a status byte.
pub mod status {
    pub const OUTPUT: u8 = 1 << 7;
    pub const NULL_COUNT: u8 = 1 << 6;
    /// Access, mode and BCD as programmed.
    pub const CONTROL: u8 = 0x3f;
}

/// A mode, in bits 3:1 of the control word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    TerminalCount = 0,
    OneShot = 1,
    RateGenerator = 2,
    SquareWave = 3,
    SoftwareStrobe = 4,
}

/// Programs a channel; a count of 0 means 65536.
pub fn program(channel: u8, mode: Mode, count: u16) {
    set_mode(channel, mode);
    write_count(channel, count);
}

/// Writes the control word only: the channel then waits for its count.
pub fn set_mode(channel: u8, mode: Mode) {
    outb(CONTROL, channel << 6 | control_bits(mode));
}

/// The low six bits of the control word, which the status byte reports.
pub fn control_bits(mode: Mode) -> u8 {
    ACCESS_WORD | (mode as u8) << 1
}

pub fn write_count(channel: u8, count: u16) {
    let [low, high] = count.to_le_bytes();
    outb(CHANNEL_0 + u16::from(channel), low);
    outb(CHANNEL_0 + u16::from(channel), high);
}

/// Latches and reads a count.
pub fn count(channel: u8) -> u16 {
    outb(CONTROL, channel << 6);
    read_latched(channel)
}

/// Reads both bytes of what was latched.
pub fn read_latched(channel: u8) -> u16 {
    let port = CHANNEL_0 + u16::from(channel);
    u16::from_le_bytes([inb(port), inb(port)])
}

/// Latches with the read-back command.
pub fn latch(channel: u8, count: bool, status: bool) {
    let without = if count { 0 } else { NO_COUNT } | if status { 0 } else { NO_STATUS };
    outb(CONTROL, READ_BACK | without | 2 << channel);
}

/// Reads the byte that was latched.
pub fn read_status(channel: u8) -> u8 {
    inb(CHANNEL_0 + u16::from(channel))
}

/// Channel 0 as a BIOS leaves it; channel 2 stopped.
pub fn reset() {
    set_gate_2(false);
    program(0, Mode::SquareWave, 0);
}

/// Opens or closes the gate of channel 2, speaker off.
pub fn set_gate_2(open: bool) {
    let rest = inb(PORT_B) & !(GATE_2 | SPEAKER);
    outb(PORT_B, rest | if open { GATE_2 } else { 0 });
}

/// Whether channel 2's output is high.
pub fn output_2() -> bool {
    inb(PORT_B) & OUT_2 != 0
}

/// TSC ticks while channel 2 counts this long; nothing if it never ends.
pub fn time_with_channel_2(microseconds: u32) -> Option<u64> {
    const PATIENCE: u32 = 10_000_000;
    let count = u64::from(microseconds) * FREQUENCY / 1_000_000;
    set_gate_2(true);
    // The start is before the count begins: what comes in between makes the answer longer, never shorter.
    let start = rdtsc();
    program(2, Mode::TerminalCount, u16::try_from(count).expect("55 ms is the longest count"));
    let done = (0..PATIENCE).any(|_| output_2());
    let end = rdtsc();
    set_gate_2(false);
    done.then_some(end - start)
}
