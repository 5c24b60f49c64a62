//! What must not outlive xtask: child processes, scratch folders and the terminal's raw mode.
//!
//! Guards undo their thing when dropped, also while a panic unwinds. A signal runs no destructors, so every
//! guard is also on a list that the signal handler works off. SIGKILL cannot be handled: machines are then
//! ended by the kernel (see `machine::process`).

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal};
use rustix::termios::{OptionalActions, Termios};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Exit code after a signal, as a shell would report SIGINT.
const INTERRUPTED: i32 = 130;

struct Pending {
    groups: Vec<Pid>,
    folders: Vec<PathBuf>,
    terminal: Option<Termios>,
}

static PENDING: Mutex<Pending> =
    Mutex::new(Pending { groups: Vec::new(), folders: Vec::new(), terminal: None });

fn pending() -> MutexGuard<'static, Pending> {
    PENDING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Handles SIGINT, SIGTERM and SIGHUP by undoing everything that is pending, then ends xtask.
pub fn install() -> Result<()> {
    ctrlc::set_handler(|| {
        // The list stays locked, so that nothing new starts before the process ends.
        let list = pending();
        list.groups.iter().for_each(|group| kill_group(*group));
        list.folders.iter().for_each(|folder| drop(std::fs::remove_dir_all(folder)));
        if let Some(saved) = &list.terminal {
            restore(saved);
        }
        std::process::exit(INTERRUPTED);
    })
    .context("cannot handle signals")
}

/// A process group that is killed when the guard is dropped.
#[derive(Debug)]
pub struct Group(Pid);

impl Group {
    /// Watches over the group led by the child `pid`.
    pub fn new(pid: Pid) -> Self {
        pending().groups.push(pid);
        Self(pid)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        kill_group(self.0);
        pending().groups.retain(|group| *group != self.0);
    }
}

/// A folder that is removed with its content when the guard is dropped.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// A new folder in `parent` whose name begins with `purpose`. What a killed xtask has left there goes.
    pub fn new(parent: &Path, purpose: &str) -> Result<Self> {
        remove_orphans(parent);
        let folder = tempfile::Builder::new()
            .prefix(&format!("{purpose}-{}-", std::process::id()))
            .tempdir_in(parent)
            .with_context(|| format!("cannot make a scratch folder in {}", parent.display()))?
            .keep();
        pending().folders.push(folder.clone());
        Ok(Self(folder))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed now can be removed by `cargo clean`.
        drop(std::fs::remove_dir_all(&self.0));
        pending().folders.retain(|folder| folder != &self.0);
    }
}

/// The terminal's mode at the time of creation, restored when the guard is dropped.
#[derive(Debug)]
pub struct TerminalMode(());

impl TerminalMode {
    /// Will restore `saved`.
    pub fn new(saved: Termios) -> Self {
        pending().terminal = Some(saved);
        Self(())
    }
}

impl Drop for TerminalMode {
    fn drop(&mut self) {
        if let Some(saved) = pending().terminal.take() {
            restore(&saved);
        }
    }
}

/// Removes scratch folders whose process, the second part of the name, is gone.
fn remove_orphans(parent: &Path) {
    for folder in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = folder.file_name().to_string_lossy().into_owned();
        let owner = name.split('-').nth(1).and_then(|pid| pid.parse::<u32>().ok());
        if owner.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            // Another xtask may be doing the same.
            drop(std::fs::remove_dir_all(folder.path()));
        }
    }
}

fn kill_group(group: Pid) {
    // The group may be gone already.
    let _ = rustix::process::kill_process_group(group, Signal::KILL);
}

fn restore(saved: &Termios) {
    // Nothing can be done for a terminal that is gone.
    let _ = rustix::termios::tcsetattr(std::io::stdin(), OptionalActions::Flush, saved);
}
