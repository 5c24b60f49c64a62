//! The NMI button of a virtual machine's console, as a guest sees it.

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
/// The guest tests' image is this guest, too.
const CMDLINE: &str = "nmi-button";
/// Ctrl-^ n.
const BUTTON: &str = "\x1en";

const TESTS: [&str; 3] = ["port-70-masks-it", "an-nmi-comes", "the-guest-goes-on"];

/// One boot of that guest.
pub struct NmiButton {
    prefix: String,
    machine: String,
}

impl NmiButton {
    /// As a guest of the hypervisor on this machine.
    pub fn hosted(machine: &str) -> Self {
        Self { prefix: format!("nmi-button/{machine}"), machine: machine.to_owned() }
    }
}

impl Suite for NmiButton {
    fn prefix(&self) -> &str {
        &self.prefix
    }

    fn tests(&self) -> Option<&[&str]> {
        Some(&TESTS)
    }

    fn run(&self, subjects: &Subjects, reporter: &Reporter) -> Result<()> {
        let machine = machine::by_name(&self.machine)?;
        let mut guest = Guest::with_kernel(&subjects.guest_tests()?.bzimage);
        CMDLINE.clone_into(&mut guest.cmdline);
        let boot = Boot {
            payload: guest.hosted(subjects.image()?),
            memory: guest.machine_memory(),
            counting: false,
        };
        let patience = machine.patience();
        let limits = Limits { time: Some(TIME * patience), output: OUTPUT_LIMIT };
        let mut running = machine.start(&boot, limits)?;
        let steps: [fn(&mut Running, Duration) -> Result<()>; 3] = [is_masked, comes, ends];
        for (test, step) in TESTS.into_iter().zip(steps) {
            let started = Instant::now();
            let outcome = step(&mut running, ANSWER * patience);
            reporter.check(&self.prefix, test, started, outcome, || running.story());
        }
        Ok(())
    }
}

fn is_masked(running: &mut Running, within: Duration) -> Result<()> {
    running.expect("press with NMIs masked", within)?;
    running.send(BUTTON)?;
    running.expect("masked: channel check, 0 NMIs", within)?;
    running.expect("unmasked: 1 NMIs", within).map(drop)
}

fn comes(running: &mut Running, within: Duration) -> Result<()> {
    running.expect("press: status 0", within)?;
    running.send(BUTTON)?;
    running.expect("end: status 64, 2 NMIs", within).map(drop)
}

fn ends(running: &mut Running, within: Duration) -> Result<()> {
    let ending = running.wait(within)?;
    ensure!(ending == Ending::PowerOff, "the machine ended otherwise: {ending:?}");
    Ok(())
}
