//! memtest86+ as Debian ships it: a kernel with Linux's 32-bit entry that speaks through the VGA text page.

use super::{Reporter, Subjects, Suite};
use crate::guest::{self, hypervisor, module};
use crate::machine::{self, Boot, Content, Limits, Module, Payload, Running};
use crate::setup;
use anyhow::{Context, Result, ensure};
use guestboot::modules::CONFIG_NAME;
use std::time::{Duration, Instant};

/// Wall time on the fastest machine: until several of its tests are done, and for a pass, of which the bit fade
/// test waits some three minutes.
const TIME_TO_BEGIN: Duration = Duration::from_secs(100);
const TIME_OF_A_PASS: Duration = Duration::from_secs(600);
/// Most bytes on the console.
const OUTPUT_LIMIT: usize = 4 << 20;

const NAME: &str = "memtest";
/// No waiting for keys, nor for devices that a virtual machine does not have.
const CONFIGURATION: &str = "
[[vm]]
name = \"memtest\"
kernel = \"memtest\"
memory = \"16M\"
cmdline = \"nosmp nobench nosm nopause\"
";

/// What the screen shows, in this order: the title, and tests that take long enough to be seen.
const BEGINNING: [&str; 3] = ["Memtest86+ v", "[Moving inversions", "[Modulo 20"];
/// What it shows after a pass.
const PASS: &str = "Pass:  1 ";
/// What it shows all the time.
const NO_ERRORS: &str = "Errors: 0";

/// memtest86+ on one machine.
pub struct Memtest {
    prefix: String,
    machine: String,
    test: [&'static str; 1],
    time: Duration,
}

impl Memtest {
    /// Its screen appears, and its tests go on.
    pub fn begins(machine: &str) -> Self {
        Self::new(machine, "begins", TIME_TO_BEGIN)
    }

    /// It tests all of its memory with every test.
    pub fn whole_pass(machine: &str) -> Self {
        Self::new(machine, "makes-a-pass", TIME_OF_A_PASS)
    }

    fn new(machine: &str, test: &'static str, time: Duration) -> Self {
        Self { prefix: format!("memtest/{machine}"), machine: machine.to_owned(), test: [test], time }
    }

    fn watch(&self, running: &mut Running, limit: Duration) -> Result<()> {
        for text in BEGINNING {
            running.expect(text, limit).with_context(|| format!("the screen should show '{text}'"))?;
        }
        if self.time == TIME_OF_A_PASS {
            running.expect(PASS, limit).context("no pass")?;
        }
        let transcript = running.transcript();
        let errors = transcript.lines().find(|line| line.contains("Errors:") && !line.contains(NO_ERRORS));
        ensure!(errors.is_none(), "it finds errors: {errors:?}");
        Ok(())
    }
}

impl Suite for Memtest {
    fn prefix(&self) -> &str {
        &self.prefix
    }

    fn tests(&self) -> Option<&[&str]> {
        Some(&self.test)
    }

    fn run(&self, subjects: &Subjects, reporter: &Reporter) -> Result<()> {
        let machine = machine::by_name(&self.machine)?;
        let limit = self.time * machine.patience();
        let boot = Boot { payload: payload(subjects)?, memory: guest::LEAST_MACHINE_MEMORY, counting: false };
        let started = Instant::now();
        let mut running = machine.start(&boot, Limits { time: Some(limit), output: OUTPUT_LIMIT })?;
        let result = self.watch(&mut running, limit);
        reporter.check(&self.prefix, self.test[0], started, result, || running.story());
        Ok(())
    }
}

fn payload(subjects: &Subjects) -> Result<Payload> {
    let modules: Vec<Module> = vec![
        module(CONFIG_NAME, Content::Bytes(CONFIGURATION.into())),
        module(NAME, Content::File(setup::memtest()?)),
    ];
    Ok(hypervisor(subjects.image()?, modules))
}
