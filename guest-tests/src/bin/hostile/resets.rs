//! Every way to end the virtual machine, which is restarted for as long as its time lasts.

#![allow(unsafe_code, reason = "chosen instructions")]

use core::arch::asm;
use runtime::guest_test;
use runtime::hw::lapic;
use runtime::hw::port::outb;
use x86defs::apic::{DeliveryMode, Icr, reg};

guest_test!(reset_control_register);
fn reset_control_register() {
    outb(0xcf9, 0x6);
}

guest_test!(keyboard_controller);
fn keyboard_controller() {
    outb(0x64, 0xfe);
}

guest_test!(keyboard_controllers_output_port);
fn keyboard_controllers_output_port() {
    outb(0x64, 0xd1);
    outb(0x60, 0);
}

guest_test!(port_92);
fn port_92() {
    outb(0x92, 1);
}

guest_test!(init_to_itself);
fn init_to_itself() {
    lapic::write(reg::ICR_HIGH, u32::from(lapic::id()) << 24);
    lapic::write(reg::ICR_LOW, Icr::ASSERT.bits() as u32 | DeliveryMode::Init.bits());
}

/// An IDT of nothing.
fn triple() -> ! {
    let nothing = [0u64; 2];
    // SAFETY: the end of this machine.
    unsafe { asm!("lidt [{}]", "ud2", in(reg) &raw const nothing, options(noreturn)) }
}

guest_test!(triple_fault);
fn triple_fault() {
    triple()
}

guest_test!(reset_vector);
/// The reset vector, as a kernel jumps there.
fn reset_vector() {
    runtime::legacy::real(to_reset_vector);
}

/// JMP F000:FFF0
#[unsafe(naked)]
unsafe extern "C" fn to_reset_vector() {
    core::arch::naked_asm!(".code16", ".byte 0xea", ".word 0xfff0, 0xf000", ".code64")
}
