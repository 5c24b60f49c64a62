//! HLT and the moments at which interrupts are taken.

#![allow(unsafe_code, reason = "STI, HLT, MOV SS and IRET in chosen orders")]

use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering};
use runtime::gdt;
use runtime::hw::lapic::{self, DIVIDE_BY_1, write};
use runtime::interrupt::{self, Frame};
use runtime::time;
use runtime::{cpu, expect, expect_eq, guest_mode_wrong, guest_test};
use x86defs::apic::reg;
use x86defs::control::Rflags;
use x86defs::event::Exception;

const VECTOR: u8 = 0x51;

/// Where the last interrupt was taken.
static TAKEN_AT: AtomicU64 = AtomicU64::new(0);

fn note_and_acknowledge(frame: &mut Frame) {
    TAKEN_AT.store(frame.rip, Ordering::Relaxed);
    write(reg::EOI, 0);
}

/// A timer interrupt in this many counts, from the LAPIC.
fn arm_timer(counts: u32) {
    interrupt::handle(VECTOR, note_and_acknowledge);
    write(reg::DIVIDE, DIVIDE_BY_1);
    write(reg::LVT_TIMER, VECTOR.into());
    write(reg::INITIAL_COUNT, counts);
}

guest_test!(halt_wakes);
fn halt_wakes() {
    for round in 1..=3 {
        arm_timer(50_000);
        interrupt::halt();
        expect_eq!(interrupt::count(VECTOR), round, "interrupts after STI; HLT");
    }
}

guest_test!(halt_with_pending_interrupt);
fn halt_with_pending_interrupt() {
    // Pending before STI: taken after HLT, in the shadow of STI no earlier, and HLT must not sleep through.
    interrupt::handle(VECTOR, note_and_acknowledge);
    lapic::self_ipi(VECTOR);
    interrupt::halt();
    expect_eq!(interrupt::count(VECTOR), 1, "interrupts");
}

guest_test!(halt_wakes_for_nmi);
fn halt_wakes_for_nmi() {
    // With IF=0, only the NMI ends HLT. The timer's handler, which the NMI's enables, sends it: interrupts are
    // on until then.
    interrupt::handle(2, |_| {});
    interrupt::handle(VECTOR, |frame| {
        write(reg::EOI, 0);
        lapic::self_nmi();
        frame.rflags &= !Rflags::IF.bits();
    });
    write(reg::DIVIDE, DIVIDE_BY_1);
    write(reg::LVT_TIMER, VECTOR.into());
    write(reg::INITIAL_COUNT, 50_000);
    interrupt::halt();
    expect_eq!([interrupt::count(VECTOR), interrupt::count(2)], [1, 1], "interrupts and NMIs");
}

guest_test!(halt_does_not_return_early);
fn halt_does_not_return_early() {
    // A millisecond by the TSC, from a timer that is calibrated here.
    write(reg::DIVIDE, DIVIDE_BY_1);
    write(reg::INITIAL_COUNT, u32::MAX);
    time::spin_us(1_000);
    let counts = u32::MAX - lapic::read(reg::CURRENT_COUNT);
    let start = cpu::rdtsc();
    arm_timer(counts);
    interrupt::halt();
    let slept = cpu::rdtsc() - start;
    expect!(slept >= time::us(800), "{slept} ticks, a millisecond has {}", time::us(1_000));
}

guest_test!(sti_shadow);
fn sti_shadow() {
    interrupt::handle(VECTOR, note_and_acknowledge);
    lapic::self_ipi(VECTOR);
    let after: u64;
    // SAFETY: every vector has a handler.
    unsafe { asm!("lea {after}, [rip + 2f]", "sti", "nop", "2: nop", "cli", after = out(reg) after) };
    expect_eq!(interrupt::count(VECTOR), 1, "interrupts");
    expect_eq!(
        TAKEN_AT.load(Ordering::Relaxed),
        after,
        "RIP of the interrupt: after the NOP that follows STI"
    );
}

guest_test!(sti_cli_takes_nothing);
fn sti_cli_takes_nothing() {
    lapic::self_ipi(VECTOR);
    // SAFETY: as above.
    unsafe { asm!("sti", "cli") };
    expect_eq!(interrupt::count(VECTOR), 0, "interrupts in STI; CLI");
    interrupt::enable();
    interrupt::disable();
    expect_eq!(interrupt::count(VECTOR), 1, "interrupts in STI; NOP; CLI");
}

guest_test!(mov_ss_shadow);
fn mov_ss_shadow() {
    // Shown with single-step traps, since an interrupt cannot be made to arrive exactly there.
    interrupt::handle(Exception::Debug as u8, |_| {});
    // SAFETY: SS is reloaded with the same selector, and TF is cleared again.
    unsafe {
        asm!("pushfq", "or qword ptr [rsp], {tf}", "popfq", "mov ss, {ss:x}", "nop", "pushfq",
            "and qword ptr [rsp], ~{tf}", "popfq", tf = const Rflags::TF.bits(), ss = in(reg) u64::from(gdt::DATA))
    };
    // NOP, PUSHFQ, AND, POPFQ, but not MOV SS.
    expect_eq!(interrupt::count(Exception::Debug as u8), 4, "single-step traps");
}

guest_test!(popf_takes_interrupt_at_once);
fn popf_takes_interrupt_at_once() {
    interrupt::handle(VECTOR, note_and_acknowledge);
    lapic::self_ipi(VECTOR);
    let after: u64;
    // SAFETY: as above.
    unsafe {
        asm!("lea {after}, [rip + 2f]", "pushfq", "or qword ptr [rsp], {flag}", "popfq", "2: nop", "cli",
            flag = const Rflags::IF.bits(), after = out(reg) after)
    };
    expect_eq!(TAKEN_AT.load(Ordering::Relaxed), after, "RIP of the interrupt: no shadow after POPF");
}

guest_test!(iret_restores_if);
fn iret_restores_if() {
    interrupt::handle(VECTOR, |frame| {
        write(reg::EOI, 0);
        frame.rflags &= !Rflags::IF.bits();
    });
    lapic::self_ipi(VECTOR);
    interrupt::enable();
    let rflags = cpu::rflags();
    interrupt::disable();
    expect_eq!(rflags & Rflags::IF.bits(), 0, "RFLAGS.IF after IRET with IF=0");
}

guest_test!(timer_expires_while_disabled);
fn timer_expires_while_disabled() {
    guest_mode_wrong!(Bochs, "a host timer does not end a stay in a guest that has interrupts disabled");
    arm_timer(20_000);
    // No access that a hypervisor would notice: it has to come by itself.
    time::spin_us(5_000);
    expect!(lapic::has_vector(reg::IRR, VECTOR), "IRR {:#x}", lapic::read(lapic::word_of(reg::IRR, VECTOR)));
    expect_eq!(interrupt::count(VECTOR), 0, "interrupts with IF=0");
    interrupt::enable();
    interrupt::disable();
    expect_eq!(interrupt::count(VECTOR), 1, "interrupts");
}

guest_test!(many_halts);
fn many_halts() {
    for round in 1..=50 {
        arm_timer(5_000);
        interrupt::halt();
        expect_eq!(interrupt::count(VECTOR), round, "interrupts");
    }
}
