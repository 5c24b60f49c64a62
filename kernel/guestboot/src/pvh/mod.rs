//! PVH: an ELF kernel with a note that names its 32-bit entry point (Xen, docs/misc/pvh.pandoc).

mod start_info;
#[cfg(test)]
mod tests;

use crate::acpi;
use crate::entry::{self, Registers};
use crate::image::ImageError;
use crate::image::elf::Elf;
use crate::plan::{Guest, StartPlan, table};
use crate::stage::{Stage, StageError};
use alloc::vec::Vec;
use core::fmt;
use start_info::{MAGIC, MemmapEntry, ModlistEntry, StartInfo, VERSION};
use x86defs::gpr::Gpr;
use zerocopy::IntoBytes;

/// Name of Xen's notes.
const NOTE_NAME: &str = "Xen";
/// `XEN_ELFNOTE_PHYS32_ENTRY`.
const PHYS32_ENTRY: u64 = 18;
/// Structures begin on such a border.
const ALIGNMENT: u64 = 8;

/// Why a PVH kernel cannot be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PvhError {
    /// There is no note after all.
    NoNote,
    /// The note's content is no address.
    Note {
        /// Its length.
        len: usize,
    },
    /// It cannot be loaded.
    Image(ImageError),
    /// It has no place in memory.
    Stage(StageError),
}

impl From<ImageError> for PvhError {
    fn from(error: ImageError) -> Self {
        Self::Image(error)
    }
}

impl From<StageError> for PvhError {
    fn from(error: StageError) -> Self {
        Self::Stage(error)
    }
}

impl fmt::Display for PvhError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the PVH kernel cannot start: ")?;
        match self {
            Self::NoNote => f.write_str("it has no note with an entry point"),
            Self::Note { len } => {
                write!(
                    f,
                    "the note with its entry point has {len} bytes: expected an address of 4 or 8 bytes"
                )
            }
            Self::Image(error) => error.fmt(f),
            Self::Stage(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for PvhError {}

/// Whether a file has the note.
pub(crate) fn has_note(file: &[u8]) -> bool {
    Elf::parse(file).is_ok_and(|elf| elf.note(NOTE_NAME, PHYS32_ENTRY).is_some())
}

/// Lays a PVH kernel out.
pub fn plan(guest: &Guest<'_>) -> Result<StartPlan, PvhError> {
    let elf = Elf::parse(guest.kernel)?;
    let image = elf.image(Some(note_entry(&elf)?))?;
    let mut stage = Stage::new(guest.map);
    stage.load(&image)?;
    let modules = stage.modules(guest)?;
    let mut modlist = Vec::new();
    for module in &modules {
        modlist.push(ModlistEntry::new(module, stage.text(module.cmdline)?));
    }
    let ranges = guest.map.e820();
    let info = StartInfo {
        magic: MAGIC.into(),
        version: VERSION.into(),
        flags: 0.into(),
        nr_modules: (modules.len() as u32).into(),
        modlist_paddr: stage.place(table(modlist), ALIGNMENT)?.0.into(),
        cmdline_paddr: stage.text(guest.cmdline)?.0.into(),
        rsdp_paddr: acpi::RSDP.0.into(),
        memmap_paddr: stage.place(table(ranges.iter().map(MemmapEntry::new)), ALIGNMENT)?.0.into(),
        memmap_entries: (ranges.len() as u32).into(),
        reserved: 0.into(),
    };
    let info = stage.place(info.as_bytes().into(), ALIGNMENT)?;
    let gdt = stage.boot_gdt()?;
    let entry = entry::protected_mode(image.entry, gdt, Registers::of(&[(Gpr::Rbx, info.0)]));
    Ok(StartPlan { copies: stage.into_copies(), entry })
}

/// The note's address: of the width of the kernel's own words.
fn note_entry(elf: &Elf<'_>) -> Result<u64, PvhError> {
    let content = elf.note(NOTE_NAME, PHYS32_ENTRY).ok_or(PvhError::NoNote)?;
    let bytes = match content.len() {
        len @ (4 | 8) => {
            let mut bytes = [0; 8];
            bytes[..len].copy_from_slice(content);
            bytes
        }
        len => return Err(PvhError::Note { len }),
    };
    Ok(u64::from_le_bytes(bytes))
}
