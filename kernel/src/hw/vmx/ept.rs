//! Entries of extended page tables.

use super::capabilities::Capabilities;
use vmm::nested::{Entry, Leaf, PageFormat, PageSize, Permissions};
use x86defs::addr::Hpa;
use x86defs::ept::{self, Entry as Bits};
use x86defs::memory_type::MemoryType;
use x86defs::vmx::EptVpid;

/// The format of this CPU's extended page tables.
pub struct EptFormat {
    largest: PageSize,
}

impl EptFormat {
    /// What this CPU can do.
    pub(super) fn of_this_cpu() -> Self {
        let has = |bit| Capabilities::get().ept_vpid.contains(bit);
        let largest = if has(EptVpid::PAGE_1G) {
            PageSize::Size1G
        } else if has(EptVpid::PAGE_2M) {
            PageSize::Size2M
        } else {
            PageSize::Size4K
        };
        Self { largest }
    }
}

impl PageFormat for EptFormat {
    fn largest_page(&self) -> PageSize {
        self.largest
    }

    fn table(&self, table: Hpa) -> u64 {
        table.0 & ept::ADDRESS | Bits::ALL_ACCESS.bits()
    }

    /// The guest's PAT has no say: nothing that it maps is a device of its own.
    fn leaf(&self, size: PageSize, leaf: Leaf) -> u64 {
        let mut bits = Bits::READ | Bits::IGNORE_PAT | Bits::memory_type(leaf.memory_type);
        bits.set(Bits::WRITE, leaf.permissions.contains(Permissions::WRITE));
        bits.set(Bits::EXECUTE, leaf.permissions.contains(Permissions::EXECUTE));
        bits.set(Bits::LARGE, size != PageSize::Size4K);
        leaf.to.0 & ept::ADDRESS | bits.bits()
    }

    fn decode(&self, level: u8, entry: u64) -> Entry {
        let bits = Bits::from_bits_truncate(entry);
        let to = Hpa(entry & ept::ADDRESS);
        if !bits.intersects(Bits::ALL_ACCESS) {
            return Entry::Empty;
        }
        if level != 0 && !bits.contains(Bits::LARGE) {
            return Entry::Table(to);
        }
        let mut permissions = Permissions::empty();
        permissions.set(Permissions::WRITE, bits.contains(Bits::WRITE));
        permissions.set(Permissions::EXECUTE, bits.contains(Bits::EXECUTE));
        // Entries come from `leaf`, which writes valid types alone.
        let memory_type = bits.to_memory_type().unwrap_or(MemoryType::Uncacheable);
        Entry::Leaf(Leaf { to, permissions, memory_type })
    }
}
