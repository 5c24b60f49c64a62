//! The pair of 8259A interrupt controllers.

#![allow(missing_docs, reason = "names of the data sheet")]

use super::port::{inb, outb};
use crate::interrupt::Frame;

/// Command and data ports.
pub const MASTER: u16 = 0x20;
pub const SLAVE: u16 = 0xa0;
const DATA: u16 = 1;
/// Edge/level registers of PC chipsets.
pub const ELCR: u16 = 0x4d0;

/// Vectors after [`init`].
pub const MASTER_BASE: u8 = 0x20;
pub const SLAVE_BASE: u8 = 0x28;
/// Line of the master that the slave uses.
const CASCADE: u8 = 2;

const ICW1_INIT: u8 = 1 << 4;
const ICW1_ICW4: u8 = 1 << 0;
const ICW4_8086: u8 = 1 << 0;
pub const OCW2_EOI: u8 = 1 << 5;
pub const OCW2_SPECIFIC_EOI: u8 = 3 << 5;
const OCW3: u8 = 1 << 3;
const OCW3_READ_IRR: u8 = 2;
const OCW3_READ_ISR: u8 = 3;

/// Initialisation words for both, with every line masked.
pub fn init() {
    for (port, base, icw3) in [(MASTER, MASTER_BASE, 1 << CASCADE), (SLAVE, SLAVE_BASE, CASCADE)] {
        outb(port, ICW1_INIT | ICW1_ICW4);
        outb(port + DATA, base);
        outb(port + DATA, icw3);
        outb(port + DATA, ICW4_8086);
    }
    set_mask(0xffff);
}

/// The masks, slave in the high byte.
pub fn set_mask(mask: u16) {
    let [master, slave] = mask.to_le_bytes();
    outb(MASTER + DATA, master);
    outb(SLAVE + DATA, slave);
}

pub fn mask() -> u16 {
    u16::from_le_bytes([inb(MASTER + DATA), inb(SLAVE + DATA)])
}

/// Unmasks one line, and the cascade for one of the slave's.
pub fn unmask_only(line: u8) {
    let cascade = if line >= 8 { 1 << CASCADE } else { 0 };
    set_mask(!(1 << line | cascade));
}

/// Interrupt request registers, slave in the high byte.
pub fn irr() -> u16 {
    read(OCW3_READ_IRR)
}

/// In-service registers, slave in the high byte.
pub fn isr() -> u16 {
    read(OCW3_READ_ISR)
}

fn read(which: u8) -> u16 {
    outb(MASTER, OCW3 | which);
    outb(SLAVE, OCW3 | which);
    u16::from_le_bytes([inb(MASTER), inb(SLAVE)])
}

/// Ends the interrupt in service on the master.
pub fn eoi() {
    outb(MASTER, OCW2_EOI);
}

/// Handler that acknowledges an interrupt of either controller.
pub fn acknowledge(frame: &mut Frame) {
    if frame.vector >= u64::from(SLAVE_BASE) {
        outb(SLAVE, OCW2_EOI);
    }
    eoi();
}

/// Vector of a line.
pub fn vector(line: u8) -> u8 {
    if line < 8 { MASTER_BASE + line } else { SLAVE_BASE + line - 8 }
}
