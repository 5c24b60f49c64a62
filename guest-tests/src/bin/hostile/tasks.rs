//! Hardware task switches, in circles.

#![allow(unsafe_code, reason = "chosen instructions and tables")]

use core::arch::naked_asm;
use runtime::gdt;
use runtime::guest_test;
use runtime::legacy::{self, Paging};
use runtime::memory::{self, write16, write32, write64};

/// Selectors behind those of the runtime's GDT, which is copied.
const FIRST_TSS: u16 = gdt::BEYOND;
const SECOND_TSS: u16 = FIRST_TSS + 8;
const TABLE_LIMIT: u16 = SECOND_TSS + 7;
/// An available 32-bit TSS, present (SDM 3, table 3-2).
const TSS_AVAILABLE: u64 = 0x89 << 40;
const TSS_LIMIT: u64 = 0x67;
/// A present task gate (SDM 3, figure 8-6).
const TASK_GATE: u32 = 0x85 << 8;

/// Fields of a 32-bit TSS (SDM 3, figure 8-2): CR3, EIP, EFLAGS, ESP, ES, CS, SS, DS.
const EIP: u64 = 0x20;
const EFLAGS: u64 = 0x24;
const ESP: u64 = 0x38;
const SEGMENTS: [(u64, u16); 4] =
    [(0x48, gdt::DATA), (0x4c, gdt::CODE32), (0x50, gdt::DATA), (0x54, gdt::DATA)];

/// Where a frame holds what.
const IDT: u64 = 0x100;
const TSS: [u64; 2] = [0x400, 0x500];
const GDT: u64 = 0x800;
const IDTR: u64 = 8;

fn descriptor(base: u64) -> u64 {
    TSS_LIMIT | (base & 0xff_ffff) << 16 | TSS_AVAILABLE | (base >> 24) << 56
}

/// Two tasks that begin at `code`, a task gate to the second for every exception, and GDTR and IDTR for them.
fn tables(code: unsafe extern "C" fn()) -> u64 {
    let frame = memory::frame();
    runtime::gdt::copy_to(frame + GDT);
    for (tss, selector) in TSS.into_iter().zip([FIRST_TSS, SECOND_TSS]) {
        write64(frame + GDT + u64::from(selector), descriptor(frame + tss));
        write32(frame + tss + EIP, code as *const () as u32);
        write32(frame + tss + EFLAGS, 2);
        write32(frame + tss + ESP, (memory::frame() + memory::PAGE) as u32);
        for (field, segment) in SEGMENTS {
            write16(frame + tss + field, segment);
        }
    }
    for vector in 0..32 {
        write32(frame + IDT + vector * 8, u32::from(SECOND_TSS) << 16);
        write32(frame + IDT + vector * 8 + 4, TASK_GATE);
    }
    write16(frame, TABLE_LIMIT);
    write32(frame + 2, (frame + GDT) as u32);
    write16(frame + IDTR, 32 * 8 - 1);
    write32(frame + IDTR + 2, (frame + IDT) as u32);
    frame
}

/// Defines 32-bit code that loads the tables at EDI and the first task, and then does something.
macro_rules! task_code {
    ($name:ident, $($line:literal),+) => {
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            naked_asm!(".code32", "lgdt [edi]", "lidt [edi + 8]", "mov eax, {first}", "ltr ax", $($line),+,
                "ud2", ".code64", first = const FIRST_TSS, second = const SECOND_TSS)
        }
    };
}

// JMP ptr16:32 and CALL ptr16:32 to a TSS.
task_code!(to_second, ".byte 0xea", ".long 0", ".word {second}");
task_code!(call_second, ".byte 0x9a", ".long 0", ".word {second}");
task_code!(fault, "ud2 # {second}");

/// What the tasks do: a jump to the other, whichever is not busy, and an exception if there is none.
#[unsafe(naked)]
unsafe extern "C" fn to_each_other() {
    naked_asm!(
        ".code32",
        "2:",
        ".byte 0xea",
        ".long 0",
        ".word {first}",
        ".byte 0xea",
        ".long 0",
        ".word {second}",
        "jmp 2b",
        ".code64",
        first = const FIRST_TSS,
        second = const SECOND_TSS,
    )
}

guest_test!(jumps_in_circles);
fn jumps_in_circles() {
    let _ = legacy::protected(to_second, tables(to_each_other) as u32, Paging::Off);
}

guest_test!(calls_in_circles);
fn calls_in_circles() {
    let _ = legacy::protected(call_second, tables(to_each_other) as u32, Paging::Off);
}

guest_test!(task_gate_for_its_own_exception);
fn task_gate_for_its_own_exception() {
    let _ = legacy::protected(fault, tables(to_each_other) as u32, Paging::Off);
}
