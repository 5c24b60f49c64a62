//! MC146818 real-time clock and CMOS memory.

#![allow(missing_docs, reason = "names of the data sheet")]

use super::port::{inb, outb};

pub const INDEX: u16 = 0x70;
pub const DATA: u16 = 0x71;

pub const SECONDS: u8 = 0;
pub const MINUTES: u8 = 2;
pub const HOURS: u8 = 4;
pub const DAY: u8 = 7;
pub const MONTH: u8 = 8;
pub const YEAR: u8 = 9;
pub const REGISTER_A: u8 = 0xa;
pub const REGISTER_B: u8 = 0xb;
pub const REGISTER_C: u8 = 0xc;
pub const REGISTER_D: u8 = 0xd;

/// Register A: update in progress.
pub const UIP: u8 = 1 << 7;
/// Register B.
pub const B_24_HOURS: u8 = 1 << 1;
pub const B_BINARY: u8 = 1 << 2;
pub const B_PERIODIC: u8 = 1 << 6;
/// Register C.
pub const C_PERIODIC: u8 = 1 << 6;
pub const C_REQUEST: u8 = 1 << 7;
/// Register D: the battery holds.
pub const VALID: u8 = 1 << 7;
/// Its interrupt line.
pub const IRQ: u8 = 8;

pub fn read(register: u8) -> u8 {
    outb(INDEX, register);
    inb(DATA)
}

pub fn write(register: u8, value: u8) {
    outb(INDEX, register);
    outb(DATA, value);
}
