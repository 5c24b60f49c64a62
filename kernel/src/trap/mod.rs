//! Exceptions and interrupts of the host.
//!
//! Interrupts are taken in two places only (after an exit that says so, and in the idle HLT). An exception is
//! a #GP or #UD of an instruction with a fix-up, or the end.
#![allow(unsafe_code, reason = "IDT and trap frames")]

mod gdt;
mod idt;
mod report;

use crate::apic;
use crate::mem::stack::this_cpu;
use core::sync::atomic::Ordering;
use vmm::hazard;
use x86defs::event::Exception;

pub use gdt::{CODE_SELECTOR, DATA_SELECTOR, TSS_SELECTOR};
pub use idt::forbid_ist;

/// Vector of the host's timer.
pub const TIMER_VECTOR: u8 = 0x40;
/// Vector of the console's receive interrupt.
pub const CONSOLE_VECTOR: u8 = 0x41;
/// Spurious-interrupt vector of the host's LAPIC.
pub const SPURIOUS_VECTOR: u8 = 0xff;

/// What the stubs save; general registers in the order of their pushes.
#[repr(C)]
#[derive(Debug)]
struct Frame {
    r15: u64,
    r14: u64,
    r13: u64,
    r12: u64,
    r11: u64,
    r10: u64,
    r9: u64,
    r8: u64,
    rdi: u64,
    rsi: u64,
    rbp: u64,
    rbx: u64,
    rdx: u64,
    rcx: u64,
    rax: u64,
    vector: u64,
    error_code: u64,
    rip: u64,
    cs: u64,
    rflags: u64,
    rsp: u64,
    ss: u64,
}

/// Loads GDT, TSS and IDT on this CPU.
pub fn init() {
    gdt::init();
    idt::init();
}

/// GDTR's base.
pub fn gdt_base() -> u64 {
    gdt::base()
}

/// Linear address of this CPU's TSS.
pub fn tss_base() -> u64 {
    gdt::tss_base()
}

/// IDTR's base.
pub fn idt_base() -> u64 {
    idt::base()
}

/// Called by the stubs for every vector.
extern "C" fn trap(frame: &mut Frame) {
    const NMI: u8 = Exception::NonMaskable as u8;
    match frame.vector as u8 {
        TIMER_VECTOR => timer(),
        CONSOLE_VECTOR => console(),
        NMI => {
            this_cpu().nmis.fetch_add(1, Ordering::Relaxed);
        }
        0..32 => exception(frame),
        // The local APIC wants no EOI for its spurious vector.
        SPURIOUS_VECTOR => {}
        _ => {
            this_cpu().spurious.fetch_add(1, Ordering::Relaxed);
            apic::end_of_interrupt();
        }
    }
}

fn timer() {
    let cpu = this_cpu();
    cpu.armed.store(u64::MAX, Ordering::Relaxed);
    crate::cpu::raise_hazard(cpu, hazard::TIMER);
    apic::end_of_interrupt();
}

fn console() {
    crate::cpu::raise_hazard(this_cpu(), hazard::CONSOLE);
    apic::end_of_interrupt();
}

fn exception(frame: &mut Frame) {
    let fixable =
        [Exception::GeneralProtection as u64, Exception::InvalidOpcode as u64].contains(&frame.vector);
    match idt::fixup(frame.rip) {
        Some(resume) if fixable => frame.rip = resume,
        _ => report::fatal(frame),
    }
}
