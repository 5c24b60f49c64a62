//! Fuzzing: the targets in `fuzz/targets`, built by cargo-fuzz and run by libFuzzer, which is part of each.

mod corpus;
mod session;
mod tools;

pub use corpus::{keep, working};
pub use session::{Ending, Session, Statistics};
pub use tools::{Fuzzers, build};

use crate::paths;
use anyhow::{Context, Result, ensure};
use std::path::PathBuf;

/// Folder of the package, which has a folder each for targets, dictionaries and the kept corpora.
fn package() -> PathBuf {
    paths::root().join("fuzz")
}

/// All targets, in order.
pub fn targets() -> Result<Vec<String>> {
    let folder = package().join("targets");
    let entries = std::fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut names: Vec<String> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.strip_suffix(".rs").map(str::to_owned))
        .collect();
    names.sort();
    Ok(names)
}

/// The targets of these names, or all.
pub fn chosen(names: &[String]) -> Result<Vec<String>> {
    let all = targets()?;
    if names.is_empty() {
        return Ok(all);
    }
    for name in names {
        ensure!(all.contains(name), "there is no fuzz target '{name}'; there are {}", all.join(", "));
    }
    Ok(names.to_vec())
}
