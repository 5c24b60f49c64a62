//! ACPI fixed hardware: the PM1a event and control blocks and the power management timer.
//!
//! The machine starts in ACPI mode and stays there (SCI_EN is always set), so that the FADT names no SMI
//! command port. There are no general-purpose events. `Effects::line` is the SCI.

mod spec;
#[cfg(test)]
mod tests;

use crate::FLOATING;
use crate::clock::Frequency;
use crate::effects::{Deadline, Device, Effects, Nanos, PowerEvent};
use spec::{CONTROL, Control, ENABLE_SHIFT, EVENT, Enable, Status, TIMER, TIMER_HZ};

/// Offset of the PM1a event block, 4 bytes.
pub const EVENT_BLOCK: u16 = EVENT;
/// Offset of the PM1a control block, 2 bytes.
pub const CONTROL_BLOCK: u16 = CONTROL;
/// Offset of the power management timer, 4 bytes.
pub const TIMER_BLOCK: u16 = TIMER;
/// Number of ports.
pub const PORTS: u16 = 12;
/// The timer is read in one piece.
pub const MAX_WIDTH: u8 = 4;
/// Width of the timer: the FADT's TMR_VAL_EXT flag says 32.
pub const TIMER_BITS: u32 = 32;
/// SLP_TYP of S5 for the DSDT's `\_S5` package; other sleeping states do not exist.
pub const S5_SLP_TYP: u8 = 0;

const CLOCK: Frequency = Frequency::from_hz(TIMER_HZ);

/// The fixed hardware.
#[derive(Clone, Debug)]
pub struct AcpiPm {
    status: Status,
    enable: Enable,
    control: Control,
    /// Half periods of the timer when its highest bit was last looked at.
    half_periods: u64,
    /// Level of the SCI as last reported.
    sci: bool,
}

impl AcpiPm {
    /// In ACPI mode, without events.
    pub fn new() -> AcpiPm {
        AcpiPm {
            status: Status::empty(),
            enable: Enable::empty(),
            control: Control::empty(),
            half_periods: 0,
            sci: false,
        }
    }

    /// The power button has been pressed.
    pub fn press_power_button(&mut self, now: Nanos) -> Effects {
        self.status |= Status::PWRBTN_STS;
        self.effects(now)
    }

    /// Changes of the timer's highest bit since time zero.
    fn half_periods(now: Nanos) -> u64 {
        CLOCK.ticks(now) >> (TIMER_BITS - 1)
    }

    fn advance(&mut self, now: Nanos) {
        let half_periods = Self::half_periods(now);
        if half_periods > self.half_periods {
            self.half_periods = half_periods;
            self.status |= Status::TMR_STS;
        }
    }

    /// Reports the level of the SCI and when the timer can change it.
    fn effects(&mut self, now: Nanos) -> Effects {
        let sci = self.status.bits() & self.enable.bits() != 0;
        let changed = core::mem::replace(&mut self.sci, sci) != sci;
        let deadline = if self.enable.contains(Enable::TMR_EN) && !self.status.contains(Status::TMR_STS) {
            Deadline::At(CLOCK.time_of((Self::half_periods(now) + 1) << (TIMER_BITS - 1)))
        } else {
            Deadline::Never
        };
        Effects { line: changed.then_some(sci), deadline, ..Effects::NONE }
    }

    /// One of the three dwords.
    fn read_dword(&mut self, offset: u16, now: Nanos) -> u32 {
        match offset {
            TIMER => CLOCK.ticks(now) as u32,
            EVENT => {
                self.advance(now);
                u32::from(self.status.bits()) | u32::from(self.enable.bits()) << ENABLE_SHIFT
            }
            _ => (self.control | Control::SCI_EN).bits().into(),
        }
    }

    fn write_event(&mut self, value: u32, mask: u32, now: Nanos) -> Effects {
        self.advance(now);
        self.status.remove(Status::from_bits_truncate((value & mask) as u16));
        let enable = u32::from(self.enable.bits()) << ENABLE_SHIFT & !mask | value & mask;
        self.enable = Enable::from_bits_truncate((enable >> ENABLE_SHIFT) as u16);
        self.effects(now)
    }

    fn write_control(&mut self, value: u32, mask: u32) -> Effects {
        let written = u32::from(self.control.bits()) & !mask | value & mask;
        let written = Control::from_bits_truncate(written as u16);
        self.control = written & Control::STORED;
        let slp_typ = (written & Control::SLP_TYP).bits() >> Control::SLP_TYP_SHIFT;
        let off = written.contains(Control::SLP_EN) && slp_typ == u16::from(S5_SLP_TYP);
        Effects { power: off.then_some(PowerEvent::PowerOff("ACPI S5")), ..Effects::NONE }
    }
}

impl Default for AcpiPm {
    fn default() -> Self {
        Self::new()
    }
}

impl Device for AcpiPm {
    fn read(&mut self, offset: u16, _width: u8, now: Nanos) -> (u32, Effects) {
        if offset >= PORTS {
            return (FLOATING, Effects::NONE);
        }
        (self.read_dword(offset & !3, now) >> (8 * (offset & 3)), Effects::NONE)
    }

    fn write(&mut self, offset: u16, width: u8, value: u32, now: Nanos) -> Effects {
        let shift = 8 * (offset & 3);
        let mask = (u32::MAX >> (32 - 8 * u32::from(width.clamp(1, MAX_WIDTH)))) << shift;
        match offset & !3 {
            EVENT => self.write_event(value << shift, mask, now),
            CONTROL => self.write_control(value << shift, mask),
            _ => Effects::NONE,
        }
    }

    fn tick(&mut self, now: Nanos) -> Effects {
        self.advance(now);
        self.effects(now)
    }
}
