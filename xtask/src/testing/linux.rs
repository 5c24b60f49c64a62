//! A real Linux: boots to its shell, answers a command, has nothing to complain about, and powers off.

use super::{Reporter, Subjects, Suite};
use crate::guest::Guest;
use crate::initramfs;
use crate::machine::{self, Boot, Ending, Limits, Machine, Running};
use crate::setup::Distribution;
use anyhow::{Context, Result, ensure};
use std::time::Duration;

/// Wall time on the fastest machine: all in all, to the shell, and for one command.
const TIME: Duration = Duration::from_secs(240);
const TO_SHELL: Duration = Duration::from_secs(120);
const COMMAND: Duration = Duration::from_secs(10);
/// Most bytes on the console.
const OUTPUT_LIMIT: usize = 4 << 20;
/// What a power-off takes, also on slow machines.
const SWITCHING_OFF: Duration = Duration::from_secs(60);

/// A command whose answer does not stand in the command.
const QUESTION: &str = "echo answer $((6*7))\n";
const ANSWER: &str = "answer 42";
/// Lists kernel messages of level "warning" and above, between two marks that the echo does not show.
const LIST_WARNINGS: &str = "echo war''nings; dmesg -r | grep '^<[0-4]>'; echo do''ne\n";
/// What the hypervisor says when a guest has switched itself off.
const POWERED_OFF: &str = "ended: the guest powered off";
/// Most memory that it may take for itself with one guest, in KiB.
const HYPERVISOR_MEMORY: u64 = 16 << 10;
/// Begins the hypervisor's lines.
pub const HYPERVISOR: &str = "gossamer: ";

const TESTS: [&str; 7] = [
    "boots-to-shell",
    "command-answers",
    "no-new-warnings",
    "uses-x2apic",
    "no-pit-calibration",
    "hypervisor-memory",
    "powers-off",
];
const REFERENCE_TESTS: [&str; 4] = ["boots-to-shell", "command-answers", "known-warnings", "powers-off"];

/// One boot of Debian's kernel with our initramfs.
pub struct LinuxBoot {
    prefix: String,
    machine: String,
    distribution: Distribution,
    reference: bool,
}

impl LinuxBoot {
    /// As a guest of the hypervisor.
    pub fn hosted(machine: &str, distribution: Distribution) -> Self {
        let prefix = format!("linux-{}/{machine}", label(distribution));
        Self { prefix, machine: machine.to_owned(), distribution, reference: false }
    }

    /// On the machine itself.
    pub fn reference(machine: &str) -> Self {
        let prefix = format!("reference/linux/{machine}");
        Self { prefix, machine: machine.to_owned(), distribution: Distribution::Cloud, reference: true }
    }
}

const fn label(distribution: Distribution) -> &'static str {
    match distribution {
        Distribution::Cloud => "cloud",
        Distribution::Generic => "generic",
        Distribution::Installer => "installer",
    }
}

impl Suite for LinuxBoot {
    fn prefix(&self) -> &str {
        &self.prefix
    }

    fn tests(&self) -> Option<&[&str]> {
        Some(if self.reference { &REFERENCE_TESTS } else { &TESTS })
    }

    fn run(&self, subjects: &Subjects, reporter: &Reporter) -> Result<()> {
        let machine = machine::by_name(&self.machine)?;
        let guest = Guest::debian(self.distribution)?;
        let payload = if self.reference { guest.bare() } else { guest.hosted(subjects.image()?) };
        let boot = Boot { payload, memory: guest.machine_memory(), counting: false };
        let mut session = Session::start(&*machine, &boot)?;
        let prefix = &self.prefix;
        session.check(reporter, prefix, "boots-to-shell", Session::reach_shell);
        session.check(reporter, prefix, "command-answers", Session::ask);
        if self.reference {
            session
                .check(reporter, prefix, "known-warnings", |session| session.known_warnings(&self.machine));
        } else {
            session.check(reporter, prefix, "no-new-warnings", Session::no_new_warnings);
            session.check(reporter, prefix, "uses-x2apic", |session| session.shows("x2apic enabled"));
            session.check(reporter, prefix, "no-pit-calibration", Session::no_pit_calibration);
            session.check(reporter, prefix, "hypervisor-memory", Session::hypervisor_memory);
        }
        let hosted = !self.reference;
        session.check(reporter, prefix, "powers-off", |session| session.power_off(hosted));
        Ok(())
    }
}

/// Debian's installer, which comes with an initrd of its own: its first question appears.
pub struct Installer {
    prefix: String,
    machine: String,
}

/// It takes its time.
const TO_QUESTION: Duration = Duration::from_secs(200);
/// What it asks.
const INSTALLER_QUESTION: &str = "Select a language";
/// Memory that it does not complain about, in MiB.
const INSTALLER_MEMORY: u64 = 1024;

impl Installer {
    /// As a guest of the hypervisor.
    pub fn hosted(machine: &str) -> Self {
        Self { prefix: format!("linux-installer/{machine}"), machine: machine.to_owned() }
    }
}

impl Suite for Installer {
    fn prefix(&self) -> &str {
        &self.prefix
    }

    fn tests(&self) -> Option<&[&str]> {
        Some(&["asks-for-the-language"])
    }

    fn run(&self, subjects: &Subjects, reporter: &Reporter) -> Result<()> {
        let machine = machine::by_name(&self.machine)?;
        let guest = Guest { memory: INSTALLER_MEMORY, ..Guest::debian(Distribution::Installer)? };
        let boot = Boot {
            payload: guest.hosted(subjects.image()?),
            memory: guest.machine_memory(),
            counting: false,
        };
        let mut session = Session::start(&*machine, &boot)?;
        session.check(reporter, &self.prefix, "asks-for-the-language", |session| {
            session.running.expect(INSTALLER_QUESTION, TO_QUESTION * session.patience).map(drop)
        });
        Ok(())
    }
}

/// A Linux that is running.
pub struct Session {
    running: Running,
    patience: u32,
    broken: bool,
}

impl Session {
    /// Switches the machine on.
    pub fn start(machine: &dyn Machine, boot: &Boot) -> Result<Self> {
        let patience = machine.patience();
        let limits = Limits { time: Some(TIME * patience), output: OUTPUT_LIMIT };
        Ok(Self { running: machine.start(boot, limits)?, patience, broken: false })
    }

    /// Everything that the console has shown.
    pub fn transcript(&self) -> String {
        self.running.transcript()
    }

    /// Runs a test and reports it. After a failure that left the session in an unknown state, the others fail too.
    fn check(
        &mut self,
        reporter: &Reporter,
        prefix: &str,
        test: &str,
        run: impl FnOnce(&mut Self) -> Result<()>,
    ) {
        let started = std::time::Instant::now();
        let outcome = if self.broken { Err(anyhow::anyhow!("an earlier step failed")) } else { run(self) };
        reporter.check(prefix, test, started, outcome, || {
            if self.broken { String::new() } else { self.running.story() }
        });
    }

    /// Waits for init's own line.
    pub fn reach_init(&mut self) -> Result<()> {
        let reached = self.running.expect(initramfs::MARKER, TO_SHELL * self.patience);
        self.broken = reached.is_err();
        reached.map(drop).context("Linux did not reach its init")
    }

    /// Waits for the shell's first prompt.
    pub fn reach_shell(&mut self) -> Result<()> {
        let reached = self.reach_init();
        let prompt = reached.and_then(|_| self.running.expect(initramfs::PROMPT, COMMAND * self.patience));
        self.broken = prompt.is_err();
        prompt.map(drop).context("Linux did not reach its shell")
    }

    /// Types a command; the answer differs from the echo.
    pub fn ask(&mut self) -> Result<()> {
        self.command(QUESTION, ANSWER).map(drop)
    }

    fn command(&mut self, command: &str, answer: &str) -> Result<String> {
        self.running.send(command)?;
        self.running.expect(answer, COMMAND * self.patience)
    }

    /// Kernel messages of level "warning" and above.
    fn warnings(&mut self) -> Result<String> {
        self.command(LIST_WARNINGS, "warnings")?;
        self.running.expect("done", COMMAND * self.patience)
    }

    /// The bare machine shows every warning that is excused by it.
    fn known_warnings(&mut self, machine: &str) -> Result<()> {
        let warnings = self.warnings()?;
        for (_, text) in KNOWN_WARNINGS.iter().filter(|(shown_by, _)| *shown_by == machine) {
            ensure!(warnings.contains(text), "the bare machine does not warn of '{text}'");
        }
        Ok(())
    }

    fn no_new_warnings(&mut self) -> Result<()> {
        let warnings = self.warnings()?;
        let new: Vec<_> = warnings.lines().filter(|line| line.starts_with('<') && !is_known(line)).collect();
        ensure!(
            new.is_empty(),
            "Linux warns of what it does not warn of on the bare machine: {}",
            new.join("; ")
        );
        Ok(())
    }

    fn shows(&mut self, text: &str) -> Result<()> {
        ensure!(self.transcript().contains(text), "the log does not show '{text}'");
        Ok(())
    }

    fn no_pit_calibration(&mut self) -> Result<()> {
        for sign in
            ["calibrate against PIT", "calibration using PIT", "PIT calibration", "Fast TSC calibration"]
        {
            ensure!(!self.transcript().contains(sign), "the log shows '{sign}'");
        }
        Ok(())
    }

    /// The hypervisor says at the guest's start how much memory it has for itself.
    fn hypervisor_memory(&mut self) -> Result<()> {
        let transcript = self.transcript();
        let started =
            transcript.lines().find(|line| line.contains(HYPERVISOR) && line.contains(": started on "));
        let used =
            started.and_then(|line| line.rsplit_once(" hypervisor ")?.1.strip_suffix(" KiB")?.parse().ok());
        let used: u64 = used.with_context(|| format!("no memory use in {started:?}"))?;
        ensure!(used <= HYPERVISOR_MEMORY, "the hypervisor uses {used} KiB, at most {HYPERVISOR_MEMORY}");
        Ok(())
    }

    /// Switches the guest off, and with it the machine.
    pub fn power_off(&mut self, hosted: bool) -> Result<()> {
        self.running.send("poweroff -f\n")?;
        self.ends_powered_off(hosted)
    }

    /// Waits for the guest to switch the machine off, as the hypervisor must then have said.
    pub fn ends_powered_off(&mut self, hosted: bool) -> Result<()> {
        let ending = self.running.wait(SWITCHING_OFF)?;
        ensure!(ending == Ending::PowerOff, "the machine ended otherwise: {ending:?}");
        if hosted {
            let transcript = self.transcript();
            let said = transcript.lines().any(|line| line.contains(HYPERVISOR) && line.contains(POWERED_OFF));
            ensure!(said, "the hypervisor did not say that the guest has powered off");
        }
        Ok(())
    }
}

/// Warnings of the bare machine that a guest may give, too, by the machine that shows them.
const KNOWN_WARNINGS: &[(&str, &str)] = &[
    // The CPU model is too old for the microcode that it would need.
    ("qemu-svm", "Speculative Return Stack Overflow"),
    // The emulated CPU is old, and its chipset has no such window.
    ("bochs-vmx", "RETBleed: WARNING"),
    ("bochs-vmx", "fail to add MMCONFIG information"),
    // The emulated CPU has no MSR that says so.
    ("bochs-svm", "TSC doesn't count with P0 frequency"),
];

fn is_known(line: &str) -> bool {
    KNOWN_WARNINGS.iter().any(|(_, text)| line.contains(text))
}
