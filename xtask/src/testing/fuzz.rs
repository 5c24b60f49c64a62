//! A few seconds of every fuzz target, after its kept corpus.

use super::{Reporter, Subjects, Suite};
use crate::fuzzing::{self, Ending, Session};
use crate::paths;
use anyhow::{Result, bail};
use std::time::{Duration, Instant};

/// How long each target makes up inputs.
const TIME: Duration = Duration::from_secs(10);

/// A test for each target.
pub struct FuzzTests;

impl Suite for FuzzTests {
    fn prefix(&self) -> &str {
        "fuzz"
    }

    fn list(&self, _: &Subjects) -> Result<Vec<String>> {
        fuzzing::targets()
    }

    fn run(&self, _: &Subjects, reporter: &Reporter) -> Result<()> {
        let mut targets = fuzzing::targets()?;
        targets.retain(|target| reporter.wants(self.prefix(), target));
        if targets.is_empty() {
            return Ok(());
        }
        let fuzzers = fuzzing::build()?;
        for target in targets {
            let started = Instant::now();
            let mut report = String::new();
            let result = hold(&Session { fuzzers: &fuzzers, target: &target }, &mut report);
            reporter.check(self.prefix(), &target, started, result, || report);
        }
        Ok(())
    }
}

/// Nothing is found; a finding is told in `report`.
fn hold(session: &Session<'_>, report: &mut String) -> Result<()> {
    // What is collected is not kept, so that every run begins with the same.
    let scratch = paths::scratch("corpus")?;
    match session.run(scratch.path(), TIME)? {
        (_, Ending::Clean) => Ok(()),
        (_, Ending::Found(finding)) => {
            *report = finding.report(session.target);
            bail!("an input was found that breaks a promise: {}", finding.reproducer.display());
        }
    }
}
