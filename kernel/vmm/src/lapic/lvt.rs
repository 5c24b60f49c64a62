//! The local vector table and the two interrupt inputs (SDM 3, 11.5.1).

use super::{ApicMode, Lapic, Line};
use x86defs::apic::{DeliveryMode, Esr, FIRST_LEGAL_VECTOR, Lvt, TimerMode, reg};

/// The entries in the order of their registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    Timer,
    Thermal,
    Performance,
    Lint0,
    Lint1,
    Error,
}

/// Number of entries; there is none for corrected machine checks.
pub(super) const ENTRIES: usize = 6;

impl Entry {
    /// The entry with this register, which is one of LVT_TIMER to LVT_ERROR.
    pub(super) const fn at(register: u16) -> Option<Self> {
        match register {
            reg::LVT_TIMER => Some(Self::Timer),
            reg::LVT_THERMAL => Some(Self::Thermal),
            reg::LVT_PERFORMANCE => Some(Self::Performance),
            reg::LVT_LINT0 => Some(Self::Lint0),
            reg::LVT_LINT1 => Some(Self::Lint1),
            reg::LVT_ERROR => Some(Self::Error),
            _ => None,
        }
    }

    /// The bits that software can set (SDM 3, figure 11-8).
    pub(super) const fn writable(self) -> Lvt {
        let common = Lvt::VECTOR.union(Lvt::MASKED);
        match self {
            Self::Timer => common.union(Lvt::TIMER_MODE),
            Self::Thermal | Self::Performance => common.union(Lvt::DELIVERY_MODE),
            Self::Lint0 | Self::Lint1 => {
                common.union(Lvt::DELIVERY_MODE).union(Lvt::ACTIVE_LOW).union(Lvt::LEVEL)
            }
            Self::Error => common,
        }
    }
}

impl Lapic {
    pub(super) fn lvt(&self, entry: Entry) -> Lvt {
        self.lvt[entry as usize]
    }

    /// Writes an entry; while the APIC is software-disabled the mask bit cannot be cleared (SDM 3, 11.4.7.2).
    pub(super) fn set_lvt(&mut self, entry: Entry, value: u32, now: u64) {
        let old = self.lvt(entry);
        let mut new = Lvt::from_bits_truncate(value) & entry.writable() | old & Lvt::REMOTE_IRR;
        if !self.software_enabled() {
            new |= Lvt::MASKED;
        }
        match entry {
            Entry::Timer => {
                self.tick(now);
                self.timer.set_mode(TimerMode::of(new));
                self.lvt[Entry::Timer as usize] = new;
            }
            _ => {
                self.lvt[entry as usize] = new;
                self.settle_level_inputs();
            }
        }
    }

    pub(super) fn mask_all_lvts(&mut self) {
        for lvt in &mut self.lvt {
            *lvt |= Lvt::MASKED;
        }
    }

    /// Records an error, and raises the error interrupt if it is wanted. A reserved vector there cannot be
    /// reported by itself.
    #[cold]
    pub(super) fn error(&mut self, error: Esr) {
        self.esr_pending |= error;
        let lvt = self.lvt(Entry::Error);
        let vector = lvt.bits() as u8;
        if !lvt.contains(Lvt::MASKED) && vector >= FIRST_LEGAL_VECTOR {
            self.request(vector, false);
        }
    }

    /// Sets the level of an input. With the APIC globally disabled LINT0 is the CPU's INTR pin and LINT1 its
    /// NMI pin.
    pub(super) fn set_line(&mut self, line: Line, high: bool) {
        let (index, entry) = Self::input(line);
        let rises = high && !self.lines[index];
        self.lines[index] = high;
        if !rises {
            return;
        }
        let lvt = self.lvt(entry);
        match DeliveryMode::of(lvt.bits()) {
            _ if self.mode == ApicMode::Disabled => self.nmi |= line == Line::Lint1,
            _ if lvt.contains(Lvt::MASKED) => {}
            DeliveryMode::Nmi => self.nmi = true,
            DeliveryMode::Fixed if !lvt.contains(Lvt::LEVEL) => self.accept(lvt.bits() as u8, false),
            _ => self.settle_level_inputs(),
        }
    }

    /// A level-triggered input in fixed mode interrupts while it is high and its last interrupt is over, which
    /// remote IRR tells.
    pub(super) fn settle_level_inputs(&mut self) {
        let armed = Lvt::LEVEL; // fixed delivery is zero
        let decides = Lvt::LEVEL | Lvt::DELIVERY_MODE | Lvt::MASKED | Lvt::REMOTE_IRR;
        for line in [Line::Lint0, Line::Lint1] {
            let (index, entry) = Self::input(line);
            if self.lines[index] && self.lvt(entry) & decides == armed {
                self.lvt[entry as usize] |= Lvt::REMOTE_IRR;
                self.accept(self.lvt(entry).bits() as u8, true);
            }
        }
    }

    /// The interrupt with this vector is over: level-triggered inputs that raised it may do so again.
    pub(super) fn end_level_inputs(&mut self, vector: u8) {
        for entry in [Entry::Lint0, Entry::Lint1] {
            let lvt = &mut self.lvt[entry as usize];
            if lvt.contains(Lvt::REMOTE_IRR) && lvt.bits() as u8 == vector {
                lvt.remove(Lvt::REMOTE_IRR);
            }
        }
        self.settle_level_inputs();
    }

    /// Whether the 8259 pair asks for an acknowledge cycle and is let through: LINT0 in ExtINT mode, or no
    /// APIC between.
    pub fn ext_int_pending(&self) -> bool {
        let lvt = self.lvt(Entry::Lint0);
        let passes = !lvt.contains(Lvt::MASKED) && DeliveryMode::of(lvt.bits()) == DeliveryMode::ExtInt;
        self.lines[0] && (passes || self.mode == ApicMode::Disabled)
    }

    const fn input(line: Line) -> (usize, Entry) {
        match line {
            Line::Lint0 => (0, Entry::Lint0),
            Line::Lint1 => (1, Entry::Lint1),
        }
    }
}
