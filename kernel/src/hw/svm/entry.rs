//! Into the guest and back: VMRUN and what surrounds it (APM 2, 15.5, 15.6).
//!
//! Host RSP at VMRUN is the end of the general-register block, the first field of [`Guest`], so that the
//! pushes after #VMEXIT fill the block. RAX travels through the VMCB.
#![allow(unsafe_code, reason = "VMRUN")]

use super::Svm;
use super::vcpu::SvmVcpu;
use crate::hw::Guest;
use core::mem::offset_of;
use x86defs::svm::{SaveArea, Vmcb};

const VMCB_RAX: usize = offset_of!(Vmcb, save) + offset_of!(SaveArea, rax);

/// Runs the guest for ever.
///
/// # Safety
/// `guest` is the top object of the current stack, GIF is clear, and the guest's VMLOAD state is in the CPU.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn run<const PROFILED: bool>(guest: *mut Guest<Svm>) -> ! {
    core::arch::naked_asm!(
        "mov rsp, rdi",
        "2:",
        "mov rcx, [rsp + {vmcb}]",
        "mov rax, [rsp]",
        "mov [rcx + {vmcb_rax}], rax",
        "mov rax, [rsp + {vmcb_pa}]",
        "add rsp, 8",
        "pop rcx",
        "pop rdx",
        "pop rbx",
        "pop rbp", // the unused slot of RSP
        "pop rbp",
        "pop rsi",
        "pop rdi",
        "pop r8",
        "pop r9",
        "pop r10",
        "pop r11",
        "pop r12",
        "pop r13",
        "pop r14",
        "pop r15",
        "vmrun rax",
        "push r15",
        "push r14",
        "push r13",
        "push r12",
        "push r11",
        "push r10",
        "push r9",
        "push r8",
        "push rdi",
        "push rsi",
        "push rbp",
        "push rbp",
        "push rbx",
        "push rdx",
        "push rcx",
        "mov rcx, [rsp + {vmcb} - 8]",
        "push [rcx + {vmcb_rax}]",
        "mov rdi, rsp",
        "call {exit}",
        "jmp 2b",
        vmcb = const offset_of!(SvmVcpu, vmcb),
        vmcb_pa = const offset_of!(SvmVcpu, vmcb_pa),
        vmcb_rax = const VMCB_RAX,
        exit = sym super::exit::svm_exit::<PROFILED>,
    )
}
