//! Runs suites, several at a time.

use super::{Outcome, Reporter, Subjects, Suite};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Name of the test that fails when a suite as a whole does.
const WHOLE_SUITE: &str = "runs";

/// Runs every suite, `jobs` at a time, in this order.
pub fn run_all(suites: &[Box<dyn Suite>], jobs: usize, subjects: &Subjects, reporter: &Reporter) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, suites.len().max(1)) {
            scope.spawn(|| {
                while let Some(suite) = suites.get(next.fetch_add(1, Ordering::Relaxed)) {
                    run(&**suite, subjects, reporter);
                }
            });
        }
    });
}

fn run(suite: &dyn Suite, subjects: &Subjects, reporter: &Reporter) {
    let started = Instant::now();
    if let Err(error) = suite.run(subjects, reporter) {
        let story = format!("{error:#}");
        let (reason, log) = story.split_once('\n').unwrap_or((&story, ""));
        let outcome = Outcome::Failed { reason: reason.to_owned(), log: log.to_owned() };
        reporter.report(suite.prefix(), WHOLE_SUITE, started.elapsed(), outcome);
    }
}
