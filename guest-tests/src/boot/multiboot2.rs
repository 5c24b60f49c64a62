//! Multiboot 2 information: a list of tags (multiboot 2 specification 2.0, 3.6).

use super::{BasicMemory, Boot, Protocol, string_at};
use crate::memory::{read32, read64};

/// Types of tags.
const END: u32 = 0;
const CMDLINE: u32 = 1;
const LOADER_NAME: u32 = 2;
const MODULE: u32 = 3;
const BASIC_MEMORY: u32 = 4;
const MEMORY_MAP: u32 = 6;
const ACPI_OLD_RSDP: u32 = 14;
const ACPI_NEW_RSDP: u32 = 15;

/// Total size and a reserved word stand before the first tag; a tag begins with its type and size.
const FIRST_TAG: u64 = 8;
const TAG_HEADER: u64 = 8;
const TAG_ALIGN: u64 = 8;

pub(super) fn read(info: u64) -> Boot {
    let mut boot = Boot::new(Protocol::Multiboot2);
    let end = info + u64::from(read32(info));
    let mut tag = info + FIRST_TAG;
    while tag < end && read32(tag) != END {
        let size = u64::from(read32(tag + 4));
        read_tag(&mut boot, tag, size);
        tag += size.next_multiple_of(TAG_ALIGN);
    }
    boot
}

fn read_tag(boot: &mut Boot, tag: u64, size: u64) {
    let content = tag + TAG_HEADER;
    match read32(tag) {
        CMDLINE => boot.cmdline = string_at(content),
        LOADER_NAME => boot.loader = Some(string_at(content)),
        MODULE => {
            let (start, end) = (u64::from(read32(content)), u64::from(read32(content + 4)));
            boot.add_module(start, end - start, string_at(content + 8));
        }
        BASIC_MEMORY => {
            boot.basic = Some(BasicMemory { lower: read32(content), upper: read32(content + 4) });
        }
        MEMORY_MAP => {
            // Size and version of an entry, then the entries: base, length, type, reserved.
            let entry_size = read32(content) as usize;
            for entry in (content + 8..tag + size).step_by(entry_size) {
                boot.add_range(read64(entry), read64(entry + 8), read32(entry + 16));
            }
        }
        // The tag holds a copy of the RSDP. The newer one says more.
        ACPI_OLD_RSDP if boot.rsdp.is_none() => boot.rsdp = Some(content),
        ACPI_NEW_RSDP => boot.rsdp = Some(content),
        _ => {}
    }
}
