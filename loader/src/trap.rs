//! Exceptions: nothing here is expected to raise one, and a word is better than a reset without one. The table
//! stays loaded until the kernel has its own.

use core::arch::global_asm;

use x86_64::VirtAddr;
use x86_64::registers::control::Cr2;
use x86_64::structures::idt::InterruptDescriptorTable;

use crate::{halt, serial::say};

/// Bytes from one stub to the next.
const STUB_SIZE: usize = 16;
/// Vectors whose exceptions push an error code (SDM 3, 6.3.1), one bit each; the other stubs push a zero.
const WITH_ERROR_CODE: u32 = 1 << 8 | 1 << 10 | 1 << 11 | 1 << 12 | 1 << 13 | 1 << 14 | 1 << 17;
/// Vectors that have a stub.
const STUBS: usize = 20;

global_asm!(
    r#"
    .text
    .balign {stub_size}
trap_stubs:
    .set vector, 0
    .rept {stubs}
    .balign {stub_size}
    .if (({with_error_code} >> vector) & 1) == 0
        pushq $0
    .endif
    pushq $vector
    jmp .Ltrap
    .set vector, vector + 1
    .endr
.Ltrap:
    movq %rsp, %rdi
    andq $-16, %rsp
    call {report}
    "#,
    stub_size = const STUB_SIZE,
    stubs = const STUBS,
    with_error_code = const WITH_ERROR_CODE,
    report = sym report,
    options(att_syntax),
);

unsafe extern "C" {
    static trap_stubs: [[u8; STUB_SIZE]; STUBS];
}

/// What a stub leaves on the stack, then what the CPU pushed.
#[repr(C)]
struct Frame {
    vector: u64,
    error_code: u64,
    rip: u64,
    cs: u64,
    rflags: u64,
    rsp: u64,
    ss: u64,
}

/// Loads an IDT that reports every exception and stops. `table` must stay where it is.
pub(crate) fn load(table: &mut InterruptDescriptorTable) {
    macro_rules! gates {
        ($($exception:ident = $vector:literal),* $(,)?) => {
            // SAFETY: Each stub expects exactly what the CPU pushes for its vector. The table lies on the loader's
            // stack, which is never unwound.
            unsafe {
                $(table.$exception.set_handler_addr(VirtAddr::from_ptr(&raw const trap_stubs[$vector]));)*
                table.load_unsafe();
            }
        };
    }
    gates! {
        divide_error = 0,
        debug = 1,
        non_maskable_interrupt = 2,
        breakpoint = 3,
        overflow = 4,
        bound_range_exceeded = 5,
        invalid_opcode = 6,
        device_not_available = 7,
        double_fault = 8,
        invalid_tss = 10,
        segment_not_present = 11,
        stack_segment_fault = 12,
        general_protection_fault = 13,
        page_fault = 14,
        x87_floating_point = 16,
        alignment_check = 17,
        machine_check = 18,
        simd_floating_point = 19,
    }
}

extern "C" fn report(frame: &Frame) -> ! {
    say!(
        "gossamer loader: exception {} (error code {:#x}) at {:#x}, RSP {:#x}, CR2 {:#x}",
        frame.vector,
        frame.error_code,
        frame.rip,
        frame.rsp,
        Cr2::read_raw()
    );
    halt()
}
