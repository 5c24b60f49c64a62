//! The host tests: `cargo test` of every crate that builds on the host, each test on a line of its own.

use super::{Outcome, Reporter, Subjects, Suite};
use crate::image;
use anyhow::{Context, Result, bail};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The tests of one package.
pub struct HostTests {
    prefix: String,
    /// Which package, and what of it.
    arguments: Vec<String>,
}

impl HostTests {
    /// All tests of a package.
    pub fn package(name: &str) -> Self {
        Self { prefix: format!("host/{name}"), arguments: vec!["-p".into(), name.into()] }
    }

    /// The tests of a package's library; its programs build for the bare target only.
    pub fn library(name: &str) -> Self {
        let mut tests = Self::package(name);
        tests.arguments.push("--lib".into());
        tests
    }

    fn cargo_test(&self, for_libtest: &[&str]) -> Command {
        let mut cargo = image::cargo();
        cargo.args(["test", "--quiet", "--no-fail-fast"]).args(&self.arguments).arg("--").args(for_libtest);
        cargo.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        cargo
    }
}

impl Suite for HostTests {
    fn prefix(&self) -> &str {
        &self.prefix
    }

    fn list(&self, _: &Subjects) -> Result<Vec<String>> {
        let output = self.cargo_test(&["--list"]).output().context("cannot start cargo")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
    }

    fn run(&self, _: &Subjects, reporter: &Reporter) -> Result<()> {
        // One thread, so that the time between two lines is a test's time.
        let mut words = vec!["--test-threads=1", "--format=pretty"];
        words.extend(reporter.filter().inside(&self.prefix));
        let mut cargo = self.cargo_test(&words).spawn().context("cannot start cargo")?;
        let mut errors = cargo.stderr.take().context("cargo has no standard error")?;
        let errors = std::thread::spawn(move || {
            let mut text = Vec::new();
            errors.read_to_end(&mut text).map(|_| String::from_utf8_lossy(&text).into_owned())
        });
        let mut output = Output::default();
        for line in BufReader::new(cargo.stdout.take().context("cargo has no standard output")?).lines() {
            if let Some((test, time, outcome)) = output.line(&line.context("cannot read cargo's output")?) {
                reporter.report(&self.prefix, &test, time, outcome);
            }
        }
        let status = cargo.wait().context("cannot wait for cargo")?;
        let failed =
            output.failures(|test, time, outcome| reporter.report(&self.prefix, test, time, outcome));
        if !status.success() && failed == 0 {
            let errors = errors.join().ok().and_then(Result::ok).unwrap_or_default();
            bail!("cargo test {} failed:\n{errors}", self.arguments.join(" "));
        }
        Ok(())
    }
}

/// Follows what libtest prints.
struct Output {
    last: Instant,
    /// Tests that failed, with their times, until their output is known.
    failed: Vec<(String, Duration)>,
    outputs: HashMap<String, String>,
    section: Option<String>,
}

impl Default for Output {
    fn default() -> Self {
        Self { last: Instant::now(), failed: Vec::new(), outputs: HashMap::new(), section: None }
    }
}

impl Output {
    /// A test that ended with this line, unless it failed.
    fn line(&mut self, line: &str) -> Option<(String, Duration, Outcome)> {
        if let Some(test) = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----")) {
            self.section = Some(test.to_owned());
            return None;
        }
        if line == "failures:" || line.starts_with("test result: ") {
            self.section = None;
        }
        if let Some(test) = &self.section {
            let text = self.outputs.entry(test.clone()).or_default();
            *text += line;
            *text += "\n";
            return None;
        }
        // An ignored test says why behind a comma.
        let (test, end) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
        let time = self.last.elapsed();
        self.last = Instant::now();
        let test = test.trim_end_matches(" - should panic").to_owned();
        match end {
            "ok" => Some((test, time, Outcome::Passed)),
            "FAILED" => {
                self.failed.push((test, time));
                None
            }
            _ => Some((test, time, Outcome::Skipped { reason: end.to_owned() })),
        }
    }

    /// Reports the failed tests; gives their number.
    fn failures(&self, mut report: impl FnMut(&str, Duration, Outcome)) -> usize {
        for (test, time) in &self.failed {
            let log = self.outputs.get(test).cloned().unwrap_or_default();
            let reason = log.lines().find(|line| line.contains("panicked")).unwrap_or("failed").to_owned();
            report(test, *time, Outcome::Failed { reason, log });
        }
        self.failed.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = "
running 3 tests
test a::holds ... ok
test a::breaks ... FAILED
test a::later ... ignored, needs KVM

failures:

---- a::breaks stdout ----
thread 'a::breaks' panicked at src/lib.rs:3:5:
left: 1

failures:
    a::breaks

test result: FAILED. 1 passed; 1 failed; 1 ignored
";

    #[test]
    fn libtest_output_becomes_reports() {
        let mut output = Output::default();
        let ended: Vec<_> =
            SAMPLE.lines().filter_map(|line| output.line(line)).map(|(t, _, o)| (t, o)).collect();
        let reason = "ignored, needs KVM".to_owned();
        assert_eq!(
            ended,
            [("a::holds".to_owned(), Outcome::Passed), ("a::later".to_owned(), Outcome::Skipped { reason })]
        );
        let mut failures = Vec::new();
        assert_eq!(output.failures(|test, _, outcome| failures.push((test.to_owned(), outcome))), 1);
        let (test, Outcome::Failed { reason, log }) = &failures[0] else { panic!("{failures:?}") };
        assert_eq!(
            (test.as_str(), reason.as_str()),
            ("a::breaks", "thread 'a::breaks' panicked at src/lib.rs:3:5:")
        );
        assert!(log.contains("left: 1") && !log.contains("test result"));
    }
}
