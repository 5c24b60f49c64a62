//! cargo-fuzz, and what it builds.

use super::package;
use crate::image;
use crate::paths;
use crate::progress::Step;
use crate::setup::{self, Need};
use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use std::process::Command;

/// The version that is installed below the target folder.
const CARGO_FUZZ: &str = "0.13.2";
/// What the fuzzers run on.
const HOST: &str = "x86_64-unknown-linux-gnu";
/// The built targets.
#[derive(Clone, Debug)]
pub struct Fuzzers(PathBuf);

impl Fuzzers {
    /// Runs a target; the kernel ends it even when xtask is killed.
    pub fn command(&self, target: &str) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]).arg(self.0.join(target));
        command
    }
}

/// Builds every target.
pub fn build() -> Result<Fuzzers> {
    setup::require(&[Need::CppCompiler])?;
    let cargo_fuzz = cargo_fuzz()?;
    let _step = Step::new("building the fuzz targets");
    let folder = paths::target().join("fuzz");
    let mut command = Command::new(cargo_fuzz);
    // All code under test is safe, so there is nothing for a sanitizer to find.
    command.args(["build", "--sanitizer", "none", "--fuzz-dir"]).arg(package());
    // In the package's folder, whose own configuration of cargo counts then.
    command.arg("--target-dir").arg(&folder).current_dir(package());
    command.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    run(&mut command).context("cannot build the fuzz targets")?;
    Ok(Fuzzers(folder.join(HOST).join("release")))
}

/// cargo-fuzz, installed if it is missing.
fn cargo_fuzz() -> Result<PathBuf> {
    let root = paths::target().join("tools");
    let program = root.join("bin/cargo-fuzz");
    let version = Command::new(&program).arg("--version").output();
    if version.is_ok_and(|output| output.stdout.ends_with(format!("{CARGO_FUZZ}\n").as_bytes())) {
        return Ok(program);
    }
    let _step = Step::new(format!("installing cargo-fuzz {CARGO_FUZZ}"));
    let scratch = paths::scratch("tools")?;
    let mut cargo = image::cargo();
    cargo.args(["install", "cargo-fuzz", "--locked", "--version", &format!("={CARGO_FUZZ}"), "--force"]);
    cargo.arg("--root").arg(&root).arg("--target-dir").arg(scratch.path());
    run(&mut cargo).context("cannot install cargo-fuzz")?;
    Ok(program)
}

/// Runs a command whose output matters only if it fails.
fn run(command: &mut Command) -> Result<()> {
    let output = command.output().context("cannot start it")?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}
