//! Reading and writing files with errors that name them.

use anyhow::{Context, Result};
use std::fs::File;
use std::path::Path;

/// Reads a file.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Reads a text file.
pub fn read_text(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Opens a file for reading.
pub fn open(path: &Path) -> Result<File> {
    File::open(path).with_context(|| format!("cannot open {}", path.display()))
}

/// Makes an empty file for writing.
pub fn create(path: &Path) -> Result<File> {
    File::create(path).with_context(|| format!("cannot make {}", path.display()))
}

/// Writes a file.
pub fn write(path: &Path, content: &[u8]) -> Result<()> {
    std::fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))
}

/// Writes a file, but leaves one alone that has this content, so that what depends on it stays fresh. Another
/// xtask sees the old file or the new one, never half of it.
pub fn update(path: &Path, content: &[u8]) -> Result<()> {
    if std::fs::read(path).is_ok_and(|old| old == content) {
        return Ok(());
    }
    let folder = path.parent().context("a file without a folder")?;
    let new = tempfile::NamedTempFile::new_in(folder)
        .with_context(|| format!("cannot write to {}", folder.display()))?;
    write(new.path(), content)?;
    new.persist(path).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(())
}
