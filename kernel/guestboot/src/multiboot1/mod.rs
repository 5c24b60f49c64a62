//! Multiboot 0.6.96, known as multiboot 1.

pub(crate) mod header;
mod info;
#[cfg(test)]
mod tests;

use crate::entry::{self, Registers};
use crate::image::ImageError;
use crate::plan::{BOOT_LOADER_NAME, Guest, StartPlan, table};
use crate::stage::{Stage, StageError};
use alloc::vec::Vec;
use core::fmt;
use header::Header;
use info::{Info, MmapEntry, ModEntry, Parts};
use x86defs::gpr::Gpr;
use zerocopy::IntoBytes;

/// EAX at entry (3.2).
pub const BOOTED: u32 = 0x2bad_b002;
/// Structures begin on such a border.
const ALIGNMENT: u64 = 8;

/// Why a multiboot 1 kernel cannot be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Multiboot1Error {
    /// There is no header after all.
    NoHeader,
    /// The header asks for something that is not known.
    Flags {
        /// The bits.
        unknown: u32,
    },
    /// It cannot be loaded.
    Image(ImageError),
    /// It has no place in memory.
    Stage(StageError),
}

impl From<StageError> for Multiboot1Error {
    fn from(error: StageError) -> Self {
        Self::Stage(error)
    }
}

impl fmt::Display for Multiboot1Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the multiboot 1 kernel cannot start: ")?;
        match self {
            Self::NoHeader => f.write_str("it has no header"),
            Self::Flags { unknown } => {
                write!(f, "its header requires what we do not know (flags {unknown:#x}); clear these bits")
            }
            Self::Image(error) => error.fmt(f),
            Self::Stage(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for Multiboot1Error {}

/// Lays a multiboot 1 kernel out.
pub fn plan(guest: &Guest<'_>) -> Result<StartPlan, Multiboot1Error> {
    let image = Header::find(guest.kernel).ok_or(Multiboot1Error::NoHeader)?.image(guest.kernel)?;
    let mut stage = Stage::new(guest.map);
    stage.load(&image)?;
    let modules = stage.modules(guest)?;
    let mut mods = Vec::new();
    for module in &modules {
        mods.push(ModEntry::new(module, stage.text(module.cmdline)?));
    }
    let ranges = guest.map.e820();
    let mmap = table(ranges.iter().map(MmapEntry::new));
    let parts = Parts {
        cmdline: stage.text(guest.cmdline)?,
        boot_loader_name: stage.text(BOOT_LOADER_NAME)?,
        mods_count: modules.len(),
        mods_addr: stage.place(table(mods), ALIGNMENT)?,
        mmap_length: mmap.len(),
        mmap_addr: stage.place(mmap, ALIGNMENT)?,
        memory_kib: guest.map.legacy_kib(),
    };
    let info = stage.place(Info::new(&parts).as_bytes().into(), ALIGNMENT)?;
    let gdt = stage.boot_gdt()?;
    let registers = Registers::of(&[(Gpr::Rax, BOOTED.into()), (Gpr::Rbx, info.0)]);
    let entry = entry::protected_mode(image.entry, gdt, registers);
    Ok(StartPlan { copies: stage.into_copies(), entry })
}
