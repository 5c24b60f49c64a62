//! The IDT: counts every vector, calls handlers, and turns exceptions into [`Fault`]s.

#![allow(unsafe_code, reason = "interrupt entry code and LIDT")]

use crate::fault::{self, Fault};
use crate::gdt;
use crate::single::Single;
use core::arch::{asm, global_asm};
use x86defs::event::Exception;

const VECTORS: usize = 256;
/// First vector that is not an exception (SDM 3, 6.2).
pub const FIRST_FREE_VECTOR: u8 = 32;
/// A vector whose gate ring 3 may use.
pub const USER_VECTOR: u8 = 0x80;

/// The registers of the interrupted code, as the entry stubs and the CPU push them.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "register names")]
pub struct Frame {
    pub r15: u64,
    pub r14: u64,
    pub r13: u64,
    pub r12: u64,
    pub r11: u64,
    pub r10: u64,
    pub r9: u64,
    pub r8: u64,
    pub rdi: u64,
    pub rsi: u64,
    pub rbp: u64,
    pub rbx: u64,
    pub rdx: u64,
    pub rcx: u64,
    pub rax: u64,
    pub vector: u64,
    pub error_code: u64,
    pub rip: u64,
    pub cs: u64,
    pub rflags: u64,
    pub rsp: u64,
    pub ss: u64,
}

/// Called for an interrupt or exception; returning resumes the interrupted code.
pub type Handler = fn(&mut Frame);

static COUNTS: Single<[u64; VECTORS]> = Single::new([0; VECTORS]);
static HANDLERS: Single<[Option<Handler>; VECTORS]> = Single::new([None; VECTORS]);
static IDT: Single<[Gate; VECTORS]> = Single::new([Gate::EMPTY; VECTORS]);

/// A gate of the 64-bit IDT (SDM 3, 6.14.1).
#[repr(C)]
#[derive(Clone, Copy)]
struct Gate {
    offset_low: u16,
    selector: u16,
    ist: u8,
    attributes: u8,
    offset_middle: u16,
    offset_high: u32,
    reserved: u32,
}

const GATE_PRESENT: u8 = 1 << 7;
const GATE_DPL_3: u8 = 3 << 5;
const GATE_INTERRUPT: u8 = 0xe;

impl Gate {
    const EMPTY: Gate = Gate {
        offset_low: 0,
        selector: 0,
        ist: 0,
        attributes: 0,
        offset_middle: 0,
        offset_high: 0,
        reserved: 0,
    };

    fn interrupt(handler: u64, ist: u8, from_ring_3: bool) -> Self {
        Self {
            offset_low: handler as u16,
            selector: gdt::CODE64,
            ist,
            attributes: GATE_PRESENT | GATE_INTERRUPT | if from_ring_3 { GATE_DPL_3 } else { 0 },
            offset_middle: (handler >> 16) as u16,
            offset_high: (handler >> 32) as u32,
            reserved: 0,
        }
    }
}

/// Operand of LIDT in 64-bit mode.
#[repr(C, packed)]
struct Idtr {
    limit: u16,
    base: u64,
}

/// Distance between two entry stubs.
const STUB_SIZE: u64 = 16;

global_asm!(
    ".pushsection .text.interrupt, \"ax\"",
    ".set vector, 0",
    ".balign {stub_size}",
    "interrupt_stubs:",
    ".rept {vectors}",
    ".balign {stub_size}",
    // Vectors with an error code (SDM 3, table 6-1).
    ".if (vector == 8) || ((vector >= 10) && (vector <= 14)) || (vector == 17) || (vector == 21)",
    ".else",
    "pushq $0",
    ".endif",
    "pushq $vector",
    "jmp interrupt_common",
    ".set vector, vector + 1",
    ".endr",
    "interrupt_common:",
    "pushq %rax",
    "pushq %rcx",
    "pushq %rdx",
    "pushq %rbx",
    "pushq %rbp",
    "pushq %rsi",
    "pushq %rdi",
    "pushq %r8",
    "pushq %r9",
    "pushq %r10",
    "pushq %r11",
    "pushq %r12",
    "pushq %r13",
    "pushq %r14",
    "pushq %r15",
    "cld",
    "movq %rsp, %rdi",
    "call {dispatch}",
    "popq %r15",
    "popq %r14",
    "popq %r13",
    "popq %r12",
    "popq %r11",
    "popq %r10",
    "popq %r9",
    "popq %r8",
    "popq %rdi",
    "popq %rsi",
    "popq %rbp",
    "popq %rbx",
    "popq %rdx",
    "popq %rcx",
    "popq %rax",
    "addq $16, %rsp",
    "iretq",
    ".popsection",
    stub_size = const STUB_SIZE,
    vectors = const VECTORS,
    dispatch = sym dispatch,
    options(att_syntax)
);

unsafe extern "C" {
    static interrupt_stubs: u8;
}

/// Builds and loads the IDT.
pub(crate) fn init() {
    build();
    load();
}

fn build() {
    for (vector, number) in (0..=u8::MAX).zip(0u64..) {
        let ist = if vector == Exception::DoubleFault as u8 { gdt::DOUBLE_FAULT_IST } else { 0 };
        let user = [Exception::Breakpoint as u8, Exception::Overflow as u8, USER_VECTOR].contains(&vector);
        let stub = (&raw const interrupt_stubs) as u64 + STUB_SIZE * number;
        // SAFETY: nothing refers to the IDT but the CPU, which reads whole gates.
        unsafe { (*IDT.get())[usize::from(vector)] = Gate::interrupt(stub, ist, user) };
    }
}

/// Marks a vector's gate as not present, until [`reset`].
pub fn make_absent(vector: u8) {
    // SAFETY: see `build`.
    unsafe { (*IDT.get())[usize::from(vector)].attributes &= !GATE_PRESENT };
}

/// Loads the IDT, as is needed after a stay in another mode.
pub(crate) fn load() {
    let idtr = Idtr { limit: (size_of::<[Gate; VECTORS]>() - 1) as u16, base: IDT.get() as u64 };
    // SAFETY: every gate leads to its stub.
    unsafe { asm!("lidt [{}]", in(reg) &raw const idtr, options(readonly, nostack, preserves_flags)) };
}

extern "C" fn dispatch(frame: &mut Frame) {
    let vector = frame.vector as u8;
    // SAFETY: counts and handlers are changed one volatile word at a time, and an interrupt runs to its end.
    let handler = unsafe {
        let count = &raw mut (*COUNTS.get())[usize::from(vector)];
        count.write_volatile(count.read_volatile() + 1);
        (&raw const (*HANDLERS.get())[usize::from(vector)]).read_volatile()
    };
    match handler {
        Some(handler) => handler(frame),
        None if vector < FIRST_FREE_VECTOR => unhandled_exception(frame),
        None => {}
    }
}

fn unhandled_exception(frame: &Frame) {
    let fault = Fault::of(frame);
    fault::raise(fault);
    println!("{fault}, outside of any test: {frame:x?}");
    crate::power::off();
}

/// How often a vector has been taken since [`reset`].
pub fn count(vector: u8) -> u64 {
    // SAFETY: see `dispatch`.
    unsafe { (&raw const (*COUNTS.get())[usize::from(vector)]).read_volatile() }
}

/// Has `handler` called for a vector, until [`reset`].
pub fn handle(vector: u8, handler: Handler) {
    // SAFETY: see `dispatch`.
    unsafe { (&raw mut (*HANDLERS.get())[usize::from(vector)]).write_volatile(Some(handler)) }
}

/// Forgets counts and handlers, makes every gate present, and disables interrupts.
pub fn reset() {
    disable();
    build();
    COUNTS.store([0; VECTORS]);
    HANDLERS.store([None; VECTORS]);
}

/// CLI
pub fn disable() {
    // SAFETY: only the flag changes.
    unsafe { asm!("cli", options(nostack)) }
}

/// STI, with its shadow over.
pub fn enable() {
    // SAFETY: every vector has a handler.
    unsafe { asm!("sti", "nop", options(nostack)) }
}

/// Waits in HLT for one interrupt; interrupts are disabled before and after.
pub fn halt() {
    // SAFETY: as for `enable`.
    unsafe { asm!("sti", "hlt", "cli", options(nostack)) }
}
