//! Rules of this repository that a program can check.

mod dependencies;
mod exit_path;
mod length;
mod unsafety;
mod words;

use crate::{files, paths};
use anyhow::{Context, Result};
use std::fmt;
use std::path::{Path, PathBuf};

/// A place where a rule does not hold.
#[derive(Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file, from the workspace's root.
    pub file: PathBuf,
    /// Its line, if one is to blame.
    pub line: Option<usize>,
    /// What is wrong, and what to do.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(out, "{}:{line}: {}", self.file.display(), self.message),
            None => write!(out, "{}: {}", self.file.display(), self.message),
        }
    }
}

/// A text file of the repository.
#[derive(Debug)]
pub struct Source {
    /// Path from the workspace's root.
    pub path: PathBuf,
    /// Content.
    pub text: String,
}

impl Source {
    /// Whether it is Rust.
    pub fn is_rust(&self) -> bool {
        self.path.extension().is_some_and(|extension| extension == "rs")
    }

    /// A finding in it.
    pub fn finding(&self, line: Option<usize>, message: impl Into<String>) -> Finding {
        Finding { file: self.path.clone(), line, message: message.into() }
    }
}

/// Checks every rule on the whole repository.
pub fn check() -> Result<Vec<Finding>> {
    let mut sources = Vec::new();
    collect(&paths::root(), &mut sources)?;
    sources.sort_by(|one, other| one.path.cmp(&other.path));
    let mut findings = dependencies::check()?;
    findings.extend(unsafety::check(&sources)?);
    findings.extend(exit_path::check(&sources));
    for source in &sources {
        findings.extend(length::check(source));
        findings.extend(words::check(source));
    }
    Ok(findings)
}

/// What is not the project's own text.
const SKIPPED: [&str; 3] = [".git", "target", "Cargo.lock"];
const TEXT: [&str; 6] = ["rs", "md", "toml", "ld", "sh", "yml"];

fn collect(folder: &Path, sources: &mut Vec<Source>) -> Result<()> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    for entry in entries {
        let entry = entry.with_context(|| format!("cannot list {}", folder.display()))?;
        let (path, name) = (entry.path(), entry.file_name());
        if SKIPPED.iter().any(|skipped| name == *skipped) {
            continue;
        }
        let is_text = path.extension().is_some_and(|end| TEXT.iter().any(|text| end == *text));
        if path.is_dir() {
            collect(&path, sources)?;
        } else if is_text || path.ends_with(".ci/run") {
            let text = files::read_text(&path)?;
            let path = path.strip_prefix(paths::root()).unwrap_or(&path).to_owned();
            sources.push(Source { path, text });
        }
    }
    Ok(())
}
