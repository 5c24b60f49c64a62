//! Multiboot 2, for its 32-bit entry on i386.

pub(crate) mod header;
mod tag;
#[cfg(test)]
mod tests;

use crate::acpi;
use crate::entry::{self, Registers};
use crate::image::{Image, ImageError};
use crate::plan::{Guest, StartPlan};
use crate::stage::{Stage, StageError};
use core::fmt;
use header::{Header, Preference, Relocatable};
use x86defs::gpr::Gpr;

/// EAX at entry (3.3).
pub const BOOTED: u32 = 0x36d7_6289;

/// Why a multiboot 2 kernel cannot be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Multiboot2Error {
    /// There is no header after all.
    NoHeader,
    /// The header is for another processor.
    Architecture {
        /// `architecture`.
        architecture: u32,
    },
    /// A tag of the header is damaged.
    Tag {
        /// Its type.
        kind: u16,
    },
    /// A tag of the header that is not optional asks for what we do not have.
    UnsupportedTag {
        /// Its type.
        kind: u16,
    },
    /// The header requires information that we do not have.
    Information {
        /// Type of the tag.
        kind: u32,
    },
    /// The header has an address tag but no entry address tag.
    NoEntry,
    /// A relocatable kernel fits nowhere.
    NoPlace {
        /// Bytes that it needs.
        len: u64,
    },
    /// It cannot be loaded.
    Image(ImageError),
    /// It has no place in memory.
    Stage(StageError),
}

impl From<StageError> for Multiboot2Error {
    fn from(error: StageError) -> Self {
        Self::Stage(error)
    }
}

impl fmt::Display for Multiboot2Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the multiboot 2 kernel cannot start: ")?;
        match self {
            Self::NoHeader => f.write_str("it has no header"),
            Self::Architecture { architecture } => {
                write!(
                    f,
                    "its header is for another processor (architecture {architecture}): expected 0, i386"
                )
            }
            Self::Tag { kind } => write!(f, "the tag of type {kind} in its header is damaged"),
            Self::UnsupportedTag { kind } => write!(
                f,
                "its header requires the tag of type {kind}, which we do not know; mark it as optional"
            ),
            Self::Information { kind } => write!(
                f,
                "its header requires information of type {kind}, which we do not have; mark the request as optional"
            ),
            Self::NoEntry => f.write_str("its header has an address tag but no entry address tag"),
            Self::NoPlace { len } => write!(
                f,
                "its {len:#x} bytes fit nowhere between the addresses that its relocatable tag permits; \
                 give the virtual machine more memory"
            ),
            Self::Image(error) => error.fmt(f),
            Self::Stage(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for Multiboot2Error {}

/// Lays a multiboot 2 kernel out.
pub fn plan(guest: &Guest<'_>) -> Result<StartPlan, Multiboot2Error> {
    let header = Header::find(guest.kernel).ok_or(Multiboot2Error::NoHeader)?;
    let requests = header.requests(guest.kernel)?;
    let mut image = header.image(guest.kernel, &requests)?;
    let mut stage = Stage::new(guest.map);
    if let Some(relocatable) = &requests.relocatable {
        image = relocated(image, relocatable, &stage)?;
    }
    stage.load(&image)?;
    let modules = stage.modules(guest)?;
    let information = tag::information(&tag::Facts {
        map: guest.map,
        cmdline: guest.cmdline,
        modules: &modules,
        rsdp: &acpi::root_pointer(guest.cpus),
        load_base: requests.relocatable.map(|_| image.extent().start),
    });
    let information = stage.place(information, tag::ALIGNMENT)?;
    let gdt = stage.boot_gdt()?;
    let registers = Registers::of(&[(Gpr::Rax, BOOTED.into()), (Gpr::Rbx, information.0)]);
    let entry = entry::protected_mode(image.entry, gdt, registers);
    Ok(StartPlan { copies: stage.into_copies(), entry })
}

/// A relocatable kernel where its tag prefers it.
fn relocated(image: Image, tag: &Relocatable, stage: &Stage) -> Result<Image, Multiboot2Error> {
    let (linked, window) = (image.extent(), tag.window());
    let len = linked.end - linked.start;
    let stays = window.start <= linked.start
        && linked.end <= window.end
        && linked.start.is_multiple_of(tag.align())
        && stage.is_free(&linked);
    let preference = tag.preference();
    if preference == Preference::Link && stays {
        return Ok(image);
    }
    let high = preference == Preference::Highest;
    let to = stage.find(len, tag.align(), &window, high).ok_or(Multiboot2Error::NoPlace { len })?;
    Ok(image.moved(to.0))
}
