//! Extended page tables (SDM 3, 29.3).

#![allow(missing_docs, reason = "bits carry the names that the manual defines")]

use crate::addr::Hpa;
use crate::memory_type::MemoryType;
use bitflags::bitflags;

/// Bits of an entry that hold a physical address.
pub const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

bitflags! {
    /// An entry of any level, without its address (SDM 3, tables 29-1 to 29-7).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Entry: u64 {
        const READ = 1 << 0;
        const WRITE = 1 << 1;
        const EXECUTE = 1 << 2;
        /// Memory type of a leaf; see [`Entry::memory_type`].
        const TYPE = 7 << 3;
        /// The guest's PAT has no say in the memory type.
        const IGNORE_PAT = 1 << 6;
        /// The entry maps a page above the last level.
        const LARGE = 1 << 7;
        const ACCESSED = 1 << 8;
        const DIRTY = 1 << 9;
        const ALL_ACCESS = Self::READ.bits() | Self::WRITE.bits() | Self::EXECUTE.bits();
    }
}

impl Entry {
    const TYPE_SHIFT: u32 = 3;

    /// The bits of a leaf that give its memory type.
    pub const fn memory_type(memory_type: MemoryType) -> Entry {
        Entry::from_bits_retain((memory_type as u64) << Self::TYPE_SHIFT)
    }

    /// The memory type of a leaf, unless the number is reserved.
    pub const fn to_memory_type(self) -> Option<MemoryType> {
        MemoryType::from_encoding(((self.bits() & Self::TYPE.bits()) >> Self::TYPE_SHIFT) as u8)
    }
}

/// The EPT pointer for four-level tables at `root`, read through write-back memory (SDM 3, 25.6.11). Accessed
/// and dirty flags stay off: nothing here reads them, and not every machine has them.
pub const fn pointer(root: Hpa) -> u64 {
    /// Length of the walk, less one.
    const FOUR_LEVELS: u64 = 3 << 3;
    (root.0 & ADDRESS) | FOUR_LEVELS | MemoryType::WriteBack as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointer_has_type_walk_length_and_root() {
        assert_eq!(pointer(Hpa(0x12_3456_7000)), 0x12_3456_701e);
    }

    #[test]
    fn write_back_leaf_for_everything() {
        let leaf = Entry::ALL_ACCESS | Entry::memory_type(MemoryType::WriteBack) | Entry::IGNORE_PAT;
        assert_eq!(leaf.bits(), 0x77);
        assert_eq!(leaf.bits() & ADDRESS, 0);
        assert_eq!(leaf.to_memory_type(), Some(MemoryType::WriteBack));
        assert_eq!((leaf & !Entry::TYPE).to_memory_type(), Some(MemoryType::Uncacheable));
        assert_eq!(Entry::from_bits_retain(0x1f).to_memory_type(), None);
    }
}
