//! Nested page tables: guest physical to host physical. One algorithm over the entry format of either
//! vendor and over whatever memory holds the tables.

mod format;
#[cfg(test)]
mod tests;

pub use format::{Entry, Leaf, PageFormat, PageSize, Permissions};

use core::fmt;
use core::ops::Range;
use format::span;
use x86defs::addr::{Gpa, Hpa, PAGE_SIZE};

/// Entries in a table.
pub const ENTRIES: usize = 512;
/// Level of the top table, counted from 0 for the tables of 4 KiB pages.
const TOP: u8 = 3;
/// First guest physical address that four levels of tables do not reach.
pub const GPA_LIMIT: u64 = 1 << 48;

/// Where tables live. The hardware may walk them at any time, so each write is one atomic store.
pub trait TableMemory {
    /// A zeroed table, or nothing when memory is exhausted.
    fn allocate(&mut self) -> Option<Hpa>;
    /// Takes back a table that no entry refers to.
    fn free(&mut self, table: Hpa);
    /// An entry.
    fn read(&self, table: Hpa, index: usize) -> u64;
    /// Stores an entry.
    fn write(&mut self, table: Hpa, index: usize, entry: u64);
}

/// Why nested page tables cannot be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NestedError {
    /// An address or a length is not a multiple of the page size.
    Misaligned(u64),
    /// The range ends beyond what the tables reach.
    OutOfReach(Gpa),
    /// Something is mapped there.
    AlreadyMapped(Gpa),
    /// No memory is left for another table.
    OutOfTables,
}

impl fmt::Display for NestedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NestedError::Misaligned(value) => {
                write!(f, "{value:#x} is not a multiple of the page size, {PAGE_SIZE:#x}")
            }
            NestedError::OutOfReach(gpa) => {
                write!(f, "the range at guest physical address {gpa} ends beyond {GPA_LIMIT:#x}")
            }
            NestedError::AlreadyMapped(gpa) => write!(f, "guest physical address {gpa} is mapped already"),
            NestedError::OutOfTables => write!(f, "no memory is left for a nested page table"),
        }
    }
}

impl core::error::Error for NestedError {}

/// A guest physical address, translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Translation {
    /// The page that maps it.
    pub size: PageSize,
    /// What the page says; its address is that of the byte that was asked for.
    pub leaf: Leaf,
}

/// The nested page tables of a virtual machine.
#[derive(Debug)]
pub struct NestedTables<F> {
    format: F,
    root: Hpa,
}

impl<F: PageFormat> NestedTables<F> {
    /// Tables that map nothing.
    pub fn new(format: F, memory: &mut impl TableMemory) -> Result<Self, NestedError> {
        let root = memory.allocate().ok_or(NestedError::OutOfTables)?;
        Ok(NestedTables { format, root })
    }

    /// The top table.
    pub fn root(&self) -> Hpa {
        self.root
    }

    /// Maps `len` bytes with the largest pages that both addresses and the format allow. After an error
    /// everything is mapped as it was before.
    pub fn map(
        &mut self,
        memory: &mut impl TableMemory,
        gpa: Gpa,
        len: u64,
        leaf: Leaf,
    ) -> Result<(), NestedError> {
        let range = page_range(gpa, len)?;
        page_aligned(leaf.to.0)?;
        if let Some(taken) = self.first_mapped(memory, self.root, TOP, range.clone()) {
            return Err(NestedError::AlreadyMapped(taken));
        }
        self.map_in(memory, self.root, TOP, range.clone(), leaf).inspect_err(|_| {
            // Only what was mapped just now is there, in pages that lie wholly in the range.
            let _ = self.change(memory, self.root, TOP, range, &|_| None);
        })
    }

    /// Unmaps `len` bytes, splitting pages where it must, and says whether anything was mapped there: the
    /// caller then has translations to invalidate. If it runs out of tables, a part has been unmapped.
    pub fn unmap(&mut self, memory: &mut impl TableMemory, gpa: Gpa, len: u64) -> Result<bool, NestedError> {
        self.change(memory, self.root, TOP, page_range(gpa, len)?, &|_| None)
    }

    /// Changes what the pages that are mapped in `len` bytes allow, splitting pages where it must, and says whether
    /// there are any: the caller then has translations to invalidate. If it runs out of tables, a part has been
    /// changed.
    pub fn protect(
        &mut self,
        memory: &mut impl TableMemory,
        gpa: Gpa,
        len: u64,
        permissions: Permissions,
    ) -> Result<bool, NestedError> {
        let changed = |leaf| Some(Leaf { permissions, ..leaf });
        self.change(memory, self.root, TOP, page_range(gpa, len)?, &changed)
    }

    /// What a guest physical address is mapped to.
    pub fn lookup(&self, memory: &impl TableMemory, gpa: Gpa) -> Option<Translation> {
        if gpa.0 >= GPA_LIMIT {
            return None;
        }
        let mut table = self.root;
        for level in (0..=TOP).rev() {
            match self.format.decode(level, memory.read(table, index(level, gpa.0))) {
                Entry::Empty => return None,
                Entry::Table(next) => table = next,
                Entry::Leaf(leaf) => {
                    let size = PageSize::at_level(level)?;
                    return Some(Translation { size, leaf: leaf.advanced(gpa.0 % size.bytes()) });
                }
            }
        }
        None
    }

    /// Frees every table. No CPU may use them any more.
    pub fn free(self, memory: &mut impl TableMemory) {
        self.free_in(memory, self.root, TOP);
    }

    /// The first mapped address in a part of a table's range.
    fn first_mapped(
        &self,
        memory: &impl TableMemory,
        table: Hpa,
        level: u8,
        range: Range<u64>,
    ) -> Option<Gpa> {
        pieces(level, range).find_map(|piece| {
            match self.format.decode(level, memory.read(table, index(level, piece.start))) {
                Entry::Empty => None,
                Entry::Table(next) => self.first_mapped(memory, next, level - 1, piece),
                Entry::Leaf(_) => Some(Gpa(piece.start)),
            }
        })
    }

    /// Maps a part of a table's range, in which nothing is mapped. A new table is linked when it is complete,
    /// so that a CPU that walks meanwhile sees all of it or nothing.
    fn map_in(
        &self,
        memory: &mut impl TableMemory,
        table: Hpa,
        level: u8,
        range: Range<u64>,
        leaf: Leaf,
    ) -> Result<(), NestedError> {
        let start = range.start;
        for piece in pieces(level, range) {
            let slot = index(level, piece.start);
            let leaf = leaf.advanced(piece.start - start);
            if let Entry::Table(next) = self.format.decode(level, memory.read(table, slot)) {
                self.map_in(memory, next, level - 1, piece, leaf)?;
            } else if let Some(size) = self.page_for(level, &piece, leaf.to) {
                memory.write(table, slot, self.format.leaf(size, leaf));
            } else {
                let next = memory.allocate().ok_or(NestedError::OutOfTables)?;
                self.map_in(memory, next, level - 1, piece, leaf)
                    .inspect_err(|_| self.free_in(memory, next, level - 1))?;
                memory.write(table, slot, self.format.table(next));
            }
        }
        Ok(())
    }

    /// The page with which an entry at this level can map the piece, if it can.
    fn page_for(&self, level: u8, piece: &Range<u64>, to: Hpa) -> Option<PageSize> {
        let size = PageSize::at_level(level)?;
        let fits = covers(level, piece) && to.0.is_multiple_of(size.bytes());
        (fits && size <= self.format.largest_page()).then_some(size)
    }

    /// Replaces the pages in a part of a table's range, and says whether there are any.
    fn change(
        &self,
        memory: &mut impl TableMemory,
        table: Hpa,
        level: u8,
        range: Range<u64>,
        new: &dyn Fn(Leaf) -> Option<Leaf>,
    ) -> Result<bool, NestedError> {
        let mut was_mapped = false;
        for piece in pieces(level, range) {
            let slot = index(level, piece.start);
            let next = match self.format.decode(level, memory.read(table, slot)) {
                Entry::Empty => continue,
                Entry::Leaf(leaf) if covers(level, &piece) => {
                    let entry = PageSize::at_level(level).zip(new(leaf));
                    memory.write(table, slot, entry.map_or(0, |(size, leaf)| self.format.leaf(size, leaf)));
                    was_mapped = true;
                    continue;
                }
                Entry::Leaf(leaf) => self.split(memory, table, level, slot, leaf)?,
                Entry::Table(next) => next,
            };
            was_mapped |= self.change(memory, next, level - 1, piece, new)?;
        }
        Ok(was_mapped)
    }

    /// Replaces a page by a table of the pages one size down that map the same.
    fn split(
        &self,
        memory: &mut impl TableMemory,
        table: Hpa,
        level: u8,
        slot: usize,
        leaf: Leaf,
    ) -> Result<Hpa, NestedError> {
        let next = memory.allocate().ok_or(NestedError::OutOfTables)?;
        // Address and size of a large page make every page of the table fit: no further table is needed.
        self.map_in(memory, next, level - 1, 0..span(level), leaf)?;
        memory.write(table, slot, self.format.table(next));
        Ok(next)
    }

    fn free_in(&self, memory: &mut impl TableMemory, table: Hpa, level: u8) {
        for slot in 0..ENTRIES {
            if let Entry::Table(next) = self.format.decode(level, memory.read(table, slot)) {
                self.free_in(memory, next, level - 1);
            }
        }
        memory.free(table);
    }
}

/// The index of the entry for an address in a table at this level.
fn index(level: u8, address: u64) -> usize {
    (address / span(level)) as usize % ENTRIES
}

/// Whether a piece is all that one entry at this level covers.
fn covers(level: u8, piece: &Range<u64>) -> bool {
    piece.end - piece.start == span(level)
}

/// A range cut where one entry at this level ends and the next begins.
fn pieces(level: u8, range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let mut start = range.start;
    core::iter::from_fn(move || {
        let end = (start - start % span(level) + span(level)).min(range.end);
        let piece = start..end;
        start = end;
        (!piece.is_empty()).then_some(piece)
    })
}

fn page_aligned(value: u64) -> Result<(), NestedError> {
    if value.is_multiple_of(PAGE_SIZE) { Ok(()) } else { Err(NestedError::Misaligned(value)) }
}

fn page_range(gpa: Gpa, len: u64) -> Result<Range<u64>, NestedError> {
    page_aligned(gpa.0)?;
    page_aligned(len)?;
    match gpa.checked_offset(len) {
        Some(end) if end.0 <= GPA_LIMIT => Ok(gpa.0..end.0),
        _ => Err(NestedError::OutOfReach(gpa)),
    }
}
