//! What a kernel is told (Multiboot 0.6.96, 3.3).

use crate::memory_map::E820Range;
use crate::stage::Placed;
use crate::vga_text;
use bitflags::bitflags;
use core::mem::offset_of;
use x86defs::addr::Gpa;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

bitflags! {
    /// `flags`: which fields are valid. The others stay zero: there is no BIOS, hence no boot device, drives,
    /// ROM configuration table, APM or VBE.
    #[derive(Clone, Copy, Debug)]
    struct Valid: u32 {
        const MEMORY = 1 << 0;
        const CMDLINE = 1 << 2;
        const MODULES = 1 << 3;
        const MEMORY_MAP = 1 << 6;
        const BOOT_LOADER_NAME = 1 << 9;
        const FRAMEBUFFER = 1 << 12;
    }
}

/// The information structure.
#[allow(missing_docs, reason = "fields carry the names that the specification defines")]
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
pub(crate) struct Info {
    pub(crate) flags: U32,
    pub(crate) mem_lower: U32,
    pub(crate) mem_upper: U32,
    boot_device: U32,
    pub(crate) cmdline: U32,
    pub(crate) mods_count: U32,
    pub(crate) mods_addr: U32,
    syms: [U32; 4],
    pub(crate) mmap_length: U32,
    pub(crate) mmap_addr: U32,
    drives: [U32; 2],
    config_table: U32,
    pub(crate) boot_loader_name: U32,
    apm_table: U32,
    vbe: [U32; 4],
    pub(crate) framebuffer_addr: U64,
    pub(crate) framebuffer_pitch: U32,
    pub(crate) framebuffer_width: U32,
    pub(crate) framebuffer_height: U32,
    pub(crate) framebuffer_bpp: u8,
    pub(crate) framebuffer_type: u8,
    color_info: [u8; 6],
}

// The offsets that the specification gives.
const _: () = {
    assert!(offset_of!(Info, mmap_length) == 44);
    assert!(offset_of!(Info, boot_loader_name) == 64);
    assert!(offset_of!(Info, framebuffer_addr) == 88);
    assert!(offset_of!(Info, color_info) == 110);
};

/// Where the parts of the information lie.
pub(crate) struct Parts {
    /// Command line.
    pub(crate) cmdline: Gpa,
    /// Our name.
    pub(crate) boot_loader_name: Gpa,
    /// Number of modules.
    pub(crate) mods_count: usize,
    /// Their descriptions.
    pub(crate) mods_addr: Gpa,
    /// Length of the memory map in bytes.
    pub(crate) mmap_length: usize,
    /// The memory map.
    pub(crate) mmap_addr: Gpa,
    /// KiB of memory from 0 and from 1 MiB on.
    pub(crate) memory_kib: (u32, u32),
}

impl Info {
    /// Everything that we can tell, whatever the kernel asked for.
    pub(crate) fn new(parts: &Parts) -> Self {
        let address = |at: Gpa| U32::new(at.0 as u32);

        Self {
            flags: Valid::all().bits().into(),
            mem_lower: parts.memory_kib.0.into(),
            mem_upper: parts.memory_kib.1.into(),
            cmdline: address(parts.cmdline),
            mods_count: (parts.mods_count as u32).into(),
            mods_addr: address(parts.mods_addr),
            mmap_length: (parts.mmap_length as u32).into(),
            mmap_addr: address(parts.mmap_addr),
            boot_loader_name: address(parts.boot_loader_name),
            framebuffer_addr: vga_text::PAGE.0.into(),
            framebuffer_pitch: vga_text::PITCH.into(),
            framebuffer_width: vga_text::COLUMNS.into(),
            framebuffer_height: vga_text::ROWS.into(),
            framebuffer_bpp: vga_text::BITS_PER_CHARACTER,
            framebuffer_type: vga_text::FRAMEBUFFER_TYPE,
            ..Self::new_zeroed()
        }
    }
}

/// One entry of the memory map; `size` does not count itself.
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
pub(crate) struct MmapEntry {
    size: U32,
    base_addr: U64,
    length: U64,
    kind: U32,
}

impl MmapEntry {
    pub(crate) fn new(range: &E820Range) -> Self {
        Self {
            size: ((size_of::<Self>() - size_of::<U32>()) as u32).into(),
            base_addr: range.gpa.0.into(),
            length: range.len.into(),
            kind: (range.kind as u32).into(),
        }
    }
}

/// One module.
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
pub(crate) struct ModEntry {
    pub(crate) mod_start: U32,
    pub(crate) mod_end: U32,
    pub(crate) string: U32,
    reserved: U32,
}

impl ModEntry {
    pub(crate) fn new(module: &Placed<'_>, string: Gpa) -> Self {
        Self {
            mod_start: (module.at.0 as u32).into(),
            mod_end: (module.end().0 as u32).into(),
            string: (string.0 as u32).into(),
            reserved: U32::ZERO,
        }
    }
}
