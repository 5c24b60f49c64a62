//! The PC's pair of 8259A interrupt controllers with their edge/level control registers, as one device.
//!
//! Ports come in three ranges, each mapped at its offset: 0x20-0x21 at [`MASTER`], 0xA0-0xA1 at [`SLAVE`],
//! 0x4D0-0x4D1 at [`ELCR`]. `Effects::line` is the master's INTR output.

mod chip;
mod spec;
#[cfg(test)]
mod tests;

use crate::FLOATING;
use crate::effects::{Device, Effects, Nanos};
use chip::Chip;
use spec::{CASCADE, FIRMWARE_MASTER_VECTORS, FIRMWARE_SLAVE_VECTORS, MASTER_ELCR, SLAVE_ELCR};

/// Offset of the master's command port; its data port follows.
pub const MASTER: u16 = 0;
/// Offset of the slave's command port; its data port follows.
pub const SLAVE: u16 = 2;
/// Offset of the edge/level control register of IRQ 0 to 7; that of IRQ 8 to 15 follows.
pub const ELCR: u16 = 4;
/// Number of ports.
pub const PORTS: u16 = 6;
/// Registers are bytes.
pub const MAX_WIDTH: u8 = 1;

const MASTER_DATA: u16 = MASTER + 1;
const SLAVE_DATA: u16 = SLAVE + 1;
const ELCR_SLAVE: u16 = ELCR + 1;

/// The two 8259A.
#[derive(Clone, Debug)]
pub struct Pic {
    master: Chip,
    slave: Chip,
    /// Level of INTR as last reported.
    intr: bool,
}

impl Pic {
    /// Both chips as a PC's firmware leaves them: initialized with its vectors, everything masked. Linux takes
    /// chips that do not keep a mask for absent.
    pub fn new() -> Pic {
        let master = Chip::new(1 << CASCADE, FIRMWARE_MASTER_VECTORS);
        Pic { master, slave: Chip::new(0, FIRMWARE_SLAVE_VECTORS), intr: false }
    }

    /// Drives interrupt request input `irq`, 0 to 15. Input 2 is the slave's and others do not exist: ignored.
    pub fn set_line(&mut self, irq: u8, level: bool) -> Effects {
        match irq {
            CASCADE => return Effects::NONE,
            0..8 => self.master.set_input(irq, level),
            8..16 => self.slave.set_input(irq - 8, level),
            _ => return Effects::NONE,
        }
        self.settle()
    }

    /// A low and a high on an input: one edge, whatever its level was. The input stays high.
    pub fn pulse(&mut self, irq: u8) -> Effects {
        let intr = self.intr;
        self.set_line(irq, false);
        self.set_line(irq, true);
        Effects { line: (self.intr != intr).then_some(self.intr), ..Effects::NONE }
    }

    /// The level of the INTR output.
    pub fn intr(&self) -> bool {
        self.intr
    }

    /// The interrupt acknowledge cycle: returns the vector. If the request has gone meanwhile it is that of
    /// IRQ 7 or 15 without an in-service bit. Ask [`Pic::intr`] for the level of INTR afterwards.
    pub fn acknowledge(&mut self) -> u8 {
        let (level, real) = self.master.acknowledge();
        let vector = if real && level == CASCADE {
            let (level, _) = self.slave.acknowledge();
            self.slave.vector(level)
        } else {
            self.master.vector(level)
        };
        self.settle();
        vector
    }

    /// Carries the slave's output to the master and reports a change of INTR.
    fn settle(&mut self) -> Effects {
        self.master.set_input(CASCADE, self.slave.request().is_some());
        let intr = self.master.request().is_some();
        let changed = core::mem::replace(&mut self.intr, intr) != intr;
        Effects { line: changed.then_some(intr), ..Effects::NONE }
    }
}

impl Default for Pic {
    fn default() -> Self {
        Self::new()
    }
}

impl Device for Pic {
    fn read(&mut self, offset: u16, _width: u8, _now: Nanos) -> (u32, Effects) {
        let value = match offset {
            MASTER => self.master.read_command(),
            MASTER_DATA => self.master.read_data(),
            SLAVE => self.slave.read_command(),
            SLAVE_DATA => self.slave.read_data(),
            ELCR => self.master.elcr,
            ELCR_SLAVE => self.slave.elcr,
            _ => return (FLOATING, Effects::NONE),
        };
        // A read in poll mode is an acknowledge.
        (value.into(), self.settle())
    }

    fn write(&mut self, offset: u16, _width: u8, value: u32, _now: Nanos) -> Effects {
        let value = value as u8;
        match offset {
            MASTER => self.master.write_command(value),
            MASTER_DATA => self.master.write_data(value),
            SLAVE => self.slave.write_command(value),
            SLAVE_DATA => self.slave.write_data(value),
            ELCR => self.master.elcr = value & MASTER_ELCR,
            ELCR_SLAVE => self.slave.elcr = value & SLAVE_ELCR,
            _ => return Effects::NONE,
        }
        self.settle()
    }
}
