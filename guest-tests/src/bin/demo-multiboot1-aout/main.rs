//! A multiboot 1 kernel at 4 MiB that is no ELF file: its header says where it is loaded and entered (the "a.out
//! kludge").

#![no_std]
#![no_main]
#![allow(unsafe_code, reason = "the header is assembly")]

use core::arch::global_asm;
use runtime::boot::Boot;
use runtime::demo;

/// Header (multiboot specification 0.6.96, 3.1).
const MAGIC: u32 = 0x1bad_b002;
const PAGE_ALIGN: u32 = 1 << 0;
const MEMORY_INFO: u32 = 1 << 1;
/// The header has addresses.
const ADDRESSES: u32 = 1 << 16;
const FLAGS: u32 = PAGE_ALIGN | MEMORY_INFO | ADDRESSES;

global_asm!(
    ".pushsection .demo.header, \"a\"",
    ".balign 4",
    "multiboot_header:",
    ".long {magic}, {flags}, -({magic} + {flags})",
    // header_addr, load_addr, load_end_addr, bss_end_addr, entry_addr
    ".long multiboot_header, load_address, data_end, bss_end, multiboot_entry",
    ".popsection",
    magic = const MAGIC,
    flags = const FLAGS,
);

runtime::guest_main!(main);

fn main(boot: &'static Boot) {
    demo::run(boot, || {});
}
