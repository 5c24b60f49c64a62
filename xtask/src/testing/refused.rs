//! CPUs that cannot run guests: the hypervisor says why and switches the machine off.

use super::{Reporter, Subjects, Suite};
use crate::guest::{self, hypervisor};
use crate::machine::{self, Boot, Ending, Limits};
use crate::testing::linux::HYPERVISOR;
use anyhow::{Result, ensure};
use std::time::{Duration, Instant};

/// Wall time of one boot.
const TIME: Duration = Duration::from_secs(180);
/// Most bytes on the console.
const OUTPUT_LIMIT: usize = 1 << 20;

/// A machine and the reason for which it is refused.
const REFUSED: &[(&str, &str)] = &[
    ("bochs-vmx:core2_penryn_t9600", "EPT"),
    ("bochs-vmx:corei5_lynnfield_750", "unrestricted guest"),
    ("qemu-svm:qemu64,-svm", "SVM"),
];

/// Every machine that has to be refused.
pub struct Refused(Vec<&'static str>);

impl Refused {
    /// All of them.
    pub fn new() -> Self {
        Self(REFUSED.iter().map(|(machine, _)| *machine).collect())
    }
}

impl Suite for Refused {
    fn prefix(&self) -> &str {
        "refused"
    }

    fn tests(&self) -> Option<&[&str]> {
        Some(&self.0)
    }

    fn run(&self, subjects: &Subjects, reporter: &Reporter) -> Result<()> {
        for (machine, reason) in REFUSED {
            if reporter.wants(self.prefix(), machine) {
                let (started, mut log) = (Instant::now(), String::new());
                let result = refuses(machine, reason, subjects, &mut log);
                reporter.check(self.prefix(), machine, started, result, || log);
            }
        }
        Ok(())
    }
}

fn refuses(machine: &str, reason: &str, subjects: &Subjects, log: &mut String) -> Result<()> {
    let payload = hypervisor(subjects.image()?, Vec::new());
    let boot = Boot { payload, memory: guest::LEAST_MACHINE_MEMORY, counting: false };
    let limits = Limits { time: Some(TIME), output: OUTPUT_LIMIT };
    let mut running = machine::by_name(machine)?.start(&boot, limits)?;
    let ending = running.wait(TIME);
    *log = running.story();
    ensure!(ending? == Ending::PowerOff, "the machine was not switched off");
    let transcript = running.transcript();
    let refusal =
        transcript.lines().find(|line| line.contains(HYPERVISOR) && line.contains("cannot run guests"));
    ensure!(refusal.is_some_and(|line| line.contains(reason)), "no refusal that names {reason}: {refusal:?}");
    Ok(())
}
