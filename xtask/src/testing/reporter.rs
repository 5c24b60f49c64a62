//! Prints one line per test as it ends, and counts.

use super::{Filter, Outcome, Report};
use anyhow::Result;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Lines of a failing test's log that are shown.
const LOG_LINES: usize = 40;

/// Collects the reports of all suites.
#[derive(Debug)]
pub struct Reporter {
    filter: Filter,
    reports: Mutex<Vec<Report>>,
}

/// The end of a test run.
#[derive(Debug)]
pub struct Summary(Vec<Report>);

impl Reporter {
    /// For the tests that `filter` selects; others are not reported.
    pub fn new(filter: Filter) -> Self {
        Self { filter, reports: Mutex::default() }
    }

    /// Which tests are asked for.
    pub fn filter(&self) -> &Filter {
        &self.filter
    }

    /// Whether this test of a suite is asked for.
    pub fn wants(&self, prefix: &str, test: &str) -> bool {
        self.filter.selects(&format!("{prefix}/{test}"))
    }

    /// Reports the end of the test `PREFIX/TEST`.
    pub fn report(&self, prefix: &str, test: &str, time: Duration, outcome: Outcome) {
        let report = Report { name: format!("{prefix}/{test}"), time, outcome };
        if self.filter.selects(&report.name) {
            // The list stays locked while the lines are printed, so that they do not mix.
            let mut reports = self.reports();
            print!("{}", lines(&report));
            reports.push(report);
        }
    }

    /// Reports a test that began at `started`: an error is a failure with `log` beside it.
    pub fn check(
        &self,
        prefix: &str,
        test: &str,
        started: Instant,
        result: Result<()>,
        log: impl FnOnce() -> String,
    ) {
        let outcome = match result {
            Ok(()) => Outcome::Passed,
            Err(error) => Outcome::Failed { reason: format!("{error:#}"), log: log() },
        };
        self.report(prefix, test, started.elapsed(), outcome);
    }

    /// All reports, in the order of the tests' ends.
    pub fn finish(self) -> Summary {
        Summary(self.reports.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    fn reports(&self) -> MutexGuard<'_, Vec<Report>> {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Summary {
    /// Every report.
    pub fn reports(&self) -> &[Report] {
        &self.0
    }

    /// How many tests failed.
    pub fn failed(&self) -> usize {
        self.failures().count()
    }

    /// The names of failed tests, if any, and the counts on the last line.
    pub fn closing(&self) -> String {
        let mut text = String::new();
        for report in self.failures() {
            text += &format!("failed: {}\n", report.name);
        }
        let count =
            |wanted: fn(&Outcome) -> bool| self.0.iter().filter(|report| wanted(&report.outcome)).count();
        let passed = count(|outcome| matches!(outcome, Outcome::Passed));
        let skipped = count(|outcome| matches!(outcome, Outcome::Skipped { .. }));
        text += &format!("{passed} passed, {} failed", self.failed());
        if skipped > 0 {
            text += &format!(", {skipped} skipped");
        }
        text
    }

    fn failures(&self) -> impl Iterator<Item = &Report> {
        self.0.iter().filter(|report| matches!(report.outcome, Outcome::Failed { .. }))
    }
}

/// What is printed of a report; a guest's control characters stay away from the terminal.
fn lines(report: &Report) -> String {
    let (name, seconds) = (&report.name, report.time.as_secs_f64());
    match &report.outcome {
        Outcome::Passed => format!("ok    {name} ({seconds:.2} s)\n"),
        Outcome::Skipped { reason } => format!("skip  {name} ({seconds:.2} s): {reason}\n"),
        Outcome::Failed { reason, log } => {
            let mut text = format!("FAIL  {name} ({seconds:.2} s): {reason}\n");
            let log: Vec<_> = log.lines().collect();
            for line in &log[log.len().saturating_sub(LOG_LINES)..] {
                text += &format!("      | {}\n", line.replace(|c: char| c.is_control() && c != '\t', ""));
            }
            text
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reporter(filter: &[&str]) -> Reporter {
        Reporter::new(Filter(filter.iter().map(|part| (*part).to_owned()).collect()))
    }

    #[test]
    fn closing_line_counts() {
        let all = reporter(&[]);
        all.report("a", "x", Duration::ZERO, Outcome::Passed);
        all.report("a", "y", Duration::ZERO, Outcome::Passed);
        assert_eq!(all.finish().closing(), "2 passed, 0 failed");

        let all = reporter(&[]);
        all.report("a", "x", Duration::ZERO, Outcome::Failed { reason: "r".into(), log: String::new() });
        all.report("a", "y", Duration::ZERO, Outcome::Skipped { reason: "r".into() });
        let summary = all.finish();
        assert_eq!(summary.failed(), 1);
        assert_eq!(summary.closing(), "failed: a/x\n0 passed, 1 failed, 1 skipped");
    }

    #[test]
    fn tests_that_nobody_asked_for_do_not_count() {
        let some = reporter(&["a/x"]);
        some.report("a", "x", Duration::ZERO, Outcome::Passed);
        some.report("a", "y", Duration::ZERO, Outcome::Failed { reason: "r".into(), log: String::new() });
        assert_eq!(some.finish().closing(), "1 passed, 0 failed");
    }

    #[test]
    fn a_failure_shows_the_end_of_its_log() {
        let log = (0..100).map(|n| format!("\u{1b}line {n}\n")).collect();
        let outcome = Outcome::Failed { reason: "broken".into(), log };
        let text = lines(&Report { name: "a/b".into(), time: Duration::from_millis(1500), outcome });
        assert!(text.starts_with("FAIL  a/b (1.50 s): broken\n      | line 60\n"));
        assert!(text.ends_with("      | line 99\n"));
    }
}
