//! What happens to a Linux in its life: it restarts in every way that it knows, is typed long lines at, and lives
//! in little and in much memory.

use super::{Reporter, Subjects, Suite};
use crate::guest::{self, Guest};
use crate::image::Image;
use crate::initramfs;
use crate::machine::{self, Boot, Ending, Limits, Running};
use crate::setup::Distribution;
use anyhow::{Result, ensure};
use std::time::{Duration, Instant};

/// Wall time: for all that a test does, to a shell, and for a command.
const TIME: Duration = Duration::from_secs(240);
const TO_SHELL: Duration = Duration::from_secs(90);
const COMMAND: Duration = Duration::from_secs(30);
/// Most bytes on the console.
const OUTPUT_LIMIT: usize = 4 << 20;

/// What the hypervisor says when it starts a virtual machine again.
const RESTARTING: &str = "restarting";
const RESTART: &str = "reboot -f\n";
const CRASH: &str = "echo c > /proc/sysrq-trigger\n";

/// A way to restart: its test, Linux's parameter, what to type, and what the hypervisor calls it.
struct Restart {
    test: &'static str,
    parameter: &'static str,
    command: &'static str,
    reason: &'static str,
}

const fn restart(test: &'static str, parameter: &'static str, reason: &'static str) -> Restart {
    Restart { test, parameter, command: RESTART, reason }
}

const RESTARTS: [Restart; 6] = [
    restart("restarts-by-acpi", "reboot=a", "port 0xCF9"),
    restart("restarts-by-port", "reboot=p", "port 0xCF9"),
    restart("restarts-by-keyboard-controller", "reboot=k", "keyboard controller"),
    restart("restarts-by-reset-vector", "reboot=b", "port 0xCF9"),
    restart("restarts-by-triple-fault", "reboot=t", "triple fault"),
    Restart { command: CRASH, ..restart("restarts-after-panic", "panic=1", "port 0xCF9") },
];
/// A triple fault stops a virtual machine unless its configuration says otherwise.
const SETTINGS: &str = "on_triple_fault = \"restart\"\n";

/// A line that is longer than every buffer on its way, but not than a line of Linux's terminal.
const LONG_LINE: usize = 3000;
const LONG_LINE_TEST: &str = "long-line-arrives-unchanged";

/// Memory sizes in MiB and their tests: little, and so much that some lies above 4 GiB.
const SIZES: [(&str, u64); 2] = [("boots-with-96M", 96), ("boots-with-3584M", 3584)];

/// Tests of one Linux each.
pub struct LinuxLife {
    prefix: String,
    machine: String,
    tests: Vec<&'static str>,
}

impl LinuxLife {
    /// As guests of the hypervisor on this machine.
    pub fn hosted(machine: &str) -> Self {
        let mut tests: Vec<_> = RESTARTS.iter().map(|way| way.test).collect();
        tests.push(LONG_LINE_TEST);
        tests.extend(SIZES.iter().map(|(test, _)| *test));
        Self { prefix: format!("linux-life/{machine}"), machine: machine.to_owned(), tests }
    }

    fn start(&self, image: &Image, guest: &Guest) -> Result<Running> {
        let payload = guest.hosted(image);
        let boot = Boot { payload, memory: guest.machine_memory(), counting: false };
        let limits = Limits { time: Some(TIME), output: OUTPUT_LIMIT };
        machine::by_name(&self.machine)?.start(&boot, limits)
    }

    fn check(
        &self,
        image: &Image,
        reporter: &Reporter,
        (test, guest): (&str, &Guest),
        run: impl FnOnce(&mut Running) -> Result<()>,
    ) -> Result<()> {
        let started = Instant::now();
        let mut running = self.start(image, guest)?;
        let outcome = reach_shell(&mut running).and_then(|()| run(&mut running));
        let outcome = outcome.and_then(|()| power_off(&mut running));
        reporter.check(&self.prefix, test, started, outcome, || running.story());
        Ok(())
    }
}

impl Suite for LinuxLife {
    fn prefix(&self) -> &str {
        &self.prefix
    }

    fn tests(&self) -> Option<&[&str]> {
        Some(&self.tests)
    }

    fn run(&self, subjects: &Subjects, reporter: &Reporter) -> Result<()> {
        let image = subjects.image()?;
        let debian = Guest { settings: SETTINGS, ..Guest::debian(Distribution::Cloud)? };
        for way in &RESTARTS {
            let cmdline = format!("{} {}", guest::CMDLINE, way.parameter);
            let guest = Guest { cmdline, ..debian.clone() };
            self.check(image, reporter, (way.test, &guest), |running| restart_by(running, way))?;
        }
        self.check(image, reporter, (LONG_LINE_TEST, &debian), type_long_line)?;
        for (test, memory) in SIZES {
            let guest = Guest { memory, ..debian.clone() };
            self.check(image, reporter, (test, &guest), |_| Ok(()))?;
        }
        Ok(())
    }
}

fn reach_shell(running: &mut Running) -> Result<()> {
    running.expect(initramfs::MARKER, TO_SHELL)?;
    running.expect(initramfs::PROMPT, COMMAND).map(drop)
}

fn power_off(running: &mut Running) -> Result<()> {
    running.send("poweroff -f\n")?;
    let ending = running.wait(COMMAND)?;
    ensure!(ending == Ending::PowerOff, "the machine ended otherwise: {ending:?}");
    Ok(())
}

/// The hypervisor says why the guest restarts, and there is a shell again.
fn restart_by(running: &mut Running, way: &Restart) -> Result<()> {
    running.send(way.command)?;
    let said = running.expect(RESTARTING, COMMAND)?;
    ensure!(said.contains(way.reason), "the hypervisor did not name the reason '{}'", way.reason);
    reach_shell(running)
}

/// Without the terminal's echo, so that only what has arrived is shown.
fn type_long_line(running: &mut Running) -> Result<()> {
    running.send("stty -echo; echo rea''dy; read -r line; stty echo; echo \"<$line>\"\n")?;
    running.expect("ready", COMMAND)?;
    let line: String = (' '..='~').filter(|c| c.is_ascii_graphic()).cycle().take(LONG_LINE).collect();
    running.send(&format!("{line}\n"))?;
    running.expect(&format!("<{line}>"), COMMAND).map(drop)
}
