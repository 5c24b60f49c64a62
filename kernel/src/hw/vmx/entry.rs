//! Into the guest and back: VMLAUNCH, VMRESUME and what surrounds them (SDM 3, chapters 27 and 28).
//!
//! HOST_RSP is the end of the general-register block, the first field of [`Guest`], so that the pushes after an
//! exit fill the block and the handler goes on below it.
#![allow(unsafe_code, reason = "VMLAUNCH, VMRESUME")]

use super::Vmx;
use super::instructions::vmwrite;
use crate::hw::Guest;
use core::arch::naked_asm;
use x86defs::gpr::Gprs;
use x86defs::vmcs;

/// Loads the guest's registers; RSP ends up at the end of the block. Leaves RFLAGS alone.
macro_rules! pop_gprs {
    () => {
        "pop rax; pop rcx; pop rdx; pop rbx; lea rsp, [rsp + 8]; pop rbp; pop rsi; pop rdi; \
         pop r8; pop r9; pop r10; pop r11; pop r12; pop r13; pop r14; pop r15"
    };
}

/// Saves the guest's registers; the slot of RSP holds anything.
macro_rules! push_gprs {
    () => {
        "push r15; push r14; push r13; push r12; push r11; push r10; push r9; push r8; \
         push rdi; push rsi; push rbp; push rax; push rbx; push rdx; push rcx; push rax"
    };
}

/// Enters the guest for ever.
///
/// # Safety
/// `guest` is the top object of the current stack, and its VMCS is current and clear.
pub(super) unsafe fn run<const PROFILED: bool>(guest: *mut Guest<Vmx>) -> ! {
    vmwrite(vmcs::HOST_RSP, guest as u64 + size_of::<Gprs>() as u64);
    vmwrite(vmcs::HOST_RIP, exit_stub::<PROFILED> as *const () as u64);
    // SAFETY: the caller's promise.
    unsafe { launch(guest) }
}

#[unsafe(naked)]
unsafe extern "C" fn launch(guest: *mut Guest<Vmx>) -> ! {
    naked_asm!("mov rsp, rdi", pop_gprs!(), "vmlaunch", "jmp {failed}", failed = sym failed_stub)
}

/// Where the CPU comes out of the guest.
#[unsafe(naked)]
unsafe extern "C" fn exit_stub<const PROFILED: bool>() -> ! {
    naked_asm!(
        push_gprs!(),
        "mov rdi, rsp",
        "call {exit}",
        pop_gprs!(),
        "vmresume",
        "jmp {failed}",
        exit = sym super::exit::vmx_exit::<PROFILED>,
        failed = sym failed_stub,
    )
}

/// The CPU went on behind VMLAUNCH or VMRESUME: the controls or the host's state are wrong. The register block
/// below RSP still holds what was popped.
#[unsafe(naked)]
unsafe extern "C" fn failed_stub() -> ! {
    naked_asm!(
        "sub rsp, {block}",
        "mov rdi, rsp",
        "call {failed}",
        "ud2",
        block = const size_of::<Gprs>(),
        failed = sym super::exit::vmx_instruction_failed,
    )
}
