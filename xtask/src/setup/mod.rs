//! Installs and fetches what a verb needs, by need, and says what to type where it may not.

mod debian;
mod packages;

pub use debian::{Distribution, busybox, memtest};
pub use packages::{Need, missing, require};

use crate::paths::BARE_TARGET;
use crate::progress::Step;
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::Command;

/// Something can only be done as root; carries the command to type. xtask's exit code is then 2.
#[derive(Debug)]
pub struct NeedsRoot(String);

impl std::fmt::Display for NeedsRoot {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "this needs root; please type:\n\n    sudo {}\n", self.0)
    }
}

impl std::error::Error for NeedsRoot {}

/// Whether the standard library for the bare target is there.
pub fn has_bare_target() -> Result<bool> {
    let sysroot =
        output(Command::new("rustc").args(["--print", "sysroot"]).current_dir(crate::paths::root()))?;
    Ok(Path::new(sysroot.trim()).join("lib/rustlib").join(BARE_TARGET).join("lib").is_dir())
}

/// Makes sure that rustc can build for the bare target.
pub fn bare_target() -> Result<()> {
    if has_bare_target()? {
        return Ok(());
    }
    let _step = Step::new(format!("adding the Rust target {BARE_TARGET}"));
    let added = Command::new("rustup")
        .args(["target", "add", BARE_TARGET])
        .current_dir(crate::paths::root())
        .status()
        .is_ok_and(|status| status.success());
    ensure!(
        added,
        "cannot add the target {BARE_TARGET} with rustup.\n\
         Without rustup, install a Rust toolchain that brings this target's standard library; Debian's\n\
         rustc-web and rust-web-src with -Zbuild-std (RUSTC_BOOTSTRAP=1) is a way to build it from source."
    );
    Ok(())
}

/// Runs `command` as root, directly or through sudo, or names it in the error.
fn as_root(command: &[&str]) -> Result<()> {
    let (program, arguments) = command.split_first().context("an empty command")?;
    let mut run = if rustix::process::geteuid().is_root() {
        Command::new(program)
    } else {
        let may =
            Command::new("sudo").args(["-n", "true"]).output().is_ok_and(|output| output.status.success());
        if !may {
            return Err(NeedsRoot(command.join(" ")).into());
        }
        let mut sudo = Command::new("sudo");
        sudo.args(["-n", program]);
        sudo
    };
    run.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
    output(&mut run).map(drop)
}

/// Runs a command and gives its standard output; its standard error becomes part of an error.
fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(std::process::Stdio::null())
        .output()
        .with_context(|| format!("cannot start {name}"))?;
    ensure!(
        output.status.success(),
        "{name} failed ({}):\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
