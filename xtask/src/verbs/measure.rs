//! `cargo xtask measure`.

use crate::measure::{Cost, MACHINE};
use crate::progress::Step;
use crate::{image, machine, setup};
use anyhow::Result;
use std::process::ExitCode;

/// Arguments of `measure`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Boots Debian's kernel twice on qemu-svm with instruction counting, on the bare machine and under the
hypervisor. The exit code is 0 if both figures are within their limits, otherwise 1.

Example:
  cargo xtask measure")]
pub struct Arguments {}

/// Prints what the hypervisor costs a booting Linux.
pub fn measure(_: &Arguments) -> Result<ExitCode> {
    setup::require(machine::by_name(MACHINE)?.needs())?;
    let image = image::build()?;
    let step = Step::new("booting Linux on the bare machine and under the hypervisor");
    let cost = Cost::measure(&image)?;
    drop(step);
    println!("{cost}");
    Ok(if cost.is_within_limits() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
