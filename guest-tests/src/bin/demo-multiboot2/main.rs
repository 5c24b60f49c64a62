//! A multiboot 2 kernel at 12 MiB, in an ELF64 or ELF32 file. Either is entered in 32-bit protected mode.

#![no_std]
#![no_main]
#![allow(unsafe_code, reason = "the header is assembly")]

use core::arch::global_asm;
use runtime::boot::Boot;
use runtime::demo;

/// Header (multiboot 2 specification 2.0, 3.1).
const MAGIC: u32 = 0xe852_50d6;
const ARCHITECTURE_I386: u32 = 0;
const HEADER_LENGTH: u32 = 48;
/// The four words add up to 0.
const CHECKSUM: u32 = 0u32.wrapping_sub(MAGIC).wrapping_sub(ARCHITECTURE_I386).wrapping_sub(HEADER_LENGTH);

/// Types of tags, and the information that this kernel cannot do without.
const TAG_INFORMATION_REQUEST: u16 = 1;
const TAG_MODULE_ALIGNMENT: u16 = 6;
const TAG_END: u16 = 0;
const COMMAND_LINE: u32 = 1;
const MEMORY_MAP: u32 = 6;

global_asm!(
    ".pushsection .demo.header, \"a\"",
    ".balign 8",
    ".long {magic}, {architecture}, {length}, {checksum}",
    // Type, flags, size.
    ".word {information_request}, 0",
    ".long 16, {command_line}, {memory_map}",
    ".word {module_alignment}, 0",
    ".long 8",
    ".word {end}, 0",
    ".long 8",
    ".popsection",
    magic = const MAGIC,
    architecture = const ARCHITECTURE_I386,
    length = const HEADER_LENGTH,
    checksum = const CHECKSUM,
    information_request = const TAG_INFORMATION_REQUEST,
    command_line = const COMMAND_LINE,
    memory_map = const MEMORY_MAP,
    module_alignment = const TAG_MODULE_ALIGNMENT,
    end = const TAG_END,
);

runtime::guest_main!(main);

fn main(boot: &'static Boot) {
    demo::run(boot, || {});
}
