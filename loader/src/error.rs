//! Why the loader stops.

use core::fmt;

use abi::boot::{MAX_MODULES, MAX_RANGES, PhysRange};

use crate::image::ImageError;
use crate::physical::MAX_STRING;
use crate::pool::POOL_SIZE;

/// Least usable memory below 4 GiB with which starting makes sense: the hypervisor's own 16 MiB and as much
/// again for a guest.
pub const MIN_MEMORY: u64 = 32 << 20;

/// Why the loader stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoaderError {
    /// EAX at entry names no multiboot version.
    NotMultiboot {
        /// The value of EAX.
        magic: u32,
    },
    /// A structure of the boot loader lies where it cannot be read.
    Unreadable {
        /// What it is.
        what: &'static str,
        /// Its physical address.
        address: u64,
    },
    /// A structure of the boot loader contradicts itself.
    Malformed {
        /// What it is.
        what: &'static str,
    },
    /// A string has no end within [`MAX_STRING`] bytes of readable memory.
    Endless {
        /// Whose string.
        what: &'static str,
        /// Its physical address.
        address: u64,
    },
    /// A string is not UTF-8.
    NotUtf8 {
        /// Whose string.
        what: &'static str,
    },
    /// The boot loader gave no memory map.
    NoMemoryMap,
    /// The memory map does not fit.
    TooManyRanges,
    /// The modules do not fit.
    TooManyModules,
    /// A module ends before it starts.
    BadModule {
        /// First address.
        start: u32,
        /// One past its last address.
        end: u32,
    },
    /// A module lies where something else lies.
    Overlap {
        /// The module.
        module: PhysRange,
        /// What else lies there.
        with: &'static str,
    },
    /// The command lines do not fit.
    TooMuchText {
        /// Length of the string that was too much.
        wanted: usize,
    },
    /// Too little usable memory below 4 GiB.
    TooLittleMemory {
        /// Bytes there are.
        usable: u64,
    },
    /// No gap in memory is large enough.
    NoRoom {
        /// Bytes wanted.
        len: u64,
        /// Their alignment.
        align: u64,
    },
    /// The embedded kernel cannot be started.
    Kernel(ImageError),
    /// A page of the kernel could not be mapped.
    Unmappable {
        /// The physical memory that was to be mapped.
        range: PhysRange,
    },
}

impl From<ImageError> for LoaderError {
    fn from(error: ImageError) -> Self {
        Self::Kernel(error)
    }
}

impl fmt::Display for LoaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NotMultiboot { magic } => write!(
                f,
                "EAX is {magic:#x}, which no multiboot version uses; load this file with `multiboot` or `multiboot2`"
            ),
            Self::Unreadable { what, address } => {
                write!(f, "{what} at {address:#x} cannot be read; this is a fault of the boot loader")
            }
            Self::Malformed { what } => {
                write!(f, "{what} is malformed; this is a fault of the boot loader")
            }
            Self::Endless { what, address } => write!(
                f,
                "{what} at {address:#x} does not end within {} KiB; shorten it in the boot menu",
                MAX_STRING / 1024
            ),
            Self::Overlap { module: PhysRange { start, len }, with } => write!(
                f,
                "the module of {len:#x} bytes at {start:#x} overlaps {with}; this is a fault of the boot loader"
            ),
            Self::NotUtf8 { what } => write!(f, "{what} is not UTF-8; correct it in the boot menu"),
            Self::NoMemoryMap => {
                f.write_str("no memory map from the boot loader; use one that passes it, such as GRUB 2")
            }
            Self::TooManyRanges => {
                write!(f, "the memory map has more than {MAX_RANGES} ranges; load fewer modules")
            }
            Self::TooManyModules => write!(f, "more than {MAX_MODULES} modules; load fewer"),
            Self::BadModule { start, end } => write!(
                f,
                "a module ends at {end:#x}, before its start at {start:#x}; this is a fault of the boot loader"
            ),
            Self::TooMuchText { wanted } => write!(
                f,
                "the command lines do not fit into {} KiB (the last has {wanted} bytes); shorten them",
                POOL_SIZE / 1024
            ),
            Self::TooLittleMemory { usable } => write!(
                f,
                "only {} MiB of memory usable below 4 GiB; at least {} MiB are needed",
                usable >> 20,
                MIN_MEMORY >> 20
            ),
            Self::NoRoom { len, align } => write!(
                f,
                "no {len:#x} bytes of free memory below 4 GiB aligned to {align:#x}; load fewer or smaller modules"
            ),
            Self::Kernel(error) => error.fmt(f),
            Self::Unmappable { range } => {
                write!(
                    f,
                    "cannot map {:#x}..{:#x}; the kernel image overlaps itself",
                    range.start,
                    range.end()
                )
            }
        }
    }
}
