//! 16550A asynchronous receiver and transmitter: eight ports.
//!
//! Transmission takes no time: a byte that is written leaves at once through `Effects::byte`, and the
//! transmitter is empty again. Reception is not paced either; whoever feeds it asks
//! [`Uart::can_receive`] first and again after the guest has read. `Effects::line` is INTR as a PC's board
//! gates it, with OUT2 of the modem control register.

mod receiver;
mod spec;
#[cfg(test)]
mod tests;

use crate::FLOATING;
use crate::effects::{Deadline, Device, Effects, Nanos};
use receiver::Receiver;
use spec::{
    BASE_BIT_RATE, Cause, Fcr, IER_DLM, IIR_FCR, IIR_FIFOS, IIR_NONE, Ier, LCR, LSR, Lcr, Lsr, MCR, MSR, Mcr,
    Msr, RBR_THR_DLL, SCR, TIMEOUT_CHARACTERS, trigger_level,
};

/// Number of ports.
pub const PORTS: u16 = 8;
/// Registers are bytes.
pub const MAX_WIDTH: u8 = 1;

/// What a terminal at the other end of the cable holds active.
const TERMINAL: Msr = Msr::CTS.union(Msr::DSR).union(Msr::DCD);

/// A 16550A.
#[derive(Clone, Debug)]
pub struct Uart {
    receiver: Receiver,
    ier: Ier,
    lcr: Lcr,
    mcr: Mcr,
    msr: Msr,
    scratch: u8,
    divisor: u16,
    /// The transmitter has become empty and neither IIR nor THR has been touched since.
    transmitter_empty: bool,
    /// Level of INTR as last reported.
    intr: bool,
}

impl Uart {
    /// A UART after master reset, connected to a terminal that is ready.
    pub fn new() -> Uart {
        Uart {
            receiver: Receiver::default(),
            ier: Ier::empty(),
            lcr: Lcr::empty(),
            mcr: Mcr::empty(),
            msr: TERMINAL,
            scratch: 0,
            divisor: 1,
            transmitter_empty: false,
            intr: false,
        }
    }

    /// Whether the guest wants an interrupt for a byte received.
    pub fn wants_input(&self) -> bool {
        self.ier.contains(Ier::ERBFI)
    }

    /// Whether there is room for a byte from outside. In loopback mode the input is disconnected.
    pub fn can_receive(&self) -> bool {
        !self.mcr.contains(Mcr::LOOP) && self.receiver.has_room()
    }

    /// A byte from outside. One that comes when there is no room is an overrun.
    pub fn receive(&mut self, byte: u8, now: Nanos) -> Effects {
        if self.mcr.contains(Mcr::LOOP) {
            return Effects::NONE;
        }
        self.receiver.push(byte, now);
        self.effects()
    }

    /// The cause with the highest priority that is enabled.
    fn cause(&self) -> Option<Cause> {
        let enabled = |bit| self.ier.contains(bit);
        if enabled(Ier::ELSI) && self.receiver.has_overrun() {
            Some(Cause::LineStatus)
        } else if enabled(Ier::ERBFI) && self.receiver.has_reached_trigger() {
            Some(Cause::DataAvailable)
        } else if enabled(Ier::ERBFI) && self.receiver.has_timed_out() {
            Some(Cause::CharacterTimeout)
        } else if enabled(Ier::ETBEI) && self.transmitter_empty {
            Some(Cause::TransmitterEmpty)
        } else if enabled(Ier::EDSSI) && self.msr.intersects(Msr::DELTAS) {
            Some(Cause::ModemStatus)
        } else {
            None
        }
    }

    /// Reports a change of INTR, and when the receive time-out is due.
    fn effects(&mut self) -> Effects {
        let intr = self.mcr.contains(Mcr::OUT2) && self.cause().is_some();
        let changed = core::mem::replace(&mut self.intr, intr) != intr;
        let timeout =
            if self.ier.contains(Ier::ERBFI) { self.receiver.timeout_due(self.timeout()) } else { None };
        let deadline = timeout.map_or(Deadline::Never, Deadline::At);
        Effects { line: changed.then_some(intr), deadline, ..Effects::NONE }
    }

    /// How long four characters take.
    fn timeout(&self) -> Nanos {
        let word = 5 + u64::from((self.lcr & Lcr::WLS).bits());
        let start = 1;
        let parity = u64::from(self.lcr.contains(Lcr::PEN));
        let stop = 1 + u64::from(self.lcr.contains(Lcr::STB));
        let bits = TIMEOUT_CHARACTERS * (start + word + parity + stop);
        Nanos(bits * u64::from(self.divisor.max(1)) * (1_000_000_000 / BASE_BIT_RATE))
    }

    fn lsr(&self) -> Lsr {
        let mut lsr = Lsr::THRE | Lsr::TEMT;
        lsr.set(Lsr::DR, !self.receiver.is_empty());
        lsr.set(Lsr::OE, self.receiver.has_overrun());
        lsr
    }

    fn read_lsr(&mut self) -> (u8, Effects) {
        let lsr = self.lsr();
        if !lsr.contains(Lsr::OE) {
            return (lsr.bits(), Effects::NONE);
        }
        self.receiver.clear_overrun();
        (lsr.bits(), self.effects())
    }

    fn read_rbr(&mut self, now: Nanos) -> (u8, Effects) {
        let byte = self.receiver.pop(now);
        (byte, self.effects())
    }

    /// Reading IIR ends the transmitter's interrupt if that is what it tells.
    fn read_iir(&mut self) -> (u8, Effects) {
        let cause = self.cause();
        let fifos = if self.receiver.fifo_enabled() { IIR_FIFOS } else { 0 };
        let iir = fifos | cause.map_or(IIR_NONE, |cause| cause as u8);
        if cause != Some(Cause::TransmitterEmpty) {
            return (iir, Effects::NONE);
        }
        self.transmitter_empty = false;
        (iir, self.effects())
    }

    fn read_msr(&mut self) -> (u8, Effects) {
        let msr = self.msr;
        if !msr.intersects(Msr::DELTAS) {
            return (msr.bits(), Effects::NONE);
        }
        self.msr.remove(Msr::DELTAS);
        (msr.bits(), self.effects())
    }

    fn transmit(&mut self, byte: u8, now: Nanos) -> Effects {
        self.transmitter_empty = true;
        if self.mcr.contains(Mcr::LOOP) {
            self.receiver.push(byte, now);
            return self.effects();
        }
        Effects { byte: Some(byte), ..self.effects() }
    }

    fn write_ier(&mut self, value: u8) -> Effects {
        let ier = Ier::from_bits_truncate(value);
        // Enabling the interrupt while the transmitter is empty, as it always is, raises it.
        if ier.contains(Ier::ETBEI) && !self.ier.contains(Ier::ETBEI) {
            self.transmitter_empty = true;
        }
        self.ier = ier;
        self.effects()
    }

    fn write_fcr(&mut self, value: u8) -> Effects {
        let fcr = Fcr::from_bits_truncate(value);
        self.receiver.configure(fcr.contains(Fcr::FIFO_ENABLE), trigger_level(value));
        if fcr.contains(Fcr::RCVR_FIFO_RESET) {
            self.receiver.clear();
        }
        self.effects()
    }

    /// In loopback mode the modem's inputs are the outputs of MCR.
    fn write_mcr(&mut self, value: u8) -> Effects {
        self.mcr = Mcr::from_bits_truncate(value);
        let mut levels = TERMINAL;
        if self.mcr.contains(Mcr::LOOP) {
            levels = Msr::empty();
            levels.set(Msr::CTS, self.mcr.contains(Mcr::RTS));
            levels.set(Msr::DSR, self.mcr.contains(Mcr::DTR));
            levels.set(Msr::RI, self.mcr.contains(Mcr::OUT1));
            levels.set(Msr::DCD, self.mcr.contains(Mcr::OUT2));
        }
        let before = self.msr - Msr::DELTAS;
        let changed = Msr::from_bits_truncate((before ^ levels).bits() >> Msr::LEVEL_SHIFT);
        let ring_begins = levels.contains(Msr::RI) && changed.contains(Msr::TERI);
        let deltas = if ring_begins { changed - Msr::TERI } else { changed };
        self.msr = levels | (self.msr & Msr::DELTAS) | deltas;
        self.effects()
    }
}

impl Default for Uart {
    fn default() -> Self {
        Self::new()
    }
}

impl Device for Uart {
    fn read(&mut self, offset: u16, _width: u8, now: Nanos) -> (u32, Effects) {
        let dlab = self.lcr.contains(Lcr::DLAB);
        let [divisor_low, divisor_high] = self.divisor.to_le_bytes();
        let (value, effects) = match offset {
            RBR_THR_DLL if dlab => (divisor_low, Effects::NONE),
            RBR_THR_DLL => self.read_rbr(now),
            IER_DLM if dlab => (divisor_high, Effects::NONE),
            IER_DLM => (self.ier.bits(), Effects::NONE),
            IIR_FCR => self.read_iir(),
            LCR => (self.lcr.bits(), Effects::NONE),
            MCR => (self.mcr.bits(), Effects::NONE),
            LSR => self.read_lsr(),
            MSR => self.read_msr(),
            SCR => (self.scratch, Effects::NONE),
            _ => return (FLOATING, Effects::NONE),
        };
        (value.into(), effects)
    }

    fn write(&mut self, offset: u16, _width: u8, value: u32, now: Nanos) -> Effects {
        let value = value as u8;
        let dlab = self.lcr.contains(Lcr::DLAB);
        let [divisor_low, divisor_high] = self.divisor.to_le_bytes();
        match offset {
            RBR_THR_DLL if dlab => self.divisor = u16::from_le_bytes([value, divisor_high]),
            RBR_THR_DLL => return self.transmit(value, now),
            IER_DLM if dlab => self.divisor = u16::from_le_bytes([divisor_low, value]),
            IER_DLM => return self.write_ier(value),
            IIR_FCR => return self.write_fcr(value),
            LCR => self.lcr = Lcr::from_bits_retain(value),
            MCR => return self.write_mcr(value),
            SCR => self.scratch = value,
            // LSR and MSR are not written in normal operation, and there is nothing beyond SCR.
            _ => {}
        }
        Effects::NONE
    }

    fn tick(&mut self, now: Nanos) -> Effects {
        self.receiver.check_timeout(now, self.timeout());
        self.effects()
    }
}
