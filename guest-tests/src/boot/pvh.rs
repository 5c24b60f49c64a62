//! Start info of PVH (Xen, docs/misc/pvh.pandoc and public/arch-x86/hvm/start_info.h).

use super::{Boot, Protocol, string_by};
use crate::memory::{read32, read64};

/// The structure's first word.
pub(super) const MAGIC: u32 = 0x336e_c578;

/// Offsets in it.
const VERSION: u64 = 4;
const NR_MODULES: u64 = 12;
const MODLIST_PADDR: u64 = 16;
const CMDLINE_PADDR: u64 = 24;
const RSDP_PADDR: u64 = 32;
const MEMMAP_PADDR: u64 = 40;
const MEMMAP_ENTRIES: u64 = 48;
/// The version since which there is a memory map.
const VERSION_WITH_MAP: u32 = 1;

/// A module: address, size, command line, reserved; a range of memory: address, size, type, reserved.
const MODULE_SIZE: u64 = 32;
const RANGE_SIZE: u64 = 24;

pub(super) fn read(info: u64) -> Boot {
    assert_eq!(read32(info), MAGIC, "EBX leads to no PVH start info");
    let mut boot = Boot::new(Protocol::Pvh);
    boot.cmdline = string_by(read64(info + CMDLINE_PADDR));
    boot.rsdp = Some(read64(info + RSDP_PADDR)).filter(|&address| address != 0);
    let modules = read64(info + MODLIST_PADDR);
    for entry in (0..u64::from(read32(info + NR_MODULES))).map(|i| modules + i * MODULE_SIZE) {
        boot.add_module(read64(entry), read64(entry + 8), string_by(read64(entry + 16)));
    }
    if read32(info + VERSION) >= VERSION_WITH_MAP {
        let map = read64(info + MEMMAP_PADDR);
        for entry in (0..u64::from(read32(info + MEMMAP_ENTRIES))).map(|i| map + i * RANGE_SIZE) {
            boot.add_range(read64(entry), read64(entry + 8), read32(entry + 16));
        }
    }
    boot
}
