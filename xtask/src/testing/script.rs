//! A guest of ours that is talked to on its console: one boot, and one step after the other.

use super::{Reporter, Subjects, Suite};
use crate::guest::Guest;
use crate::machine::{self, Boot, Ending, Limits, Running};
use anyhow::{Result, ensure};
use std::time::{Duration, Instant};

/// Wall time on the fastest machine: all in all, and until the guest answers.
const TIME: Duration = Duration::from_secs(120);
const ANSWER: Duration = Duration::from_secs(30);
/// Most bytes on the console.
const OUTPUT_LIMIT: usize = 1 << 20;

/// What is said and expected; the time is that for an answer.
pub type Step = fn(&mut Running, Duration) -> Result<()>;

/// A conversation.
pub struct Script {
    /// Name of the suite.
    pub name: &'static str,
    /// The guest tests' image is many guests; this command line chooses one.
    pub cmdline: &'static str,
    /// Names of the steps.
    pub tests: &'static [&'static str],
    /// The steps.
    pub steps: &'static [Step],
}

/// A script on a machine, as a guest of the hypervisor.
pub struct Scripted {
    prefix: String,
    machine: String,
    script: &'static Script,
}

impl Scripted {
    /// On this machine.
    pub fn hosted(machine: &str, script: &'static Script) -> Self {
        Self { prefix: format!("{}/{machine}", script.name), machine: machine.to_owned(), script }
    }
}

impl Suite for Scripted {
    fn prefix(&self) -> &str {
        &self.prefix
    }

    fn tests(&self) -> Option<&[&str]> {
        Some(self.script.tests)
    }

    fn run(&self, subjects: &Subjects, reporter: &Reporter) -> Result<()> {
        let machine = machine::by_name(&self.machine)?;
        let mut guest = Guest::with_kernel(&subjects.guest_tests()?.bzimage);
        self.script.cmdline.clone_into(&mut guest.cmdline);
        let boot = Boot {
            payload: guest.hosted(subjects.image()?),
            memory: guest.machine_memory(),
            counting: false,
        };
        let patience = machine.patience();
        let limits = Limits { time: Some(TIME * patience), output: OUTPUT_LIMIT };
        let mut running = machine.start(&boot, limits)?;
        for (test, step) in self.script.tests.iter().zip(self.script.steps) {
            let started = Instant::now();
            let outcome = step(&mut running, ANSWER * patience);
            reporter.check(&self.prefix, test, started, outcome, || running.story());
        }
        Ok(())
    }
}

/// The last step: the guest switches the machine off.
pub fn powers_off(running: &mut Running, within: Duration) -> Result<()> {
    let ending = running.wait(within)?;
    ensure!(ending == Ending::PowerOff, "the machine ended otherwise: {ending:?}");
    Ok(())
}
