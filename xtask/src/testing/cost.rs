//! What the hypervisor costs a booting Linux.

use super::{Reporter, Subjects, Suite};
use crate::measure::Cost;
use anyhow::{Result, ensure};
use std::time::Instant;

/// The figures of `cargo xtask measure` within their limits.
pub struct CostTests;

impl Suite for CostTests {
    fn prefix(&self) -> &str {
        "cost"
    }

    fn tests(&self) -> Option<&[&str]> {
        Some(&["linux-boot"])
    }

    fn run(&self, subjects: &Subjects, reporter: &Reporter) -> Result<()> {
        let started = Instant::now();
        let result = Cost::measure(subjects.image()?).and_then(|cost| {
            ensure!(cost.is_within_limits(), "beyond the limits:\n{cost}");
            Ok(())
        });
        reporter.check(self.prefix(), "linux-boot", started, result, String::new);
        Ok(())
    }
}
