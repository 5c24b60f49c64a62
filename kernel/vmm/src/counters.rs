//! How often what has happened: one increment each, always on.

use crate::exit::Exit;
use core::fmt;

const NAMES: [&str; Kind::COUNT] = [
    "CPUID",
    "HLT",
    "hypercall",
    "RDMSR",
    "WRMSR",
    "I/O",
    "MMIO",
    "external interrupt",
    "window",
    "control register",
    "exception",
    "other",
];

/// Kinds of exits that are counted apart.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Cpuid,
    Hlt,
    Hypercall,
    Rdmsr,
    Wrmsr,
    Io,
    Mmio,
    Interrupt,
    Window,
    Control,
    Exception,
    Other,
}

impl Kind {
    const COUNT: usize = Kind::Other as usize + 1;

    #[inline(always)]
    fn of(exit: Exit) -> Kind {
        match exit {
            Exit::Cpuid => Kind::Cpuid,
            Exit::Hlt => Kind::Hlt,
            Exit::Hypercall => Kind::Hypercall,
            Exit::Rdmsr => Kind::Rdmsr,
            Exit::Wrmsr => Kind::Wrmsr,
            Exit::Io(_) => Kind::Io,
            Exit::NestedFault(..) => Kind::Mmio,
            Exit::ExternalInterrupt => Kind::Interrupt,
            Exit::InterruptWindow | Exit::NmiWindow => Kind::Window,
            Exit::WriteCr(..) | Exit::ReadCr(..) | Exit::Clts | Exit::Lmsw(_) | Exit::Xsetbv => Kind::Control,
            Exit::Exception(..) => Kind::Exception,
            _ => Kind::Other,
        }
    }
}

/// The counts of one virtual CPU.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    exits: [u64; Kind::COUNT],
    /// Interrupts, NMIs and exceptions that were delivered.
    pub injected: u64,
    /// Accesses to MSRs that nobody answers.
    pub unknown_msrs: u64,
    /// TSC ticks spent in the hypervisor, idling left out; only while profiling.
    pub in_hypervisor: u64,
    /// TSC ticks spent waiting in HLT; only while profiling.
    pub idle: u64,
}

impl Counters {
    /// Counts an exit.
    #[inline(always)]
    pub fn exit(&mut self, exit: Exit) {
        self.exits[Kind::of(exit) as usize] += 1;
    }

    /// All exits.
    pub fn total(&self) -> u64 {
        self.exits.iter().sum()
    }
}

impl fmt::Display for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} exits", self.total())?;
        for (name, count) in NAMES.iter().zip(self.exits).filter(|(_, count)| *count > 0) {
            write!(f, ", {name} {count}")?;
        }
        write!(f, "; {} events delivered", self.injected)
    }
}
