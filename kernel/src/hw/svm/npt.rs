//! Nested page table entries (APM 2, 15.25): the long-mode format, in which every access counts as a user's.

use crate::cpu;
use vmm::nested::{Entry, Leaf, PageFormat, PageSize, Permissions};
use x86defs::addr::Hpa;
use x86defs::memory_type::MemoryType;
use x86defs::npt::NptEntry;

/// The format of this CPU's nested page tables.
pub struct NptFormat {
    largest_page: PageSize,
}

impl NptFormat {
    /// What this CPU can do.
    pub fn of_this_cpu() -> Self {
        let gigabyte = cpu::cpuid(0x8000_0001, 0).edx & 1 << 26 != 0;
        Self { largest_page: if gigabyte { PageSize::Size1G } else { PageSize::Size2M } }
    }
}

const TABLE: NptEntry = NptEntry::PRESENT.union(NptEntry::WRITE).union(NptEntry::USER);

impl PageFormat for NptFormat {
    fn largest_page(&self) -> PageSize {
        self.largest_page
    }

    fn table(&self, table: Hpa) -> u64 {
        TABLE.bits() | table.0
    }

    fn leaf(&self, size: PageSize, leaf: Leaf) -> u64 {
        let mut entry = NptEntry::PRESENT | NptEntry::USER;
        entry.set(NptEntry::WRITE, leaf.permissions.contains(Permissions::WRITE));
        entry.set(NptEntry::NO_EXECUTE, !leaf.permissions.contains(Permissions::EXECUTE));
        entry.set(NptEntry::LARGE, size != PageSize::Size4K);
        // The host's PAT has its reset value: PCD with PWT selects UC, neither WB.
        entry.set(NptEntry::PCD | NptEntry::PWT, leaf.memory_type != MemoryType::WriteBack);
        entry.bits() | leaf.to.0
    }

    fn decode(&self, level: u8, entry: u64) -> Entry {
        let bits = NptEntry::from_bits_retain(entry);
        let address = Hpa((bits & NptEntry::ADDRESS).bits());
        if !bits.contains(NptEntry::PRESENT) {
            return Entry::Empty;
        }
        if level > 0 && !bits.contains(NptEntry::LARGE) {
            return Entry::Table(address);
        }
        let mut permissions = Permissions::empty();
        permissions.set(Permissions::WRITE, bits.contains(NptEntry::WRITE));
        permissions.set(Permissions::EXECUTE, !bits.contains(NptEntry::NO_EXECUTE));
        let memory_type =
            if bits.contains(NptEntry::PCD) { MemoryType::Uncacheable } else { MemoryType::WriteBack };
        Entry::Leaf(Leaf { to: address, permissions, memory_type })
    }
}
