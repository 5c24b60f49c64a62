//! Clocks of fixed frequency, derived from the machine's time by multiplication.

use crate::effects::Nanos;

const NANOS_PER_SECOND: u128 = 1_000_000_000;
/// Fraction bits of `nanos_per_tick`: the slowest clock here, 32,768 Hz, leaves this many.
const NANOS_FRACTION: u32 = 44;

/// A frequency. Ticks are counted from time zero and never accumulated, so that nothing drifts: the ratio is
/// exact to 64 fraction bits, less than one tick in the whole range of [`Nanos`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frequency {
    /// Ticks per nanosecond in units of 2^-64, rounded up.
    ticks_per_nano: u64,
    /// Nanoseconds per tick in units of 2^-44, rounded up.
    nanos_per_tick: u64,
}

impl Frequency {
    /// A clock of `hz` ticks per second.
    pub(crate) const fn from_hz(hz: u64) -> Frequency {
        assert!(hz >= 1 << 15 && (hz as u128) < NANOS_PER_SECOND, "the fractions do not fit");
        Frequency {
            ticks_per_nano: ((hz as u128) << 64).div_ceil(NANOS_PER_SECOND) as u64,
            nanos_per_tick: (NANOS_PER_SECOND << NANOS_FRACTION).div_ceil(hz as u128) as u64,
        }
    }

    /// How many ticks have passed.
    pub(crate) const fn ticks(&self, time: Nanos) -> u64 {
        ((time.0 as u128 * self.ticks_per_nano as u128) >> 64) as u64
    }

    /// A time at which at least `ticks` have passed, within nanoseconds of the earliest. Both ratios are rounded up, so that a deadline computed here is never too early.
    pub(crate) const fn time_of(&self, ticks: u64) -> Nanos {
        let nanos = ((ticks as u128 * self.nanos_per_tick as u128) >> NANOS_FRACTION) + 1;
        Nanos(if nanos > u64::MAX as u128 { u64::MAX } else { nanos as u64 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::XorShift;

    #[test]
    fn no_drift_over_a_century() {
        let century = 100 * 365 * 86_400;
        for hz in [32_768, 1_193_182, 3_579_545] {
            let ticks = Frequency::from_hz(hz).ticks(Nanos(century * 1_000_000_000));
            assert_eq!(ticks, century * hz);
        }
    }

    #[test]
    fn deadlines_are_neither_early_nor_late() {
        let mut random = XorShift::new(1);
        for hz in [32_768, 1_193_182, 3_579_545] {
            let clock = Frequency::from_hz(hz);
            for _ in 0..1000 {
                let ticks = random.next() >> 36;
                let at = clock.time_of(ticks);
                assert!(clock.ticks(at) >= ticks);
                assert!(ticks == 0 || clock.ticks(Nanos(at.0 - 3)) < ticks, "{ticks} ticks of {hz} Hz");
            }
        }
    }
}
