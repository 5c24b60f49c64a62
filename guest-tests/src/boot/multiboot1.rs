//! Multiboot 1 information (multiboot specification 0.6.96, 3.3).

use super::{BasicMemory, Boot, Protocol, string_at, string_by};
use crate::memory::{read32, read64};

/// Offsets in the structure, which begins with flags.
const MEM_LOWER: u64 = 4;
const MEM_UPPER: u64 = 8;
const CMDLINE: u64 = 16;
const MODS_COUNT: u64 = 20;
const MODS_ADDR: u64 = 24;
const MMAP_LENGTH: u64 = 44;
const MMAP_ADDR: u64 = 48;
const BOOT_LOADER_NAME: u64 = 64;

/// Flags: which of the fields are valid.
const HAS_MEMORY: u32 = 1 << 0;
const HAS_CMDLINE: u32 = 1 << 2;
const HAS_MODULES: u32 = 1 << 3;
const HAS_MMAP: u32 = 1 << 6;
const HAS_LOADER_NAME: u32 = 1 << 9;

/// An entry of the list of modules: start, end, string, reserved.
const MODULE_SIZE: u64 = 16;

pub(super) fn read(info: u64) -> Boot {
    let mut boot = Boot::new(Protocol::Multiboot1);
    let flags = read32(info);
    let field = |offset| read32(info + offset);
    let address = |offset| u64::from(field(offset));
    if flags & HAS_MEMORY != 0 {
        boot.basic = Some(BasicMemory { lower: field(MEM_LOWER), upper: field(MEM_UPPER) });
    }
    if flags & HAS_MMAP != 0 {
        read_map(&mut boot, address(MMAP_ADDR), address(MMAP_LENGTH));
    }
    if flags & HAS_CMDLINE != 0 {
        boot.cmdline = string_at(address(CMDLINE));
    }
    if flags & HAS_MODULES != 0 {
        let (first, count) = (address(MODS_ADDR), address(MODS_COUNT));
        for entry in (0..count).map(|i| first + i * MODULE_SIZE) {
            let [start, end, string] = [0, 4, 8].map(|offset| u64::from(read32(entry + offset)));
            boot.add_module(start, end - start, string_by(string));
        }
    }
    if flags & HAS_LOADER_NAME != 0 {
        boot.loader = Some(string_at(address(BOOT_LOADER_NAME)));
    }
    boot
}

fn read_map(boot: &mut Boot, start: u64, length: u64) {
    let mut entry = start;
    while entry < start + length {
        // size, base, length, type; `size` does not count itself.
        boot.add_range(read64(entry + 4), read64(entry + 12), read32(entry + 20));
        entry += u64::from(read32(entry)) + 4;
    }
}
