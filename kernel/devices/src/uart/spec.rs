//! Registers of the 16550A (National Semiconductor PC16550D data sheet, section 8).

use bitflags::bitflags;

/// Register offsets. Where two share one, the divisor latch access bit or the direction decides.
pub(super) const RBR_THR_DLL: u16 = 0;
pub(super) const IER_DLM: u16 = 1;
pub(super) const IIR_FCR: u16 = 2;
pub(super) const LCR: u16 = 3;
pub(super) const MCR: u16 = 4;
pub(super) const LSR: u16 = 5;
pub(super) const MSR: u16 = 6;
pub(super) const SCR: u16 = 7;

/// Bit rate with a divisor of one: a sixteenth of 1.8432 MHz.
pub(super) const BASE_BIT_RATE: u64 = 115_200;
/// The receive time-out in characters.
pub(super) const TIMEOUT_CHARACTERS: u64 = 4;

bitflags! {
    /// Interrupt enable register.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) struct Ier: u8 {
        /// Received data available.
        const ERBFI = 1 << 0;
        /// Transmitter holding register empty.
        const ETBEI = 1 << 1;
        /// Receiver line status.
        const ELSI = 1 << 2;
        /// Modem status.
        const EDSSI = 1 << 3;
    }

    /// FIFO control register without the trigger level.
    #[derive(Clone, Copy, Debug)]
    pub(super) struct Fcr: u8 {
        const FIFO_ENABLE = 1 << 0;
        const RCVR_FIFO_RESET = 1 << 1;
        const XMIT_FIFO_RESET = 1 << 2;
    }

    /// Line control register.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) struct Lcr: u8 {
        /// Word length: 5 to 8 bits.
        const WLS = 3;
        /// More than one stop bit.
        const STB = 1 << 2;
        /// Parity enable.
        const PEN = 1 << 3;
        /// Divisor latch access.
        const DLAB = 1 << 7;
    }

    /// Modem control register.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) struct Mcr: u8 {
        const DTR = 1 << 0;
        const RTS = 1 << 1;
        const OUT1 = 1 << 2;
        const OUT2 = 1 << 3;
        const LOOP = 1 << 4;
    }

    /// Line status register.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) struct Lsr: u8 {
        /// Data ready.
        const DR = 1 << 0;
        /// Overrun error.
        const OE = 1 << 1;
        /// Transmitter holding register empty.
        const THRE = 1 << 5;
        /// Transmitter empty.
        const TEMT = 1 << 6;
    }

    /// Modem status register.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) struct Msr: u8 {
        /// Change of CTS.
        const DCTS = 1 << 0;
        /// Change of DSR.
        const DDSR = 1 << 1;
        /// Trailing edge of RI.
        const TERI = 1 << 2;
        /// Change of DCD.
        const DDCD = 1 << 3;
        const CTS = 1 << 4;
        const DSR = 1 << 5;
        const RI = 1 << 6;
        const DCD = 1 << 7;
    }
}

impl Msr {
    /// The bits that a read clears.
    pub(super) const DELTAS: Msr = Msr::DCTS.union(Msr::DDSR).union(Msr::TERI).union(Msr::DDCD);
    /// The levels are this much above their deltas.
    pub(super) const LEVEL_SHIFT: u32 = 4;
}

/// FCR's trigger level.
const TRIGGER_SHIFT: u32 = 6;
const TRIGGER_LEVELS: [usize; 4] = [1, 4, 8, 14];

/// Bytes in the receive FIFO at which an interrupt is wanted.
pub(super) const fn trigger_level(fcr: u8) -> usize {
    TRIGGER_LEVELS[(fcr >> TRIGGER_SHIFT) as usize]
}

/// Interrupt identification: bits 3 to 0 of IIR in the order of their priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Cause {
    LineStatus = 0b0110,
    DataAvailable = 0b0100,
    CharacterTimeout = 0b1100,
    TransmitterEmpty = 0b0010,
    ModemStatus = 0b0000,
}

/// IIR without a cause.
pub(super) const IIR_NONE: u8 = 0b0001;
/// IIR with the FIFOs enabled.
pub(super) const IIR_FIFOS: u8 = 0b1100_0000;
