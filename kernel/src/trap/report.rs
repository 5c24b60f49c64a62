//! The last words: what was executing, by address. `cargo xtask symbolize` names the addresses.
#![allow(unsafe_code, reason = "walks the stack")]

use super::Frame;
use crate::mem::stack::Stack;
use crate::{console, cpu, println};
use core::arch::asm;

/// Most frames that a backtrace shows.
const MAX_FRAMES: usize = 24;

const NAMES: [&str; 22] = [
    "divide error",
    "debug",
    "NMI",
    "breakpoint",
    "overflow",
    "bound range",
    "invalid opcode",
    "device not available",
    "double fault",
    "coprocessor segment overrun",
    "invalid TSS",
    "segment not present",
    "stack fault",
    "general protection",
    "page fault",
    "reserved",
    "x87 error",
    "alignment check",
    "machine check",
    "SIMD error",
    "virtualization",
    "control protection",
];

/// Prints the registers and a backtrace, and stops.
pub(super) fn fatal(f: &Frame) -> ! {
    console::break_lock();
    let name = NAMES.get(f.vector as usize).copied().unwrap_or("unknown exception");
    println!("panic: {name} (vector {}, error code {:#x}) in the hypervisor", f.vector, f.error_code);
    println!("  rip {:#018x} rflags {:#x} cs {:#x} ss {:#x} cr2 {:#x}", f.rip, f.rflags, f.cs, f.ss, cr2());
    println!("  rax {:#018x} rbx {:#018x} rcx {:#018x} rdx {:#018x}", f.rax, f.rbx, f.rcx, f.rdx);
    println!("  rsi {:#018x} rdi {:#018x} rbp {:#018x} rsp {:#018x}", f.rsi, f.rdi, f.rbp, f.rsp);
    println!("  r8  {:#018x} r9  {:#018x} r10 {:#018x} r11 {:#018x}", f.r8, f.r9, f.r10, f.r11);
    println!("  r12 {:#018x} r13 {:#018x} r14 {:#018x} r15 {:#018x}", f.r12, f.r13, f.r14, f.r15);
    backtrace(f.rip, f.rbp);
    cpu::halt()
}

/// Prints the return addresses that frame pointers lead to, staying on this stack.
fn backtrace(rip: u64, mut frame: u64) {
    let sp: u64;
    // SAFETY: reads RSP.
    unsafe { asm!("mov {}, rsp", out(reg) sp, options(nomem, nostack, preserves_flags)) };
    println!("  backtrace (cargo xtask symbolize names the addresses):");
    println!("    {rip:#018x}");
    for _ in 0..MAX_FRAMES {
        if !frame.is_multiple_of(8) || !Stack::contains(frame, sp) || !Stack::contains(frame + 15, sp) {
            break;
        }
        // SAFETY: both words lie on the current stack.
        let [next, ret] = unsafe { *(frame as *const [u64; 2]) };
        if ret == 0 {
            break;
        }
        println!("    {ret:#018x}");
        if next <= frame {
            break;
        }
        frame = next;
    }
}

fn cr2() -> u64 {
    x86_64::registers::control::Cr2::read_raw()
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    console::break_lock();
    println!("panic: {info}");
    let (rip, rbp): (u64, u64);
    // SAFETY: reads RIP and RBP.
    unsafe {
        asm!("lea {}, [rip]", "mov {}, rbp", out(reg) rip, out(reg) rbp, options(nomem, nostack, preserves_flags))
    };
    backtrace(rip, rbp);
    cpu::halt()
}
