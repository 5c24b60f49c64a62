//! `cargo xtask symbolize`.

use crate::image;
use crate::symbols::Symbols;
use anyhow::{Context, Result, ensure};
use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `symbolize`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cargo xtask symbolize < serial.log
  cargo xtask run 2>&1 </dev/null | cargo xtask symbolize
  ssh host cat serial.log | cargo xtask symbolize old/kernel")]
pub struct Arguments {
    /// The kernel with symbols that the text comes from [default: the one built last]
    #[arg(value_name = "FILE")]
    kernel: Option<PathBuf>,
}

/// Copies standard input to standard output and names the hypervisor's addresses.
pub fn symbolize(arguments: &Arguments) -> Result<ExitCode> {
    let kernel = arguments.kernel.clone().unwrap_or_else(image::kernel_with_symbols);
    ensure!(kernel.is_file(), "there is no {}; `cargo xtask build` makes one", kernel.display());
    let symbols = Symbols::read(&kernel)?;
    let mut output = std::io::stdout().lock();
    for line in std::io::stdin().lock().split(b'\n') {
        let line = line.context("cannot read standard input")?;
        let written = writeln!(output, "{}", symbols.annotate(&String::from_utf8_lossy(&line)));
        written.context("cannot write to standard output")?;
    }
    Ok(ExitCode::SUCCESS)
}
