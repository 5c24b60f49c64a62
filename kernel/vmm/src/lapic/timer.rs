//! The local APIC's timer (SDM 3, 11.5.4). Time is the guest's TSC: the timer's input clock is the TSC
//! divided by a power of two, so that counts convert by shifting and CPUID.15H can state their ratio exactly.

use x86defs::apic::TimerMode;

/// Input clock of the timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimerClock {
    tsc_khz: u64,
    /// The clock ticks every 2^shift TSC ticks.
    shift: u32,
}

/// A periodic timer interrupts at most this often in a millisecond, however short its period: more would
/// only burn the host's time in a guest that makes no progress.
const MAX_TICKS_PER_MS: u64 = 50;

impl TimerClock {
    /// The fastest clock whose frequency in Hz fits the 32 bits of CPUID.15H:ECX: the TSC itself up to
    /// 4.29 GHz.
    pub fn for_tsc(tsc_khz: u64) -> Self {
        let mut shift = 0;
        while (tsc_khz * 1000) >> shift > u32::MAX.into() {
            shift += 1;
        }
        Self { tsc_khz, shift }
    }

    /// TSC ticks in a millisecond.
    pub fn tsc_khz(self) -> u64 {
        self.tsc_khz
    }

    /// Frequency in Hz: CPUID.15H:ECX.
    pub fn hz(self) -> u32 {
        ((self.tsc_khz * 1000) >> self.shift) as u32
    }

    /// TSC ticks per tick of this clock: CPUID.15H:EBX over EAX.
    pub fn tsc_ratio(self) -> u32 {
        1 << self.shift
    }
}

/// The counter, without its LVT entry.
#[derive(Clone, Debug)]
pub(super) struct Timer {
    clock: TimerClock,
    divide: u32,
    mode: TimerMode,
    initial: u32,
    /// Guest TSC at which the count reaches zero, or the deadline comes; nothing while stopped.
    expires: Option<u64>,
}

/// Bits of the divide configuration register that exist.
pub(super) const DIVIDE_BITS: u32 = 0b1011;

impl Timer {
    pub(super) fn new(clock: TimerClock) -> Self {
        Self { clock, divide: 0, mode: TimerMode::OneShot, initial: 0, expires: None }
    }

    pub(super) fn clock(&self) -> TimerClock {
        self.clock
    }

    pub(super) fn expires(&self) -> Option<u64> {
        self.expires
    }

    pub(super) fn divide(&self) -> u32 {
        self.divide
    }

    pub(super) fn initial(&self) -> u32 {
        self.initial
    }

    /// log2 of the TSC ticks per count. The register's bits 3, 1 and 0 count 2, 4, 8, .. 128, then 1
    /// (SDM 3, figure 11-10).
    fn shift(&self) -> u32 {
        let code = (self.divide & 3) | (self.divide >> 1 & 4);
        self.clock.shift + ((code + 1) & 7)
    }

    fn period(&self) -> u64 {
        u64::from(self.initial) << self.shift()
    }

    /// Writes the initial count, which starts the timer; zero stops it. Ignored in TSC-deadline mode.
    pub(super) fn set_initial(&mut self, count: u32, now: u64) {
        if self.mode == TimerMode::TscDeadline {
            return;
        }
        self.initial = count;
        self.expires = (count != 0).then(|| now.saturating_add(self.period()));
    }

    /// The current count: rounded up, so that it reads zero exactly when the timer has expired.
    pub(super) fn current(&self, now: u64) -> u32 {
        let Some(expires) = self.expires else { return 0 };
        let left = match self.mode {
            TimerMode::TscDeadline => return 0,
            TimerMode::Periodic if now >= expires => {
                let period = self.period();
                period - (now - expires) % period
            }
            _ => expires.saturating_sub(now),
        };
        left.div_ceil(1 << self.shift()) as u32
    }

    /// A new divisor holds for what is left of the current count, too.
    pub(super) fn set_divide(&mut self, value: u32, now: u64) {
        let left = self.current(now);
        self.divide = value & DIVIDE_BITS;
        if self.expires.is_some() && self.mode != TimerMode::TscDeadline {
            self.expires = Some(now.saturating_add(u64::from(left) << self.shift()));
        }
    }

    /// Entering or leaving TSC-deadline mode disarms the timer (SDM 3, 11.5.4.1).
    pub(super) fn set_mode(&mut self, mode: TimerMode) {
        let deadline = TimerMode::TscDeadline;
        if mode != self.mode && (mode == deadline || self.mode == deadline) {
            self.expires = None;
            self.initial = 0;
        }
        self.mode = mode;
    }

    /// Writes IA32_TSC_DEADLINE; ignored in the other modes.
    pub(super) fn set_deadline(&mut self, deadline: u64) {
        if self.mode == TimerMode::TscDeadline {
            self.expires = (deadline != 0).then_some(deadline);
        }
    }

    /// Reads IA32_TSC_DEADLINE: zero once the deadline has passed.
    pub(super) fn deadline_msr(&self, now: u64) -> u64 {
        match (self.mode, self.expires) {
            (TimerMode::TscDeadline, Some(at)) if at > now => at,
            _ => 0,
        }
    }

    /// Whether the timer has expired since it was last asked; starts the next period.
    pub(super) fn expire(&mut self, now: u64) -> bool {
        let Some(expires) = self.expires.filter(|&at| at <= now) else { return false };
        self.expires = (self.mode == TimerMode::Periodic).then(|| {
            let pause = self.clock.tsc_khz / MAX_TICKS_PER_MS;
            let late = now.saturating_add(pause) - expires;
            let periods = late / self.period() + 1;
            expires.saturating_add(periods.saturating_mul(self.period()))
        });
        true
    }

    /// The guest has set its TSC forward by `delta` (modulo 2^64). A count goes on; a deadline does not move.
    pub(super) fn tsc_moved(&mut self, delta: u64) {
        if self.mode != TimerMode::TscDeadline {
            self.expires = self.expires.map(|at| at.wrapping_add(delta));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timer(mode: TimerMode) -> Timer {
        let mut t = Timer::new(TimerClock::for_tsc(1_000_000));
        t.set_mode(mode);
        t
    }

    #[test]
    fn the_clock_is_the_tsc_where_it_fits_32_bits() {
        for khz in [100_000, 2_999_999, 4_294_967, 4_294_968, 5_800_002] {
            let clock = TimerClock::for_tsc(khz);
            assert_eq!(u64::from(clock.hz()) * u64::from(clock.tsc_ratio()), khz * 1000);
        }
        assert_eq!(TimerClock::for_tsc(4_294_967).tsc_ratio(), 1);
        assert_eq!(TimerClock::for_tsc(4_294_968).tsc_ratio(), 2);
    }

    #[test]
    fn each_divisor_divides() {
        let table =
            [(0b0000, 2), (1, 4), (2, 8), (3, 16), (0b1000, 32), (0b1001, 64), (0b1010, 128), (0b1011, 1)];
        for (register, divisor) in table {
            let mut t = timer(TimerMode::OneShot);
            t.set_divide(register, 0);
            t.set_initial(1000, 5);
            assert_eq!(t.expires(), Some(5 + 1000 * divisor), "divide {register:#b}");
            assert_eq!(t.current(5), 1000);
            assert_eq!(t.current(5 + 400 * divisor), 600);
            assert_eq!(t.current(5 + 1000 * divisor - 1), 1);
            assert_eq!(t.current(5 + 1000 * divisor), 0);
        }
    }

    #[test]
    fn one_shot_expires_once() {
        let mut t = timer(TimerMode::OneShot);
        t.set_initial(10, 0);
        assert!(!t.expire(19));
        assert!(t.expire(20));
        assert!(!t.expire(1_000_000));
        assert_eq!((t.current(30), t.initial()), (0, 10));
    }

    #[test]
    fn periodic_keeps_its_phase_when_it_is_late() {
        let mut t = timer(TimerMode::Periodic);
        t.set_initial(50_000, 0);
        assert!(t.expire(100_007));
        assert_eq!(t.expires(), Some(200_000));
        assert_eq!(t.current(199_990), 5);
        assert_eq!(t.current(200_010), 49_995);
        assert!(t.expire(530_000));
        assert_eq!(t.expires(), Some(600_000));
    }

    #[test]
    fn a_tiny_period_does_not_storm() {
        let mut t = timer(TimerMode::Periodic);
        t.set_divide(DIVIDE_BITS, 0);
        t.set_initial(1, 0);
        assert!(t.expire(1000));
        assert!(t.expires().is_some_and(|at| at > 1000 + 1_000_000 / MAX_TICKS_PER_MS));
    }

    #[test]
    fn a_new_divisor_scales_what_is_left() {
        let mut t = timer(TimerMode::OneShot);
        t.set_initial(1000, 0);
        t.set_divide(1, 1000);
        assert_eq!((t.current(1000), t.expires()), (500, Some(1000 + 500 * 4)));
    }

    #[test]
    fn a_deadline_is_disarmed_by_zero_by_expiry_and_by_a_change_of_mode() {
        let mut t = timer(TimerMode::TscDeadline);
        t.set_initial(77, 0);
        assert_eq!((t.initial(), t.expires()), (0, None));
        t.set_deadline(500);
        assert_eq!((t.deadline_msr(499), t.deadline_msr(500), t.current(0)), (500, 0, 0));
        assert!(t.expire(500) && !t.expire(501));
        t.set_deadline(900);
        t.set_deadline(0);
        assert_eq!(t.expires(), None);
        t.set_deadline(900);
        t.set_mode(TimerMode::OneShot);
        assert_eq!((t.expires(), t.deadline_msr(0)), (None, 0));
        t.set_deadline(900);
        assert_eq!(t.expires(), None);
        t.set_initial(5, 0);
        t.set_mode(TimerMode::TscDeadline);
        assert_eq!((t.expires(), t.initial()), (None, 0), "a count ends with its mode, too");
    }

    #[test]
    fn setting_the_tsc_moves_counts_but_no_deadlines() {
        let mut t = timer(TimerMode::OneShot);
        t.set_initial(10, 100);
        t.tsc_moved(1000);
        assert_eq!(t.current(1100), 10);
        t.tsc_moved(0u64.wrapping_sub(1100));
        assert_eq!(t.current(0), 10);
        let mut t = timer(TimerMode::TscDeadline);
        t.set_deadline(500);
        t.tsc_moved(1000);
        assert_eq!(t.expires(), Some(500));
    }
}
