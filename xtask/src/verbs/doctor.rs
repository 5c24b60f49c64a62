//! `cargo xtask doctor`.

use crate::machine::{self, nested_virtualization};
use crate::paths::{self, BARE_TARGET};
use crate::setup::{self, Distribution, Need};
use anyhow::Result;
use std::process::ExitCode;

/// Arguments of `doctor`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
It changes nothing. The exit code is 0 if the default machine can run, otherwise 1.

Example:
  cargo xtask doctor")]
pub struct Arguments {}

/// Lists what this host can do, and what to type for the rest.
pub fn doctor(_: &Arguments) -> Result<ExitCode> {
    let default = machine::default_name();
    match nested_virtualization() {
        Some(kind) => say(true, "nested virtualization", &format!("{kind}, through KVM")),
        None => say(false, "nested virtualization", "none; machines are emulated in software instead"),
    }
    let target = setup::has_bare_target()?;
    say(target, "Rust target", &or_type(target, BARE_TARGET, &format!("rustup target add {BARE_TARGET}")));
    for need in Need::ALL {
        let missing = setup::missing(&[need]);
        let install = format!("sudo apt-get install {}", missing.join(" "));
        say(missing.is_empty(), need.label(), &or_type(missing.is_empty(), "installed", &install));
    }
    for distribution in [Distribution::Cloud, Distribution::Generic, Distribution::Installer] {
        let cached = distribution.is_cached()?;
        let state = if cached { "in the cache" } else { "fetched when it is needed" };
        say(cached, distribution.package(), state);
    }
    println!();
    for name in ["qemu-kvm", "qemu-svm", "bochs-vmx", "bochs-svm"] {
        let machine = machine::by_name(name)?;
        let ready = setup::missing(machine.needs()).is_empty();
        let possible = name != "qemu-kvm" || nested_virtualization().is_some();
        let state = match (possible, ready) {
            (true, true) if name == default => "ready; the default",
            (true, true) => "ready",
            (true, false) => "its packages are missing; run and test install them",
            (false, _) => "not possible on this host",
        };
        say(possible && ready, name, state);
    }
    println!("\nWhat xtask keeps lies in {}.", paths::images()?.display());
    let able = setup::missing(machine::by_name(default)?.needs()).is_empty() && target;
    Ok(if able { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn say(good: bool, what: &str, state: &str) {
    println!("{}  {what:<36} {state}", if good { "ok" } else { "--" });
}

fn or_type(good: bool, state: &str, command: &str) -> String {
    if good { state.to_owned() } else { format!("missing; type: {command}") }
}
