//! One target that runs for a while.

use super::{Fuzzers, corpus, package};
use crate::cleanup::Group;
use crate::files;
use crate::paths;
use anyhow::{Context, Result, ensure};
use rustix::process::Pid;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Longest that one input may take, in seconds.
const TIMEOUT: u32 = 10;
/// Most memory of a target, in MiB.
const MEMORY: u32 = 2048;
/// Longest input in bytes: everything that is parsed says what it has to say in fewer.
const LONGEST: u32 = 4096;
/// How long a finding is made smaller.
const MINIMISING: Duration = Duration::from_secs(20);

/// What libFuzzer counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Inputs that were run.
    pub executions: u64,
    /// Edges of the program that were reached.
    pub coverage: u64,
    /// Inputs of the corpus.
    pub corpus: u64,
}

/// An input that breaks a promise.
#[derive(Clone, Debug)]
pub struct Finding {
    /// It.
    pub reproducer: PathBuf,
    /// A smaller one, if there is.
    pub minimised: Option<PathBuf>,
    /// What it broke, and where.
    pub log: String,
}

impl Finding {
    /// What was found, and how to see it again.
    pub fn report(&self, target: &str) -> String {
        let shown = self.minimised.as_ref().unwrap_or(&self.reproducer);
        let mut text = format!("{}\nfound by {target}: {}\n", self.log, self.reproducer.display());
        if let Some(minimised) = &self.minimised {
            text += &format!("made smaller: {}\n", minimised.display());
        }
        text + &format!("run it again: cargo xtask fuzz {target} --replay {}", shown.display())
    }
}

/// How a session ended.
#[derive(Clone, Debug)]
pub enum Ending {
    /// Its time was over.
    Clean,
    /// It found something.
    Found(Finding),
}

/// A target, ready to run.
#[derive(Debug)]
pub struct Session<'a> {
    /// The program.
    pub fuzzers: &'a Fuzzers,
    /// Its name.
    pub target: &'a str,
}

impl Session<'_> {
    /// Runs the kept corpus and what `working` holds, and then new inputs for `time`, which may be nothing. Those that
    /// reach more of the program are added to `working`.
    pub fn run(&self, working: &Path, time: Duration) -> Result<(Statistics, Ending)> {
        let findings = folder(&paths::images()?.join("fuzz/findings").join(self.target))?;
        let mut command = self.command();
        match time.as_secs() {
            0 => command.arg("-runs=0"),
            seconds => command.arg(format!("-max_total_time={seconds}")),
        };
        command.arg(format!("-artifact_prefix={}/", findings.display()));
        command.arg(format!("-max_len={LONGEST}")).arg("-print_final_stats=1");
        let dictionary = package().join("dictionaries").join(self.target);
        if dictionary.exists() {
            command.arg(format!("-dict={}", dictionary.display()));
        }
        command.arg(working).arg(folder(&corpus::kept(self.target))?);
        let output = finish(command)?;
        let ending = match found(&output.text) {
            _ if output.good => Ending::Clean,
            Some(reproducer) => Ending::Found(self.finding(reproducer, output.text.clone())?),
            None => anyhow::bail!("the fuzz target {} failed:\n{}", self.target, end(&output.text)),
        };
        Ok((statistics(&output.text), ending))
    }

    /// Runs one input, or all of a folder, showing what it does.
    pub fn replay(&self, input: &Path) -> Result<bool> {
        ensure!(input.exists(), "there is no file {}", input.display());
        let status = self.command().arg("-runs=0").arg(input).status();
        Ok(status.with_context(|| format!("cannot start {}", self.target))?.success())
    }

    fn command(&self) -> Command {
        let mut command = self.fuzzers.command(self.target);
        command.arg(format!("-timeout={TIMEOUT}")).arg(format!("-rss_limit_mb={MEMORY}"));
        command
    }

    fn finding(&self, reproducer: PathBuf, log: String) -> Result<Finding> {
        let minimised = reproducer.with_file_name(format!("{}-small", file_name(&reproducer)));
        let mut command = self.command();
        command.arg("-minimize_crash=1").arg(format!("-max_total_time={}", MINIMISING.as_secs()));
        command.arg(format!("-exact_artifact_path={}", minimised.display())).arg(&reproducer);
        // It ends with an error when it finds nothing smaller.
        finish(command)?;
        let minimised = minimised.exists().then_some(minimised);
        Ok(Finding { reproducer, minimised, log: end(&log) })
    }
}

/// A folder, made if need be.
pub(super) fn folder(path: &Path) -> Result<PathBuf> {
    std::fs::create_dir_all(path).with_context(|| format!("cannot make the folder {}", path.display()))?;
    Ok(path.to_owned())
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// What a program wrote.
pub(super) struct Output {
    pub(super) good: bool,
    pub(super) text: String,
}

/// Runs a fuzzer to its end, in a scratch folder and a process group that ends with xtask.
pub(super) fn finish(mut command: Command) -> Result<Output> {
    let scratch = paths::scratch("fuzz")?;
    let log = scratch.path().join("log");
    command.current_dir(scratch.path()).process_group(0).stdin(Stdio::null()).stdout(Stdio::null());
    let mut child = command.stderr(files::create(&log)?).spawn().context("cannot start a fuzz target")?;
    let _group = Group::new(Pid::from_child(&child));
    let status = child.wait().context("cannot wait for a fuzz target")?;
    let text = String::from_utf8_lossy(&files::read(&log)?).into_owned();
    Ok(Output { good: status.success(), text })
}

/// The input that libFuzzer says it has written.
fn found(text: &str) -> Option<PathBuf> {
    text.lines().find_map(|line| Some(PathBuf::from(line.split_once("Test unit written to ")?.1)))
}

/// The numbers of the last line that has them, and the total of executions.
fn statistics(text: &str) -> Statistics {
    let number = |line: &str, label: &str| -> Option<u64> {
        let rest = line.split_once(label)?.1.trim_start();
        rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    };
    let mut statistics = Statistics::default();
    for line in text.lines() {
        if let (Some(coverage), Some(corpus)) = (number(line, " cov: "), number(line, " corp: ")) {
            statistics.coverage = coverage;
            statistics.corpus = corpus;
        }
        if let Some(executions) = number(line, "stat::number_of_executed_units:") {
            statistics.executions = executions;
        }
    }
    statistics
}

/// What tells most of a failure: the panic with the functions that led to it, from the target on.
fn end(text: &str) -> String {
    const LINES: usize = 40;
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.iter().position(|line| line.contains("panicked at"));
    let from = from.unwrap_or(lines.len().saturating_sub(LINES));
    let entry = |line: &&&str| !line.contains("__libfuzzer_sys_run") && !line.contains("libFuzzer");
    lines[from..].iter().take_while(entry).take(LINES).map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = "\
INFO: seed corpus: files: 2 min: 1b max: 9b total: 10b rss: 26Mb
#3\tINITED cov: 91 ft: 92 corp: 2/10b exec/s: 0 rss: 27Mb
#9312\tNEW    cov: 120 ft: 345 corp: 17/1204b lim: 33 exec/s: 0 rss: 31Mb L: 9/33 MS: 1 CrossOver-
thread '<unnamed>' panicked at fuzz/targets/config.rs:23:9:
too much
==7== ERROR: libFuzzer: deadly signal
artifact_prefix='findings/'; Test unit written to findings/crash-dcf2
stat::number_of_executed_units: 9999
";

    #[test]
    fn numbers_and_the_reproducer_are_read_from_what_libfuzzer_says() {
        let expected = Statistics { executions: 9999, coverage: 120, corpus: 17 };
        assert_eq!(statistics(SAMPLE), expected);
        assert_eq!(found(SAMPLE), Some(PathBuf::from("findings/crash-dcf2")));
        assert_eq!(found("Done 12 runs"), None);
    }

    #[test]
    fn a_failure_is_told_from_the_panic_on() {
        assert_eq!(end(SAMPLE), "thread '<unnamed>' panicked at fuzz/targets/config.rs:23:9:\ntoo much\n");
        assert_eq!(end("one\ntwo\n"), "one\ntwo\n");
    }
}
