//! One timer: a comparator, and what happens when the counter reaches it.

use super::SHORTEST_PERIOD;
use super::spec::{INT_ROUTE_CAP, INT_ROUTE_SHIFT, TIM_CAP, TimConf};

/// A timer.
#[derive(Clone, Debug)]
pub(super) struct Timer {
    config: TimConf,
    /// The counter's value at the next match.
    comparator: u64,
    /// What a match in periodic mode adds to the comparator: the value last written to it.
    period: u64,
}

impl Timer {
    /// After reset: the comparator is all ones.
    pub(super) fn new() -> Timer {
        Timer { config: TimConf::empty(), comparator: u64::MAX, period: 0 }
    }

    /// The bits of the counter that it compares.
    fn mask(&self) -> u64 {
        if self.config.contains(TimConf::MODE_32_CNF) { u32::MAX.into() } else { u64::MAX }
    }

    pub(super) fn config(&self) -> u64 {
        self.config.bits() | TIM_CAP
    }

    /// Writes the configuration. A route that the timer does not have leaves the one before.
    pub(super) fn set_config(&mut self, value: u64) {
        let mut config = TimConf::from_bits_truncate(value);
        let pin = (config & TimConf::INT_ROUTE_CNF).bits() >> INT_ROUTE_SHIFT;
        if INT_ROUTE_CAP >> pin & 1 == 0 {
            config.remove(TimConf::INT_ROUTE_CNF);
            config |= self.config & TimConf::INT_ROUTE_CNF;
        }
        self.config = config;
        self.comparator &= self.mask();
        self.period &= self.mask();
    }

    pub(super) fn comparator(&self) -> u64 {
        self.comparator
    }

    /// Writes the bits in `written` of the comparator. In periodic mode that is the period, and the comparator
    /// itself only after VAL_SET_CNF, which holds for one write.
    pub(super) fn set_comparator(&mut self, value: u64, written: u64) {
        let merge = |old: u64| (old & !written | value & written) & self.mask();
        let (comparator, period) = (merge(self.comparator), merge(self.period));
        if !self.is_periodic() || self.config.contains(TimConf::VAL_SET_CNF) {
            self.comparator = comparator;
        }
        self.period = period;
        self.config.remove(TimConf::VAL_SET_CNF);
    }

    fn is_periodic(&self) -> bool {
        self.config.contains(TimConf::TYPE_CNF)
    }

    /// It would interrupt too often.
    pub(super) fn drowns(&self) -> bool {
        self.is_periodic() && self.period < SHORTEST_PERIOD
    }

    pub(super) fn is_level(&self) -> bool {
        self.config.contains(TimConf::INT_TYPE_CNF)
    }

    pub(super) fn is_enabled(&self) -> bool {
        self.config.contains(TimConf::INT_ENB_CNF)
    }

    /// The I/O APIC pin as a bit; none before software has chosen one.
    pub(super) fn pin(&self) -> u32 {
        let pin = (self.config & TimConf::INT_ROUTE_CNF).bits() >> INT_ROUTE_SHIFT;
        1 << pin & INT_ROUTE_CAP
    }

    /// Ticks from `counter` to the next match, at least one; nothing if that is farther than they can be counted.
    pub(super) fn distance(&self, counter: u64) -> Option<u64> {
        match self.comparator.wrapping_sub(counter) & self.mask() {
            0 => self.mask().checked_add(1),
            ticks => Some(ticks),
        }
    }

    /// The counter goes on from `counter` by `ticks`. Returns whether there was a match.
    pub(super) fn pass(&mut self, counter: u64, ticks: u64) -> bool {
        let Some(over) = self.distance(counter).and_then(|distance| ticks.checked_sub(distance)) else {
            return false;
        };
        if self.is_periodic() && self.period != 0 {
            let periods = over / self.period + 1;
            self.comparator = self.comparator.wrapping_add(self.period.wrapping_mul(periods)) & self.mask();
        }
        true
    }
}
