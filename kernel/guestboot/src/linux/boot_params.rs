//! The zero page (Linux, Documentation/arch/x86/zero-page.rst), as far as we fill it in.

use super::header::{Header, SETUP_HEADER, SetupHeader};
use crate::memory_map::MemoryMap;
use core::mem::offset_of;
use x86defs::addr::Gpa;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Entries that [`BootParams::e820_table`] has room for.
pub const E820_MAX: usize = 128;
/// `type_of_loader`: a boot loader without an assigned number.
const UNDEFINED_LOADER: u8 = 0xff;

/// One entry of the memory map.
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
pub struct E820Entry {
    /// First address.
    pub addr: U64,
    /// Length in bytes.
    pub size: U64,
    /// ACPI address-range type.
    pub kind: U32,
}

/// `struct boot_params`; what lies between the named fields stays zero.
#[allow(missing_docs, reason = "fields carry the names that Linux gives them")]
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
pub struct BootParams {
    before_rsdp: [u8; 0x70],
    pub acpi_rsdp_addr: U64,
    before_ext_ramdisk: [u8; 0x48],
    pub ext_ramdisk_image: U32,
    pub ext_ramdisk_size: U32,
    pub ext_cmd_line_ptr: U32,
    before_e820_entries: [u8; 0x11c],
    pub e820_entries: u8,
    before_header: [u8; 8],
    pub hdr: SetupHeader,
    /// Room for the fields of later protocol versions.
    later_header: [u8; 0x28],
    before_e820_table: [u8; 0x40],
    pub e820_table: [E820Entry; E820_MAX],
    after_e820_table: [u8; 0x330],
}

// The offsets that the documentation gives.
const _: () = {
    assert!(offset_of!(BootParams, acpi_rsdp_addr) == 0x70);
    assert!(offset_of!(BootParams, ext_ramdisk_image) == 0xc0);
    assert!(offset_of!(BootParams, e820_entries) == 0x1e8);
    assert!(offset_of!(BootParams, hdr) == SETUP_HEADER);
    assert!(offset_of!(BootParams, before_e820_table) == 0x290);
    assert!(offset_of!(BootParams, e820_table) == 0x2d0);
    assert!(size_of::<BootParams>() == 0x1000);
};

impl BootParams {
    /// Zero but for the kernel's own setup header and our name as a boot loader.
    pub fn new(header: &Header<'_>) -> Self {
        let mut params = Self::new_zeroed();
        let room = &mut params.as_mut_bytes()[SETUP_HEADER..offset_of!(Self, before_e820_table)];
        let len = header.bytes().len().min(room.len());
        room[..len].copy_from_slice(&header.bytes()[..len]);
        params.hdr.type_of_loader = UNDEFINED_LOADER;
        params
    }

    /// Tells the memory map.
    pub fn set_memory(&mut self, map: &MemoryMap) {
        let ranges = map.e820();
        for (entry, range) in self.e820_table.iter_mut().zip(&ranges) {
            *entry = E820Entry {
                addr: range.gpa.0.into(),
                size: range.len.into(),
                kind: (range.kind as u32).into(),
            };
        }
        self.e820_entries = ranges.len() as u8;
    }

    /// Tells where the command line is.
    pub fn set_cmdline(&mut self, at: Gpa) {
        let (low, high) = halves(at.0);
        self.hdr.cmd_line_ptr = low;
        self.ext_cmd_line_ptr = high;
    }

    /// Tells where the initial RAM disk is.
    pub fn set_initrd(&mut self, at: Gpa, len: u64) {
        (self.hdr.ramdisk_image, self.ext_ramdisk_image) = halves(at.0);
        (self.hdr.ramdisk_size, self.ext_ramdisk_size) = halves(len);
    }

    /// Tells where the ACPI root pointer is.
    pub fn set_rsdp(&mut self, at: Gpa) {
        self.acpi_rsdp_addr = at.0.into();
    }
}

/// A 64-bit value in the two fields, low and high, that the protocol has for it.
fn halves(value: u64) -> (U32, U32) {
    ((value as u32).into(), ((value >> 32) as u32).into())
}
