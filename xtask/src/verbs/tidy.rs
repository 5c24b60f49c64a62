//! `cargo xtask tidy`.

use crate::tidy;
use anyhow::Result;
use std::process::ExitCode;

/// Arguments of `tidy`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Checked are the direction of dependencies, the length of files and functions, where unsafe code may be,
that the exit path neither allocates, formats nor locks, and words that have no place here.

Example:
  cargo xtask tidy")]
pub struct Arguments {}

/// Prints every place where a rule of the repository does not hold.
pub fn tidy(_: &Arguments) -> Result<ExitCode> {
    let findings = tidy::check()?;
    for finding in &findings {
        println!("{finding}");
    }
    Ok(if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
