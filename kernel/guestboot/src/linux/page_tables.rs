//! The identity mapping that the 64-bit entry asks for (SDM 3, 4.5).

use crate::size::GIB;
use alloc::vec;
use alloc::vec::Vec;
use bitflags::bitflags;
use x86defs::addr::{Gpa, PAGE_SIZE};

bitflags! {
    /// Bits of a paging-structure entry.
    #[derive(Clone, Copy)]
    struct Entry: u64 {
        const PRESENT = 1 << 0;
        const WRITABLE = 1 << 1;
        /// A leaf in a table above the last level.
        const PAGE_SIZE = 1 << 7;
    }
}

const ENTRIES: usize = (PAGE_SIZE / 8) as usize;
/// Memory behind one page directory.
const DIRECTORY_SPAN: u64 = GIB;
/// Memory behind one entry of a page directory.
const LARGE_PAGE: u64 = DIRECTORY_SPAN / ENTRIES as u64;
/// All below 4 GiB: kernel, initrd and every structure that we place lie there.
const DIRECTORIES: usize = 4;

/// Bytes that the tables take.
pub(super) const SIZE: u64 = (2 + DIRECTORIES as u64) * PAGE_SIZE;

/// PML4, page-directory-pointer table and page directories, one after the other from `at` on.
pub(super) fn identity(at: Gpa) -> Vec<u64> {
    let table = Entry::PRESENT | Entry::WRITABLE;
    let leaf = table | Entry::PAGE_SIZE;
    let table_at = |n: usize| at.offset(n as u64 * PAGE_SIZE).0;

    let mut entries = vec![0; (2 + DIRECTORIES) * ENTRIES];
    entries[0] = table_at(1) | table.bits();
    for n in 0..DIRECTORIES {
        entries[ENTRIES + n] = table_at(2 + n) | table.bits();
    }
    for (n, entry) in entries[2 * ENTRIES..].iter_mut().enumerate() {
        *entry = (n as u64 * LARGE_PAGE) | leaf.bits();
    }
    entries
}
