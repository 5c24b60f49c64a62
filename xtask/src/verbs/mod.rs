//! The command line: one file per verb.

mod build;
mod doctor;
mod fuzz;
mod measure;
mod run;
mod symbolize;
mod test;
mod tidy;

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
    /// Run the fuzz targets
    Fuzz(fuzz::Arguments),
    /// Say what this host can do and what is missing
    Doctor(doctor::Arguments),
    /// Count what the hypervisor costs a booting Linux
    Measure(measure::Arguments),
    /// Name the hypervisor's addresses in a text
    Symbolize(symbolize::Arguments),
    /// Check the repository's own rules
    Tidy(tidy::Arguments),
}

/// Does it.
pub fn dispatch(verb: Verb) -> Result<ExitCode> {
    match verb {
        Verb::Build(arguments) => build::build(&arguments),
        Verb::Run(arguments) => run::run(&arguments),
        Verb::Test(arguments) => test::test(&arguments),
        Verb::Fuzz(arguments) => fuzz::fuzz(&arguments),
        Verb::Doctor(arguments) => doctor::doctor(&arguments),
        Verb::Measure(arguments) => measure::measure(&arguments),
        Verb::Symbolize(arguments) => symbolize::symbolize(&arguments),
        Verb::Tidy(arguments) => tidy::tidy(&arguments),
    }
}
