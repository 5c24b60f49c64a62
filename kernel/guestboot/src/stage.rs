//! A guest's memory while it is being laid out: what is placed, and the copies that put it there.

use crate::entry;
use crate::image::Image;
use crate::memory_map::{EBDA, HIGH_RAM, MemoryMap, ROM_END};
use crate::plan::{Copy, Guest, Source};
use crate::size::Size;
use crate::space::{Refused, Space};
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;
use x86defs::addr::{Gpa, PAGE_SIZE};

/// The interrupt vectors and the BIOS data area: nothing of ours goes there, so that null pointers stay wrong.
const FIRST_PAGE: u64 = PAGE_SIZE;
/// Where structures for the kernel preferably go: below what boot code of other CPUs and PCs' firmware use least.
const CONVENTIONAL: Range<u64> = FIRST_PAGE..EBDA.0;

/// Why something has no place in the guest's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StageError {
    /// A segment of the kernel is not in RAM.
    SegmentOutsideMemory {
        /// First address.
        start: u64,
        /// Length in bytes.
        len: u64,
        /// One past the last RAM below 4 GiB.
        ram_end: Gpa,
    },
    /// A segment of the kernel lies over another one.
    SegmentsOverlap {
        /// First address of the second.
        start: u64,
        /// Its length in bytes.
        len: u64,
    },
    /// A module does not fit beside the rest.
    ModuleDoesNotFit {
        /// Its number, from 0.
        number: usize,
        /// Its length.
        len: u64,
        /// The longest that fits.
        room: u64,
    },
    /// There is no room for what tells the kernel about its machine.
    NoRoom {
        /// Bytes needed.
        len: u64,
    },
}

impl fmt::Display for StageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::SegmentOutsideMemory { start, len, ram_end } => write!(
                f,
                "its segment at {start:#x} of {len:#x} bytes is not in the virtual machine's memory \
                 (0 to {EBDA} and {ROM_END} to {ram_end}); give it more memory or link it elsewhere"
            ),
            Self::SegmentsOverlap { start, len } => {
                write!(f, "its segment at {start:#x} of {len:#x} bytes overlaps another one")
            }
            Self::ModuleDoesNotFit { number, len, room } => write!(
                f,
                "module number {} does not fit: it has {}, beside the kernel there is room for {}; \
                 give the virtual machine more memory",
                number + 1,
                Size(len),
                Size(room)
            ),
            Self::NoRoom { len } => write!(
                f,
                "there is no room for the {len} bytes that describe the machine to it; \
                 give the virtual machine more memory"
            ),
        }
    }
}

impl core::error::Error for StageError {}

/// A module in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placed<'a> {
    /// First address, on a page border.
    pub(crate) at: Gpa,
    /// Length in bytes.
    pub(crate) len: u64,
    /// Its command line.
    pub(crate) cmdline: &'a str,
}

impl Placed<'_> {
    /// One past the last address.
    pub(crate) fn end(&self) -> Gpa {
        self.at.offset(self.len)
    }
}

/// A guest's memory while it is being laid out.
pub(crate) struct Stage {
    space: Space,
    ram_end: Gpa,
    kernel_end: u64,
    copies: Vec<Copy>,
}

impl Stage {
    /// Empty.
    pub(crate) fn new(map: &MemoryMap) -> Self {
        Self { space: Space::new(map), ram_end: map.low_end(), kernel_end: ROM_END.0, copies: Vec::new() }
    }

    /// Finds a place for all of a kernel that can be anywhere in a window.
    pub(crate) fn find(&self, len: u64, align: u64, window: &Range<u64>, high: bool) -> Option<Gpa> {
        let mut space = self.space.clone();
        if high { space.highest(len, align, window) } else { space.lowest(len, align, window) }
    }

    /// Whether a range is free RAM.
    pub(crate) fn is_free(&self, range: &Range<u64>) -> bool {
        self.space.clone().claim(range).is_ok()
    }

    /// Places a kernel where it is linked.
    pub(crate) fn load(&mut self, image: &Image) -> Result<(), StageError> {
        for segment in &image.segments {
            let (start, len, ram_end) = (segment.start, segment.memory, self.ram_end);
            self.space.claim(&segment.range()).map_err(|refused| match refused {
                Refused::NoRam => StageError::SegmentOutsideMemory { start, len, ram_end },
                Refused::Taken => StageError::SegmentsOverlap { start, len },
            })?;
            if !segment.file.is_empty() {
                let source = Source::Kernel(segment.file.clone());
                self.copies.push(Copy { to: Gpa(start), source });
            }
        }
        self.kernel_end = self.kernel_end.max(image.extent().end);
        Ok(())
    }

    /// Places a structure that the kernel reads, on a border of `align` bytes.
    pub(crate) fn place(&mut self, bytes: Vec<u8>, align: u64) -> Result<Gpa, StageError> {
        let at = self.reserve(bytes.len() as u64, align)?;
        if !bytes.is_empty() {
            self.copies.push(Copy { to: at, source: Source::Bytes(bytes) });
        }
        Ok(at)
    }

    /// Takes room in conventional memory, or else as high as possible, to be out of the kernel's way.
    fn reserve(&mut self, len: u64, align: u64) -> Result<Gpa, StageError> {
        self.space
            .highest(len, align, &CONVENTIONAL)
            .or_else(|| self.space.highest(len, align, &(ROM_END.0..HIGH_RAM.0)))
            .ok_or(StageError::NoRoom { len })
    }

    /// Places the GDT for flat 32-bit protected mode.
    pub(crate) fn boot_gdt(&mut self) -> Result<Gpa, StageError> {
        self.place(entry::boot_gdt(&entry::code32(entry::BOOT_CS)), size_of::<u64>() as u64)
    }

    /// Places a text with a NUL at its end.
    pub(crate) fn text(&mut self, text: &str) -> Result<Gpa, StageError> {
        self.place(terminated(text), 1)
    }

    /// Places the initial RAM disk as the first module, then the modules: behind the kernel if they fit there.
    pub(crate) fn modules<'a>(&mut self, guest: &Guest<'a>) -> Result<Vec<Placed<'a>>, StageError> {
        let initrd = guest.initrd.iter().map(|module| (module, Source::Initrd));
        let others = guest.modules.iter().enumerate().map(|(n, module)| (module, Source::Module(n)));
        let mut placed = Vec::new();
        for (number, (module, source)) in initrd.chain(others).enumerate() {
            let at = self.module_place(number, module.len)?;
            if module.len > 0 {
                self.copies.push(Copy { to: at, source });
            }
            placed.push(Placed { at, len: module.len, cmdline: module.cmdline });
        }
        Ok(placed)
    }

    fn module_place(&mut self, number: usize, len: u64) -> Result<Gpa, StageError> {
        // An empty module has a place of its own, too; whole pages, so that nothing shares its last one.
        let whole = len.max(1).checked_next_multiple_of(PAGE_SIZE).unwrap_or(u64::MAX);
        let behind = self.kernel_end..HIGH_RAM.0;
        self.space
            .lowest(whole, PAGE_SIZE, &behind)
            .or_else(|| self.space.lowest(whole, PAGE_SIZE, &(ROM_END.0..HIGH_RAM.0)))
            .ok_or_else(|| StageError::ModuleDoesNotFit { number, len, room: self.space.largest(PAGE_SIZE) })
    }

    /// All copies.
    pub(crate) fn into_copies(self) -> Vec<Copy> {
        self.copies
    }
}

/// A text with a NUL at its end.
pub(crate) fn terminated(text: &str) -> Vec<u8> {
    let mut bytes = Vec::from(text);
    bytes.push(0);
    bytes
}
