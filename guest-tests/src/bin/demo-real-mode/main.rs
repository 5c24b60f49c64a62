//! A multiboot 1 kernel at 0x8000 that goes down to real mode, works there, and comes back.

#![no_std]
#![no_main]
#![allow(unsafe_code, reason = "the header is assembly")]

mod real16;

use core::arch::global_asm;
use runtime::boot::Boot;
use runtime::demo;

/// Header (multiboot specification 0.6.96, 3.1): modules on page boundaries, and information on memory.
const MAGIC: u32 = 0x1bad_b002;
const PAGE_ALIGN: u32 = 1 << 0;
const MEMORY_INFO: u32 = 1 << 1;
const FLAGS: u32 = PAGE_ALIGN | MEMORY_INFO;

global_asm!(
    ".pushsection .demo.header, \"a\"",
    ".balign 4",
    ".long {magic}, {flags}, -({magic} + {flags})",
    ".popsection",
    magic = const MAGIC,
    flags = const FLAGS,
);

runtime::guest_main!(main);

fn main(boot: &'static Boot) {
    demo::run(boot, real16::visit);
}
