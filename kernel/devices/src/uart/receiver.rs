//! The receiving half: buffer register or FIFO, trigger level, time-out and overrun.

use crate::effects::Nanos;
use crate::fifo::{FIFO_SIZE, Fifo};

/// The receiver. Without the FIFO it has room for one byte.
#[derive(Clone, Debug)]
pub(super) struct Receiver {
    bytes: Fifo,
    fifo_enabled: bool,
    trigger: usize,
    overrun: bool,
    /// When a byte last came or went.
    touched: Nanos,
    timed_out: bool,
    /// What RBR holds when nothing new has come.
    last: u8,
}

impl Default for Receiver {
    fn default() -> Receiver {
        Receiver {
            bytes: Fifo::default(),
            fifo_enabled: false,
            trigger: 1,
            overrun: false,
            touched: Nanos(0),
            timed_out: false,
            last: 0,
        }
    }
}

impl Receiver {
    pub(super) fn fifo_enabled(&self) -> bool {
        self.fifo_enabled
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.len() == 0
    }

    pub(super) fn has_room(&self) -> bool {
        self.bytes.len() < if self.fifo_enabled { FIFO_SIZE } else { 1 }
    }

    pub(super) fn has_overrun(&self) -> bool {
        self.overrun
    }

    pub(super) fn clear_overrun(&mut self) {
        self.overrun = false;
    }

    pub(super) fn has_reached_trigger(&self) -> bool {
        self.bytes.len() >= if self.fifo_enabled { self.trigger } else { 1 }
    }

    pub(super) fn has_timed_out(&self) -> bool {
        self.timed_out
    }

    /// A byte has arrived. With the FIFO full it is lost; without a FIFO it replaces the one before.
    pub(super) fn push(&mut self, byte: u8, now: Nanos) {
        self.touched = now;
        if !self.has_room() {
            self.overrun = true;
            if self.fifo_enabled {
                return;
            }
            self.bytes.clear();
        }
        self.bytes.push(byte);
    }

    /// RBR is read. "When a timeout interrupt has occurred it is cleared and the timer reset when the CPU
    /// reads one character."
    pub(super) fn pop(&mut self, now: Nanos) -> u8 {
        self.touched = now;
        self.timed_out = false;
        if let Some(byte) = self.bytes.pop() {
            self.last = byte;
        }
        self.last
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.timed_out = false;
    }

    /// FCR. Changing the mode clears the FIFO; the trigger level needs the FIFO enabled.
    pub(super) fn configure(&mut self, fifo_enabled: bool, trigger: usize) {
        if fifo_enabled != self.fifo_enabled {
            self.clear();
        }
        self.fifo_enabled = fifo_enabled;
        self.trigger = trigger;
    }

    /// When the time-out has to be looked for: bytes wait below the trigger level and nobody knows.
    pub(super) fn timeout_due(&self, timeout: Nanos) -> Option<Nanos> {
        let waits = self.fifo_enabled && !self.is_empty() && !self.has_reached_trigger() && !self.timed_out;
        waits.then_some(Nanos(self.touched.0.saturating_add(timeout.0)))
    }

    pub(super) fn check_timeout(&mut self, now: Nanos, timeout: Nanos) {
        if self.timeout_due(timeout).is_some_and(|due| now >= due) {
            self.timed_out = true;
        }
    }
}
