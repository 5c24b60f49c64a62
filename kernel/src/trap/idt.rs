//! Interrupt descriptor table, entry stubs and fix-ups.
#![allow(unsafe_code, reason = "IDT")]

use super::gdt::{CODE_SELECTOR, DOUBLE_FAULT_IST};
use core::arch::{asm, global_asm};
use core::cell::UnsafeCell;
use x86_64::VirtAddr;
use x86_64::structures::DescriptorTablePointer;
use x86defs::event::Exception;

/// Vectors that push an error code (SDM 3, 6.3.1).
const WITH_ERROR_CODE: u32 = 1 << 8 | 1 << 10 | 1 << 11 | 1 << 12 | 1 << 13 | 1 << 14 | 1 << 17 | 1 << 21;
/// Bytes of a stub.
const STUB_BYTES: u64 = 8;

// Each stub is a call, whose return address tells the vector. `trap_common` turns what the CPU pushed into a
// `Frame`: with an error code the stack holds [return address][error code], without one the return address is
// pushed down a slot to make room.
global_asm!(
    ".p2align 4",
    "trap_stubs:",
    ".rept 256",
    "call trap_common",
    ".p2align 3",
    ".endr",
    "trap_common:",
    "push rax",
    "mov rax, [rsp + 8]",
    "push rcx",
    "lea rcx, [rip + trap_stubs]",
    "sub rax, rcx",
    "shr rax, 3",
    "pop rcx",
    "cmp eax, 32",
    "jae 2f",
    "push rcx",
    "mov ecx, {with_error_code}",
    "bt ecx, eax",
    "pop rcx",
    "jc 3f",
    "2:",
    "push [rsp]",
    "mov qword ptr [rsp + 16], 0",
    "3:",
    "mov [rsp + 8], rax",
    "push rcx",
    "push rdx",
    "push rbx",
    "push rbp",
    "push rsi",
    "push rdi",
    "push r8",
    "push r9",
    "push r10",
    "push r11",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    "mov rdi, rsp",
    "cld",
    "call {trap}",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop r11",
    "pop r10",
    "pop r9",
    "pop r8",
    "pop rdi",
    "pop rsi",
    "pop rbp",
    "pop rbx",
    "pop rdx",
    "pop rcx",
    "pop rax",
    "add rsp, 16",
    "iretq",
    with_error_code = const WITH_ERROR_CODE,
    trap = sym super::trap,
);

unsafe extern "C" {
    static trap_stubs: u8;
    static fixup_start: [u64; 2];
    static fixup_end: [u64; 2];
}

/// A 64-bit interrupt gate (SDM 3, 6.14.1).
#[repr(C)]
#[derive(Clone, Copy)]
struct Gate {
    offset_low: u16,
    selector: u16,
    ist: u8,
    /// Present, DPL 0, type 14: interrupts stay off.
    kind: u8,
    offset_mid: u16,
    offset_high: u32,
    zero: u32,
}

const INTERRUPT_GATE: u8 = 0x8e;

struct Table(UnsafeCell<[Gate; 256]>);
// SAFETY: written by `init`, and by `forbid_ist` in one byte, with interrupts off, while one CPU is in use;
// otherwise only the CPU reads it.
unsafe impl Sync for Table {}

const EMPTY: Gate =
    Gate { offset_low: 0, selector: 0, ist: 0, kind: 0, offset_mid: 0, offset_high: 0, zero: 0 };
static IDT: Table = Table(UnsafeCell::new([EMPTY; 256]));

/// Fills the table in and loads IDTR: at start, and again when no guest is resident any more, to undo
/// [`forbid_ist`].
pub(super) fn init() {
    let stubs = &raw const trap_stubs as u64;
    // SAFETY: interrupts are off and one CPU is in use: no other reference is live.
    let table = unsafe { &mut *IDT.0.get() };
    for (vector, gate) in table.iter_mut().enumerate() {
        let handler = stubs + STUB_BYTES * vector as u64;
        *gate = Gate {
            offset_low: handler as u16,
            selector: CODE_SELECTOR,
            ist: 0,
            kind: INTERRUPT_GATE,
            offset_mid: (handler >> 16) as u16,
            offset_high: (handler >> 32) as u32,
            zero: 0,
        };
    }
    table[Exception::DoubleFault as usize].ist = DOUBLE_FAULT_IST;
    let idtr =
        DescriptorTablePointer { limit: (size_of::<[Gate; 256]>() - 1) as u16, base: VirtAddr::new(base()) };
    // SAFETY: every gate leads to its stub.
    unsafe { x86_64::instructions::tables::lidt(&idtr) };
}

/// IDTR's base.
pub(super) fn base() -> u64 {
    IDT.0.get() as u64
}

/// From here on no gate uses the interrupt stack table: with SVM the TSS that the CPU would read is a guest's.
pub fn forbid_ist() {
    // SAFETY: interrupts are off; the CPU reads the gate as a whole only when #DF is delivered.
    unsafe { (&raw mut (*IDT.0.get())[Exception::DoubleFault as usize].ist).write_volatile(0) };
    // SAFETY: a compiler barrier.
    unsafe { asm!("", options(nostack, preserves_flags)) };
}

/// Where to go on after a fault of the instruction at `rip`, if it has a fix-up.
pub(super) fn fixup(rip: u64) -> Option<u64> {
    // SAFETY: the linker script puts pairs of (instruction, resume) between the two symbols.
    let table = unsafe {
        let start = &raw const fixup_start;
        let len = (&raw const fixup_end).offset_from(start) as usize;
        core::slice::from_raw_parts(start, len)
    };
    table.iter().find(|[at, _]| *at == rip).map(|[_, resume]| *resume)
}
