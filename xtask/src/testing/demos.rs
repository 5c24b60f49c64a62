//! The demonstration kernels: each prints the same as a guest and on the bare emulator.

use super::{Outcome, Reporter, Subjects, Suite};
use crate::demo::{DEMOS, Demo};
use crate::guest::{self, hypervisor};
use crate::machine::{self, Boot, Content, EMULATED, Limits, Module, Running};
use crate::testing::linux::HYPERVISOR;
use anyhow::{Context, Result, ensure};
use guestboot::modules::CONFIG_NAME;
use std::time::{Duration, Instant};

/// The machine that boots most of them without a boot medium.
pub const FASTEST: &str = EMULATED[0];
/// Wall time of a boot on it.
const TIME: Duration = Duration::from_secs(60);
/// How long a bare machine may take to end after the last line.
const AFTERMATH: Duration = Duration::from_secs(3);
/// Most bytes on the console.
const OUTPUT_LIMIT: usize = 1 << 20;
/// Memory of the hypervisor's machine beyond that of its largest guest, in MiB.
const BEYOND_GUEST: u64 = 256;

/// What a demonstration's lines begin with, by the channel that they come through.
const SERIAL: &str = "demo: ";
const DEBUG_CONSOLE: &str = "e9: ";
const TEXT_PAGE: &str = "vga: ";
/// In a line about something that does not hold.
const WRONG: &str = "WRONG";
/// A line that does not go through the other channels.
const ONLY_SERIAL: &str = "REP OUTS";
/// What the last line begins with.
const END: &str = "end: ";

/// All demonstrations on one machine.
pub struct DemoSuite {
    prefix: String,
    machine: String,
    reference: bool,
}

impl DemoSuite {
    /// As guests of the hypervisor, compared with the fastest bare machine.
    pub fn hosted(machine: &str) -> Self {
        Self { prefix: format!("demo/{machine}"), machine: machine.to_owned(), reference: false }
    }

    /// On the bare machine, compared with the fastest one.
    pub fn reference(machine: &str) -> Self {
        Self { prefix: format!("reference/demo/{machine}"), machine: machine.to_owned(), reference: true }
    }

    /// One boot of the hypervisor runs all that are asked for, one after another.
    fn run_hosted(&self, subjects: &Subjects, reporter: &Reporter) -> Result<()> {
        let wanted: Vec<_> =
            (0..DEMOS.len()).filter(|&index| reporter.wants(&self.prefix, DEMOS[index].name)).collect();
        let started = Instant::now();
        let transcript = hosted(&wanted, &self.machine, subjects)?;
        let time = started.elapsed();
        for &index in &wanted {
            let demo = &DEMOS[index];
            let part = part_of(&transcript, demo.name);
            let outcome = match subjects.bare_demo(index).and_then(|bare| compare(demo, bare, part)) {
                Ok(()) => Outcome::Passed,
                Err(error) => Outcome::Failed { reason: format!("{error:#}"), log: part.to_owned() },
            };
            reporter.report(&self.prefix, demo.name, time / wanted.len() as u32, outcome);
        }
        Ok(())
    }

    fn run_reference(&self, subjects: &Subjects, reporter: &Reporter) -> Result<()> {
        for (index, demo) in DEMOS.iter().enumerate() {
            if !reporter.wants(&self.prefix, demo.name) {
                continue;
            }
            let started = Instant::now();
            if demo.bare(subjects.demo(index)?, has_loader(&self.machine)).is_none() {
                let reason = "no boot loader of this machine knows the protocol".to_owned();
                reporter.report(&self.prefix, demo.name, Duration::ZERO, Outcome::Skipped { reason });
                continue;
            }
            let (fastest, here) = (subjects.bare_demo(index)?, bare(index, &self.machine, subjects)?);
            let result = same_lines(SERIAL, fastest, &here);
            reporter.check(&self.prefix, demo.name, started, result, || here.clone());
        }
        Ok(())
    }
}

impl Suite for DemoSuite {
    fn prefix(&self) -> &str {
        &self.prefix
    }

    fn tests(&self) -> Option<&[&str]> {
        const NAMES: [&str; DEMOS.len()] = {
            let mut names = [""; DEMOS.len()];
            let mut index = 0;
            while index < DEMOS.len() {
                names[index] = DEMOS[index].name;
                index += 1;
            }
            names
        };
        Some(&NAMES)
    }

    fn run(&self, subjects: &Subjects, reporter: &Reporter) -> Result<()> {
        if self.reference {
            self.run_reference(subjects, reporter)
        } else {
            self.run_hosted(subjects, reporter)
        }
    }
}

/// Whether a machine's emulator loads kernels itself.
fn has_loader(machine: &str) -> bool {
    machine.starts_with("qemu")
}

/// What a demonstration prints on a bare machine, which may start again afterwards.
pub fn bare(index: usize, machine: &str, subjects: &Subjects) -> Result<String> {
    let demo = &DEMOS[index];
    let payload = demo
        .bare(subjects.demo(index)?, has_loader(machine))
        .with_context(|| format!("no loader of {machine} can start {}", demo.name))?;
    let mut running = start(machine, Boot { payload, memory: demo.memory, counting: false })?;
    let limit = TIME * machine::by_name(machine)?.patience();
    running.expect(&format!("{SERIAL}{END}"), limit).with_context(|| running.story())?;
    // One that cannot start again ends at once; its last line belongs to the transcript.
    let _ = running.wait(AFTERMATH);
    let transcript = running.transcript();
    let wrong = transcript.lines().find(|line| line.contains(WRONG));
    ensure!(wrong.is_none(), "{} finds on bare {machine}: {wrong:?}", demo.name);
    Ok(transcript)
}

/// What the hypervisor's console shows of these demonstrations.
fn hosted(wanted: &[usize], machine: &str, subjects: &Subjects) -> Result<String> {
    let demos: Vec<&Demo> = wanted.iter().map(|&index| &DEMOS[index]).collect();
    let configuration: String = demos.iter().map(|demo| demo.configuration()).collect();
    let mut modules: Vec<Module> =
        vec![guest::module(CONFIG_NAME, Content::Bytes(configuration.into_bytes()))];
    for (demo, &index) in demos.iter().zip(wanted) {
        modules.push(guest::module(demo.name, Content::File(subjects.demo(index)?.to_owned())));
        for mut module in demo.modules() {
            if !modules.iter().any(|other| other.name == module.name) {
                // Arguments are the configuration's.
                module.arguments.clear();
                modules.push(module);
            }
        }
    }
    let largest = demos.iter().map(|demo| demo.memory).max().unwrap_or(0);
    let memory = (largest + BEYOND_GUEST).max(guest::LEAST_MACHINE_MEMORY);
    let boot = Boot { payload: hypervisor(subjects.image()?, modules), memory, counting: false };
    let mut running = start(machine, boot)?;
    // A boot that breaks off is the failure of those demonstrations that have not ended.
    let broken_off = running.wait(TIME * machine::by_name(machine)?.patience()).err();
    let story = broken_off.map_or(String::new(), |error| format!("\n{error:#}\n{}", running.last_words()));
    Ok(running.transcript() + &story)
}

fn start(machine: &str, boot: Boot) -> Result<Running> {
    let machine = machine::by_name(machine)?;
    machine.start(&boot, Limits { time: Some(TIME * machine.patience()), output: OUTPUT_LIMIT })
}

/// What a virtual machine of this name has printed.
fn part_of<'t>(transcript: &'t str, name: &str) -> &'t str {
    let from = |text: &'t str, line: String| text.find(&line).map(|at| &text[at..]);
    let Some(part) = from(transcript, format!("{HYPERVISOR}vm {name}: ")) else {
        return transcript;
    };
    let end = format!("{HYPERVISOR}vm {name}: ended: ");
    part.find(&end).map_or(part, |at| part[at..].find('\n').map_or(part, |line| &part[..at + line]))
}

/// Whether a guest has printed what the bare machine has.
fn compare(demo: &Demo, bare: &str, hosted: &str) -> Result<()> {
    let rejoined = without_text_page(hosted);
    same_lines(SERIAL, bare, &rejoined)?;
    same_lines(DEBUG_CONSOLE, bare, &rejoined)?;
    for line in lines(SERIAL, bare) {
        let shown = lines(TEXT_PAGE, hosted).any(|other| other.trim_end() == line);
        ensure!(shown || line == ONLY_SERIAL, "the text page does not show '{line}'");
    }
    let ended = hosted.lines().rev().find_map(|line| line.split_once(": ended: ")).map(|(_, reason)| reason);
    ensure!(ended.is_some_and(|reason| reason.contains(demo.ended)), "it ended otherwise: {ended:?}");
    Ok(())
}

/// A transcript without the lines of the text page, which come when the screen is looked at and so may break lines of
/// the other channels in two.
fn without_text_page(transcript: &str) -> String {
    let rest = transcript.lines().filter(|line| !line.starts_with(TEXT_PAGE));
    let joined: String = rest.filter(|line| !line.starts_with(HYPERVISOR)).collect();
    joined.replace(SERIAL, &format!("\n{SERIAL}")).replace(DEBUG_CONSOLE, &format!("\n{DEBUG_CONSOLE}"))
}

fn same_lines(mark: &'static str, bare: &str, other: &str) -> Result<()> {
    let (mut wanted, mut found) = (lines(mark, bare), lines(mark, other));
    loop {
        match (wanted.next(), found.next()) {
            (None, None) => return Ok(()),
            (wanted, found) => ensure!(
                wanted == found,
                "'{mark}{}', but the reference has '{mark}{}'",
                found.unwrap_or("<end>"),
                wanted.unwrap_or("<end>")
            ),
        }
    }
}

/// The lines that came through a channel.
fn lines<'t>(mark: &'static str, transcript: &'t str) -> impl Iterator<Item = &'t str> {
    let mut ended = false;
    transcript
        .lines()
        .filter_map(move |line| line.strip_prefix(mark))
        .take_while(move |line| !std::mem::replace(&mut ended, line.starts_with(END)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_lines_are_whole_again() {
        let shown = "gossamer: vm a: started\ndemo: one\ne9: on\nvga: one\ne\nde\nvga: two\nmo: two\n";
        assert_eq!(without_text_page(shown), "\ndemo: one\ne9: one\ndemo: two");
        assert!(same_lines(SERIAL, "demo: one\ndemo: two\n", &without_text_page(shown)).is_ok());
        assert!(same_lines(SERIAL, "demo: one\n", &without_text_page(shown)).is_err());
    }
}
