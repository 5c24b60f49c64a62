//! Page tables for tests: a pool of frames, and address spaces that begin as a copy of the boot one.

#![allow(unsafe_code, reason = "page tables")]

use crate::cpu;
use crate::single::Single;

/// Page-table entry bits (SDM 3, 4.5).
pub const PRESENT: u64 = 1 << 0;
/// R/W
pub const WRITABLE: u64 = 1 << 1;
/// U/S
pub const USER: u64 = 1 << 2;
/// PWT and PCD
pub const UNCACHED: u64 = 3 << 3;
/// A
pub const ACCESSED: u64 = 1 << 5;
/// D
pub const DIRTY: u64 = 1 << 6;
/// PS
pub const LARGE: u64 = 1 << 7;
/// G
pub const GLOBAL: u64 = 1 << 8;
/// XD
pub const NO_EXECUTE: u64 = 1 << 63;
/// Entry of a table: the leaf decides.
pub const TABLE_FLAGS: u64 = PRESENT | WRITABLE | USER;
/// Leaf of the boot tables.
pub const LARGE_FLAGS: u64 = PRESENT | WRITABLE | LARGE;
/// Address part of an entry.
pub const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

/// Bytes in a page.
pub const PAGE: u64 = 4096;
const POOL_FRAMES: usize = 64;

/// A page of memory as 512 entries.
#[repr(C, align(4096))]
#[derive(Clone, Copy)]
struct Frame([u64; 512]);

static POOL: Single<[Frame; POOL_FRAMES]> = Single::new([Frame([0; 512]); POOL_FRAMES]);
static USED: Single<usize> = Single::new(0);

unsafe extern "C" {
    static boot_pml4: u8;
}

/// Physical address of the boot page tables.
pub fn boot_cr3() -> u64 {
    (&raw const boot_pml4) as u64
}

/// Gives all frames back and returns to the boot page tables.
pub fn reset() {
    let _ = cpu::set_cr3(boot_cr3());
    USED.store(0);
}

/// A zeroed frame, until [`reset`]; its address is physical and identity mapped.
pub fn frame() -> u64 {
    let index = USED.load();
    assert!(index < POOL_FRAMES, "the pool of {POOL_FRAMES} frames is empty");
    USED.store(index + 1);
    let address = POOL.get() as u64 + index as u64 * PAGE;
    for entry in 0..512 {
        write64(address + entry * 8, 0);
    }
    address
}

macro_rules! access {
    ($read:ident, $write:ident, $type:ty) => {
        /// Reads memory at a linear address.
        pub fn $read(address: u64) -> $type {
            // SAFETY: tests name memory that they own; a wild address is a fault that fails the test.
            unsafe { (address as *const $type).read_volatile() }
        }
        /// Writes memory at a linear address.
        pub fn $write(address: u64, value: $type) {
            // SAFETY: as for reading.
            unsafe { (address as *mut $type).write_volatile(value) }
        }
    };
}

access!(read8, write8, u8);
access!(read16, write16, u16);
access!(read32, write32, u32);
access!(read64, write64, u64);

/// Four-level page tables.
#[derive(Clone, Copy)]
pub struct Space {
    pml4: u64,
}

/// Start of the linear addresses that the boot tables leave free.
pub const FREE: u64 = 1 << 39;

impl Default for Space {
    fn default() -> Self {
        Self::new()
    }
}

impl Space {
    /// One with the identity map of the boot tables.
    pub fn new() -> Self {
        let pml4 = frame();
        write64(pml4, read64(boot_cr3()));
        Self { pml4 }
    }
    /// What to load into CR3.
    pub fn cr3(self) -> u64 {
        self.pml4
    }
    /// Loads it.
    pub fn activate(self) {
        cpu::set_cr3(self.pml4).expect("a frame's address is a valid CR3");
    }
    /// The address of the entry that maps `address` at a level: 1 is a 4 KiB page, 2 is 2 MiB, 3 is 1 GiB.
    /// Tables on the way are made.
    pub fn entry(self, address: u64, level: u32) -> u64 {
        let mut table = self.pml4;
        for depth in (level + 1..=4).rev() {
            let slot = slot(table, address, depth);
            if read64(slot) & PRESENT == 0 {
                write64(slot, frame() | TABLE_FLAGS);
            }
            table = read64(slot) & ADDRESS;
        }
        slot(table, address, level)
    }
    /// Maps a 4 KiB page.
    pub fn map(self, address: u64, physical: u64, flags: u64) {
        write64(self.entry(address, 1), physical | flags);
        cpu::invlpg(address);
    }
}

fn slot(table: u64, address: u64, level: u32) -> u64 {
    table + (address >> (12 + 9 * (level - 1)) & 0x1ff) * 8
}
