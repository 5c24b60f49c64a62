//! Interrupts without end.

use runtime::fault::catch;
use runtime::hw::{ioapic, lapic, pic, pit, uart};
use runtime::interrupt::{self, Frame};
use runtime::{cpu, guest_test, memory};
use x86defs::apic::reg;
use x86defs::event::Event;
use x86defs::msr;

const VECTOR: u8 = 0x60;

/// Takes interrupts until somebody ends it, and exits in between, so that windows open and close.
fn take_for_ever() -> ! {
    interrupt::enable();
    loop {
        let _ = cpu::cpuid(0, 0);
    }
}

guest_test!(self_ipi_storm);
fn self_ipi_storm() {
    interrupt::handle(VECTOR, |frame| {
        lapic::self_ipi(VECTOR);
        lapic::acknowledge(frame);
    });
    lapic::self_ipi(VECTOR);
    take_for_ever()
}

guest_test!(every_vector_without_eoi);
/// All vectors, nested as deep as priorities allow, never acknowledged.
fn every_vector_without_eoi() {
    for vector in interrupt::FIRST_FREE_VECTOR..=u8::MAX {
        lapic::self_ipi(vector);
    }
    take_for_ever()
}

guest_test!(nmi_storm);
fn nmi_storm() {
    interrupt::handle(Event::NMI.vector, |_| lapic::self_nmi());
    lapic::self_nmi();
    take_for_ever()
}

fn timer(mode: u32) {
    lapic::write(reg::DIVIDE, lapic::DIVIDE_BY_1);
    lapic::write(reg::LVT_TIMER, mode | u32::from(VECTOR));
}

guest_test!(one_shot_flood);
fn one_shot_flood() {
    interrupt::handle(VECTOR, |frame| {
        lapic::write(reg::INITIAL_COUNT, 1);
        lapic::acknowledge(frame);
    });
    timer(0);
    lapic::write(reg::INITIAL_COUNT, 1);
    take_for_ever()
}

guest_test!(shortest_period);
fn shortest_period() {
    interrupt::handle(VECTOR, lapic::acknowledge);
    timer(lapic::PERIODIC);
    lapic::write(reg::INITIAL_COUNT, 1);
    take_for_ever()
}

guest_test!(shortest_period_with_interrupts_off);
/// The same, and nobody takes them.
fn shortest_period_with_interrupts_off() {
    timer(lapic::PERIODIC);
    lapic::write(reg::INITIAL_COUNT, 1);
    loop {
        let _ = cpu::cpuid(0, 0);
    }
}

guest_test!(deadlines_in_the_past);
fn deadlines_in_the_past() {
    fn again(frame: &mut Frame) {
        let _ = cpu::wrmsr(msr::IA32_TSC_DEADLINE, 1);
        lapic::acknowledge(frame);
    }
    interrupt::handle(VECTOR, again);
    timer(lapic::TSC_DEADLINE);
    let _ = cpu::wrmsr(msr::IA32_TSC_DEADLINE, 1);
    take_for_ever()
}

fn shortest_pit() {
    pit::program(0, pit::Mode::RateGenerator, 2);
}

guest_test!(pit_through_the_pic);
fn pit_through_the_pic() {
    interrupt::handle(pic::MASTER_BASE, |_| runtime::hw::port::outb(pic::MASTER, pic::OCW2_EOI));
    lapic::virtual_wire();
    pic::unmask_only(pit::IRQ);
    shortest_pit();
    take_for_ever()
}

guest_test!(pit_through_the_io_apic);
fn pit_through_the_io_apic() {
    interrupt::handle(VECTOR, lapic::acknowledge);
    ioapic::route(ioapic::PIT_PIN, u32::from(VECTOR), lapic::id());
    shortest_pit();
    take_for_ever()
}

/// The serial port asks for an interrupt, and nobody gives it what it wants.
fn unserved_line(level: bool) {
    uart::COM1.set_mcr(uart::Mcr::DTR | uart::Mcr::RTS | uart::Mcr::OUT2);
    uart::COM1.set_ier(uart::Ier::ETBEI.bits());
    let trigger = if level { ioapic::redirection::LEVEL } else { 0 };
    ioapic::route(uart::COM1_IRQ, trigger | u32::from(VECTOR), lapic::id());
}

guest_test!(level_line_that_stays_up);
fn level_line_that_stays_up() {
    interrupt::handle(VECTOR, lapic::acknowledge);
    unserved_line(true);
    take_for_ever()
}

guest_test!(level_line_without_eoi);
fn level_line_without_eoi() {
    unserved_line(true);
    take_for_ever()
}

guest_test!(io_apic_at_random);
/// All pins, all vectors, all delivery modes but INIT, at random.
fn io_apic_at_random() {
    const DELIVERY_MODE: u32 = 7 << 8;
    const INIT: u32 = 5 << 8;
    let mut random = crate::random::Random::new(8);
    interrupt::enable();
    for _ in 0..20_000 {
        let (register, value) = (random.next() as u8, random.odd() as u32);
        ioapic::write(register, if value & DELIVERY_MODE == INIT { value ^ DELIVERY_MODE } else { value });
        unserved_line(value & 1 != 0);
    }
}

guest_test!(local_apic_at_random);
/// Whatever the local APIC makes of it: an INIT that it sends to itself resets the machine.
fn local_apic_at_random() {
    const ICR_LOW: u64 = 0x300;
    const DELIVERY_MODE: u32 = 7 << 8;
    // What the random entries cause is welcome at any time.
    interrupt::handle(Event::NMI.vector, |_| {});
    let base = x86defs::apic::DEFAULT_BASE;
    let mut random = crate::random::Random::new(10);
    for _ in 0..50_000 {
        let offset = random.below(memory::PAGE - 8) & if random.below(4) == 0 { !0 } else { !0xf };
        let value = random.odd() as u32;
        let sends = (ICR_LOW - 8..ICR_LOW + 4).contains(&offset);
        let _ = catch(|| memory::write32(base + offset, if sends { value & !DELIVERY_MODE } else { value }));
        let _ = catch(|| memory::read32(base + offset));
    }
}
