//! Guests that misbehave, and behind each a healthy one that has to run as if nothing had been.
//!
//! One boot takes several pairs, one virtual machine after the other.

mod verdict;

use super::guest_tests;
use super::{Reporter, Subjects, Suite};
use crate::guest::{self, hypervisor, module};
use crate::machine::{self, Boot, Content, Ending, Limits};
use anyhow::{Context, Result, ensure};
use guestboot::modules::CONFIG_NAME;
use std::fmt::Write;
use std::time::{Duration, Instant};

/// Wall time of one boot on the fastest machine.
const TIME: Duration = Duration::from_secs(600);
/// Most bytes on the console.
const OUTPUT_LIMIT: usize = 16 << 20;
/// Pairs in one boot: their configuration must not be longer than the hypervisor reads.
const PAIRS: usize = 30;
/// Names of the modules.
const HOSTILE: &str = "hostile";
const HEALTHY: &str = "guest-tests";
/// What the healthy guest tests; nothing that an overloaded machine would fail.
const HEALTHY_TESTS: &str = "halt_wakes shadow self_ exceptions:: msr:: paging::";

/// What is known of behaviours with a common topic.
struct Topic {
    name: &'static str,
    /// When the virtual machine is stopped at the latest.
    time_limit: &'static str,
    /// After a reset or a triple fault.
    again: &'static str,
    /// Whether the behaviour comes to its end; a guest that wrecks itself may end in any way.
    returns: bool,
}

const PATIENT: &str = "120s";
const SHORT: &str = "1500ms";

const TOPICS: [Topic; 11] = [
    Topic { name: "delivery", time_limit: SHORT, again: "stop", returns: false },
    Topic { name: "interrupts", time_limit: SHORT, again: "stop", returns: false },
    Topic { name: "memory", time_limit: PATIENT, again: "stop", returns: true },
    Topic { name: "msrs", time_limit: PATIENT, again: "stop", returns: true },
    Topic { name: "noncanonical", time_limit: PATIENT, again: "stop", returns: true },
    Topic { name: "paging", time_limit: SHORT, again: "restart", returns: false },
    Topic { name: "ports", time_limit: PATIENT, again: "stop", returns: true },
    Topic { name: "random_code", time_limit: "5s", again: "stop", returns: false },
    Topic { name: "repeats", time_limit: SHORT, again: "stop", returns: false },
    Topic { name: "resets", time_limit: SHORT, again: "restart", returns: false },
    Topic { name: "spinning", time_limit: SHORT, again: "stop", returns: false },
];
/// Of any other topic.
const OTHER: Topic = Topic { name: "", time_limit: SHORT, again: "stop", returns: false };

fn topic(behaviour: &str) -> &'static Topic {
    let name = behaviour.split("::").next().unwrap_or_default();
    TOPICS.iter().find(|topic| topic.name == name).unwrap_or(&OTHER)
}

/// All behaviours on one machine.
pub struct HostileGuests {
    prefix: String,
    machine: String,
}

impl HostileGuests {
    /// On this machine.
    pub fn new(machine: &str) -> Self {
        Self { prefix: format!("hostile/{machine}"), machine: machine.to_owned() }
    }

    /// Runs these behaviours in one boot, and returns the console's transcript, the emulator's last words, and what ended
    /// the machine.
    fn boot(&self, behaviours: &[String], subjects: &Subjects) -> Result<(String, String, Result<Ending>)> {
        let machine = machine::by_name(&self.machine)?;
        let modules = vec![
            module(CONFIG_NAME, Content::Bytes(configuration(behaviours, &self.machine)?.into_bytes())),
            module(HOSTILE, Content::File(subjects.hostile_guests()?.bzimage.clone())),
            module(HEALTHY, Content::File(subjects.guest_tests()?.bzimage.clone())),
        ];
        let payload = hypervisor(subjects.image()?, modules);
        let boot = Boot { payload, memory: guest::LEAST_MACHINE_MEMORY, counting: false };
        let limit = TIME * machine.patience();
        let mut running = machine.start(&boot, Limits { time: Some(limit), output: OUTPUT_LIMIT })?;
        let ending = running.wait(limit);
        Ok((running.transcript(), running.last_words(), ending))
    }
}

impl Suite for HostileGuests {
    fn prefix(&self) -> &str {
        &self.prefix
    }

    fn list(&self, subjects: &Subjects) -> Result<Vec<String>> {
        guest_tests::names(&subjects.hostile_guests()?.multiboot)
    }

    fn run(&self, subjects: &Subjects, reporter: &Reporter) -> Result<()> {
        let mut behaviours = self.list(subjects)?;
        behaviours.retain(|behaviour| reporter.wants(&self.prefix, behaviour));
        for behaviours in behaviours.chunks(PAIRS) {
            let started = Instant::now();
            let (transcript, last_words, ending) = self.boot(behaviours, subjects)?;
            let mut sound = None;
            for (number, behaviour) in behaviours.iter().enumerate() {
                let result =
                    verdict::pair(&transcript, number, behaviour, topic(behaviour).returns, &mut sound);
                reporter.check(&self.prefix, behaviour, started, result, || {
                    verdict::story(&transcript, number).to_owned()
                });
            }
            let ended = ending.and_then(|ending| {
                ensure!(ending == Ending::PowerOff, "the machine ended otherwise: {ending:?}");
                Ok(())
            });
            reporter.check(&self.prefix, "machine", started, ended, || last_words);
        }
        Ok(())
    }
}

/// A pair of virtual machines for each behaviour.
fn configuration(behaviours: &[String], machine: &str) -> Result<String> {
    let mut text = String::new();
    for (number, behaviour) in behaviours.iter().enumerate() {
        let Topic { time_limit, again, .. } = topic(behaviour);
        writeln!(
            text,
            "[[vm]]\nname = \"{}\"\nmemory = \"32M\"\nkernel = \"{HOSTILE}\"\ncmdline = \"on={machine} only={behaviour}\"\n\
             time_limit = \"{time_limit}\"\non_reset = \"{again}\"\non_triple_fault = \"{again}\"\n\
             [[vm]]\nname = \"{}\"\nmemory = \"64M\"\nkernel = \"{HEALTHY}\"\n\
             cmdline = \"on={machine} {HEALTHY_TESTS}\"\ntime_limit = \"{PATIENT}\"",
            verdict::hostile_name(number),
            verdict::healthy_name(number),
        )
        .context("a string takes everything")?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_configuration_can_be_read() {
        let behaviours = vec!["noncanonical::exits_at_the_end_of_the_lower_half".to_owned(); PAIRS];
        let text = configuration(&behaviours, "bochs-vmx:corei7_ivy_bridge_3770k").expect("text");
        let parsed = guestboot::config::parse(CONFIG_NAME, text.as_bytes());
        assert_eq!(parsed.errors, []);
        assert_eq!(parsed.config.vms.len(), 2 * PAIRS);
    }
}
