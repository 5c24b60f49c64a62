//! The command line: one file per verb.

mod build;
mod run;
mod test;

use anyhow::Result;
use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Builds, runs and tests Gossamer, a micro-hypervisor for x86-64.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Verb,
}

/// What xtask can do.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Build the image, target/gossamer/gossamer.elf
    Build(build::Arguments),
    /// Boot Linux on the hypervisor, with its console in this terminal
    Run(run::Arguments),
    /// Run the tests on the host and on every emulated machine
    Test(test::Arguments),
}

/// Does it.
pub fn dispatch(verb: Verb) -> Result<ExitCode> {
    match verb {
        Verb::Build(arguments) => build::build(&arguments),
        Verb::Run(arguments) => run::run(&arguments),
        Verb::Test(arguments) => test::test(&arguments),
    }
}
