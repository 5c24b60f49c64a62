//! The first instructions: from multiboot and PVH (32-bit protected mode) and from the Linux 64-bit boot protocol
//! to one Rust function on page tables, GDT and stack of our own.

#![allow(unsafe_code, reason = "the entry code is assembly")]

use crate::boot::{self, Boot, Protocol};
use crate::single::Single;
use crate::{gdt, interrupt, machine, power, serial, time};
use core::arch::global_asm;
use core::mem::offset_of;
use x86defs::control::{Cr0, Cr4, Efer};

/// Bytes of stack; tests run on it, interrupts too.
const STACK_SIZE: usize = 64 * 1024;

/// Multiboot 1 header fields (multiboot specification 0.6.96, 3.1).
const MULTIBOOT_HEADER_MAGIC: u32 = 0x1bad_b002;
const MULTIBOOT_PAGE_ALIGN: u32 = 1 << 0;
const MULTIBOOT_MEMORY_INFO: u32 = 1 << 1;
const MULTIBOOT_FLAGS: u32 = MULTIBOOT_PAGE_ALIGN | MULTIBOOT_MEMORY_INFO;

/// The CPU as a boot loader with a 32-bit entry hands it over.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// EAX
    pub eax: u32,
    /// EBX
    pub ebx: u32,
    /// CR0
    pub cr0: u32,
    /// CR4
    pub cr4: u32,
    /// EFLAGS
    pub eflags: u32,
    /// [`PROBE`] as CS, DS, ES, SS and, in multiboot, FS and GS show it.
    pub probes: [u32; 6],
}

/// A word at a known address, which every flat segment shows.
pub const PROBE: u32 = u32::from_le_bytes(*b"flat");

// What the entry code writes must not lie in what it clears afterwards.
#[unsafe(link_section = ".data.entry")]
static ENTRY: Single<Entry> =
    Single::new(Entry { eax: 0, ebx: 0, cr0: 0, cr4: 0, eflags: 0, probes: [0; 6] });

/// How the boot loader has handed the CPU over.
pub fn state() -> Entry {
    ENTRY.load()
}

global_asm!(
    ".pushsection .boot.multiboot, \"a\"",
    ".long {multiboot_magic}, {multiboot_flags}, -({multiboot_magic} + {multiboot_flags})",
    ".popsection",

    ".pushsection .boot.linux, \"ax\"",
    "jmp linux_entry",
    ".popsection",

    ".pushsection .text.entry, \"ax\"",
    ".code32",
    ".global multiboot_entry",
    "multiboot_entry:",
    "mov edi, eax",
    "mov ecx, fs:[entry_probe]",
    "mov edx, gs:[entry_probe]",
    "jmp entry32",
    ".global pvh_entry",
    "pvh_entry:",
    "mov edi, {pvh_magic}",
    "mov ecx, [entry_probe]",
    "mov edx, ecx",
    "entry32:",
    "mov [{entry} + {eax}], eax",
    "mov [{entry} + {ebx}], ebx",
    "mov [{entry} + {probes} + 16], ecx",
    "mov [{entry} + {probes} + 20], edx",
    "mov esi, ebx",
    "mov eax, cs:[entry_probe]",
    "mov [{entry} + {probes}], eax",
    "mov eax, ds:[entry_probe]",
    "mov [{entry} + {probes} + 4], eax",
    "mov eax, es:[entry_probe]",
    "mov [{entry} + {probes} + 8], eax",
    "mov eax, ss:[entry_probe]",
    "mov [{entry} + {probes} + 12], eax",
    "mov esp, offset boot_stack_top",
    "pushfd",
    "pop dword ptr [{entry} + {eflags}]",
    "cli",
    "cld",
    "mov eax, cr0",
    "mov [{entry} + {entry_cr0}], eax",
    "mov eax, cr4",
    "mov [{entry} + {entry_cr4}], eax",
    "mov eax, offset boot_pml4",
    "mov cr3, eax",
    "mov eax, {cr4}",
    "mov cr4, eax",
    "mov ecx, {msr_efer}",
    "mov eax, {efer}",
    "xor edx, edx",
    "wrmsr",
    "mov eax, {cr0}",
    "mov cr0, eax",
    "lgdt [boot_gdtr]",
    "mov eax, {code64}",
    "push eax",
    "mov eax, offset long_entry",
    "push eax",
    "retf",

    ".code64",
    "linux_entry:",
    "cli",
    "cld",
    "mov edi, {linux_magic}",
    "mov rax, offset boot_pml4",
    "mov cr3, rax",
    "lgdt [boot_gdtr]",
    "mov rsp, offset boot_stack_top",
    "push {code64}",
    "push offset long_entry",
    "retfq",

    // EDI: magic of the protocol, ESI: address of its information.
    "long_entry:",
    "mov eax, {data}",
    "mov ds, eax",
    "mov es, eax",
    "mov ss, eax",
    "xor eax, eax",
    "mov fs, eax",
    "mov gs, eax",
    "mov r8d, edi",
    "mov rdi, offset bss_start",
    "mov rcx, offset bss_end",
    "sub rcx, rdi",
    "rep stosb",
    "mov edi, r8d",
    "mov rsp, offset boot_stack_top",
    "xor ebp, ebp",
    "call {start}",
    "ud2",
    ".popsection",

    // The first 4 GiB, physical = virtual, in pages of 2 MiB; the last of them, where devices lie, uncached.
    ".pushsection .data.entry, \"aw\"",
    "entry_probe:",
    ".long {probe}",
    "boot_gdtr:",
    ".word {gdt_limit}",
    ".quad {gdt}",
    ".balign 4096",
    ".global boot_pml4",
    "boot_pml4:",
    ".quad boot_pdpt + {table}",
    ".zero 511 * 8",
    "boot_pdpt:",
    ".quad boot_pd + {table}",
    ".quad boot_pd + 4096 + {table}",
    ".quad boot_pd + 2 * 4096 + {table}",
    ".quad boot_pd + 3 * 4096 + {table}",
    ".zero 508 * 8",
    "boot_pd:",
    ".set boot_page, 0",
    ".rept 3 * 512",
    ".quad boot_page + {large}",
    ".set boot_page, boot_page + 0x200000",
    ".endr",
    ".rept 512",
    ".quad boot_page + {large_uncached}",
    ".set boot_page, boot_page + 0x200000",
    ".endr",
    ".popsection",

    ".pushsection .bss.entry, \"aw\", @nobits",
    ".balign 16",
    ".zero {stack_size}",
    "boot_stack_top:",
    ".popsection",

    multiboot_magic = const MULTIBOOT_HEADER_MAGIC,
    multiboot_flags = const MULTIBOOT_FLAGS,
    linux_magic = const boot::LINUX_MAGIC,
    pvh_magic = const boot::PVH_MAGIC,
    probe = const PROBE,
    entry = sym ENTRY,
    eax = const offset_of!(Entry, eax),
    ebx = const offset_of!(Entry, ebx),
    entry_cr0 = const offset_of!(Entry, cr0),
    entry_cr4 = const offset_of!(Entry, cr4),
    eflags = const offset_of!(Entry, eflags),
    probes = const offset_of!(Entry, probes),
    msr_efer = const x86defs::msr::EFER,
    cr0 = const machine::CR0.union(Cr0::PG).bits(),
    cr4 = const machine::CR4.union(Cr4::PAE).bits(),
    efer = const Efer::LME.union(Efer::NXE).bits(),
    code64 = const gdt::CODE64,
    data = const gdt::DATA,
    gdt = sym gdt::GDT,
    gdt_limit = const gdt::LIMIT,
    table = const crate::memory::TABLE_FLAGS,
    large = const crate::memory::LARGE_FLAGS,
    large_uncached = const crate::memory::LARGE_FLAGS | crate::memory::UNCACHED,
    stack_size = const STACK_SIZE,
    start = sym start,
);

unsafe extern "Rust" {
    /// The guest's main function, defined by [`guest_main!`](crate::guest_main).
    safe fn guest_main(boot: &'static Boot);
}

/// Names the function that a guest starts with; it powers off when that returns.
#[macro_export]
macro_rules! guest_main {
    ($main:path) => {
        #[unsafe(no_mangle)]
        #[allow(unsafe_code, reason = "the runtime calls the guest by this name")]
        fn guest_main(boot: &'static $crate::boot::Boot) {
            $main(boot)
        }
    };
}

extern "C" fn start(magic: u32, info: u32) -> ! {
    gdt::init();
    interrupt::init();
    serial::init();
    let boot = boot::init(Protocol::from_magic(magic), u64::from(info));
    machine::init(boot);
    power::init(boot);
    time::init();
    guest_main(boot);
    power::off();
}
