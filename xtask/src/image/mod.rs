//! Building what boots: the hypervisor image and the guest tests.

mod footprint;

use crate::demo::{Container, DEMOS, Demo};
use crate::files;
use crate::paths::{self, BARE_TARGET};
use crate::{bzimage, elf32};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Frame pointers, for backtraces in exception reports.
const BARE_RUSTFLAGS: &str = "-C force-frame-pointers=yes";
/// Environment variable that tells the loader's build which kernel to embed.
const KERNEL_VARIABLE: &str = "GOSSAMER_KERNEL";
/// Load address of a link that says itself where it runs.
const LINKED_IN_PLACE: u32 = 0;
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

/// A guest with tests, in the containers that bare machines and the hypervisor boot.
#[derive(Clone, Debug)]
pub struct GuestTests {
    /// ELF32 for multiboot 1.
    pub multiboot: PathBuf,
    /// bzImage.
    pub bzimage: PathBuf,
}

/// Builds the guest tests.
pub fn build_guest_tests() -> Result<GuestTests> {
    build_guest("guest-tests")
}

/// Builds the guests that misbehave.
pub fn build_hostile_guests() -> Result<GuestTests> {
    build_guest("hostile")
}

/// Builds a guest of package guest-tests and puts both containers into `target/gossamer`.
fn build_guest(name: &str) -> Result<GuestTests> {
    build_guests()?;
    let link = guest_link(name)?;
    let folder = paths::images()?;
    let (multiboot, bzimage) = (folder.join(format!("{name}.elf")), folder.join(format!("{name}.bzimage")));
    let packed = || format!("cannot pack the guest {name}");
    files::update(&multiboot, &elf32::to_elf32(&link, LINKED_IN_PLACE).with_context(packed)?)?;
    files::update(&bzimage, &bzimage::to_bzimage(&link).with_context(packed)?)?;
    Ok(GuestTests { multiboot, bzimage })
}

/// Builds every demonstration kernel and puts them into `target/gossamer`, in [`DEMOS`]' order.
pub fn build_demos() -> Result<Vec<PathBuf>> {
    build_guests()?;
    let pack = |demo: &Demo| {
        let link = guest_link(demo.link)?;
        let file = match demo.container {
            Container::Elf32 => elf32::to_elf32(&link, LINKED_IN_PLACE),
            Container::Elf64 => Ok(link),
            Container::Flat => elf32::to_flat(&link),
        };
        let path = paths::images()?.join(format!("demo-{}", demo.name));
        files::update(&path, &file.with_context(|| format!("cannot pack {}", demo.link))?)?;
        Ok(path)
    };
    DEMOS.iter().map(pack).collect()
}

fn build_guests() -> Result<()> {
    crate::setup::bare_target()?;
    cargo_build(&["-p", "guest-tests"], None)
}

/// What was linked for one of the guests.
fn guest_link(binary: &str) -> Result<Vec<u8>> {
    files::read(&paths::target().join(BARE_TARGET).join("release").join(binary))
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
