//! The same boot many times: no hang, and a log that differs in nothing but times.

use super::{Reporter, Subjects, Suite};
use crate::guest::Guest;
use crate::machine::{self, Boot};
use crate::setup::Distribution;
use crate::testing::linux::{HYPERVISOR, Session};
use anyhow::{Context, Result, ensure};
use std::time::Instant;

/// How many boots.
const BOOTS: usize = 50;

/// Many boots on one machine.
pub struct RepeatedBoots {
    prefix: String,
    machine: String,
}

impl RepeatedBoots {
    /// On this machine.
    pub fn new(machine: &str) -> Self {
        Self { prefix: format!("repeated/{machine}"), machine: machine.to_owned() }
    }

    fn run_all(&self, subjects: &Subjects) -> Result<()> {
        let first = self.boot(subjects).context("boot 1")?;
        for number in 2..=BOOTS {
            let log = self.boot(subjects).with_context(|| format!("boot {number}"))?;
            let (lost, new) = (only_in(&first, &log), only_in(&log, &first));
            ensure!(
                lost.is_empty() && new.is_empty(),
                "boot {number} differs from the first: lost {lost:?}, new {new:?}"
            );
        }
        Ok(())
    }

    fn boot(&self, subjects: &Subjects) -> Result<Vec<String>> {
        let machine = machine::by_name(&self.machine)?;
        let guest = Guest::debian(Distribution::Cloud)?;
        let boot = Boot {
            payload: guest.hosted(subjects.image()?),
            memory: guest.machine_memory(),
            counting: false,
        };
        let mut session = Session::start(&*machine, &boot)?;
        session.reach_shell()?;
        session.ask()?;
        session.power_off(true)?;
        let transcript = session.transcript();
        let mut lines: Vec<_> = transcript.lines().filter_map(logged).map(without_times).collect();
        // Who is first among kernel threads is a matter of time, too.
        lines.sort();
        Ok(lines)
    }
}

impl Suite for RepeatedBoots {
    fn prefix(&self) -> &str {
        &self.prefix
    }

    fn tests(&self) -> Option<&[&str]> {
        Some(&["linux"])
    }

    fn run(&self, subjects: &Subjects, reporter: &Reporter) -> Result<()> {
        let started = Instant::now();
        let result = self.run_all(subjects);
        reporter.check(&self.prefix, "linux", started, result, String::new);
        Ok(())
    }
}

/// The lines that one sorted log has more often than another.
fn only_in<'a>(one: &'a [String], other: &[String]) -> Vec<&'a str> {
    let mut other = other.iter().peekable();
    one.iter()
        .filter(|line| {
            while other.next_if(|next| next < line).is_some() {}
            other.next_if(|next| next == line).is_none()
        })
        .map(String::as_str)
        .collect()
}

/// The part of a line that a kernel has logged. The shell's own lines depend on when it is typed on.
fn logged(line: &str) -> Option<&str> {
    const TIME: &str = "[ ";
    line.find(HYPERVISOR).or_else(|| line.find(TIME)).map(|start| &line[start..])
}

/// A line in which every number, hexadecimal or not, and the space that pads it are the same: times, frequencies
/// and counts vary with the host's load.
fn without_times(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let (mut in_word, mut in_number) = (false, false);
    let line: Vec<_> = line.split_whitespace().collect();
    for character in line.join(" ").chars() {
        let alphanumeric = character.is_ascii_alphanumeric();
        if alphanumeric && !in_word {
            in_number = character.is_ascii_digit();
            out.extend(in_number.then_some('#'));
        }
        in_word = alphanumeric;
        in_number &= alphanumeric;
        out.extend((!in_number).then_some(character));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_count_repetitions() {
        let log = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
        let (one, other) = (log(&["a", "b", "b", "d"]), log(&["a", "b", "c", "d"]));
        assert_eq!(only_in(&one, &other), ["b"]);
        assert_eq!(only_in(&other, &one), ["c"]);
        assert!(only_in(&one, &one).is_empty());
    }

    #[test]
    fn only_kernels_log() {
        assert_eq!(logged("/ # [    1.5] tsc: refined"), Some("[    1.5] tsc: refined"));
        assert_eq!(logged("gossamer: powering off"), Some("gossamer: powering off"));
        assert_eq!(logged("/ # \u{1b}[6necho"), None);
    }

    #[test]
    fn times_do_not_count() {
        assert_eq!(
            without_times("[    1.234567] tsc: 2445.4 MHz\r"),
            without_times("[   12.3] tsc: 1.99 MHz")
        );
        assert_eq!(without_times("max: 0x7ca1c9f ns"), without_times("max: 0x12 ns"));
        assert_ne!(without_times("x2apic x"), without_times("x3apic x"));
        assert_ne!(without_times("[ 1.0] usb: found"), without_times("[ 1.0] usb: lost"));
    }
}
