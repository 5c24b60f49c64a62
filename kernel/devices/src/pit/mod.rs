//! The PC's 8254 programmable interval timer, with the part of port B (0x61) that belongs to it.
//!
//! Ports 0x40-0x43 are mapped at [`COUNTERS`], port 0x61 at [`PORT_B`]. `Effects::line` is OUT of counter 0
//! with a convention that saves every second host timer: `Some(true)` is a rising edge, whether or not the
//! fall before it has been reported. The caller makes it a pulse (low, then high) on the interrupt
//! controllers' inputs. `Some(false)` means that OUT is low. Edges that the host was too late for are
//! reported once.

mod counter;
mod spec;
#[cfg(test)]
mod tests;

use crate::FLOATING;
use crate::clock::Frequency;
use crate::effects::{Deadline, Device, Effects, Nanos};
use counter::Counter;
use spec::{CLOCK_HZ, PortB, ReadBack, SELECT_READ_BACK, SELECT_SHIFT};

/// Offset of counter 0; counters 1 and 2 and the control word register follow.
pub const COUNTERS: u16 = 0;
/// Offset of port B.
pub const PORT_B: u16 = 4;
/// Number of ports.
pub const PORTS: u16 = 5;
/// Registers are bytes.
pub const MAX_WIDTH: u8 = 1;

const COUNTER_1: u16 = COUNTERS + 1;
const COUNTER_2: u16 = COUNTERS + 2;
const CONTROL: u16 = COUNTERS + 3;
const CLOCK: Frequency = Frequency::from_hz(CLOCK_HZ);
/// A periodic counter causes no more than one host deadline in this time: a guest that asks for a megahertz
/// of interrupts loses edges, the host does not drown.
const SHORTEST_PERIOD: Nanos = Nanos(50_000);

/// The 8254 and port B.
#[derive(Clone, Debug)]
pub struct Pit {
    counters: [Counter; 3],
    port_b: PortB,
    /// The tick of counter 0's next rising edge that is to be reported.
    rise: Option<u64>,
}

impl Pit {
    /// Counter 0 runs with the full count in mode 3, as firmware leaves it.
    pub fn new() -> Pit {
        let counter_0 = Counter::new(true);
        let rise = counter_0.next_rise(0);
        Pit { counters: [counter_0, Counter::new(true), Counter::new(false)], port_b: PortB::empty(), rise }
    }

    fn read_port_b(&self, now: Nanos) -> u8 {
        let mut value = self.port_b;
        value.set(PortB::REFRESH, (now.0 >> PortB::REFRESH_SHIFT) & 1 != 0);
        value.set(PortB::TIMER_2_OUT, self.counters[2].out(CLOCK.ticks(now)));
        value.bits()
    }

    /// A board reports an error (IOCHK#), as its NMI button does; nothing where software has switched it off.
    pub fn channel_check(&mut self) -> Effects {
        let heard = !self.port_b.contains(PortB::CHANNEL_CHECK_OFF);
        self.port_b.set(PortB::CHANNEL_CHECK, heard);
        Effects { nmi: heard, ..Effects::NONE }
    }

    /// Whether port B asks for an NMI.
    pub fn requests_nmi(&self) -> bool {
        self.port_b.contains(PortB::CHANNEL_CHECK)
    }

    fn write_port_b(&mut self, value: u8, now: Nanos) -> Effects {
        let before = self.requests_nmi();
        let status = self.port_b & PortB::CHANNEL_CHECK;
        self.port_b = PortB::from_bits_truncate(value) & PortB::WRITABLE | status;
        if self.port_b.contains(PortB::CHANNEL_CHECK_OFF) {
            self.port_b.remove(PortB::CHANNEL_CHECK);
        }
        let tick = CLOCK.ticks(now);
        self.counters[2].advance(tick);
        self.counters[2].set_gate(self.port_b.contains(PortB::TIMER_2_GATE), tick);
        Effects { nmi: self.requests_nmi() != before, ..Effects::NONE }
    }

    fn write_control(&mut self, word: u8, now: u64) {
        let select = word >> SELECT_SHIFT;
        if select != SELECT_READ_BACK {
            self.counters[usize::from(select)].control(word, now);
            return;
        }
        let command = ReadBack::from_bits_truncate(word);
        for (index, counter) in self.counters.iter_mut().enumerate() {
            if word & (2 << index) == 0 {
                continue;
            }
            if !command.contains(ReadBack::NOT_COUNT) {
                counter.latch_count(now);
            }
            if !command.contains(ReadBack::NOT_STATUS) {
                counter.latch_status(now);
            }
        }
    }

    /// Does something to the counters and reports what it means for OUT of counter 0.
    fn change(&mut self, now: Nanos, action: impl FnOnce(&mut Pit, u64)) -> Effects {
        let tick = CLOCK.ticks(now);
        let missed = self.rise.is_some_and(|rise| rise <= tick);
        for counter in &mut self.counters {
            counter.advance(tick);
        }
        let before = self.counters[0].out(tick);
        action(self, tick);
        let after = self.counters[0].out(tick);
        let line = match (before, after) {
            (true, false) => Some(false),
            (false, true) => Some(true),
            _ => missed.then_some(true),
        };
        Effects { line, deadline: self.next_deadline(tick), ..Effects::NONE }
    }

    fn next_deadline(&mut self, tick: u64) -> Deadline {
        let counter = &self.counters[0];
        self.rise = counter.next_rise(tick);
        let Some(rise) = self.rise else { return Deadline::Never };
        let mut at = CLOCK.time_of(rise);
        if counter.is_periodic() {
            at = at.max(Nanos(CLOCK.time_of(tick).0.saturating_add(SHORTEST_PERIOD.0)));
        }
        Deadline::At(at)
    }
}

impl Default for Pit {
    fn default() -> Self {
        Self::new()
    }
}

impl Device for Pit {
    fn read(&mut self, offset: u16, _width: u8, now: Nanos) -> (u32, Effects) {
        let value = match offset {
            PORT_B => self.read_port_b(now),
            COUNTERS..=COUNTER_2 => {
                let tick = CLOCK.ticks(now);
                let counter = &mut self.counters[usize::from(offset - COUNTERS)];
                counter.advance(tick);
                counter.read(tick)
            }
            // The control word register is write-only, and there is nothing beyond port B.
            _ => return (FLOATING, Effects::NONE),
        };
        (value.into(), Effects::NONE)
    }

    fn write(&mut self, offset: u16, _width: u8, value: u32, now: Nanos) -> Effects {
        let value = value as u8;
        match offset {
            PORT_B => self.write_port_b(value, now),
            CONTROL => self.change(now, |pit, tick| pit.write_control(value, tick)),
            COUNTERS => self.change(now, |pit, tick| pit.counters[0].write(value, tick)),
            COUNTER_1 | COUNTER_2 => {
                let tick = CLOCK.ticks(now);
                let counter = &mut self.counters[usize::from(offset - COUNTERS)];
                counter.advance(tick);
                counter.write(value, tick);
                Effects::NONE
            }
            _ => Effects::NONE,
        }
    }

    fn tick(&mut self, now: Nanos) -> Effects {
        self.change(now, |_, _| {})
    }
}
