//! Where a virtual machine's memory lies in its physical address space.
//!
//! | guest physical | what |
//! |---|---|
//! | 0 - 0x9fbff | RAM |
//! | 0x9fc00 - 0x9ffff | RAM, reserved: the ACPI FACS, the one table that a guest writes |
//! | 0xa0000 - 0xb7fff | nothing: VGA graphics, accesses trap and float to all ones |
//! | 0xb8000 - 0xbffff | the VGA text page |
//! | 0xc0000 - 0xfffff | ROM, reserved: ACPI tables from 0xe0000 on, the reset vector, the rest is zero |
//! | 0x100000 - end of memory or 3 GiB | RAM |
//! | 3 GiB - 4 GiB | nothing: I/O APIC, local APIC and PCI windows, accesses trap |
//! | 4 GiB - | the rest of the RAM |
//!
//! All of it is backed by one stretch of host memory as long as the configured size, at the same offset below
//! 3 GiB and 1 GiB lower above 4 GiB. So a stretch that begins on a large page keeps large pages usable
//! everywhere but in the first 2 MiB, at the price of the 96 KiB behind VGA graphics.

use crate::size::{GIB, KIB, MIB, Size, TIB};
use abi::boot::MemoryKind;
use arrayvec::ArrayVec;
use core::fmt;
use x86defs::addr::{Gpa, PAGE_SIZE};

/// Least memory of a virtual machine.
pub const MIN_MEMORY: u64 = 4 * MIB;
/// Most memory of a virtual machine.
pub const MAX_MEMORY: u64 = TIB;

/// Top KiB of conventional memory, where a PC keeps its extended BIOS data.
pub const EBDA: Gpa = Gpa(0x9_fc00);
/// First address of the VGA window.
pub const VGA: Gpa = Gpa(0xa_0000);
/// First address of the VGA text page.
pub const TEXT_PAGE: Gpa = Gpa(0xb_8000);
/// First address of the ROM.
pub const ROM: Gpa = Gpa(0xc_0000);
/// One past the ROM: extended memory begins.
pub const ROM_END: Gpa = Gpa(0x10_0000);
/// End of RAM below 4 GiB, where the windows of the devices begin.
pub const LOW_RAM_LIMIT: Gpa = Gpa(3 * GIB);
/// Where RAM goes on.
pub const HIGH_RAM: Gpa = Gpa(4 * GIB);

/// How a slot answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotKind {
    /// Read, written and executed.
    Ram,
    /// Read and executed; writes are dropped.
    Rom,
    /// As RAM, but somebody wants to know of writes. Firmware reports none of it.
    TextPage,
}

/// Guest memory with one kind. What lies in no slot traps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemorySlot {
    /// First address.
    pub gpa: Gpa,
    /// Length in bytes, whole pages.
    pub len: u64,
    /// Its kind.
    pub kind: SlotKind,
    /// Offset of its first byte in the virtual machine's stretch of host memory.
    pub backing: u64,
}

impl MemorySlot {
    /// One past the last address.
    pub const fn end(&self) -> Gpa {
        self.gpa.offset(self.len)
    }
}

/// One range as the guest's firmware reports it (ACPI 6.5, 15.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct E820Range {
    /// First address.
    pub gpa: Gpa,
    /// Length in bytes.
    pub len: u64,
    /// Its type.
    pub kind: MemoryKind,
}

/// A size of memory that no virtual machine can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadMemorySize {
    /// Not whole pages.
    NotPages(u64),
    /// Less than [`MIN_MEMORY`].
    TooSmall(u64),
    /// More than [`MAX_MEMORY`].
    TooLarge(u64),
}

impl fmt::Display for BadMemorySize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NotPages(n) => write!(f, "expected a multiple of {PAGE_SIZE} bytes, found {}", Size(n)),
            Self::TooSmall(n) => write!(f, "expected at least {}, found {}", Size(MIN_MEMORY), Size(n)),
            Self::TooLarge(n) => write!(f, "expected at most {}, found {}", Size(MAX_MEMORY), Size(n)),
        }
    }
}

impl core::error::Error for BadMemorySize {}

/// Checks a size of memory.
pub const fn check_size(memory: u64) -> Result<u64, BadMemorySize> {
    if memory < MIN_MEMORY {
        Err(BadMemorySize::TooSmall(memory))
    } else if memory > MAX_MEMORY {
        Err(BadMemorySize::TooLarge(memory))
    } else if !memory.is_multiple_of(PAGE_SIZE) {
        Err(BadMemorySize::NotPages(memory))
    } else {
        Ok(memory)
    }
}

/// The memory map of a virtual machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryMap {
    memory: u64,
}

impl MemoryMap {
    /// The map of a virtual machine with this much memory.
    pub const fn new(memory: u64) -> Result<Self, BadMemorySize> {
        match check_size(memory) {
            Ok(memory) => Ok(Self { memory }),
            Err(error) => Err(error),
        }
    }

    /// Length of the stretch of host memory behind all slots.
    pub const fn memory(&self) -> u64 {
        self.memory
    }

    /// One past the last RAM below 4 GiB.
    pub fn low_end(&self) -> Gpa {
        Gpa(self.memory).min(LOW_RAM_LIMIT)
    }

    /// One past the last RAM from 4 GiB on; [`HIGH_RAM`] where there is none.
    pub fn high_end(&self) -> Gpa {
        HIGH_RAM.offset(self.memory - self.low_end().0)
    }

    /// KiB of usable RAM from 0 on and from 1 MiB on, each up to the first hole: what BIOS calls of old told.
    pub fn legacy_kib(&self) -> (u32, u32) {
        let kib = |bytes: u64| (bytes / KIB) as u32;
        (kib(EBDA.0), kib(self.low_end().0 - ROM_END.0))
    }

    /// What is backed by memory, in ascending order.
    pub fn slots(&self) -> ArrayVec<MemorySlot, 5> {
        let identity =
            |from: Gpa, to: Gpa, kind| MemorySlot { gpa: from, len: to.0 - from.0, kind, backing: from.0 };
        let mut slots = ArrayVec::new();
        slots.push(identity(Gpa(0), VGA, SlotKind::Ram));
        slots.push(identity(TEXT_PAGE, ROM, SlotKind::TextPage));
        slots.push(identity(ROM, ROM_END, SlotKind::Rom));
        slots.push(identity(ROM_END, self.low_end(), SlotKind::Ram));
        let high = self.high_end().0 - HIGH_RAM.0;
        if high > 0 {
            let backing = self.low_end().0;
            slots.push(MemorySlot { gpa: HIGH_RAM, len: high, kind: SlotKind::Ram, backing });
        }
        slots
    }

    /// What the guest is told, in ascending order.
    pub fn e820(&self) -> ArrayVec<E820Range, 5> {
        let range = |from: Gpa, to: Gpa, kind| E820Range { gpa: from, len: to.0 - from.0, kind };
        let mut ranges = ArrayVec::new();
        ranges.push(range(Gpa(0), EBDA, MemoryKind::Usable));
        ranges.push(range(EBDA, VGA, MemoryKind::Reserved));
        ranges.push(range(ROM, ROM_END, MemoryKind::Reserved));
        ranges.push(range(ROM_END, self.low_end(), MemoryKind::Usable));
        if self.high_end() > HIGH_RAM {
            ranges.push(range(HIGH_RAM, self.high_end(), MemoryKind::Usable));
        }
        ranges
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;
    use std::vec::Vec;

    const LARGE_PAGE: u64 = 2 * MIB;

    /// From the least to the most, around every border.
    fn sizes() -> Vec<u64> {
        let mut sizes = Vec::new();
        for size in [MIN_MEMORY, 64 * MIB, 100 * MIB, GIB, 3 * GIB, 4 * GIB, 5 * GIB, 64 * GIB, MAX_MEMORY] {
            sizes.extend([size - PAGE_SIZE, size, size + PAGE_SIZE]);
        }
        sizes.retain(|size| (MIN_MEMORY..=MAX_MEMORY).contains(size));
        sizes
    }

    #[test]
    fn slots_hold_all_memory_but_vga_graphics() {
        for size in sizes() {
            let total: u64 = MemoryMap::new(size).unwrap().slots().iter().map(|slot| slot.len).sum();
            assert_eq!(total, size - (TEXT_PAGE.0 - VGA.0), "{size:#x}");
        }
    }

    #[test]
    fn slots_ascend_in_guest_and_backing() {
        for size in sizes() {
            let slots = MemoryMap::new(size).unwrap().slots();
            for pair in slots.windows(2) {
                assert!(pair[0].end() <= pair[1].gpa, "{size:#x}");
                assert!(pair[0].backing + pair[0].len <= pair[1].backing, "{size:#x}");
            }
            let last = slots.last().unwrap();
            assert_eq!(last.backing + last.len, size);
            assert!(slots.iter().all(|slot| slot.len > 0 && slot.len.is_multiple_of(PAGE_SIZE)));
        }
    }

    #[test]
    fn large_pages_fit_guest_and_backing() {
        for slot in sizes().iter().flat_map(|size| MemoryMap::new(*size).unwrap().slots()) {
            assert_eq!(slot.gpa.0 % LARGE_PAGE, slot.backing % LARGE_PAGE, "{slot:?}");
        }
    }

    #[test]
    fn device_windows_are_in_no_slot() {
        let windows = [VGA.0..TEXT_PAGE.0, LOW_RAM_LIMIT.0..HIGH_RAM.0];
        for slot in sizes().iter().flat_map(|size| MemoryMap::new(*size).unwrap().slots()) {
            for window in &windows {
                assert!(slot.end().0 <= window.start || slot.gpa.0 >= window.end, "{slot:?}");
            }
        }
    }

    #[test]
    fn usable_ranges_are_ram() {
        for size in sizes() {
            let map = MemoryMap::new(size).unwrap();
            let slots = map.slots();
            for range in map.e820().iter().filter(|range| range.kind == MemoryKind::Usable) {
                let holder = slots.iter().find(|s| s.gpa <= range.gpa && range.gpa < s.end()).unwrap();
                assert_eq!(holder.kind, SlotKind::Ram);
                assert!(range.gpa.0 + range.len <= holder.end().0, "{size:#x}: {range:?}");
            }
        }
    }

    #[test]
    fn memory_beyond_three_gib_goes_above_four() {
        let slots = MemoryMap::new(5 * GIB).unwrap().slots();
        let high = MemorySlot { gpa: HIGH_RAM, len: 2 * GIB, kind: SlotKind::Ram, backing: 3 * GIB };
        assert_eq!(slots.last(), Some(&high));
        assert_eq!(MemoryMap::new(3 * GIB).unwrap().slots().len(), 4);
    }

    #[test]
    fn old_numbers_end_at_the_first_hole() {
        assert_eq!(MemoryMap::new(64 * MIB).unwrap().legacy_kib(), (639, 63 * 1024));
        assert_eq!(MemoryMap::new(8 * GIB).unwrap().legacy_kib(), (639, (3 * 1024 - 1) * 1024));
    }

    #[test]
    fn wild_sizes_are_refused() {
        let message = |size| MemoryMap::new(size).unwrap_err().to_string();
        assert_eq!(message(0), "expected at least 4M, found 0 bytes");
        assert_eq!(message(4 * MIB + 1), "expected a multiple of 4096 bytes, found 4194305 bytes");
        assert_eq!(message(u64::MAX), "expected at most 1T, found 18446744073709551615 bytes");
    }
}
