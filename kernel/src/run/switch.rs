//! Switching to a virtual CPU's stack and back.
#![allow(unsafe_code, reason = "stack switches")]

use crate::mem::stack::this_cpu;
use core::sync::atomic::Ordering;

/// Calls `enter(object)` on the stack that ends at `object`, and returns when [`back`] is called there.
///
/// # Safety
/// The memory below `object` is a stack of this CPU that nobody uses.
pub(super) unsafe fn onto(object: *mut u8, enter: unsafe extern "C" fn(*mut u8) -> !) {
    let saved = this_cpu().supervisor_sp.as_ptr();
    // SAFETY: the caller's promise.
    unsafe { onto_raw(object, enter, saved) };
}

/// Leaves the virtual CPU's stack for good: [`onto`] returns.
pub(super) fn back() -> ! {
    let saved = this_cpu().supervisor_sp.load(Ordering::Relaxed);
    // SAFETY: called on a stack that `onto` switched to, which has saved this.
    unsafe { back_raw(saved) }
}

#[unsafe(naked)]
unsafe extern "C" fn onto_raw(object: *mut u8, enter: unsafe extern "C" fn(*mut u8) -> !, saved: *mut u64) {
    core::arch::naked_asm!(
        "push rbx",
        "push rbp",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "mov [rdx], rsp",
        "mov rsp, rdi",
        "xor ebp, ebp",
        "call rsi",
        "ud2",
    )
}

#[unsafe(naked)]
unsafe extern "C" fn back_raw(saved: u64) -> ! {
    core::arch::naked_asm!(
        "mov rsp, rdi",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbp",
        "pop rbx",
        "ret",
    )
}
