//! The kept corpora, `fuzz/corpus/TARGET`: few and small inputs that together reach everything that is known to be
//! reachable.

use super::session::{finish, folder};
use super::{Fuzzers, package};
use crate::paths;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};

/// Most inputs of a target that are kept.
const MOST: usize = 200;
/// Most bytes of a kept input.
const LARGEST: u64 = 4096;

/// The folder of a target's kept corpus.
pub(super) fn kept(target: &str) -> PathBuf {
    package().join("corpus").join(target)
}

/// The folder in which a target's runs collect inputs.
pub fn working(target: &str) -> Result<PathBuf> {
    folder(&paths::images()?.join("fuzz/corpus").join(target))
}

/// What became of a kept corpus.
#[derive(Clone, Copy, Debug)]
pub struct Keep {
    /// Inputs before.
    pub before: usize,
    /// Inputs now.
    pub now: usize,
}

/// Merges what a target's runs have collected into its kept corpus: of inputs that reach the same edges the smallest
/// stays.
pub fn keep(fuzzers: &Fuzzers, target: &str) -> Result<Keep> {
    let kept = folder(&kept(target))?;
    let before = files_of(&kept)?.len();
    let scratch = paths::scratch("corpus")?;
    let merged = folder(&scratch.path().join("merged"))?;
    let mut command = fuzzers.command(target);
    // Edges alone count, not how often each is passed.
    command.args(["-set_cover_merge=1", "-use_counters=0", &format!("-max_len={LARGEST}")]);
    command.arg(&merged).arg(&kept).arg(working(target)?);
    let output = finish(command)?;
    ensure!(output.good, "cannot merge the corpus of {target}:\n{}", output.text);
    let mut inputs = files_of(&merged)?;
    inputs.sort_by_key(|(_, len)| *len);
    inputs.truncate(MOST);
    for (old, _) in files_of(&kept)? {
        std::fs::remove_file(&old).with_context(|| format!("cannot remove {}", old.display()))?;
    }
    for (input, _) in &inputs {
        let to = kept.join(input.file_name().unwrap_or_default());
        std::fs::copy(input, &to).with_context(|| format!("cannot write {}", to.display()))?;
    }
    Ok(Keep { before, now: inputs.len() })
}

/// The files of a folder, with their lengths.
fn files_of(folder: &Path) -> Result<Vec<(PathBuf, u64)>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    Ok(entries.flatten().filter_map(|entry| Some((entry.path(), entry.metadata().ok()?.len()))).collect())
}
