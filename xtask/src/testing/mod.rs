//! The test run: suites that report tests one by one, a filter, and a schedule.

pub mod bad_input;
pub mod cost;
pub mod demos;
pub mod endings;
pub mod entry;
pub mod fuzz;
pub mod guest_tests;
pub mod host;
pub mod hostile;
pub mod image_tests;
pub mod junit;
pub mod linux;
pub mod linux_life;
pub mod memtest;
pub mod nmi_button;
pub mod refused;
pub mod repeated;
mod reporter;
mod schedule;
pub mod screen;
pub mod script;

pub use reporter::{Reporter, Summary};
pub use schedule::run_all;

use crate::demo::DEMOS;
use crate::image::{self, GuestTests, Image};
use anyhow::{Result, anyhow};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

/// How a test ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It held.
    Passed,
    /// It did not hold; `log` is what helps to find out why.
    Failed {
        /// In one line.
        reason: String,
        /// The end of the console's transcript, the emulator's last words, or a test's own output.
        log: String,
    },
    /// It was not run.
    Skipped {
        /// In one line.
        reason: String,
    },
}

/// A test that has ended.
#[derive(Clone, Debug)]
pub struct Report {
    /// Suite and test, such as `linux/qemu-svm/powers-off`.
    pub name: String,
    /// How long it took.
    pub time: Duration,
    /// How it ended.
    pub outcome: Outcome,
}

/// What the tests work on, each built for the first suite that needs it.
#[derive(Debug, Default)]
pub struct Subjects {
    image: OnceLock<Result<Image, String>>,
    guest_tests: OnceLock<Result<GuestTests, String>>,
    demos: OnceLock<Result<Vec<PathBuf>, String>>,
    bare_demos: [OnceLock<Result<String, String>>; DEMOS.len()],
    hostile_guests: OnceLock<Result<GuestTests, String>>,
}

impl Subjects {
    /// The hypervisor.
    pub fn image(&self) -> Result<&Image> {
        built(self.image.get_or_init(|| image::build().map_err(|error| format!("{error:#}"))))
    }

    /// The bare-metal tests.
    pub fn guest_tests(&self) -> Result<&GuestTests> {
        built(
            self.guest_tests.get_or_init(|| image::build_guest_tests().map_err(|error| format!("{error:#}"))),
        )
    }

    /// The file of a demonstration kernel of [`DEMOS`].
    pub fn demo(&self, index: usize) -> Result<&Path> {
        let demos =
            built(self.demos.get_or_init(|| image::build_demos().map_err(|error| format!("{error:#}"))))?;
        Ok(&demos[index])
    }

    /// What it prints on the bare machine that can boot it fastest; asked for once.
    pub fn bare_demo(&self, index: usize) -> Result<&str> {
        let transcript = || demos::bare(index, demos::FASTEST, self).map_err(|error| format!("{error:#}"));
        built(self.bare_demos[index].get_or_init(transcript)).map(String::as_str)
    }

    /// The guests that misbehave.
    pub fn hostile_guests(&self) -> Result<&GuestTests> {
        let build = || image::build_hostile_guests().map_err(|error| format!("{error:#}"));
        built(self.hostile_guests.get_or_init(build))
    }
}

fn built<T>(result: &Result<T, String>) -> Result<&T> {
    result.as_ref().map_err(|error| anyhow!("{error}"))
}

/// Which tests are asked for: those whose name contains one of these, or all.
#[derive(Clone, Debug, Default)]
pub struct Filter(pub Vec<String>);

impl Filter {
    /// Whether a test of this name is asked for.
    pub fn selects(&self, name: &str) -> bool {
        self.0.is_empty() || self.0.iter().any(|part| name.contains(part))
    }

    /// Whether a suite can have such a test: `prefix` begins its tests' names, which need not be known.
    pub fn may_select(&self, prefix: &str, tests: Option<&[&str]>) -> bool {
        match tests {
            Some(tests) => tests.iter().any(|test| self.selects(&format!("{prefix}/{test}"))),
            None => self.selects(prefix) || self.0.iter().any(|part| within(part, prefix).is_some()),
        }
    }

    /// The parts of test names that have to be looked for within the suite; none if all its tests are asked for.
    pub fn inside<'a>(&'a self, prefix: &str) -> Vec<&'a str> {
        if self.selects(prefix) {
            return Vec::new();
        }
        self.0.iter().filter_map(|part| within(part, prefix)).collect()
    }
}

/// What `part` asks for within the suite of this prefix.
fn within<'a>(part: &'a str, prefix: &str) -> Option<&'a str> {
    match part.split_once('/') {
        None => Some(part),
        Some(_) => part.strip_prefix(prefix)?.strip_prefix('/'),
    }
}

/// Tests that run one after the other, often in one boot of a machine.
pub trait Suite: Send + Sync {
    /// What the names of its tests begin with.
    fn prefix(&self) -> &str;
    /// Its tests, if they are known beforehand.
    fn tests(&self) -> Option<&[&str]> {
        None
    }
    /// Finds out which tests there are.
    fn list(&self, _: &Subjects) -> Result<Vec<String>> {
        Ok(self.tests().unwrap_or_default().iter().map(|test| (*test).to_owned()).collect())
    }
    /// Runs the tests. An error fails the suite as a whole.
    fn run(&self, subjects: &Subjects, reporter: &Reporter) -> Result<()>;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(parts: &[&str]) -> Filter {
        Filter(parts.iter().map(|part| (*part).to_owned()).collect())
    }

    #[test]
    fn no_filter_selects_everything() {
        assert!(filter(&[]).selects("a/b"));
        assert!(filter(&[]).may_select("a", None));
        assert!(filter(&[]).inside("a").is_empty());
    }

    #[test]
    fn known_tests_decide_exactly() {
        let tests = Some(["boots", "ends"].as_slice());
        assert!(filter(&["ends"]).may_select("linux/q", tests));
        assert!(!filter(&["cpuid"]).may_select("linux/q", tests));
    }

    #[test]
    fn unknown_tests_may_have_any_name() {
        assert!(filter(&["cpuid"]).may_select("guest/q", None));
        assert!(filter(&["guest/q/cpuid"]).may_select("guest/q", None));
        assert!(!filter(&["linux/q"]).may_select("guest/q", None));
    }

    #[test]
    fn the_suite_gets_the_rest_of_the_name() {
        assert_eq!(filter(&["guest/q/cpuid", "msr", "linux/q/x"]).inside("guest/q"), ["cpuid", "msr"]);
        assert!(filter(&["guest/"]).inside("guest/q").is_empty());
    }
}
