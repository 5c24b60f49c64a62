//! 16550 UART (PC16550D data sheet, table II).

#![allow(missing_docs, reason = "bits carry the names of the data sheet")]

use super::port::{inb, outb};
use bitflags::bitflags;

bitflags! {
    /// Line control.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Lcr: u8 { const EIGHT_BITS = 3; const DLAB = 1 << 7; }
    /// Line status.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Lsr: u8 { const DR = 1 << 0; const OE = 1 << 1; const THRE = 1 << 5; const TEMT = 1 << 6; }
    /// Modem control.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Mcr: u8 {
        const DTR = 1 << 0; const RTS = 1 << 1; const OUT1 = 1 << 2; const OUT2 = 1 << 3; const LOOP = 1 << 4;
    }
    /// Modem status.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Msr: u8 {
        const DCTS = 1 << 0; const DDSR = 1 << 1; const TERI = 1 << 2; const DDCD = 1 << 3;
        const CTS = 1 << 4; const DSR = 1 << 5; const RI = 1 << 6; const DCD = 1 << 7;
    }
    /// FIFO control.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Fcr: u8 { const ENABLE = 1 << 0; const CLEAR_RX = 1 << 1; const CLEAR_TX = 1 << 2; const TRIGGER_8 = 2 << 6; }
    /// Interrupt enable.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Ier: u8 { const ERBFI = 1 << 0; const ETBEI = 1 << 1; const ELSI = 1 << 2; const EDSSI = 1 << 3; }
}

/// Causes in bits 3:0 of the interrupt identification register.
pub mod iir {
    pub const NONE: u8 = 1;
    pub const THRE: u8 = 2;
    pub const RDA: u8 = 4;
    pub const LINE_STATUS: u8 = 6;
    pub const TIMEOUT: u8 = 0xc;
    pub const CAUSE: u8 = 0xf;
    pub const FIFOS_ENABLED: u8 = 3 << 6;
}

/// A UART at its first port.
#[derive(Clone, Copy)]
pub struct Uart(u16);

/// The first serial port of a PC.
pub const COM1: Uart = Uart(COM1_PORT);
/// Its first port.
pub const COM1_PORT: u16 = 0x3f8;
/// Offset of the line status register.
pub const LSR: u16 = 5;
/// Its interrupt line.
pub const COM1_IRQ: u8 = 4;

impl Uart {
    pub fn rbr(self) -> u8 {
        inb(self.0)
    }
    pub fn set_thr(self, byte: u8) {
        outb(self.0, byte)
    }
    pub fn ier(self) -> u8 {
        inb(self.0 + 1)
    }
    pub fn set_ier(self, value: u8) {
        outb(self.0 + 1, value)
    }
    pub fn iir(self) -> u8 {
        inb(self.0 + 2)
    }
    pub fn set_fcr(self, value: Fcr) {
        outb(self.0 + 2, value.bits())
    }
    pub fn lcr(self) -> u8 {
        inb(self.0 + 3)
    }
    pub fn set_lcr(self, value: Lcr) {
        outb(self.0 + 3, value.bits())
    }
    pub fn set_mcr(self, value: Mcr) {
        outb(self.0 + 4, value.bits())
    }
    pub fn mcr(self) -> u8 {
        inb(self.0 + 4)
    }
    pub fn lsr(self) -> Lsr {
        Lsr::from_bits_retain(inb(self.0 + LSR))
    }
    pub fn msr(self) -> Msr {
        Msr::from_bits_retain(inb(self.0 + 6))
    }
    pub fn scr(self) -> u8 {
        inb(self.0 + 7)
    }
    pub fn set_scr(self, value: u8) {
        outb(self.0 + 7, value)
    }
    /// Both halves of the divisor latch; leaves DLAB clear.
    pub fn divisor(self) -> u16 {
        let lcr = Lcr::from_bits_retain(self.lcr());
        self.set_lcr(lcr | Lcr::DLAB);
        let value = u16::from_le_bytes([inb(self.0), inb(self.0 + 1)]);
        self.set_lcr(lcr - Lcr::DLAB);
        value
    }
    pub fn set_divisor(self, value: u16) {
        let lcr = Lcr::from_bits_retain(self.lcr());
        let [low, high] = value.to_le_bytes();
        self.set_lcr(lcr | Lcr::DLAB);
        outb(self.0, low);
        outb(self.0 + 1, high);
        self.set_lcr(lcr - Lcr::DLAB);
    }
}
