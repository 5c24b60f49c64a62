//! Modes other than 64-bit: compatibility, protected and real.

#![allow(unsafe_code, reason = "code for other modes")]

use core::arch::naked_asm;
use runtime::fault::catch;
use runtime::harness::expect_fault;
use runtime::legacy::{self, LegacyFault, Paging, REAL_CODE};
use runtime::memory::{self, read16, read32, write32};
use runtime::{code32, cpu, expect, expect_eq, guest_test};
use x86defs::control::{Cr0, Cr4, Efer};
use x86defs::event::Exception;

/// The 16-bit forms of RETF and IRET, which the assembler has no name for.
macro_rules! retf16 {
    () => {
        ".byte 0xcb"
    };
}
macro_rules! iret16 {
    () => {
        ".byte 0xcf"
    };
}

/// Defines 16-bit code; `1:` is its first instruction.
macro_rules! code16 {
    ($name:ident, $($line:expr),+) => {
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            naked_asm!(".code16", "1:", $($line),+, ".code64")
        }
    };
}

code32!(add_one, "lea eax, [edi + 1]", "ret");
code32!(read_cr0, "mov eax, cr0", "ret");
code32!(read_cs, "mov eax, cs", "ret");
code32!(decimal_adjust, "mov eax, edi", "daa", "ret");
code32!(overflow, "mov eax, 0x7fffffff", "inc eax", "into", "ret");
code32!(
    bound,
    "sub esp, 8",
    "mov dword ptr [esp], 1",
    "mov dword ptr [esp + 4], 3",
    "bound edi, [esp]",
    "add esp, 8",
    "mov eax, edi",
    "ret"
);
code32!(read_efer, "mov ecx, 0xc0000080", "rdmsr", "ret");
code32!(divide_by_zero, "xor ecx, ecx", "mov eax, 1", "cdq", "div ecx", "ret");
code32!(load, "mov eax, [edi]", "ret");
code32!(store, "mov dword ptr [edi], 0x12345678", "mov eax, [edi]", "ret");
code32!(use_cpuid, "xor eax, eax", "cpuid", "ret");
code32!(
    port_and_msr,
    "mov dx, 0x3ff",
    "mov al, 0x5a",
    "out dx, al",
    "xor eax, eax",
    "in al, dx",
    "mov esi, eax",
    "mov ecx, 0x1b",
    "rdmsr",
    "and eax, 0x800",
    "or eax, esi",
    "ret"
);

guest_test!(compatibility_mode);
fn compatibility_mode() {
    expect_eq!(legacy::compatibility(add_one, 0xffff_ffff), 0, "EDI + 1");
    expect_eq!(legacy::compatibility(read_cs, 0), u32::from(runtime::gdt::CODE32), "CS");
    // An instruction that 64-bit mode does not have.
    expect_eq!(legacy::compatibility(decimal_adjust, 0x1b) & 0xff, 0x21, "DAA of 0x1b");
    expect_eq!(legacy::compatibility(use_cpuid, 0), cpu::cpuid(0, 0).eax, "CPUID");
}

guest_test!(overflow_and_bound_in_compatibility_mode);
fn overflow_and_bound_in_compatibility_mode() {
    let result = catch(|| legacy::compatibility(overflow, 0));
    let fault = expect_fault("INTO with OF", result, Exception::Overflow, 0);
    expect_eq!(fault.cs, u64::from(runtime::gdt::CODE32), "CS");
    expect_eq!(catch(|| legacy::compatibility(bound, 2)).ok(), Some(2), "BOUND within");
    expect_fault("BOUND outside", catch(|| legacy::compatibility(bound, 4)), Exception::BoundRange, 0);
}

guest_test!(protected_mode);
fn protected_mode() {
    expect_eq!(legacy::protected(add_one, 41, Paging::Off), Ok(42), "EDI + 1");
    let cr0 = legacy::protected(read_cr0, 0, Paging::Off);
    expect_eq!(cr0, Ok(runtime::machine::CR0.bits() as u32), "CR0");
    let efer = legacy::protected(read_efer, 0, Paging::Off).map(|e| Efer::from_bits_retain(e.into()));
    expect!(efer.is_ok_and(|e| !e.intersects(Efer::LME | Efer::LMA)), "{efer:?}");
    expect_eq!(legacy::protected(use_cpuid, 0, Paging::Off), Ok(cpu::cpuid(0, 0).eax), "CPUID");
    expect_eq!(
        legacy::protected(port_and_msr, 0, Paging::Off),
        Ok(0x85a),
        "scratch register and APIC_BASE.EN"
    );
    // And back: long mode as before.
    expect!(cpu::efer().contains(Efer::LME | Efer::LMA), "{:?}", cpu::efer());
    expect!(cpu::cr0().contains(Cr0::PE | Cr0::PG), "{:?}", cpu::cr0());
}

guest_test!(protected_mode_faults);
fn protected_mode_faults() {
    let fault = |vector: Exception| Err(LegacyFault { vector: vector as u8, error_code: 0 });
    expect_eq!(legacy::protected(divide_by_zero, 0, Paging::Off), fault(Exception::DivideError), "DIV by 0");
    expect_eq!(legacy::protected(overflow, 0, Paging::Off), fault(Exception::Overflow), "INTO with OF");
    expect_eq!(legacy::protected(bound, 7, Paging::Off), fault(Exception::BoundRange), "BOUND outside");
}

guest_test!(protected_mode_many_times);
fn protected_mode_many_times() {
    for i in 0..50 {
        expect_eq!(legacy::protected(add_one, i, Paging::Off), Ok(i + 1), "round {i}");
    }
}

/// An address that no identity mapping of ours has.
const ALIAS: u32 = 0xd000_0000;
/// Page-table entry bits, the same in all formats.
const TABLE: u32 = 3;
const LARGE: u32 = 1 << 7;

guest_test!(paging_of_32_bits);
fn paging_of_32_bits() {
    // A page directory: the image in 4 MiB pages, and one 4 KiB page somewhere else.
    let (directory, table, page) = (memory::frame(), memory::frame(), memory::frame());
    for index in 0..8 {
        write32(directory + index * 4, (index as u32) << 22 | LARGE | TABLE);
    }
    write32(directory + u64::from(ALIAS >> 22) * 4, table as u32 | TABLE);
    write32(table, page as u32 | TABLE);
    let paging = Paging::On { cr3: directory, cr4: Cr4::PSE };
    write32(page + 8, 0xabcd);
    expect_eq!(legacy::protected(load, ALIAS + 8, paging), Ok(0xabcd), "load through the alias");
    expect_eq!(legacy::protected(store, ALIAS + 12, paging), Ok(0x1234_5678), "store through the alias");
    expect_eq!(read32(page + 12), 0x1234_5678, "the page");
    expect_eq!(read32(table) & 0x60, 0x60, "A and D of the page's entry");
    expect_eq!(
        legacy::protected(store, ALIAS + 0x1000, paging),
        Err(LegacyFault { vector: Exception::PageFault as u8, error_code: 2 }),
        "store to nothing"
    );
    expect_eq!(u64::from(ALIAS) + 0x1000, cpu::cr2(), "CR2");
}

guest_test!(paging_of_pae);
fn paging_of_pae() {
    use memory::{PRESENT, TABLE_FLAGS, WRITABLE, write64};
    let (pointers, low, high) = (memory::frame(), memory::frame(), memory::frame());
    let (table, page) = (memory::frame(), memory::frame());
    // The page-directory-pointer entries have no R/W bit (SDM 3, 4.4.1).
    write64(pointers, low | PRESENT);
    write64(pointers + 3 * 8, high | PRESENT);
    for index in 0..16 {
        write64(low + index * 8, index << 21 | memory::LARGE_FLAGS);
    }
    let offset = u64::from(ALIAS) & ((1 << 30) - 1);
    write64(high + (offset >> 21) * 8, table | TABLE_FLAGS);
    write64(table, page | PRESENT | WRITABLE);
    let paging = Paging::On { cr3: pointers, cr4: Cr4::PAE };
    expect_eq!(legacy::protected(store, ALIAS + 4, paging), Ok(0x1234_5678), "store through the alias");
    expect_eq!(read32(page + 4), 0x1234_5678, "the page");
    expect_eq!(
        legacy::protected(load, ALIAS + 0x1000, paging),
        Err(LegacyFault { vector: Exception::PageFault as u8, error_code: 0 }),
        "load from nothing"
    );
    expect_eq!(
        legacy::protected(load, 0x8000_0000, paging),
        Err(LegacyFault { vector: Exception::PageFault as u8, error_code: 0 }),
        "load through an absent page-directory-pointer entry"
    );
}

guest_test!(pae_pointers_are_loaded_with_cr3);
fn pae_pointers_are_loaded_with_cr3() {
    use memory::{PRESENT, write64};
    // Two sets of pointers, of which the code switches to the second by MOV to CR3.
    let (first, second, low) = (memory::frame(), memory::frame(), memory::frame());
    let (high_1, high_2) = (memory::frame(), memory::frame());
    for index in 0..16 {
        write64(low + index * 8, index << 21 | memory::LARGE_FLAGS);
    }
    for (pointers, high) in [(first, high_1), (second, high_2)] {
        write64(pointers, low | PRESENT);
        write64(pointers + 3 * 8, high | PRESENT);
    }
    // ALIAS is the second 4 MiB of the image's neighbourhood by the second set only.
    let index = (u64::from(ALIAS) & ((1 << 30) - 1)) >> 21;
    write64(high_2 + index * 8, first & !0x1f_ffff | memory::LARGE_FLAGS);
    write64(first + 0x800, second);
    let argument = ALIAS + (first as u32 & 0x1f_ffff) + 0x800;
    write64(first + 0x808, 0);
    let paging = Paging::On { cr3: first, cr4: Cr4::PAE };
    expect_eq!(
        legacy::protected(switch_cr3, second as u32, paging),
        Ok(second as u32),
        "CR3 after the switch"
    );
    expect!(legacy::protected(load, argument, paging).is_err(), "the first set maps nothing at the alias");
    let paging = Paging::On { cr3: second, cr4: Cr4::PAE };
    expect_eq!(legacy::protected(load, argument, paging), Ok(second as u32), "load through the second set");
}

code32!(switch_cr3, "mov cr3, edi", "mov eax, cr3", "ret");

code16!(return_1234, "mov ax, 0x1234", retf16!());
code16!(segments, "mov ax, cs", "mov [0x800], ax", "mov ax, ss", "mov [0x802], ax", "smsw ax", retf16!());
code16!(
    interrupt_60,
    // Vector 0x60 to `2:` in this segment; the handler doubles AX.
    "xor bx, bx",
    "mov es, bx",
    ".byte 0x26, 0xc7, 0x06",
    ".word 0x180, 2f - 1b",
    "mov word ptr es:[0x182], cs",
    "mov ax, 21",
    "int 0x60",
    "mov [0x800], ax",
    "lahf",
    retf16!(),
    "2:",
    "add ax, ax",
    iret16!()
);
code16!(
    string_ops,
    "mov di, 0x800",
    "mov cx, 5",
    "mov ax, 0x4241",
    "cld",
    "rep stosw",
    "mov ax, di",
    retf16!()
);
code16!(wide, "mov eax, 0x12345678", "shr eax, 16", retf16!());
code16!(scratch_port, "mov dx, 0x3ff", "mov al, 0xa7", "out dx, al", "xor ax, ax", "in al, dx", retf16!());
code16!(
    outs_port,
    "mov byte ptr [0x800], 0x6b",
    "mov si, 0x800",
    "mov dx, 0x3ff",
    "outsb",
    "xor ax, ax",
    "in al, dx",
    retf16!()
);
code16!(wrapping, "mov ax, 0xffff", "mov es, ax", "mov ax, es:[0x10]", retf16!());
code16!(identify, "xor eax, eax", "cpuid", retf16!());

guest_test!(real_mode);
fn real_mode() {
    expect_eq!(legacy::real(return_1234), 0x1234, "AX");
    let msw = legacy::real(segments);
    expect_eq!(read16(REAL_CODE + 0x800), (REAL_CODE >> 4) as u16, "CS");
    expect_eq!(read16(REAL_CODE + 0x802), 0, "SS");
    expect_eq!(msw & 1, 0, "CR0.PE");
    expect_eq!(legacy::real(wide), 0x1234, "high half of a 32-bit register");
    expect_eq!(u32::from(legacy::real(identify)), cpu::cpuid(0, 0).eax, "CPUID");
}

guest_test!(real_mode_interrupt);
fn real_mode_interrupt() {
    let flags = legacy::real(interrupt_60);
    expect_eq!(read16(REAL_CODE + 0x800), 42, "AX from the handler");
    expect_eq!(flags >> 8 & 2, 2, "fixed bit of FLAGS by LAHF");
}

guest_test!(real_mode_strings_and_ports);
fn real_mode_strings_and_ports() {
    expect_eq!(legacy::real(string_ops), 0x80a, "DI after REP STOSW");
    expect_eq!(read32(REAL_CODE + 0x806), 0x4241_4241, "the last words");
    expect_eq!(legacy::real(scratch_port), 0xa7, "scratch register");
    expect_eq!(legacy::real(outs_port), 0x6b, "scratch register by OUTSB");
}

guest_test!(real_mode_above_1_mib);
fn real_mode_above_1_mib() {
    // FFFF:0010 is the first byte above 1 MiB, with A20 on.
    write32(0x10_0000, 0xcafe_beef);
    expect_eq!(legacy::real(wrapping), 0xbeef, "word at FFFF:0010");
}

guest_test!(real_mode_many_times);
fn real_mode_many_times() {
    for round in 0..20 {
        expect_eq!(legacy::real(return_1234), 0x1234, "AX in round {round}");
    }
}
