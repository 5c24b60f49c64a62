//! How everybody else reaches a virtual CPU's local APIC: they post here, and its owner drains.

use super::ipi::Address;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Outstanding notification (SDM 3, table 30-1): bit 256 of the descriptor.
const ON: u64 = 1 << 0;

/// Edge-like signals are cleared by the drain; lines keep their level.
const NMI: u32 = 1 << 0;
const INIT: u32 = 1 << 1;
const STARTUP: u32 = 1 << 2;
const SIGNALS: u32 = NMI | INIT | STARTUP | STARTUP_VECTOR;
const LINE0: u32 = 1 << 4;
const LINE1: u32 = 1 << 5;
const STARTUP_VECTOR: u32 = 0xff << STARTUP_SHIFT;
const STARTUP_SHIFT: u32 = 8;

/// A local interrupt input of the APIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// LINT0, where the 8259 pair's INTR output is wired.
    Lint0,
    /// LINT1, where NMI is wired.
    Lint1,
}

/// Posted interrupts of one virtual CPU, lock-free. The first 64 bytes have the layout of a posted-interrupt
/// descriptor (SDM 3, 30.6), whose trigger modes have to be kept beside it.
///
/// Every `post` returns whether the owner has to be told (hazard bit and kick): not if mail was waiting.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Mailbox {
    requests: [AtomicU64; 4],
    notification: AtomicU64,
    reserved: [AtomicU64; 3],
    level: [AtomicU64; 4],
    address: AtomicU64,
    signals: AtomicU32,
}

/// What a drain found apart from vectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mail {
    pub(super) requests: [u64; 4],
    pub(super) level: [u64; 4],
    pub(super) nmi: bool,
    pub(super) init: bool,
    pub(super) startup: Option<u8>,
    pub(super) lint0: bool,
    pub(super) lint1: bool,
}

impl Mailbox {
    /// An empty mailbox of a CPU that nothing is addressed to yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Posts an interrupt.
    #[must_use]
    pub fn post(&self, vector: u8, level: bool) -> bool {
        let (word, bit) = (usize::from(vector >> 6), 1u64 << (vector & 63));
        let was_level = self.level[word].load(Ordering::Relaxed) & bit != 0;
        if level != was_level {
            self.level[word].fetch_xor(bit, Ordering::Relaxed);
        }
        self.requests[word].fetch_or(bit, Ordering::Release);
        self.notify()
    }

    /// Posts a non-maskable interrupt.
    #[must_use]
    pub fn post_nmi(&self) -> bool {
        self.signals.fetch_or(NMI, Ordering::Release);
        self.notify()
    }

    /// Posts an INIT.
    #[must_use]
    pub fn post_init(&self) -> bool {
        self.signals.fetch_or(INIT, Ordering::Release);
        self.notify()
    }

    /// Posts a startup IPI; of several the last counts.
    #[must_use]
    pub fn post_startup(&self, vector: u8) -> bool {
        let new = STARTUP | u32::from(vector) << STARTUP_SHIFT;
        let mut seen = self.signals.load(Ordering::Relaxed);
        while let Err(now) = self.signals.compare_exchange_weak(
            seen,
            seen & !STARTUP_VECTOR | new,
            Ordering::Release,
            Ordering::Relaxed,
        ) {
            seen = now;
        }
        self.notify()
    }

    /// Sets the level of a local interrupt input.
    #[must_use]
    pub fn set_line(&self, line: Line, high: bool) -> bool {
        let bit = match line {
            Line::Lint0 => LINE0,
            Line::Lint1 => LINE1,
        };
        let before = match high {
            true => self.signals.fetch_or(bit, Ordering::Release),
            false => self.signals.fetch_and(!bit, Ordering::Release),
        };
        (before & bit != 0) != high && self.notify()
    }

    /// Whether there is something to drain.
    pub fn has_mail(&self) -> bool {
        self.notification.load(Ordering::Relaxed) & ON != 0
    }

    /// The address under which interrupts reach this CPU.
    pub fn address(&self) -> Address {
        Address::from_bits(self.address.load(Ordering::Acquire))
    }

    /// Makes a new address known; done by the owner.
    pub fn publish(&self, address: Address) {
        self.address.store(address.bits(), Ordering::Release);
    }

    /// ON is set after what it announces, and cleared before that is taken: nothing is lost between.
    fn notify(&self) -> bool {
        self.notification.fetch_or(ON, Ordering::AcqRel) & ON == 0
    }

    pub(super) fn drain(&self) -> Option<Mail> {
        if !self.has_mail() {
            return None;
        }
        self.notification.fetch_and(!ON, Ordering::AcqRel);
        let signals = self.signals.fetch_and(!SIGNALS, Ordering::AcqRel);
        let mut mail = Mail {
            nmi: signals & NMI != 0,
            init: signals & INIT != 0,
            startup: (signals & STARTUP != 0).then_some((signals >> STARTUP_SHIFT) as u8),
            lint0: signals & LINE0 != 0,
            lint1: signals & LINE1 != 0,
            ..Mail::default()
        };
        for word in 0..4 {
            if self.requests[word].load(Ordering::Relaxed) != 0 {
                mail.requests[word] = self.requests[word].swap(0, Ordering::AcqRel);
                mail.level[word] = self.level[word].load(Ordering::Relaxed) & mail.requests[word];
            }
        }
        Some(mail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::mem::offset_of;

    #[test]
    fn the_layout_is_that_of_a_posted_interrupt_descriptor() {
        assert_eq!(offset_of!(Mailbox, requests), 0);
        assert_eq!(offset_of!(Mailbox, notification), 32);
        assert_eq!(offset_of!(Mailbox, level), 64);
        assert_eq!(align_of::<Mailbox>(), 64);
        let m = Mailbox::new();
        assert!(m.post(0x41, false));
        assert_eq!(m.requests[1].load(Ordering::Relaxed), 2);
        assert_eq!(m.notification.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn only_the_first_post_asks_for_a_kick() {
        let m = Mailbox::new();
        assert!(!m.has_mail() && m.drain().is_none());
        assert!(m.post(0x30, true));
        assert!(!m.post(0xff, false) && !m.post_nmi() && !m.post_startup(0x9a));
        let mail = m.drain().expect("mail");
        assert_eq!(mail.requests, [1 << 0x30, 0, 0, 1 << 63]);
        assert_eq!(mail.level, [1 << 0x30, 0, 0, 0]);
        assert!(mail.nmi && !mail.init);
        assert_eq!(mail.startup, Some(0x9a));
        assert!(m.drain().is_none());
        assert!(m.post(0x30, false), "empty again, so the owner must be told");
        assert_eq!(m.drain().expect("mail").level, [0; 4]);
    }

    #[test]
    fn lines_keep_their_level_and_tell_changes_only() {
        let m = Mailbox::new();
        assert!(m.set_line(Line::Lint0, true));
        assert!(m.drain().expect("mail").lint0);
        assert!(!m.set_line(Line::Lint0, true) && m.drain().is_none());
        assert!(m.post_init());
        let mail = m.drain().expect("mail");
        assert!(mail.lint0 && mail.init && !mail.lint1);
        assert!(m.set_line(Line::Lint0, false));
        assert!(!m.drain().expect("mail").lint0);
    }

    #[test]
    fn nothing_is_lost_between_threads() {
        let m = Mailbox::new();
        let rounds = 20_000;
        let done = core::sync::atomic::AtomicU32::new(0);
        let mut seen = 0u64;
        std::thread::scope(|s| {
            s.spawn(|| {
                for _ in 0..rounds {
                    while done.load(Ordering::Acquire) == 1 {
                        std::thread::yield_now();
                    }
                    done.store(1, Ordering::Release);
                    let _kick = m.post(0x55, false);
                }
            });
            while seen < rounds {
                match m.drain() {
                    Some(mail) if mail.requests[1] != 0 => {
                        seen += 1;
                        done.store(0, Ordering::Release);
                    }
                    _ => std::thread::yield_now(),
                }
            }
        });
        assert_eq!(seen, rounds);
    }
}
