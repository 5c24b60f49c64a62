//! Nested page tables: entries in the format of long-mode paging (APM 2, 15.25 and 5.3).

#![allow(missing_docs, reason = "bits carry the names that the manuals define")]

use bitflags::bitflags;

bitflags! {
    /// An entry at any level.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct NptEntry: u64 {
        const PRESENT = 1 << 0;
        const WRITE = 1 << 1;
        /// Set in every entry: all guest accesses count as user accesses at the nested level.
        const USER = 1 << 2;
        const PWT = 1 << 3;
        const PCD = 1 << 4;
        const ACCESSED = 1 << 5;
        const DIRTY = 1 << 6;
        /// The entry maps a page of 1 GiB or 2 MiB instead of referencing a table.
        const LARGE = 1 << 7;
        const ADDRESS = 0x000f_ffff_ffff_f000;
        const NO_EXECUTE = 1 << 63;
    }
}
