//! Ring 3: runs a piece of code there until it faults or asks to come back, which is a fault, too.

#![allow(unsafe_code, reason = "IRET to ring 3")]

use crate::fault::{Fault, catch};
use crate::gdt;
use crate::memory::{self, PAGE, PRESENT, Space, USER, WRITABLE};
use core::arch::asm;
use x86defs::control::Rflags;

/// Where the code is mapped.
pub const CODE: u64 = memory::FREE;
/// One page of stack, and the address that RSP starts with.
pub const STACK: u64 = CODE + 0x10_0000;
/// As above.
pub const STACK_TOP: u64 = STACK + PAGE;

/// A piece of code for ring 3: a naked function, independent of its position, that ends in an instruction that
/// faults there (INT3 by custom).
pub type Code = unsafe extern "C" fn();

/// Makes an address space in which ring 3 has a stack and this code; pages of the kernel stay closed to it.
pub fn space_for(code: Code) -> Space {
    let space = Space::new();
    let page = code as usize as u64 & !(PAGE - 1);
    // The code may cross a page boundary.
    space.map(CODE, page, PRESENT | USER);
    space.map(CODE + PAGE, page + PAGE, PRESENT | USER);
    space.map(STACK, memory::frame(), PRESENT | WRITABLE | USER);
    space
}

/// Runs `code` in ring 3 with RDI = `argument` and these flags besides the fixed one, and returns what ended
/// it. A space from [`space_for`] must be active.
pub fn run_with(code: Code, argument: u64, flags: Rflags) -> Fault {
    let entry = CODE + code as usize as u64 % PAGE;
    let end = catch(|| {
        // SAFETY: the way back is an exception, which `catch` handles.
        unsafe {
            asm!(
                "push {ss}",
                "push {rsp}",
                "push {rflags}",
                "push {cs}",
                "push {rip}",
                "iretq",
                ss = in(reg) u64::from(gdt::USER_DATA),
                rsp = in(reg) STACK_TOP,
                rflags = in(reg) (flags | Rflags::ONE).bits(),
                cs = in(reg) u64::from(gdt::USER_CODE64),
                rip = in(reg) entry,
                in("rdi") argument,
            )
        }
    });
    end.expect_err("ring 3 has no other way back")
}

/// As [`run_with`], in a new address space and with no flags.
pub fn run(code: Code, argument: u64) -> Fault {
    space_for(code).activate();
    run_with(code, argument, Rflags::empty())
}
