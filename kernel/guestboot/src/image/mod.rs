//! A kernel's file as pieces of memory, whatever told where they go: ELF program headers or the address fields
//! of a multiboot header.

pub mod address_fields;
pub mod elf;

use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

/// A piece of memory that a part of the file fills; the rest of it is zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// First physical address.
    pub start: u64,
    /// Bytes of memory: not zero, and not less than the file's part.
    pub memory: u64,
    /// The part of the file.
    pub file: Range<usize>,
    /// First address at which the kernel's code expects it once it has its own page tables.
    pub linear: u64,
}

impl Segment {
    /// The memory that it takes. Checked when it was made: the end does not wrap.
    pub fn range(&self) -> Range<u64> {
        self.start..self.start + self.memory
    }
}

/// A kernel's file as pieces of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// The pieces.
    pub segments: Vec<Segment>,
    /// Physical address of its first instruction, within a piece.
    pub entry: u64,
}

impl Image {
    /// From the first to one past the last byte of memory.
    pub fn extent(&self) -> Range<u64> {
        let ranges = || self.segments.iter().map(Segment::range);
        let start = ranges().map(|range| range.start).min().unwrap_or(0);
        start..ranges().map(|range| range.end).max().unwrap_or(start)
    }

    /// The same kernel elsewhere: `to` is the new first address.
    pub fn moved(mut self, to: u64) -> Self {
        let from = self.extent().start;
        for segment in &mut self.segments {
            segment.start = segment.start - from + to;
        }
        self.entry = self.entry - from + to;
        self
    }

    /// Checks that the first instruction lies in a piece.
    fn with_entry_inside(self) -> Result<Self, ImageError> {
        if self.segments.iter().any(|segment| segment.range().contains(&self.entry)) {
            Ok(self)
        } else {
            Err(ImageError::EntryOutside { entry: self.entry })
        }
    }
}

/// Why a file cannot be loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageError {
    /// The file ends before something that its headers name.
    Truncated {
        /// Bytes that the headers ask for.
        need: u64,
        /// Bytes that are there.
        have: u64,
    },
    /// It is no ELF file, and its header has no address fields.
    NotElf,
    /// The ELF header contradicts itself.
    Malformed {
        /// What is wrong.
        what: &'static str,
    },
    /// The ELF file is for another processor.
    Machine {
        /// `e_machine`.
        machine: u16,
    },
    /// The ELF file is no program.
    NotExecutable {
        /// `e_type`.
        kind: u16,
    },
    /// There is nothing to load.
    NoSegment,
    /// There are more program headers than any kernel has.
    TooManySegments {
        /// How many.
        count: usize,
    },
    /// A segment has more bytes in the file than in memory.
    FileExceedsMemory {
        /// First physical address.
        start: u64,
        /// Bytes in the file.
        file: u64,
        /// Bytes in memory.
        memory: u64,
    },
    /// A segment reaches past the end of the address space.
    Wraps {
        /// First physical address.
        start: u64,
        /// Bytes in memory.
        memory: u64,
    },
    /// Address fields of a multiboot header contradict each other.
    AddressFields {
        /// What is wrong.
        what: &'static str,
        /// The field's value.
        value: u32,
    },
    /// The entry point is in no segment.
    EntryOutside {
        /// Its address.
        entry: u64,
    },
}

impl fmt::Display for ImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Truncated { need, have } => {
                write!(f, "it is truncated: its headers ask for {need} bytes, the file has {have}")
            }
            Self::NotElf => f.write_str("it is no ELF file and its header has no address fields"),
            Self::Malformed { what } => write!(f, "its ELF header is damaged: {what}"),
            Self::Machine { machine } => write!(
                f,
                "it is for another processor (e_machine is {machine}): expected an ELF file for i386 or x86-64"
            ),
            Self::NotExecutable { kind } => {
                write!(f, "it is no executable (e_type is {kind}): link it as a program")
            }
            Self::NoSegment => f.write_str("it has no segment to load: link it with program headers"),
            Self::TooManySegments { count } => {
                write!(f, "it has {count} program headers: expected at most {}", elf::MAX_SEGMENTS)
            }
            Self::FileExceedsMemory { start, file, memory } => write!(
                f,
                "its segment at {start:#x} has {file} bytes in the file, but only {memory} in memory"
            ),
            Self::Wraps { start, memory } => write!(
                f,
                "its segment at {start:#x} of {memory:#x} bytes reaches past the end of the address space"
            ),
            Self::AddressFields { what, value } => {
                write!(f, "the address fields of its header make no sense: {what} ({value:#x})")
            }
            Self::EntryOutside { entry } => {
                write!(f, "its entry point {entry:#x} is in none of its segments")
            }
        }
    }
}

impl core::error::Error for ImageError {}
