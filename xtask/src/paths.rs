//! Where things lie. Whatever xtask makes is below the target folder.

use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// Target triple of the kernel, the loader and the guest tests.
pub const BARE_TARGET: &str = "x86_64-unknown-none";

/// The workspace's root folder.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

/// Cargo's target folder.
pub fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => root().join(folder),
        None => root().join("target"),
    }
}

/// Folder of finished images, made if need be.
pub fn images() -> Result<PathBuf> {
    made(target().join("gossamer"))
}

/// Folder of what was fetched, made if need be. May be deleted at any time.
pub fn cache() -> Result<PathBuf> {
    made(target().join("gossamer/cache"))
}

/// A scratch folder that vanishes when dropped or when a signal ends xtask.
pub fn scratch(purpose: &str) -> Result<crate::cleanup::Scratch> {
    crate::cleanup::Scratch::new(&made(target().join("gossamer/tmp"))?, purpose)
}

fn made(folder: PathBuf) -> Result<PathBuf> {
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    Ok(folder)
}
