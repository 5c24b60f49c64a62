//! Machines and boot loaders with which the hypervisor cannot start: its loader says why on the first serial port.

use super::{Reporter, Subjects, Suite};
use crate::guest::{self, hypervisor, module};
use crate::machine::{self, Boot, Content, Limits};
use abi::boot::MAX_MODULES;
use anyhow::Result;
use std::time::{Duration, Instant};

/// Wall time of one boot.
const TIME: Duration = Duration::from_secs(60);
/// Most bytes on the console.
const OUTPUT_LIMIT: usize = 1 << 20;

/// A machine, what it boots with, and what has to be said.
struct Case {
    name: &'static str,
    machine: &'static str,
    /// In MiB.
    memory: u64,
    modules: usize,
    message: &'static str,
}

const CASES: [Case; 4] = [
    Case {
        name: "no-nx",
        machine: "qemu-svm:EPYC,-nx",
        memory: guest::LEAST_MACHINE_MEMORY,
        modules: 1,
        message: "gossamer loader: no-execute pages are missing; enable",
    },
    Case {
        name: "no-long-mode",
        machine: "qemu-svm:EPYC,-lm",
        memory: guest::LEAST_MACHINE_MEMORY,
        modules: 1,
        message: "gossamer loader: ",
    },
    Case {
        name: "little-memory",
        machine: "qemu-svm",
        memory: 24,
        modules: 1,
        message: "MiB of memory usable below 4 GiB; at least 32 MiB are needed",
    },
    Case {
        name: "many-modules",
        machine: "qemu-svm",
        memory: guest::LEAST_MACHINE_MEMORY,
        modules: MAX_MODULES + 1,
        message: "more than 32 modules; load fewer",
    },
];

/// Every case.
pub struct Entry([&'static str; CASES.len()]);

impl Entry {
    /// All of them.
    pub fn new() -> Self {
        Self(CASES.map(|case| case.name))
    }
}

impl Suite for Entry {
    fn prefix(&self) -> &str {
        "entry"
    }

    fn tests(&self) -> Option<&[&str]> {
        Some(&self.0)
    }

    fn run(&self, subjects: &Subjects, reporter: &Reporter) -> Result<()> {
        for case in &CASES {
            if reporter.wants(self.prefix(), case.name) {
                let (started, mut log) = (Instant::now(), String::new());
                let result = says(case, subjects, &mut log);
                reporter.check(self.prefix(), case.name, started, result, || log);
            }
        }
        Ok(())
    }
}

/// The loader halts after its message, so that the machine does not end.
fn says(case: &Case, subjects: &Subjects, log: &mut String) -> Result<()> {
    let modules =
        (0..case.modules).map(|n| module(&format!("module-{n}"), Content::Bytes(vec![0; n + 1]))).collect();
    let boot = Boot { payload: hypervisor(subjects.image()?, modules), memory: case.memory, counting: false };
    let limits = Limits { time: Some(TIME), output: OUTPUT_LIMIT };
    let mut running = machine::by_name(case.machine)?.start(&boot, limits)?;
    let said = running.expect(case.message, TIME);
    *log = running.story();
    said.map(|_| ())
}
