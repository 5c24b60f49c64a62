//! Guests that end in the ways of kernels written for emulators: the hypervisor says which it was. One boot runs
//! a virtual machine for each.

use super::{Reporter, Subjects, Suite};
use crate::guest::{self, module};
use crate::machine::{self, Boot, Content, Ending, Limits, Payload};
use crate::testing::linux::HYPERVISOR;
use anyhow::{Context, Result, ensure};
use guestboot::modules::CONFIG_NAME;
use std::fmt::Write;
use std::time::{Duration, Instant};

/// Wall time of the boot on the fastest machine.
const TIME: Duration = Duration::from_secs(60);
/// Most bytes on the console.
const OUTPUT_LIMIT: usize = 1 << 20;
const KERNEL: &str = "guest-tests";

/// A virtual machine: the test's name is its own.
struct Case {
    name: &'static str,
    /// How the guest switches off (`guest-tests/src/power.rs`).
    way: &'static str,
    /// Lines of its configuration.
    settings: &'static str,
    /// What the hypervisor says.
    message: &'static str,
}

const CASES: [Case; 7] = [
    Case { name: "acpi", way: "acpi", settings: "", message: "the guest powered off (ACPI S5)" },
    Case { name: "qemu", way: "qemu", settings: "", message: "the guest powered off (ACPI S5)" },
    Case {
        name: "old-qemu",
        way: "old-qemu",
        settings: "compat = \"qemu\"\n",
        message: "the guest powered off (port 0xB004)",
    },
    Case {
        name: "bochs",
        way: "bochs",
        settings: "compat = \"qemu\"\n",
        message: "the guest powered off (port 0x8900)",
    },
    // Without the setting nobody is at the port, and the guest goes on to ACPI.
    Case { name: "not-bochs", way: "bochs", settings: "", message: "the guest powered off (ACPI S5)" },
    Case {
        name: "debug-exit",
        way: "debug-exit",
        settings: "debug_exit = 0xf4\n",
        message: "the guest exited with status 16 (debug exit; QEMU's exit code would be 33)",
    },
    Case {
        name: "no-debug-exit",
        way: "debug-exit",
        settings: "",
        message: "the guest powered off (ACPI S5)",
    },
];

/// All cases on one machine.
pub struct Endings {
    prefix: String,
    machine: String,
    names: Vec<&'static str>,
}

impl Endings {
    /// On this machine.
    pub fn new(machine: &str) -> Self {
        let names = CASES.iter().map(|case| case.name).collect();
        Self { prefix: format!("ending/{machine}"), machine: machine.to_owned(), names }
    }

    fn boot(&self, subjects: &Subjects) -> Result<(String, Ending)> {
        let machine = machine::by_name(&self.machine)?;
        let boot = Boot { payload: payload(subjects)?, memory: guest::LEAST_MACHINE_MEMORY, counting: false };
        let limit = TIME * machine.patience();
        let mut running = machine.start(&boot, Limits { time: Some(limit), output: OUTPUT_LIMIT })?;
        let ending = running.wait(limit)?;
        Ok((running.transcript(), ending))
    }
}

impl Suite for Endings {
    fn prefix(&self) -> &str {
        &self.prefix
    }

    fn tests(&self) -> Option<&[&str]> {
        Some(&self.names)
    }

    fn run(&self, subjects: &Subjects, reporter: &Reporter) -> Result<()> {
        let started = Instant::now();
        let (transcript, ending) = self.boot(subjects)?;
        ensure!(ending == Ending::PowerOff, "the machine ended otherwise: {ending:?}");
        for case in &CASES {
            let line = format!("vm {}: ended: {}", case.name, case.message);
            let said = transcript.lines().any(|l| l.contains(HYPERVISOR) && l.trim_end().ends_with(&line));
            let result =
                said.then_some(()).with_context(|| format!("no line of the hypervisor says '{line}'"));
            reporter.check(&self.prefix, case.name, started, result, || transcript.clone());
        }
        Ok(())
    }
}

fn payload(subjects: &Subjects) -> Result<Payload> {
    let mut config = String::new();
    for Case { name, way, settings, .. } in &CASES {
        // No test has the way's name: the guest ends at once.
        writeln!(
            config,
            "[[vm]]\nname = \"{name}\"\nmemory = \"64M\"\nkernel = \"{KERNEL}\"\n\
             cmdline = \"no-such-test off={way}\"\n{settings}"
        )?;
    }
    let modules = vec![
        module(CONFIG_NAME, Content::Bytes(config.into_bytes())),
        module(KERNEL, Content::File(subjects.guest_tests()?.bzimage.clone())),
    ];
    Ok(guest::hypervisor(subjects.image()?, modules))
}
