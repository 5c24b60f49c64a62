//! What the algorithm knows of a vendor's entries.

use bitflags::bitflags;
use x86defs::addr::Hpa;
use x86defs::memory_type::MemoryType;

/// Size of a page; the discriminant is the level of the tables whose entries map it.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PageSize {
    /// 4 KiB
    Size4K = 0,
    /// 2 MiB
    Size2M = 1,
    /// 1 GiB
    Size1G = 2,
}

impl PageSize {
    /// Bytes in the page.
    pub const fn bytes(self) -> u64 {
        span(self as u8)
    }

    /// The page that an entry at this level can map; there is none at the top.
    pub const fn at_level(level: u8) -> Option<PageSize> {
        match level {
            0 => Some(PageSize::Size4K),
            1 => Some(PageSize::Size2M),
            2 => Some(PageSize::Size1G),
            _ => None,
        }
    }
}

/// Bytes that an entry of a table at this level covers; level 0 is the table of 4 KiB pages.
pub(super) const fn span(level: u8) -> u64 {
    1 << (12 + 9 * level)
}

bitflags! {
    /// What a page allows besides reading. Every mapped page can be read, since one vendor's entries cannot
    /// say otherwise.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Permissions: u8 {
        /// Writing.
        const WRITE = 1 << 0;
        /// Instruction fetch.
        const EXECUTE = 1 << 1;
    }
}

/// What a mapping says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// The host physical address that its first byte stands for.
    pub to: Hpa,
    /// What the guest may do besides reading.
    pub permissions: Permissions,
    /// How it is cached.
    pub memory_type: MemoryType,
}

impl Leaf {
    /// The same mapping from `offset` bytes further on.
    pub(super) fn advanced(self, offset: u64) -> Leaf {
        Leaf { to: self.to.offset(offset), ..self }
    }
}

/// An entry, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Maps nothing.
    Empty,
    /// Refers to a table one level down.
    Table(Hpa),
    /// Maps a page.
    Leaf(Leaf),
}

/// A vendor's entries. All zeroes is an empty entry.
pub trait PageFormat {
    /// The largest page that this CPU can map.
    fn largest_page(&self) -> PageSize;
    /// An entry that refers to a table and restricts nothing.
    fn table(&self, table: Hpa) -> u64;
    /// An entry that maps a page.
    fn leaf(&self, size: PageSize, leaf: Leaf) -> u64;
    /// What an entry of a table at `level` says; level 0 is the table of 4 KiB pages.
    fn decode(&self, level: u8, entry: u64) -> Entry;
}
