//! A guest without a serial port: what it shows on its text page is read on the console, and what is typed there
//! arrives at its keyboard.

use super::{Reporter, Subjects, Suite};
use crate::guest::Guest;
use crate::machine::{self, Boot, Ending, Limits, Running};
use anyhow::{Result, ensure};
use std::time::{Duration, Instant};

/// Wall time on the fastest machine: all in all, and until something shows.
const TIME: Duration = Duration::from_secs(120);
const ANSWER: Duration = Duration::from_secs(30);
/// Most bytes on the console.
const OUTPUT_LIMIT: usize = 1 << 20;

/// The guest tests' image is this guest, too; it counts its lines, asks for keys, and says so when it ends.
const CMDLINE: &str = "typewriter";
const LINES: u32 = 120;
const READY: &str = "type";
const BYE: &str = "bye";
/// More than every buffer on the way.
const PASTE: usize = 3000;

const TESTS: [&str; 4] = ["text-is-shown-once", "keys-arrive", "a-paste-arrives", "escape-ends-it"];

/// One boot of that guest.
pub struct ScreenTests {
    prefix: String,
    machine: String,
}

impl ScreenTests {
    /// As a guest of the hypervisor on this machine.
    pub fn hosted(machine: &str) -> Self {
        Self { prefix: format!("screen/{machine}"), machine: machine.to_owned() }
    }
}

impl Suite for ScreenTests {
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
        let steps: [fn(&mut Running, Duration) -> Result<()>; 4] =
            [shows_every_line, takes_keys, takes_a_paste, ends];
        for (test, step) in TESTS.into_iter().zip(steps) {
            let started = Instant::now();
            let outcome = step(&mut running, ANSWER * patience);
            reporter.check(&self.prefix, test, started, outcome, || running.story());
        }
        Ok(())
    }
}

fn shows_every_line(running: &mut Running, within: Duration) -> Result<()> {
    running.expect(&format!("\n{READY}\r\n"), within)?;
    let transcript = running.transcript();
    let ending = format!(" of {LINES}");
    let shown: Vec<&str> = transcript.lines().filter(|line| line.ends_with(&ending)).collect();
    let all: Vec<String> = (1..=LINES).map(|number| format!("line {number} of {LINES}")).collect();
    ensure!(shown == all, "not each line once and in order: {shown:?}");
    Ok(())
}

/// A letter, one with Shift, and cursor up, as set 1 has them.
fn takes_keys(running: &mut Running, within: Duration) -> Result<()> {
    running.send("aB\x1b[A\r")?;
    running.expect("12 codes: 1e 9e 2a 30 b0 aa e0 48 e0 c8 1c 9c\r\n", within).map(drop)
}

fn takes_a_paste(running: &mut Running, within: Duration) -> Result<()> {
    running.send(&format!("{}\r", "x".repeat(PASTE)))?;
    running.expect(&format!("{} codes:", 2 * (PASTE + 1)), within).map(drop)
}

fn ends(running: &mut Running, within: Duration) -> Result<()> {
    running.send("\x1b")?;
    running.expect(BYE, within)?;
    let ending = running.wait(within)?;
    ensure!(ending == Ending::PowerOff, "the machine ended otherwise: {ending:?}");
    Ok(())
}
