//! The clock of a virtual machine: nanoseconds since it was started, from the host's TSC.

use devices::effects::Nanos;

const NANOS_PER_MILLI: u64 = 1_000_000;

/// Converts between the host's TSC and the virtual machine's nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct VmClock {
    origin: u64,
    /// Nanoseconds per tick, 32.32 fixed point.
    nanos_per_tick: u64,
    /// Ticks per nanosecond, 32.32 fixed point.
    ticks_per_nano: u64,
}

impl VmClock {
    /// A clock that reads 0 at host TSC `origin`.
    pub fn new(origin: u64, tsc_khz: u64) -> Self {
        Self {
            origin,
            nanos_per_tick: (NANOS_PER_MILLI << 32) / tsc_khz,
            ticks_per_nano: ((u128::from(tsc_khz) << 32) / u128::from(NANOS_PER_MILLI)) as u64,
        }
    }

    /// The time at a host TSC.
    #[inline(always)]
    pub fn nanos(&self, host_tsc: u64) -> Nanos {
        let ticks = host_tsc.wrapping_sub(self.origin);
        Nanos(((u128::from(ticks) * u128::from(self.nanos_per_tick)) >> 32) as u64)
    }

    /// The first host TSC at which it is this time: a timer that fires early would find nothing due.
    pub fn host_tsc(&self, at: Nanos) -> u64 {
        let mut tsc = self.origin.saturating_add(self.ticks(at.0));
        // Both factors are rounded down, so the first guess may fall short by their errors.
        while tsc != u64::MAX && self.nanos(tsc) < at {
            tsc = tsc.saturating_add(self.ticks(at.0 - self.nanos(tsc).0) + 1);
        }
        tsc
    }

    fn ticks(&self, nanos: u64) -> u64 {
        u64::try_from((u128::from(nanos) * u128::from(self.ticks_per_nano)) >> 32).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back_is_never_early() {
        for khz in [1_000_000, 999_998, 2_400_123, 100_000, 4_700_000] {
            let clock = VmClock::new(12345, khz);
            for nanos in [0, 1, 999, 1_000_000, 3_600_000_000_000, 86_400_000_000_000] {
                let tsc = clock.host_tsc(Nanos(nanos));
                let back = clock.nanos(tsc).0;
                assert!((nanos..nanos + 100).contains(&back), "{khz} kHz: {nanos} became {back}");
                let before = clock.nanos(tsc - 1).0;
                assert!(nanos == 0 || before < nanos + 20, "{khz} kHz: {nanos} could have been {before}");
            }
        }
    }

    #[test]
    fn counts_real_nanoseconds() {
        assert_eq!(VmClock::new(100, 2_000_000).nanos(100 + 2_000_000_000), Nanos(1_000_000_000));
    }
}
