//! The bare-metal guest tests: one boot per machine, under the hypervisor or on the bare machine.

use super::{Outcome, Reporter, Subjects, Suite};
use crate::guest::{self, module};
use crate::machine::{self, Boot, Content, Limits, Machine, Payload, Protocol, Running};
use abi::test_protocol::{DONE, FAIL, LIST, PASS, PREFIX, SKIP, START};
use anyhow::{Context, Result, bail};
use std::time::{Duration, Instant};

/// Wall time of all tests on the fastest machine.
const TIME: Duration = Duration::from_secs(120);
/// Most bytes on the console.
const OUTPUT_LIMIT: usize = 16 << 20;
/// Memory of the machine that lists the tests, or runs them without the hypervisor, in MiB.
const BARE_MEMORY: u64 = 512;
/// Name of the tests' image as a module.
const MODULE_NAME: &str = "guest-tests";

/// All guest tests on one machine.
pub struct GuestTestSuite {
    prefix: String,
    machine: String,
    reference: bool,
}

impl GuestTestSuite {
    /// As a guest of the hypervisor.
    pub fn hosted(machine: &str) -> Self {
        Self { prefix: format!("guest/{machine}"), machine: machine.to_owned(), reference: false }
    }

    /// On the machine itself, which checks the tests.
    pub fn reference(machine: &str) -> Self {
        Self { prefix: format!("reference/guest/{machine}"), machine: machine.to_owned(), reference: true }
    }

    fn boot(&self, subjects: &Subjects, words: &str) -> Result<Boot> {
        let (payload, memory) = if self.reference {
            (bare(subjects, &format!("reference {words}"))?, BARE_MEMORY)
        } else {
            (hosted(subjects, &format!("on={} {words}", self.machine))?, guest::LEAST_MACHINE_MEMORY)
        };
        Ok(Boot { payload, memory, counting: false })
    }
}

impl Suite for GuestTestSuite {
    fn prefix(&self) -> &str {
        &self.prefix
    }

    fn list(&self, subjects: &Subjects) -> Result<Vec<String>> {
        let machine = machine::by_name(machine::EMULATED[0])?;
        let boot = Boot { payload: bare(subjects, "list")?, memory: BARE_MEMORY, counting: false };
        let mut running = machine.start(&boot, limits(&*machine))?;
        let mut tests = Vec::new();
        while let Some(line) = running.line()? {
            match line.strip_prefix(PREFIX).map(split) {
                Some((LIST, name)) => tests.push(name.to_owned()),
                Some((DONE, _)) => return Ok(tests),
                _ => {}
            }
        }
        bail!("the guest tests did not list themselves:\n{}", running.transcript())
    }

    fn run(&self, subjects: &Subjects, reporter: &Reporter) -> Result<()> {
        let machine = machine::by_name(&self.machine)?;
        let words = reporter.filter().inside(&self.prefix).join(" ");
        let mut running = machine.start(&self.boot(subjects, &words)?, limits(&*machine))?;
        let mut current = Current::default();
        while let Some(line) = running.line().with_context(|| current.story(&running))? {
            let Some((event, rest)) = line.trim_end().strip_prefix(PREFIX).map(split) else {
                current.log += &line;
                current.log += "\n";
                continue;
            };
            let (test, reason) = split(rest);
            match event {
                START => current.start(test),
                PASS => current.end(self, reporter, test, Outcome::Passed),
                SKIP => current.end(self, reporter, test, Outcome::Skipped { reason: reason.to_owned() }),
                FAIL => {
                    let outcome = Outcome::Failed { reason: reason.to_owned(), log: current.log.clone() };
                    current.end(self, reporter, test, outcome);
                }
                DONE => return current.all(test),
                _ => bail!("the guest tests said '{event}', which means nothing"),
            }
        }
        bail!("{}", current.story(&running))
    }
}

/// What is known of the test that runs.
struct Current {
    name: String,
    log: String,
    started: Instant,
    ended: usize,
}

impl Default for Current {
    fn default() -> Self {
        Self { name: String::new(), log: String::new(), started: Instant::now(), ended: 0 }
    }
}

impl Current {
    fn start(&mut self, test: &str) {
        test.clone_into(&mut self.name);
        self.log.clear();
        self.started = Instant::now();
    }

    fn end(&mut self, suite: &GuestTestSuite, reporter: &Reporter, test: &str, outcome: Outcome) {
        reporter.report(&suite.prefix, test, self.started.elapsed(), outcome);
        self.ended += 1;
        self.name.clear();
        self.started = Instant::now();
    }

    /// All tests have reported if there are as many as the guest says.
    fn all(&self, count: &str) -> Result<()> {
        match count.parse() {
            Ok(count) if self.ended == count => Ok(()),
            _ => bail!("{} guest tests reported, but the guest speaks of {count}", self.ended),
        }
    }

    /// Why there are no more reports.
    fn story(&self, running: &Running) -> String {
        let during = match self.name.as_str() {
            "" => "between two tests".to_owned(),
            name => format!("during {name}"),
        };
        format!("the guest tests broke off {during}:\n{}", running.story())
    }
}

fn hosted(subjects: &Subjects, words: &str) -> Result<Payload> {
    // Without a configuration the first module is the kernel.
    let mut tests = module(MODULE_NAME, Content::File(subjects.guest_tests()?.bzimage.clone()));
    tests.arguments = words.to_owned();
    Ok(guest::hypervisor(subjects.image()?, vec![tests]))
}

fn bare(subjects: &Subjects, words: &str) -> Result<Payload> {
    Ok(Payload::Multiboot {
        image: subjects.guest_tests()?.multiboot.clone(),
        protocol: Protocol::Multiboot1,
        cmdline: words.to_owned(),
        modules: Vec::new(),
    })
}

fn limits(machine: &dyn Machine) -> Limits {
    Limits { time: Some(TIME * machine.patience()), output: OUTPUT_LIMIT }
}

/// The first word and the rest.
fn split(line: &str) -> (&str, &str) {
    line.split_once(' ').unwrap_or((line, ""))
}
