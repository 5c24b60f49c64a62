//! What ring 3 may and may not do.

#![allow(unsafe_code, reason = "code for ring 3")]

use core::arch::naked_asm;
use runtime::cpu::{self, wrmsr};
use runtime::fault::{Fault, mnemonic};
use runtime::gdt;
use runtime::interrupt::{self, USER_VECTOR};
use runtime::memory::{self, PRESENT, USER, WRITABLE, read64};
use runtime::{cpu_wrong, expect, expect_eq, guest_test, user};
use x86defs::control::{Cr0, Cr4, Efer, Rflags};
use x86defs::event::Exception;
use x86defs::msr;

/// Defines code for ring 3.
macro_rules! user_code {
    ($name:ident, $($line:literal),+) => {
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            naked_asm!($($line),+)
        }
    };
}

user_code!(finish, "int3");
user_code!(halt, "hlt");
user_code!(port_in, "in al, 0x61");
user_code!(port_out, "mov edx, 0x3f8", "out dx, al");
user_code!(read_msr, "mov ecx, 0x10", "rdmsr");
user_code!(read_cr0, "mov rax, cr0");
user_code!(clear_interrupts, "cli");
user_code!(int_77, "int 0x77");
user_code!(int_80, "int 0x80", "int3");
user_code!(use_cpuid, "xor eax, eax", "cpuid", "int3");
user_code!(read_tsc, "rdtsc", "int3");
user_code!(load, "mov rax, [rdi]", "int3");
user_code!(store, "mov [rdi], rax", "int3");
user_code!(call, "call rdi");
user_code!(load_unaligned, "mov eax, [rsp - 7]", "int3");
user_code!(system_call, "lea r12, [rsp]", "mov rsp, rdi", "syscall", "mov rsp, r12", "int3");
user_code!(hypercall_intel, ".byte 0x0f, 0x01, 0xc1");
user_code!(hypercall_amd, ".byte 0x0f, 0x01, 0xd9");

#[track_caller]
fn expect_end(what: &str, end: Fault, exception: Exception, error_code: u64) {
    expect!(end.is(exception, error_code), "{what}: {end}, wanted {}({error_code:#x})", mnemonic(exception));
    expect_eq!(end.cs, u64::from(gdt::USER_CODE64), "CS after {what}");
}

guest_test!(enters_and_leaves);
fn enters_and_leaves() {
    let end = user::run(finish, 0);
    expect_end("INT3", end, Exception::Breakpoint, 0);
    expect_eq!(end.ss, u64::from(gdt::USER_DATA), "SS");
    expect_eq!(end.rsp, user::STACK_TOP, "RSP");
}

guest_test!(privileged_instructions);
fn privileged_instructions() {
    for (what, code) in [
        ("HLT", halt as user::Code),
        ("IN", port_in),
        ("OUT", port_out),
        ("RDMSR", read_msr),
        ("MOV from CR0", read_cr0),
        ("CLI", clear_interrupts),
    ] {
        expect_end(what, user::run(code, 0), Exception::GeneralProtection, 0);
        memory::reset();
    }
}

guest_test!(hypercalls);
fn hypercalls() {
    if runtime::machine::get().reference {
        runtime::skip!("a bare machine has none");
    }
    for (what, code) in [("VMCALL", hypercall_intel as user::Code), ("VMMCALL", hypercall_amd)] {
        expect_end(what, user::run(code, 0), Exception::InvalidOpcode, 0);
        memory::reset();
    }
}

guest_test!(cpuid_and_rdtsc);
fn cpuid_and_rdtsc() {
    let end = user::run(use_cpuid, 0);
    expect_end("CPUID", end, Exception::Breakpoint, 0);
    expect_eq!(end.rax, u64::from(cpu::cpuid(0, 0).eax), "CPUID in ring 3");
    memory::reset();
    expect_end("RDTSC", user::run(read_tsc, 0), Exception::Breakpoint, 0);
    memory::reset();
    cpu::set_cr4(cpu::cr4() | Cr4::TSD).expect("TSD may be set");
    expect_end("RDTSC with CR4.TSD", user::run(read_tsc, 0), Exception::GeneralProtection, 0);
}

guest_test!(gate_of_ring_0);
fn gate_of_ring_0() {
    cpu_wrong!(QemuTcg, "error codes name gates by vector * 16");
    // The vector and the IDT bit.
    expect_end("INT 0x77", user::run(int_77, 0), Exception::GeneralProtection, 0x77 * 8 + 2);
}

guest_test!(gate_of_ring_3);
fn gate_of_ring_3() {
    expect_end("INT 0x80", user::run(int_80, 0), Exception::Breakpoint, 0);
    expect_eq!(interrupt::count(USER_VECTOR), 1, "interrupts taken by INT 0x80");
}

/// Error code bits of #PF (SDM 3, 4.7).
const PF_PRESENT: u64 = 1;
const PF_WRITE: u64 = 2;
const PF_USER: u64 = 4;
const PF_FETCH: u64 = 16;

guest_test!(page_faults);
fn page_faults() {
    const PAGE: u64 = memory::FREE + 0x20_0000;
    const NOTHING: u64 = PAGE + memory::PAGE;
    for (what, code, address, error) in [
        ("load from nothing", load as user::Code, NOTHING, PF_USER),
        ("store to nothing", store, NOTHING, PF_USER | PF_WRITE),
        ("call to nothing", call, NOTHING, PF_USER | PF_FETCH),
        ("load from the kernel", load, PAGE, PF_USER | PF_PRESENT),
        ("store to the kernel", store, PAGE, PF_USER | PF_PRESENT | PF_WRITE),
        ("call to the kernel", call, PAGE, PF_USER | PF_PRESENT | PF_FETCH),
    ] {
        let space = user::space_for(code);
        space.map(PAGE, memory::frame(), PRESENT | WRITABLE);
        space.activate();
        let end = user::run_with(code, address, Rflags::empty());
        expect_end(what, end, Exception::PageFault, error);
        expect_eq!(end.cr2, address, "CR2 after {what}");
        memory::reset();
    }
}

guest_test!(read_only_page);
fn read_only_page() {
    const PAGE: u64 = memory::FREE + 0x20_0000;
    let space = user::space_for(store);
    space.map(PAGE, memory::frame(), PRESENT | USER);
    space.activate();
    let end = user::run_with(store, PAGE, Rflags::empty());
    expect_end("store to a read-only page", end, Exception::PageFault, PF_USER | PF_PRESENT | PF_WRITE);
}

guest_test!(alignment_check);
fn alignment_check() {
    cpu_wrong!(QemuTcg, "there is no alignment check");
    user::space_for(load_unaligned).activate();
    let end = user::run_with(load_unaligned, 0, Rflags::AC);
    expect_end("unaligned load without CR0.AM", end, Exception::Breakpoint, 0);
    cpu::set_cr0(cpu::cr0() | Cr0::AM).expect("AM may be set");
    let end = user::run_with(load_unaligned, 0, Rflags::AC);
    expect_end("unaligned load", end, Exception::AlignmentCheck, 0);
    let end = user::run_with(load_unaligned, 0, Rflags::empty());
    expect_end("unaligned load without EFLAGS.AC", end, Exception::Breakpoint, 0);
}

/// Where SYSCALL leads: notes RCX on the stack that RDI pointed below, and goes back.
#[unsafe(naked)]
unsafe extern "C" fn on_system_call() {
    naked_asm!("mov [rdi], rcx", "mov [rdi + 8], r11", "sysretq")
}

guest_test!(syscall_and_sysret);
fn syscall_and_sysret() {
    // SYSRET takes CS from STAR[63:48] + 16 and SS from + 8 (SDM 2, SYSRET).
    let user_base = u64::from(gdt::USER_CODE64 - 16);
    let setup = cpu::wrmsr(msr::EFER, (cpu::efer() | Efer::SCE).bits())
        .and_then(|()| wrmsr(msr::STAR, user_base << 48 | u64::from(gdt::CODE64) << 32))
        .and_then(|()| wrmsr(msr::LSTAR, on_system_call as *const () as u64))
        .and_then(|()| wrmsr(msr::FMASK, Rflags::IF.bits()));
    runtime::harness::expect_ok("setting SYSCALL up", setup);
    let notes = memory::frame();
    let end = user::run(system_call, notes);
    expect_end("SYSCALL and SYSRET", end, Exception::Breakpoint, 0);
    let (rip, rflags) = (read64(notes), read64(notes + 8));
    expect_eq!(rip & !0xfff, user::CODE, "page of RCX in the handler");
    expect_eq!(rflags & Rflags::ONE.bits(), Rflags::ONE.bits(), "R11 in the handler");
}
