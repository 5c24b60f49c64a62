//! `cargo xtask`: builds the image, runs it on machines, tests it. Every verb has `--help`.

#![forbid(unsafe_code)]
#![allow(unreachable_pub, reason = "nothing outside of a program can reach into it")]

mod bzimage;
mod cleanup;
mod demo;
mod elf32;
mod files;
mod fuzzing;
mod guest;
mod image;
mod initramfs;
mod machine;
mod measure;
mod paths;
mod progress;
mod setup;
mod symbols;
mod terminal;
mod testing;
mod tidy;
mod verbs;
mod workspace;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let command = verbs::Cli::parse().command;
    if let Err(error) = cleanup::install() {
        eprintln!("error: {error:#}");
        return ExitCode::FAILURE;
    }
    match verbs::dispatch(command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            match error.downcast_ref::<setup::NeedsRoot>() {
                Some(_) => ExitCode::from(2),
                None => ExitCode::FAILURE,
            }
        }
    }
}
