//! Nested page table entries (APM 2, 15.25; the format of 5.3.3 with the host's paging mode).

use crate::cpu;

/// The format of this CPU's nested page tables.
pub struct NptFormat {
    /// 1 GiB leaves exist (CPUID Fn8000_0001 EDX bit 26).
    gigabyte_pages: bool,
}

impl NptFormat {
    /// What this CPU can do.
    pub fn of_this_cpu() -> Self {
        Self { gigabyte_pages: cpu::cpuid(0x8000_0001, 0).edx & 1 << 26 != 0 }
    }
}
