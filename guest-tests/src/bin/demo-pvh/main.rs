//! A PVH kernel at 2 MiB: an ELF64 file whose note names an entry in 32-bit protected mode without paging.

#![no_std]
#![no_main]
#![allow(unsafe_code, reason = "the header is assembly")]

use core::arch::global_asm;
use runtime::boot::Boot;
use runtime::demo;

/// ELF note of Xen's (public/elfnote.h) with the physical address of the entry.
const XEN_ELFNOTE_PHYS32_ENTRY: u32 = 18;

global_asm!(
    ".pushsection .note.Xen, \"a\", @note",
    ".balign 4",
    // Sizes of name and content, type, name, content.
    ".long 4, 4, {phys32_entry}",
    ".asciz \"Xen\"",
    ".long pvh_entry",
    ".popsection",
    phys32_entry = const XEN_ELFNOTE_PHYS32_ENTRY,
);

runtime::guest_main!(main);

fn main(boot: &'static Boot) {
    demo::run(boot, || {});
}
