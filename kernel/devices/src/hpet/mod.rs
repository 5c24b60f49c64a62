//! High precision event timers: a 64-bit counter of 100 MHz and three timers that compare with it.
//!
//! The counter is computed from the machine's time when somebody looks. It has no FSB interrupts. Its interrupts
//! leave by pins of the I/O APIC, or with legacy replacement by ISA lines 0 and 8, from which the 8254 and the
//! clock are then disconnected; hence it has [`Effects`] of its own.

mod spec;
#[cfg(test)]
mod tests;
mod timer;

use crate::clock::Frequency;
use crate::effects::{Deadline, Nanos};
use spec::{
    CLOCK_HZ, GCAP_ID, GEN_CONF, GINTR_STA, GenConf, MAIN_CNT, TIM_COMP, TIM_CONF, TIMER_STRIDE, TIMERS_FIRST,
};
use timer::Timer;

const TIMERS: usize = 3;
/// Bytes of registers.
pub const SIZE: u16 = 0x400;
/// The general capabilities and ID register; the ACPI table repeats its low half.
pub const CAPABILITIES: u64 = spec::capabilities(TIMERS);
/// The shortest period in ticks that loses no interrupts: a guest that asks for less loses some, the host does not
/// drown.
pub const SHORTEST_PERIOD: u64 = 5_000;

const CLOCK: Frequency = Frequency::from_hz(CLOCK_HZ);
/// The ISA lines of timers 0 and 1 with legacy replacement.
const LEGACY_LINES: [u32; 2] = [1 << 0, 1 << 8];

/// Interrupt lines, bit by bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// Lines that fall and rise: one edge each.
    pub edges: u32,
    /// Lines whose level has changed.
    pub changed: u32,
    /// The levels.
    pub levels: u32,
}

impl Lines {
    /// Changes the levels and starts anew.
    fn set(&mut self, levels: u32, edges: u32) {
        *self = Lines { edges, changed: self.levels ^ levels, levels };
    }
}

/// What an access to the timers, or the passing of time, has caused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// Pins of the I/O APIC.
    pub pins: Lines,
    /// ISA lines.
    pub isa: Lines,
    /// Legacy replacement has become this.
    pub legacy: Option<bool>,
    /// When the timers want to be called next.
    pub deadline: Deadline,
}

/// The timers.
#[derive(Clone, Debug)]
pub struct Hpet {
    config: GenConf,
    status: u64,
    timers: [Timer; TIMERS],
    counter: u64,
    /// The machine's time, in ticks, at which the counter was as above.
    seen: u64,
    pins: Lines,
    isa: Lines,
}

impl Hpet {
    /// After reset: halted.
    pub fn new() -> Hpet {
        Hpet {
            config: GenConf::empty(),
            status: 0,
            timers: core::array::from_fn(|_| Timer::new()),
            counter: 0,
            seen: 0,
            pins: Lines::default(),
            isa: Lines::default(),
        }
    }

    /// Reads from the byte that `offset` names to the end of its register.
    pub fn read(&mut self, offset: u16, now: Nanos) -> (u64, Effects) {
        let matched = self.advance(now);
        // Nearly always none: a reader of the counter must not cost a slow path.
        let effects = if matched == 0 { Effects::default() } else { self.effects(self.edges(matched)) };
        (self.register(offset & !7) >> (8 * (offset & 7)), effects)
    }

    /// Writes a register or a half of it, as `width` says; narrower accesses are dropped (2.3.1).
    pub fn write(&mut self, offset: u16, width: u8, value: u64, now: Nanos) -> Effects {
        let (value, written) = match (width, offset & 7) {
            (8, 0) => (value, u64::MAX),
            (4, shift @ (0 | 4)) => (value << (8 * shift), u64::from(u32::MAX) << (8 * shift)),
            _ => return Effects::default(),
        };
        let before = self.config;
        let mut effects = self.change(now, |hpet| hpet.set_register(offset & !7, value, written));
        if (before ^ self.config).contains(GenConf::LEG_RT_CNF) {
            effects.legacy = Some(self.config.contains(GenConf::LEG_RT_CNF));
        }
        effects
    }

    /// Time has come to `now`.
    pub fn tick(&mut self, now: Nanos) -> Effects {
        self.change(now, |_| {})
    }

    fn register(&self, register: u16) -> u64 {
        match register {
            GCAP_ID => CAPABILITIES,
            GEN_CONF => self.config.bits(),
            GINTR_STA => self.status,
            MAIN_CNT => self.counter,
            _ => match timer_register(register) {
                Some((n, TIM_CONF)) => self.timers[n].config(),
                Some((n, TIM_COMP)) => self.timers[n].comparator(),
                // FSB interrupts, and registers that do not exist, are zero.
                _ => 0,
            },
        }
    }

    fn set_register(&mut self, register: u16, value: u64, written: u64) {
        let merged = self.register(register) & !written | value & written;
        match register {
            GEN_CONF => self.config = GenConf::from_bits_truncate(merged),
            // Written ones clear.
            GINTR_STA => self.status &= !(value & written),
            // Undefined while it runs (2.3.7): nothing happens.
            MAIN_CNT if !self.runs() => self.counter = merged,
            _ => match timer_register(register) {
                Some((n, TIM_CONF)) => {
                    self.timers[n].set_config(merged);
                    if !self.timers[n].is_level() {
                        // "If set to edge-triggered mode, this bit should be ignored": it reads as zero.
                        self.status &= !(1 << n);
                    }
                }
                Some((n, TIM_COMP)) => self.timers[n].set_comparator(value, written),
                _ => {}
            },
        }
    }

    fn runs(&self) -> bool {
        self.config.contains(GenConf::ENABLE_CNF)
    }

    /// Brings the counter up to date, does something to the registers, and reports what came of both.
    fn change(&mut self, now: Nanos, action: impl FnOnce(&mut Hpet)) -> Effects {
        let matched = self.advance(now);
        // An edge leaves by the wire that the timer had then.
        let edges = self.edges(matched);
        action(self);
        self.effects(edges)
    }

    /// Drives the lines, given the edges on pins and on ISA lines.
    fn effects(&mut self, edges: (u32, u32)) -> Effects {
        let (pins, isa) = self.wires(|n| self.status & 1 << n != 0 && self.timers[n].is_enabled());
        self.pins.set(pins, edges.0);
        self.isa.set(isa, edges.1);
        Effects { pins: self.pins, isa: self.isa, legacy: None, deadline: self.deadline() }
    }

    /// The pins and ISA lines on which timers that have matched give an edge.
    fn edges(&self, matched: u64) -> (u32, u32) {
        let gives = |n: usize| !self.timers[n].is_level() && self.timers[n].is_enabled();
        self.wires(|n| matched & 1 << n != 0 && gives(n))
    }

    /// Lets the counter go on. Returns the timers, bit by bit, that have matched.
    fn advance(&mut self, now: Nanos) -> u64 {
        let ticks = CLOCK.ticks(now).saturating_sub(self.seen);
        self.seen += ticks;
        if !self.runs() {
            return 0;
        }
        let mut matched = 0;
        for (n, timer) in self.timers.iter_mut().enumerate() {
            if timer.pass(self.counter, ticks) {
                matched |= 1 << n;
                self.status |= u64::from(timer.is_level()) << n;
            }
        }
        self.counter = self.counter.wrapping_add(ticks);
        matched
    }

    /// The I/O APIC pins and the ISA lines that the chosen timers drive.
    fn wires(&self, chosen: impl Fn(usize) -> bool) -> (u32, u32) {
        let replaces = self.config.contains(GenConf::LEG_RT_CNF);
        (0..TIMERS).filter(|&n| chosen(n)).fold((0, 0), |(pins, isa), n| match LEGACY_LINES.get(n) {
            Some(line) if replaces => (pins, isa | line),
            _ => (pins | self.timers[n].pin(), isa),
        })
    }

    /// When a timer that can interrupt matches next.
    fn deadline(&self) -> Deadline {
        if !self.runs() {
            return Deadline::Never;
        }
        let waits = |n: usize| self.timers[n].is_enabled() && self.status & 1 << n == 0;
        let next = (0..TIMERS).filter(|&n| waits(n)).filter_map(|n| {
            let timer = &self.timers[n];
            let ticks = timer.distance(self.counter)?;
            Some(if timer.drowns() { ticks.max(SHORTEST_PERIOD) } else { ticks })
        });
        next.min()
            .map_or(Deadline::Never, |ticks| Deadline::At(CLOCK.time_of(self.seen.saturating_add(ticks))))
    }
}

impl Default for Hpet {
    fn default() -> Self {
        Self::new()
    }
}

/// The timer that a register belongs to, and which of its registers it is.
fn timer_register(register: u16) -> Option<(usize, u16)> {
    let offset = register.checked_sub(TIMERS_FIRST)?;
    let n = usize::from(offset / TIMER_STRIDE);
    (n < TIMERS).then_some((n, offset % TIMER_STRIDE))
}
