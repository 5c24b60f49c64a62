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
    /// TSC ticks spent waiting in HLT.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::{Access, Io, IoForm};
    use std::string::ToString;
    use x86defs::addr::Gpa;
    use x86defs::gpr::Gpr;

    #[test]
    fn each_kind_of_exit_is_counted_under_its_name() {
        let io = Io { port: 0, width: 1, form: IoForm::empty() };
        for (exit, name) in [
            (Exit::Cpuid, "CPUID"),
            (Exit::Hlt, "HLT"),
            (Exit::Hypercall, "hypercall"),
            (Exit::Rdmsr, "RDMSR"),
            (Exit::Wrmsr, "WRMSR"),
            (Exit::Io(io), "I/O"),
            (Exit::NestedFault(Gpa(0), Access::WRITE), "MMIO"),
            (Exit::ExternalInterrupt, "external interrupt"),
            (Exit::InterruptWindow, "window"),
            (Exit::NmiWindow, "window"),
            (Exit::WriteCr(0, Gpr::Rax), "control register"),
            (Exit::Xsetbv, "control register"),
            (Exit::Exception(1, 0), "exception"),
            (Exit::Pause, "other"),
        ] {
            let mut counters = Counters::default();
            counters.exit(exit);
            assert_eq!(counters.to_string(), std::format!("1 exits, {name} 1; 0 events delivered"));
        }
    }

    #[test]
    fn the_total_is_of_all_kinds() {
        let mut counters = Counters { injected: 5, ..Counters::default() };
        for exit in [Exit::Cpuid, Exit::Hlt, Exit::Cpuid] {
            counters.exit(exit);
        }
        assert_eq!(counters.total(), 3);
        assert_eq!(counters.to_string(), "3 exits, CPUID 2, HLT 1; 5 events delivered");
    }
}
