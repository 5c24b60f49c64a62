//! From the boot loader's 32-bit world to [`loader_main`](crate::loader_main) in long mode.
//!
//! Multiboot leaves the CPU in protected mode without paging, with EAX and EBX set and no stack. The file may
//! lie anywhere below 4 GiB, so every address is taken relative to `.Lanchor`, found by a call, and kept in
//! EBP. EDI and ESI hold what came in EAX and EBX; they become the arguments of `loader_main`.

use core::arch::global_asm;

use abi::boot::DIRECT_MAP;
use uart_16550::spec::registers::{FCR, LCR, LSR, MCR, offsets};
use x86_64::structures::gdt::DescriptorFlags;
use x86_64::structures::paging::PageTableFlags;
use x86defs::control::{Cr0, Cr4, Efer, Rflags};
use x86defs::cpuid::leaf;
use x86defs::msr;

use crate::serial::COM1;

/// Stack of the loader, which also holds the boot information and the pool of strings for the kernel.
const STACK_SIZE: usize = 72 * 1024;

/// Long mode and no-execute pages in CPUID.8000_0001:EDX (SDM 2A, CPUID).
const EDX_NX: u32 = 1 << 20;
const EDX_LONG_MODE: u32 = 1 << 29;

const R_X86_64_RELATIVE: u32 = 8;
/// Divisor of the UART's clock for 115200 baud.
const DIVISOR_115200: u8 = 1;

const TABLE: PageTableFlags = PageTableFlags::PRESENT.union(PageTableFlags::WRITABLE);
const LARGE_PAGE: PageTableFlags = TABLE.union(PageTableFlags::HUGE_PAGE);
const LARGE_PAGE_SIZE: u32 = 2 << 20;
/// Large pages in the 4 GiB that the loader maps.
const LARGE_PAGES: u64 = (1 << 32) / LARGE_PAGE_SIZE as u64;
/// Byte offset in the PML4 of the entry that maps [`DIRECT_MAP`].
const DIRECT_MAP_ENTRY: u64 = (DIRECT_MAP >> 39 & 511) * 8;

/// Paging with write protection in ring 0 too; errors of the x87 unit as #MF; caches on.
const CR0: Cr0 = Cr0::PE.union(Cr0::ET).union(Cr0::NE).union(Cr0::WP).union(Cr0::PG);

const CODE_SELECTOR: u16 = 8;
const DATA_SELECTOR: u16 = 16;

global_asm!(
    r#"
    .macro uart_set register, value
        movw $({com1} + \register), %dx
        movb $\value, %al
        outb %al, %dx
    .endm

    .macro address symbol, register
        leal \symbol - .Lanchor(%ebp), \register
    .endm

    .section .boot.text, "ax"
    .code32
    .global loader_entry
loader_entry:
    cli
    cld
    movl %eax, %edi
    movl %ebx, %esi

    # Speak before anything can fail: interrupts off, 115200 8n1, FIFOs on, then one letter.
    uart_set {ier}, 0
    uart_set {lcr}, {dlab}
    uart_set {dll}, {divisor}
    uart_set {dlm}, 0
    uart_set {lcr}, {eight_bits}
    uart_set {fcr}, {fifo}
    uart_set {mcr}, {ready}
    uart_set {data}, 'g'

    # The only memory known to be there is what ESI points at: borrow its first word as a stack.
    movl (%esi), %ecx
    leal 4(%esi), %esp
    call .Lanchor
.Lanchor:
    popl %ebp
    movl %ecx, (%esi)
    address loader_stack_top, %esp
    address .Lgreeting, %ebx
    call .Lprint

    # CPUID exists if RFLAGS.ID can be changed.
    pushfl
    popl %eax
    movl %eax, %ecx
    xorl ${id_flag}, %eax
    pushl %eax
    popfl
    pushfl
    popl %eax
    xorl %ecx, %eax
    testl ${id_flag}, %eax
    jz .Lno_long_mode

    movl ${cpuid_max}, %eax
    cpuid
    cmpl ${cpuid_features}, %eax
    jb .Lno_long_mode
    movl ${cpuid_features}, %eax
    cpuid
    testl ${long_mode}, %edx
    jz .Lno_long_mode
    testl ${nx}, %edx
    jz .Lno_nx

    # Relocate: every entry adds where the image lies, below 4 GiB, to an address.
    address __rela_start, %ebx
    address __rela_end, %ecx
    address __image_start, %edx
.Lrelocate:
    cmpl %ecx, %ebx
    jae .Lrelocated
    cmpl ${relative}, 8(%ebx)
    jne .Lbad_relocation
    pushl %edi
    movl (%ebx), %eax
    movl 16(%ebx), %edi
    addl %edx, %edi
    movl %edi, (%eax, %edx)
    movl $0, 4(%eax, %edx)
    popl %edi
    addl $24, %ebx
    jmp .Lrelocate
.Lrelocated:

    # Page directories for 4 GiB, one page-directory-pointer table over them, and two entries in the PML4:
    # identity, and the direct map, not executable. The tables are zero so far.
    address loader_pd, %ebx
    movl ${large_page}, %eax
    xorl %ecx, %ecx
.Llarge_page:
    movl %eax, (%ebx, %ecx, 8)
    addl ${large_page_size}, %eax
    incl %ecx
    cmpl ${large_pages}, %ecx
    jb .Llarge_page

    address loader_pdpt, %edx
    leal {table}(%ebx), %eax
    movl %eax, (%edx)
    addl $4096, %eax
    movl %eax, 8(%edx)
    addl $4096, %eax
    movl %eax, 16(%edx)
    addl $4096, %eax
    movl %eax, 24(%edx)

    address loader_pml4, %ebx
    leal {table}(%edx), %eax
    movl %eax, (%ebx)
    movl %eax, {direct_map}(%ebx)
    movl ${nx_high}, {direct_map} + 4(%ebx)

    # A known state: firmware may have left CR4.LA57, which would make these tables mean something else.
    movl ${cr4}, %eax
    movl %eax, %cr4
    movl %ebx, %cr3
    movl ${efer}, %ecx
    rdmsr
    orl ${efer_bits}, %eax
    wrmsr
    movl ${cr0}, %eax
    movl %eax, %cr0

    address loader_gdt, %eax
    subl $8, %esp
    movw $(loader_gdt_end - loader_gdt - 1), (%esp)
    movl %eax, 2(%esp)
    lgdt (%esp)
    pushl ${code}
    address .Llong_mode, %eax
    pushl %eax
    lretl

.Lno_long_mode:
    address .Lno_long_mode_text, %ebx
    jmp .Lfail
.Lno_nx:
    address .Lno_nx_text, %ebx
    jmp .Lfail
.Lbad_relocation:
    address .Lbad_relocation_text, %ebx
.Lfail:
    call .Lprint
.Lhalt:
    hlt
    jmp .Lhalt

    # Prints the string at EBX up to its zero byte. Uses EAX, EBX, ECX, EDX.
.Lprint:
    movb (%ebx), %cl
    incl %ebx
    testb %cl, %cl
    jz .Lprinted
    movw $({com1} + {lsr}), %dx
.Lwait:
    inb %dx, %al
    testb ${thr_empty}, %al
    jz .Lwait
    movw $({com1} + {data}), %dx
    movb %cl, %al
    outb %al, %dx
    jmp .Lprint
.Lprinted:
    ret

    .code64
.Llong_mode:
    movl ${data_selector}, %eax
    movl %eax, %ds
    movl %eax, %es
    movl %eax, %ss
    movl %edi, %edi
    movl %esi, %esi
    leaq loader_stack_top(%rip), %rsp
    xorl %ebp, %ebp
    call {main}

    .section .rodata.boot, "a"
.Lgreeting:
    .asciz "ossamer loader\r\n"
.Lno_long_mode_text:
    .asciz "gossamer loader: this CPU has no 64-bit mode, so Gossamer cannot run here\r\n"
.Lno_nx_text:
    .asciz "gossamer loader: no-execute pages are missing; enable \"Execute Disable\" (NX, XD) in the firmware's set-up\r\n"
.Lbad_relocation_text:
    .asciz "gossamer loader: unknown relocation; the image is damaged or was built wrongly\r\n"
    .balign 8
loader_gdt:
    .quad 0, {code_descriptor}, {data_descriptor}
loader_gdt_end:

    .section .bss.boot, "aw", @nobits
    .balign 4096
loader_pml4:
    .skip 4096
loader_pdpt:
    .skip 4096
loader_pd:
    .skip 4096 * 4
loader_stack:
    .skip {stack_size}
loader_stack_top:
    .text
    "#,
    com1 = const COM1,
    data = const offsets::DATA,
    ier = const offsets::IER,
    fcr = const offsets::FCR,
    lcr = const offsets::LCR,
    mcr = const offsets::MCR,
    lsr = const offsets::LSR,
    dll = const offsets::DLL,
    dlm = const offsets::DLM,
    dlab = const LCR::DLAB.bits(),
    eight_bits = const LCR::WORD_LENGTH0.bits() | LCR::WORD_LENGTH1.bits(),
    divisor = const DIVISOR_115200,
    fifo = const FCR::FIFO_ENABLE.bits() | FCR::RX_FIFO_RESET.bits() | FCR::TX_FIFO_RESET.bits(),
    ready = const MCR::DTR.bits() | MCR::RTS.bits(),
    thr_empty = const LSR::THR_EMPTY.bits(),
    id_flag = const Rflags::ID.bits(),
    cpuid_max = const leaf::EXTENDED_MAX,
    cpuid_features = const leaf::EXTENDED_FEATURES,
    long_mode = const EDX_LONG_MODE,
    nx = const EDX_NX,
    relative = const R_X86_64_RELATIVE,
    table = const TABLE.bits(),
    large_page = const LARGE_PAGE.bits(),
    large_page_size = const LARGE_PAGE_SIZE,
    large_pages = const LARGE_PAGES,
    direct_map = const DIRECT_MAP_ENTRY,
    nx_high = const PageTableFlags::NO_EXECUTE.bits() >> 32,
    cr4 = const Cr4::PAE.bits(),
    efer = const msr::EFER,
    efer_bits = const Efer::LME.union(Efer::NXE).bits(),
    cr0 = const CR0.bits(),
    code = const CODE_SELECTOR,
    data_selector = const DATA_SELECTOR,
    code_descriptor = const DescriptorFlags::KERNEL_CODE64.bits(),
    data_descriptor = const DescriptorFlags::KERNEL_DATA.bits(),
    stack_size = const STACK_SIZE,
    main = sym crate::loader_main,
    options(att_syntax),
);
