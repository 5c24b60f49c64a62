//! The initial file system of our Linux guests: busybox, a shell on the console, and nothing else.

mod newc;
mod tsc;

use crate::{files, paths, setup};
use anyhow::Result;
use std::path::PathBuf;

/// The first process.
const INIT: &[u8] = include_bytes!("init.sh");
/// Begins the line that [`INIT`] prints before it starts the shell.
pub const MARKER: &str = "init: tsc ";
/// The shell's prompt.
pub const PROMPT: &str = "/ # ";

/// Writes the archive and gives its path.
pub fn build() -> Result<PathBuf> {
    let busybox = files::read(&setup::busybox()?)?;
    let mut archive = newc::Archive::default();
    for folder in ["bin", "dev", "proc", "sys"] {
        archive.folder(folder);
    }
    // Linux opens the console for the first process before anything is mounted.
    archive.character_device("dev/console", 5, 1);
    archive.program("bin/busybox", &busybox);
    for name in ["sh", "mount"] {
        archive.link(&format!("bin/{name}"), "busybox");
    }
    archive.program("bin/tsc", &tsc::program());
    archive.program("init", INIT);
    let path = paths::images()?.join("initrd.img");
    files::update(&path, &archive.finish())?;
    Ok(path)
}
