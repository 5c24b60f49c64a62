//! Building what boots: the hypervisor image and the guest tests.

mod footprint;

use crate::elf32;
use crate::files;
use crate::paths::{self, BARE_TARGET};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Frame pointers, for backtraces in exception reports.
const BARE_RUSTFLAGS: &str = "-C force-frame-pointers=yes";
/// Environment variable that tells the loader's build which kernel to embed.
const KERNEL_VARIABLE: &str = "GOSSAMER_KERNEL";
/// Most memory that the loaded image may take.
pub const SIZE_LIMIT: u64 = 768 << 10;

/// The finished hypervisor image.
#[derive(Clone, Debug)]
pub struct Image {
    /// The ELF32 file for multiboot loaders.
    pub path: PathBuf,
    /// The kernel with symbols and debug data.
    pub kernel: PathBuf,
    /// Bytes of memory that the image takes when loaded.
    pub loaded: u64,
}

/// Where the kernel's link with symbols and debug data lies once built.
pub fn kernel_with_symbols() -> PathBuf {
    paths::target().join(BARE_TARGET).join("release/kernel")
}

/// Builds kernel and loader and puts the image into `target/gossamer`.
pub fn build() -> Result<Image> {
    crate::setup::bare_target()?;
    cargo_build(&["-p", "kernel"], None)?;
    let kernel = kernel_with_symbols();
    let stripped = paths::images()?.join("kernel.elf");
    files::update(
        &stripped,
        &elf32::only_loaded(&files::read(&kernel)?).context("cannot strip the kernel")?,
    )?;
    cargo_build(&["-p", "loader", "--bin", "loader"], Some(&stripped))?;
    let loader = files::read(&paths::target().join(BARE_TARGET).join("release/loader"))?;
    let container = elf32::to_elf32(&loader, elf32::LOAD_ADDRESS).context("cannot pack the loader")?;
    let path = paths::images()?.join("gossamer.elf");
    files::update(&path, &container)?;
    let loaded = footprint::loaded_size(&container)?;
    Ok(Image { path, kernel, loaded })
}

/// Runs `cargo build` for the bare target.
fn cargo_build(packages: &[&str], kernel: Option<&Path>) -> Result<()> {
    let mut cargo = cargo();
    cargo.args(["build", "--release", "--target", BARE_TARGET]).args(packages);
    cargo.env("RUSTFLAGS", BARE_RUSTFLAGS).env_remove("CARGO_ENCODED_RUSTFLAGS");
    if let Some(kernel) = kernel {
        cargo.env(KERNEL_VARIABLE, kernel);
    }
    let status = cargo.status().context("cannot start cargo")?;
    if !status.success() {
        bail!("cargo build {} failed", packages.join(" "));
    }
    Ok(())
}

/// The cargo that runs xtask, in the workspace's root.
pub fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(paths::root());
    cargo
}
