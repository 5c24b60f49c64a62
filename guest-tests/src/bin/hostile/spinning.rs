//! A CPU that never gives way.

#![allow(unsafe_code, reason = "chosen instructions")]

use core::arch::asm;
use runtime::{guest_test, interrupt};

guest_test!(interrupts_off);
fn interrupts_off() {
    interrupt::disable();
    loop {
        core::hint::spin_loop();
    }
}

guest_test!(shortest_loop);
fn shortest_loop() {
    // SAFETY: an endless loop.
    unsafe { asm!("cli", "2:", "jmp 2b", options(noreturn)) }
}

guest_test!(exits);
/// Every turn exits.
fn exits() {
    loop {
        let _ = runtime::cpu::cpuid(0, 0);
    }
}

guest_test!(shadows);
/// The shadow of STI or of MOV SS, for ever.
fn shadows() {
    interrupt::disable();
    // SAFETY: an endless loop; SS keeps its value.
    unsafe {
        asm!("mov {0:x}, ss", "2:", "cli", "sti", "mov ss, {0:x}", "mov ss, {0:x}", "jmp 2b", out(reg) _)
    }
}

guest_test!(halted_with_interrupts_off);
fn halted_with_interrupts_off() {
    // SAFETY: HLT.
    unsafe { asm!("cli", "hlt") }
}

guest_test!(halted_for_ever);
/// Nothing is there that could wake it.
fn halted_for_ever() {
    loop {
        interrupt::halt();
    }
}

guest_test!(int_recursion);
/// An interrupt storm of one's own: INT recurses until the stack has eaten everything below it.
fn int_recursion() {
    fn again(_: &mut interrupt::Frame) {
        // SAFETY: the gate is there.
        unsafe { asm!("int {}", const interrupt::USER_VECTOR) }
    }
    interrupt::handle(interrupt::USER_VECTOR, again);
    // SAFETY: as above.
    unsafe { asm!("int {}", const interrupt::USER_VECTOR) }
}
