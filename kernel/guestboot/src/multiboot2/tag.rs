//! What a kernel is told: tags one after the other (Multiboot 2, 3.4 to 3.6).

use crate::memory_map::{E820Range, MemoryMap};
use crate::plan::{BOOT_LOADER_NAME, table};
use crate::stage::{Placed, terminated};
use crate::vga_text;
use alloc::vec::Vec;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// `type` of a tag.
mod kind {
    pub(super) const END: u32 = 0;
    pub(super) const CMDLINE: u32 = 1;
    pub(super) const BOOT_LOADER_NAME: u32 = 2;
    pub(super) const MODULE: u32 = 3;
    pub(super) const BASIC_MEMINFO: u32 = 4;
    pub(super) const MEMORY_MAP: u32 = 6;
    pub(super) const FRAMEBUFFER: u32 = 8;
    pub(super) const ACPI_OLD_RSDP: u32 = 14;
    pub(super) const ACPI_NEW_RSDP: u32 = 15;
    pub(super) const LOAD_BASE_ADDR: u32 = 21;
}

/// Tags that a kernel can require.
pub(super) const OFFERED: [u32; 9] = [
    kind::CMDLINE,
    kind::BOOT_LOADER_NAME,
    kind::MODULE,
    kind::BASIC_MEMINFO,
    kind::MEMORY_MAP,
    kind::FRAMEBUFFER,
    kind::ACPI_OLD_RSDP,
    kind::ACPI_NEW_RSDP,
    kind::LOAD_BASE_ADDR,
];

/// Tags begin on borders of so many bytes.
pub(super) const ALIGNMENT: u64 = 8;
/// Length of the root pointer's first version, which the old tag holds (ACPI 6.5, 5.2.5.3).
const OLD_RSDP: usize = 20;

/// What every tag begins with.
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
pub(super) struct TagHeader {
    pub(super) kind: U32,
    pub(super) size: U32,
}

/// One entry of the memory map.
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
struct MmapEntry {
    base_addr: U64,
    length: U64,
    kind: U32,
    reserved: U32,
}

impl MmapEntry {
    fn new(range: &E820Range) -> Self {
        Self {
            base_addr: range.gpa.0.into(),
            length: range.len.into(),
            kind: (range.kind as u32).into(),
            reserved: U32::ZERO,
        }
    }
}

/// The framebuffer's tag without its header.
#[repr(C)]
#[derive(Clone, Copy, Debug, IntoBytes, Immutable, Unaligned)]
struct Framebuffer {
    addr: U64,
    pitch: U32,
    width: U32,
    height: U32,
    bpp: u8,
    kind: u8,
    reserved: U16,
}

const EGA_TEXT: Framebuffer = Framebuffer {
    addr: U64::new(vga_text::PAGE.0),
    pitch: U32::new(vga_text::PITCH),
    width: U32::new(vga_text::COLUMNS),
    height: U32::new(vga_text::ROWS),
    bpp: vga_text::BITS_PER_CHARACTER,
    kind: vga_text::FRAMEBUFFER_TYPE,
    reserved: U16::ZERO,
};

/// What differs from kernel to kernel.
pub(super) struct Facts<'a> {
    pub(super) map: &'a MemoryMap,
    pub(super) cmdline: &'a str,
    pub(super) modules: &'a [Placed<'a>],
    /// The ACPI root pointer.
    pub(super) rsdp: &'a [u8],
    /// Where a relocatable kernel was placed.
    pub(super) load_base: Option<u64>,
}

/// The whole information, to be placed on an [`ALIGNMENT`] border.
pub(super) fn information(facts: &Facts<'_>) -> Vec<u8> {
    let mut tags = Tags(alloc::vec![0; 2 * size_of::<U32>()]);
    let (lower, upper) = facts.map.legacy_kib();
    tags.push(kind::CMDLINE, &terminated(facts.cmdline));
    tags.push(kind::BOOT_LOADER_NAME, &terminated(BOOT_LOADER_NAME));
    for module in facts.modules {
        let mut body = words(&[module.at.0 as u32, module.end().0 as u32]);
        body.extend(terminated(module.cmdline));
        tags.push(kind::MODULE, &body);
    }
    tags.push(kind::BASIC_MEMINFO, &words(&[lower, upper]));
    const ENTRY_VERSION: u32 = 0;
    let mut map = words(&[size_of::<MmapEntry>() as u32, ENTRY_VERSION]);
    map.extend(table(facts.map.e820().iter().map(MmapEntry::new)));
    tags.push(kind::MEMORY_MAP, &map);
    tags.push(kind::FRAMEBUFFER, EGA_TEXT.as_bytes());
    tags.push(kind::ACPI_OLD_RSDP, &facts.rsdp[..OLD_RSDP]);
    tags.push(kind::ACPI_NEW_RSDP, facts.rsdp);
    if let Some(base) = facts.load_base {
        tags.push(kind::LOAD_BASE_ADDR, &words(&[base as u32]));
    }
    tags.finish()
}

/// Tags so far, behind the room for their total length.
struct Tags(Vec<u8>);

impl Tags {
    fn push(&mut self, kind: u32, body: &[u8]) {
        let size = (size_of::<TagHeader>() + body.len()) as u32;
        let header = TagHeader { kind: kind.into(), size: size.into() };
        self.0.extend(header.as_bytes());
        self.0.extend(body);
        self.0.resize(self.0.len().next_multiple_of(ALIGNMENT as usize), 0);
    }

    fn finish(mut self) -> Vec<u8> {
        self.push(kind::END, &[]);
        let total = self.0.len() as u32;
        self.0[..size_of::<U32>()].copy_from_slice(&total.to_le_bytes());
        self.0
    }
}

fn words(words: &[u32]) -> Vec<u8> {
    table(words.iter().map(|word| U32::new(*word)))
}
