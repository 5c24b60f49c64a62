//! What a kernel is told: `hvm_start_info`, version 1 (Xen, public/arch-x86/hvm/start_info.h).

use crate::memory_map::E820Range;
use crate::stage::Placed;
use x86defs::addr::Gpa;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// `magic`: "xEn3" with the top bit of the E set.
pub(crate) const MAGIC: u32 = 0x336e_c578;
/// First version with a memory map.
pub(crate) const VERSION: u32 = 1;

/// The structure.
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
pub(crate) struct StartInfo {
    pub(crate) magic: U32,
    pub(crate) version: U32,
    pub(crate) flags: U32,
    pub(crate) nr_modules: U32,
    pub(crate) modlist_paddr: U64,
    pub(crate) cmdline_paddr: U64,
    pub(crate) rsdp_paddr: U64,
    pub(crate) memmap_paddr: U64,
    pub(crate) memmap_entries: U32,
    pub(crate) reserved: U32,
}

const _: () = assert!(size_of::<StartInfo>() == 56);

/// One module.
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
pub(crate) struct ModlistEntry {
    pub(crate) paddr: U64,
    pub(crate) size: U64,
    pub(crate) cmdline_paddr: U64,
    reserved: U64,
}

impl ModlistEntry {
    pub(crate) fn new(module: &Placed<'_>, cmdline: Gpa) -> Self {
        Self {
            paddr: module.at.0.into(),
            size: module.len.into(),
            cmdline_paddr: cmdline.0.into(),
            reserved: U64::ZERO,
        }
    }
}

/// One entry of the memory map; types are ACPI's.
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
pub(crate) struct MemmapEntry {
    pub(crate) addr: U64,
    pub(crate) size: U64,
    pub(crate) kind: U32,
    reserved: U32,
}

impl MemmapEntry {
    pub(crate) fn new(range: &E820Range) -> Self {
        Self {
            addr: range.gpa.0.into(),
            size: range.len.into(),
            kind: (range.kind as u32).into(),
            reserved: U32::ZERO,
        }
    }
}
