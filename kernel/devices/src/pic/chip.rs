//! One 8259A.

use super::spec::{Icw1, Icw4, LEVEL, Ocw2, Ocw3, POLL_REQUEST, SPURIOUS, VECTOR_BASE};

/// What the next write to the data port is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expects {
    Icw2,
    Icw3,
    Icw4,
    /// The interrupt mask: the chip is initialized.
    Ocw1,
}

/// The registers that a read of the command port can give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadRegister {
    Irr,
    Isr,
}

/// An 8259A, seen from its pins.
#[derive(Clone, Debug)]
pub(super) struct Chip {
    /// Levels of the inputs.
    inputs: u8,
    /// Inputs that rose and have not been acknowledged since (edge sense latch).
    edges: u8,
    /// In-service register.
    isr: u8,
    /// Interrupt mask register.
    imr: u8,
    /// Inputs that are level triggered by ELCR.
    pub(super) elcr: u8,
    /// Inputs that are wired to another chip's output, which is a level by its nature.
    cascade: u8,
    icw1: Icw1,
    icw4: Icw4,
    vector_base: u8,
    lowest_priority: u8,
    special_mask: bool,
    rotate_on_aeoi: bool,
    poll: bool,
    reads: ReadRegister,
    expects: Expects,
}

impl Chip {
    /// A chip that has been initialized and masks everything.
    pub(super) fn new(cascade: u8, vector_base: u8) -> Chip {
        Chip {
            inputs: 0,
            edges: 0,
            isr: 0,
            imr: u8::MAX,
            elcr: 0,
            cascade,
            icw1: Icw1::empty(),
            icw4: Icw4::empty(),
            vector_base,
            lowest_priority: SPURIOUS,
            special_mask: false,
            rotate_on_aeoi: false,
            poll: false,
            reads: ReadRegister::Irr,
            expects: Expects::Ocw1,
        }
    }

    /// Drives one input. A request that is withdrawn before its acknowledge is gone ("IR inputs must remain
    /// high until after the falling edge of the first INTA").
    pub(super) fn set_input(&mut self, level: u8, high: bool) {
        let bit = 1 << level;
        if !high {
            self.inputs &= !bit;
            self.edges &= !bit;
        } else if self.inputs & bit == 0 {
            self.inputs |= bit;
            self.edges |= bit;
        }
    }

    /// Interrupt request register.
    fn irr(&self) -> u8 {
        let levels = if self.icw1.contains(Icw1::LTIM) { u8::MAX } else { self.elcr | self.cascade };
        self.edges | (self.inputs & levels)
    }

    /// The highest-priority level of a set, if it is not empty, and its rank (0 is the highest).
    fn highest(&self, set: u8) -> Option<(u8, u32)> {
        let first = (self.lowest_priority + 1) & LEVEL;
        let ranked = set.rotate_right(u32::from(first));
        let rank = ranked.trailing_zeros();
        (set != 0).then_some(((first + rank as u8) & LEVEL, rank))
    }

    /// In-service levels that hold back others.
    fn inhibiting(&self) -> u8 {
        if self.special_mask { self.isr & !self.imr } else { self.isr }
    }

    /// The level that the chip asks to be served, if any.
    pub(super) fn request(&self) -> Option<u8> {
        if self.expects != Expects::Ocw1 {
            return None;
        }
        let (level, rank) = self.highest(self.irr() & !self.imr)?;
        let Some((serving, serving_rank)) = self.highest(self.inhibiting()) else { return Some(level) };
        // In special fully nested mode a slave's further requests pass while one of it is in service.
        let nested = self.icw4.contains(Icw4::SFNM) && level == serving && self.cascade & (1 << level) != 0;
        (rank < serving_rank || nested).then_some(level)
    }

    /// The interrupt acknowledge: the level, and false if there was no request any more.
    pub(super) fn acknowledge(&mut self) -> (u8, bool) {
        let Some(level) = self.request() else { return (SPURIOUS, false) };
        self.edges &= !(1 << level);
        if !self.icw4.contains(Icw4::AEOI) {
            self.isr |= 1 << level;
        } else if self.rotate_on_aeoi {
            self.lowest_priority = level;
        }
        (level, true)
    }

    /// The vector of a level.
    pub(super) fn vector(&self, level: u8) -> u8 {
        self.vector_base | level
    }

    /// Reads the command port.
    pub(super) fn read_command(&mut self) -> u8 {
        if self.poll {
            return self.read_poll();
        }
        match self.reads {
            ReadRegister::Irr => self.irr(),
            ReadRegister::Isr => self.isr,
        }
    }

    /// Reads the data port.
    pub(super) fn read_data(&mut self) -> u8 {
        if self.poll { self.read_poll() } else { self.imr }
    }

    fn read_poll(&mut self) -> u8 {
        self.poll = false;
        match self.acknowledge() {
            (level, true) => POLL_REQUEST | level,
            (level, false) => level,
        }
    }

    /// Writes the command port: ICW1, OCW2 or OCW3.
    pub(super) fn write_command(&mut self, value: u8) {
        let icw1 = Icw1::from_bits_truncate(value);
        let ocw3 = Ocw3::from_bits_truncate(value);
        if icw1.contains(Icw1::ICW1) {
            self.initialize(icw1);
        } else if ocw3.contains(Ocw3::OCW3) {
            self.write_ocw3(ocw3);
        } else {
            self.write_ocw2(Ocw2::from_bits_truncate(value), value & LEVEL);
        }
    }

    /// Writes the data port: ICW2 to ICW4, then OCW1.
    pub(super) fn write_data(&mut self, value: u8) {
        self.expects = match self.expects {
            Expects::Icw2 => {
                self.vector_base = value & VECTOR_BASE;
                if self.icw1.contains(Icw1::SNGL) { self.after_icw3() } else { Expects::Icw3 }
            }
            // The cascade is the board's, whatever ICW3 says.
            Expects::Icw3 => self.after_icw3(),
            Expects::Icw4 => {
                self.icw4 = Icw4::from_bits_truncate(value);
                Expects::Ocw1
            }
            Expects::Ocw1 => {
                self.imr = value;
                Expects::Ocw1
            }
        };
    }

    fn after_icw3(&self) -> Expects {
        if self.icw1.contains(Icw1::IC4) { Expects::Icw4 } else { Expects::Ocw1 }
    }

    /// ICW1: "an initialization sequence is started during which the following occur".
    fn initialize(&mut self, icw1: Icw1) {
        let (inputs, elcr) = (self.inputs, self.elcr);
        *self = Chip { inputs, elcr, icw1, imr: 0, expects: Expects::Icw2, ..Chip::new(self.cascade, 0) };
    }

    fn write_ocw2(&mut self, command: Ocw2, level: u8) {
        if command.contains(Ocw2::EOI) {
            let ended = if command.contains(Ocw2::SL) { Some(level) } else { self.highest_in_service() };
            let Some(level) = ended else { return };
            self.isr &= !(1 << level);
            if command.contains(Ocw2::R) {
                self.lowest_priority = level;
            }
        } else if !command.contains(Ocw2::SL) {
            self.rotate_on_aeoi = command.contains(Ocw2::R);
        } else if command.contains(Ocw2::R) {
            self.lowest_priority = level;
        }
    }

    /// What a non-specific EOI ends: not a level that special mask mode masks.
    fn highest_in_service(&self) -> Option<u8> {
        self.highest(self.inhibiting()).map(|(level, _)| level)
    }

    fn write_ocw3(&mut self, command: Ocw3) {
        if command.contains(Ocw3::ESMM) {
            self.special_mask = command.contains(Ocw3::SMM);
        }
        // "If P = 1 and RR = 1, poll overrides the status read."
        self.poll = command.contains(Ocw3::P);
        if command.contains(Ocw3::RR) && !self.poll {
            self.reads = if command.contains(Ocw3::RIS) { ReadRegister::Isr } else { ReadRegister::Irr };
        }
    }
}
