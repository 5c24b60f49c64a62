//! One counter of the 8254. Its state is when it began and from what; where it stands is computed when
//! somebody looks. Time is in ticks of the input clock.

use super::spec::{ACCESS_LATCH, ACCESS_MASK, ACCESS_SHIFT, Access, BCD, MODE_SHIFT, Mode, Status};

/// The smallest count that the periodic modes take; a smaller one is a count of this.
const SMALLEST_PERIOD: u32 = 2;

/// The counting element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Run {
    /// It has no count yet, or waits for a trigger.
    Idle,
    /// The count was loaded at this tick, or it is as if.
    Since(u64),
    /// GATE stopped it when so many ticks had passed.
    Stopped(u64),
}

/// A counter.
#[derive(Clone, Debug)]
pub(super) struct Counter {
    access: Access,
    mode: Mode,
    bcd: bool,
    gate: bool,
    run: Run,
    /// The count that the counting element was loaded with, 1 to 65536.
    count: u32,
    /// The count that the next cycle or trigger loads.
    next: Option<u32>,
    /// First byte of a two-byte count.
    written_low: Option<u8>,
    /// The next read gives the high byte.
    reads_high: bool,
    latched_count: Option<u16>,
    latched_status: Option<u8>,
}

impl Counter {
    /// A counter in mode 3 with the full count, running since tick 0, as a PC's firmware leaves the first.
    pub(super) fn new(gate: bool) -> Counter {
        Counter {
            access: Access::LowThenHigh,
            mode: Mode::SquareWave,
            bcd: false,
            gate,
            run: if gate { Run::Since(0) } else { Run::Stopped(0) },
            count: 1 << 16,
            next: None,
            written_low: None,
            reads_high: false,
            latched_count: None,
            latched_status: None,
        }
    }

    /// The range of the counting element: it wraps here.
    fn modulus(&self) -> u32 {
        if self.bcd { 10_000 } else { 1 << 16 }
    }

    /// Ticks since the count was loaded.
    fn elapsed(&self, now: u64) -> u64 {
        match self.run {
            Run::Idle => 0,
            Run::Since(start) => now.saturating_sub(start),
            Run::Stopped(elapsed) => elapsed,
        }
    }

    /// Lets a count that waited for the end of a cycle become current, and keeps `start` in the current
    /// cycle of a periodic mode.
    pub(super) fn advance(&mut self, now: u64) {
        let Run::Since(start) = self.run else { return };
        if !self.mode.is_periodic() {
            return;
        }
        let mut elapsed = now.saturating_sub(start);
        if elapsed < u64::from(self.count) {
            return;
        }
        if let Some(next) = self.next.take() {
            elapsed -= u64::from(self.count);
            self.count = next;
        }
        self.run = Run::Since(now - elapsed % u64::from(self.count));
    }

    /// Level of OUT.
    pub(super) fn out(&self, now: u64) -> bool {
        let elapsed = self.elapsed(now);
        let count = u64::from(self.count);
        match self.mode {
            Mode::InterruptOnTerminalCount => self.run != Run::Idle && elapsed >= count,
            Mode::OneShot => self.run == Run::Idle || elapsed >= count,
            // "If GATE goes low, OUT is set high immediately."
            Mode::RateGenerator | Mode::SquareWave if !matches!(self.run, Run::Since(_)) => true,
            Mode::RateGenerator => elapsed % count != count - 1,
            Mode::SquareWave => elapsed % count < count.div_ceil(2),
            Mode::SoftwareStrobe | Mode::HardwareStrobe => self.run == Run::Idle || elapsed != count,
        }
    }

    /// The next tick after `now` at which OUT rises. Call [`Counter::advance`] first.
    pub(super) fn next_rise(&self, now: u64) -> Option<u64> {
        let Run::Since(start) = self.run else { return None };
        let end = start + u64::from(self.count);
        match self.mode {
            Mode::RateGenerator | Mode::SquareWave => Some(end),
            Mode::InterruptOnTerminalCount | Mode::OneShot => (now < end).then_some(end),
            Mode::SoftwareStrobe | Mode::HardwareStrobe => (now <= end).then_some(end + 1),
        }
    }

    /// Rises come again and again by themselves.
    pub(super) fn is_periodic(&self) -> bool {
        self.mode.is_periodic()
    }

    /// What the counting element holds.
    fn value(&self, now: u64) -> u16 {
        let elapsed = self.elapsed(now);
        let count = self.count;
        let value = match self.mode {
            Mode::RateGenerator => count - (elapsed % u64::from(count)) as u32,
            Mode::SquareWave => {
                let phase = (elapsed % u64::from(count)) as u32;
                let high = count.div_ceil(2);
                (count & !1) - 2 * if phase < high { phase } else { phase - high }
            }
            _ => {
                let modulus = self.modulus();
                (count + modulus - (elapsed % u64::from(modulus)) as u32) % modulus
            }
        };
        if self.bcd { to_bcd(value) } else { value as u16 }
    }

    /// A control word for this counter.
    pub(super) fn control(&mut self, word: u8, now: u64) {
        let access = (word >> ACCESS_SHIFT) & ACCESS_MASK;
        if access == ACCESS_LATCH {
            self.latch_count(now);
            return;
        }
        *self = Counter {
            access: Access::new(access),
            mode: Mode::new(word >> MODE_SHIFT),
            bcd: word & BCD != 0,
            run: Run::Idle,
            ..Counter::new(self.gate)
        };
    }

    /// Counter latch command. "Subsequent latch commands are ignored until the count is read."
    pub(super) fn latch_count(&mut self, now: u64) {
        if self.latched_count.is_none() {
            self.latched_count = Some(self.value(now));
        }
    }

    /// The status part of a read-back command.
    pub(super) fn latch_status(&mut self, now: u64) {
        if self.latched_status.is_some() {
            return;
        }
        let mut status = Status::empty();
        status.set(Status::OUT, self.out(now));
        status.set(Status::NULL_COUNT, self.next.is_some() || self.run == Run::Idle);
        let control =
            (self.access as u8) << ACCESS_SHIFT | (self.mode as u8) << MODE_SHIFT | u8::from(self.bcd);
        self.latched_status = Some(status.bits() | control);
    }

    /// Reads the counter's port.
    pub(super) fn read(&mut self, now: u64) -> u8 {
        if let Some(status) = self.latched_status.take() {
            return status;
        }
        let [low, high] = self.latched_count.unwrap_or_else(|| self.value(now)).to_le_bytes();
        let is_high = match self.access {
            Access::Low => false,
            Access::High => true,
            Access::LowThenHigh => {
                self.reads_high = !self.reads_high;
                !self.reads_high
            }
        };
        if !self.reads_high {
            self.latched_count = None;
        }
        if is_high { high } else { low }
    }

    /// Writes the counter's port.
    pub(super) fn write(&mut self, byte: u8, now: u64) {
        let count = match self.access {
            Access::Low => u16::from(byte),
            Access::High => u16::from(byte) << 8,
            Access::LowThenHigh => match self.written_low.take() {
                Some(low) => u16::from_le_bytes([low, byte]),
                None => {
                    self.written_low = Some(byte);
                    if self.mode == Mode::InterruptOnTerminalCount {
                        // "Writing the first byte disables counting. OUT is set low immediately."
                        self.run = Run::Idle;
                    }
                    return;
                }
            },
        };
        self.load(count, now);
    }

    /// A complete count has been written. It is loaded one clock later, in a periodic mode that is under way
    /// at the end of the cycle, in modes 1 and 5 by the next trigger.
    fn load(&mut self, written: u16, now: u64) {
        let mut count = if self.bcd { from_bcd(written) } else { u32::from(written) };
        if count == 0 {
            count = self.modulus();
        }
        if self.mode.is_periodic() {
            count = count.max(SMALLEST_PERIOD);
        }
        let waits = self.mode.needs_trigger() || (self.mode.is_periodic() && self.run != Run::Idle);
        if waits {
            self.next = Some(count);
            return;
        }
        self.count = count;
        self.run = if self.gate { Run::Since(now + 1) } else { Run::Stopped(0) };
    }

    /// Drives GATE.
    pub(super) fn set_gate(&mut self, gate: bool, now: u64) {
        let was = core::mem::replace(&mut self.gate, gate);
        if gate && !was {
            self.gate_rises(now);
        } else if was && !gate && !self.mode.needs_trigger() && self.run != Run::Idle {
            self.run = Run::Stopped(self.elapsed(now));
        }
    }

    /// Modes 0 and 4 go on, the others begin with a full count.
    fn gate_rises(&mut self, now: u64) {
        match (self.mode, self.run) {
            (Mode::InterruptOnTerminalCount | Mode::SoftwareStrobe, Run::Stopped(elapsed)) => {
                self.run = Run::Since(now.saturating_sub(elapsed));
            }
            (Mode::OneShot | Mode::HardwareStrobe, _) if self.run != Run::Idle || self.next.is_some() => {
                self.trigger(now);
            }
            (Mode::RateGenerator | Mode::SquareWave, Run::Stopped(_)) => self.trigger(now),
            _ => {}
        }
    }

    fn trigger(&mut self, now: u64) {
        self.count = self.next.take().unwrap_or(self.count);
        self.run = Run::Since(now + 1);
    }
}

/// Four decimal digits, each in four bits; a digit above nine counts what it says.
fn from_bcd(value: u16) -> u32 {
    (0..4).rev().fold(0, |sum, digit| sum * 10 + u32::from((value >> (4 * digit)) & 0xf))
}

fn to_bcd(value: u32) -> u16 {
    let digit = |weight: u32| (value / weight % 10) as u16;
    digit(1000) << 12 | digit(100) << 8 | digit(10) << 4 | digit(1)
}
