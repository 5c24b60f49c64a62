//! The bare-metal guest tests: one boot per machine, under the hypervisor or on the bare machine.

use super::{Outcome, Reporter, Subjects, Suite};
use crate::guest::{self, module};
use crate::machine::{self, Boot, Content, Limits, Machine, Payload, Protocol, Running};
use abi::test_protocol::{
    DONE, FAIL, LIST, MODULE_LENGTH, MODULE_NAME, PASS, PREFIX, SKIP, START, module_byte,
};
use anyhow::{Result, bail, ensure};
use guestboot::modules::CONFIG_NAME;
use std::path::Path;
use std::time::{Duration, Instant};

/// Wall time of all tests on the fastest machine.
const TIME: Duration = Duration::from_secs(120);
/// Most bytes on the console.
const OUTPUT_LIMIT: usize = 16 << 20;
/// Memory that the tests run in, whether in a virtual machine or on the bare one, in MiB.
const MEMORY: u64 = 512;
/// Name of the tests' image as a module.
const KERNEL: &str = "guest-tests";

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
            (bare(&subjects.guest_tests()?.multiboot, &format!("reference {words}")), MEMORY)
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
        names(&subjects.guest_tests()?.multiboot)
    }

    fn run(&self, subjects: &Subjects, reporter: &Reporter) -> Result<()> {
        let machine = machine::by_name(&self.machine)?;
        let words = reporter.filter().inside(&self.prefix).join(" ");
        let mut running = machine.start(&self.boot(subjects, &words)?, limits(&*machine))?;
        let mut progress = Progress { prefix: &self.prefix, reporter, test: None, ended: 0 };
        loop {
            match running.line() {
                Ok(Some(line)) if progress.line(line.trim_end())? => return Ok(()),
                Ok(Some(_)) => {}
                Ok(None) => return progress.broken_off("the machine ended", &running),
                Err(error) => return progress.broken_off(&format!("{error:#}"), &running),
            }
        }
    }
}

/// How far the tests of one boot have come.
struct Progress<'a> {
    prefix: &'a str,
    reporter: &'a Reporter,
    test: Option<RunningTest>,
    ended: usize,
}

/// The test that runs.
struct RunningTest {
    name: String,
    started: Instant,
    /// What it has printed.
    log: String,
}

impl Progress<'_> {
    /// Takes in a line of the console. True after the last one.
    fn line(&mut self, line: &str) -> Result<bool> {
        let Some((event, rest)) = line.strip_prefix(PREFIX).map(split) else {
            if let Some(test) = &mut self.test {
                test.log.extend([line, "\n"]);
            }
            return Ok(false);
        };
        let (name, reason) = split(rest);
        let reason = reason.to_owned();
        match event {
            START => {
                self.test =
                    Some(RunningTest { name: name.to_owned(), started: Instant::now(), log: String::new() });
            }
            PASS => self.end(name, |_| Outcome::Passed),
            SKIP => self.end(name, |_| Outcome::Skipped { reason }),
            FAIL => self.end(name, |log| Outcome::Failed { reason, log }),
            DONE => {
                ensure!(
                    name.parse() == Ok(self.ended),
                    "{} guest tests reported, but the guest speaks of {name}",
                    self.ended
                );
                return Ok(true);
            }
            _ => bail!("the guest tests said '{event}', which means nothing"),
        }
        Ok(false)
    }

    fn end(&mut self, name: &str, outcome: impl FnOnce(String) -> Outcome) {
        let (time, log) = self
            .test
            .take()
            .map_or((Duration::ZERO, String::new()), |test| (test.started.elapsed(), test.log));
        self.reporter.report(self.prefix, name, time, outcome(log));
        self.ended += 1;
    }

    /// There will be no more reports: the test that ran is to blame.
    fn broken_off(mut self, why: &str, running: &Running) -> Result<()> {
        let Some(name) = self.test.as_ref().map(|test| test.name.clone()) else {
            bail!("the guest tests broke off between two tests: {why}\n{}", running.story());
        };
        let reason = format!("{why}; the tests after this one did not run");
        self.end(&name, |_| Outcome::Failed { reason, log: running.story() });
        Ok(())
    }
}

fn hosted(subjects: &Subjects, words: &str) -> Result<Payload> {
    let config = format!(
        "[[vm]]\nname = \"{KERNEL}\"\nmemory = \"{MEMORY}M\"\nkernel = \"{KERNEL}\"\ncmdline = {words:?}\n\
         modules = [\"{MODULE_NAME}\"]\ncompat = \"qemu\"\n"
    );
    let modules = vec![
        module(CONFIG_NAME, Content::Bytes(config.into_bytes())),
        module(KERNEL, Content::File(subjects.guest_tests()?.bzimage.clone())),
        module(MODULE_NAME, Content::Bytes((0..MODULE_LENGTH).map(module_byte).collect())),
    ];
    Ok(guest::hypervisor(subjects.image()?, modules))
}

/// The tests in this image, which lists itself.
pub fn names(image: &Path) -> Result<Vec<String>> {
    let machine = machine::by_name(machine::EMULATED[0])?;
    let boot = Boot { payload: bare(image, "list"), memory: MEMORY, counting: false };
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

fn bare(image: &Path, words: &str) -> Payload {
    Payload::Multiboot {
        image: image.to_owned(),
        protocol: Protocol::Multiboot1,
        cmdline: words.to_owned(),
        modules: Vec::new(),
    }
}

fn limits(machine: &dyn Machine) -> Limits {
    Limits { time: Some(TIME * machine.patience()), output: OUTPUT_LIMIT }
}

/// The first word and the rest.
fn split(line: &str) -> (&str, &str) {
    line.split_once(' ').unwrap_or((line, ""))
}
