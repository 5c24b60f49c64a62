//! Extended page tables (SDM 3, 29.3).

#![allow(missing_docs, reason = "bits carry the names that the manual defines")]

use crate::addr::Hpa;
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
        /// Memory type, of a leaf only; 6 is write-back.
        const TYPE_WRITE_BACK = 6 << 3;
        /// Memory type of a leaf: bits 5:3; 0 is uncacheable.
        const TYPE_MASK = 7 << 3;
        /// The guest's PAT has no say in the memory type.
        const IGNORE_PAT = 1 << 6;
        /// The entry maps a page above the last level.
        const LARGE = 1 << 7;
        const ACCESSED = 1 << 8;
        const DIRTY = 1 << 9;
        const ALL_ACCESS = Self::READ.bits() | Self::WRITE.bits() | Self::EXECUTE.bits();
    }
}

/// The EPT pointer for four-level tables at `root`, read through write-back memory (SDM 3, 25.6.11). Accessed
/// and dirty flags stay off: nothing here reads them, and not every machine has them.
pub const fn pointer(root: Hpa) -> u64 {
    /// Memory type of the tables themselves.
    const WRITE_BACK: u64 = 6;
    /// Length of the walk, less one.
    const FOUR_LEVELS: u64 = 3 << 3;
    (root.0 & ADDRESS) | FOUR_LEVELS | WRITE_BACK
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
        let leaf = Entry::ALL_ACCESS | Entry::TYPE_WRITE_BACK | Entry::IGNORE_PAT;
        assert_eq!(leaf.bits(), 0x77);
        assert_eq!(leaf.bits() & ADDRESS, 0);
    }
}
