//! The guest tests: one file a topic.

#![no_std]
#![no_main]

use runtime::boot::Boot;

mod apic_base;
mod control;
mod cpuid;
mod debug;
mod exceptions;
mod fw_cfg;
mod hpet;
mod instructions;
mod interrupts;
mod ioapic;
mod lapic;
mod mmio;
mod modes;
mod msr;
mod nmi_button;
mod paging;
mod pic;
mod pit;
mod ports;
mod rtc;
mod string_io;
mod tasks;
mod tsc;
mod typewriter;
mod uart;
mod user_mode;
mod vga;
mod x2apic;

runtime::guest_main!(main);

fn main(boot: &'static Boot) {
    if boot.has_word("typewriter") {
        typewriter::run();
    }
    if boot.has_word("nmi-button") {
        nmi_button::run();
    }
    paging::init(boot);
    runtime::harness::run(boot);
}
