//! The image itself: its size, and names for its addresses.

use super::{Reporter, Subjects, Suite};
use crate::files;
use crate::image::{self, Image};
use crate::symbols::Symbols;
use anyhow::{Context, Result, ensure};
use std::time::Instant;

/// Offset of `e_entry` in the ELF64 header.
const E_ENTRY: usize = 24;
/// The function that the loader jumps to.
const ENTRY: &str = "kernel_entry";

/// Tests of the files that a build makes.
pub struct ImageTests;

impl Suite for ImageTests {
    fn prefix(&self) -> &str {
        "image"
    }

    fn tests(&self) -> Option<&[&str]> {
        Some(&["size", "symbolize"])
    }

    fn run(&self, subjects: &Subjects, reporter: &Reporter) -> Result<()> {
        let image = subjects.image()?;
        reporter.check(self.prefix(), "size", Instant::now(), size(image), String::new);
        reporter.check(self.prefix(), "symbolize", Instant::now(), symbolize(image), String::new);
        Ok(())
    }
}

fn size(image: &Image) -> Result<()> {
    let (loaded, limit) = (image.loaded, image::SIZE_LIMIT);
    ensure!(loaded <= limit, "the image takes {loaded} bytes when loaded, at most {limit}");
    Ok(())
}

/// The kernel's entry point has its name, file and line.
fn symbolize(image: &Image) -> Result<()> {
    let elf = files::read(&image.kernel)?;
    let entry = elf.get(E_ENTRY..).and_then(<[u8]>::first_chunk).context("the kernel is no ELF file")?;
    let text = format!("rip {:#018x} rsp", u64::from_le_bytes(*entry));
    let named = Symbols::read(&image.kernel)?.annotate(&text);
    let complete = named.contains(ENTRY) && named.contains("+0x0 ") && named.contains("kernel/src/boot.rs:");
    ensure!(complete, "the entry point is named '{named}'");
    Ok(())
}
