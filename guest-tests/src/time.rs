//! Time by the TSC, whose rate is measured against the PIT.

use crate::cpu::rdtsc;
use crate::hw::pit;
use crate::single::Single;

static TICKS_PER_MS: Single<u64> = Single::new(0);
/// How long the calibration looks, and how often; the shortest answer is the best.
const CALIBRATION_MS: u64 = 2;
const CALIBRATIONS: usize = 5;
/// What to assume where the PIT does not count.
const FALLBACK_TICKS_PER_MS: u64 = 1_000_000;

/// Measures the TSC's rate.
pub(crate) fn init() {
    let measure = |_| pit::time_with_channel_2(CALIBRATION_MS as u32 * 1000);
    let ticks = (0..CALIBRATIONS).filter_map(measure).min().map(|t| t / CALIBRATION_MS);
    if ticks.is_none() {
        println!("PIT channel 2 does not count; assuming a TSC of {FALLBACK_TICKS_PER_MS} kHz");
    }
    TICKS_PER_MS.store(ticks.unwrap_or(FALLBACK_TICKS_PER_MS));
}

/// TSC ticks in a millisecond.
pub fn ticks_per_ms() -> u64 {
    TICKS_PER_MS.load()
}

/// Microseconds as TSC ticks.
pub fn us(microseconds: u64) -> u64 {
    microseconds * ticks_per_ms() / 1000
}

/// Waits.
pub fn spin_us(microseconds: u64) {
    let (start, ticks) = (rdtsc(), us(microseconds));
    while rdtsc().wrapping_sub(start) < ticks {
        core::hint::spin_loop();
    }
}

/// Waits until `condition` holds; false if it does not within the time.
pub fn wait_us(microseconds: u64, mut condition: impl FnMut() -> bool) -> bool {
    let (start, ticks) = (rdtsc(), us(microseconds));
    loop {
        if condition() {
            return true;
        }
        if rdtsc().wrapping_sub(start) >= ticks {
            return condition();
        }
        core::hint::spin_loop();
    }
}
