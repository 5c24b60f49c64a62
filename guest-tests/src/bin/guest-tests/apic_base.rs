//! The local APIC switched off and on again in IA32_APIC_BASE (SDM 3, 11.4.3).

use runtime::cpu::cpuid;
use runtime::harness::expect_ok;
use runtime::hw::lapic::{self, has_vector, read, write};
use runtime::hw::mmio::Reg32;
use runtime::hw::{pic, pit};
use runtime::{expect, expect_eq, guest_test, interrupt, platform_wrong, time};
use x86defs::apic::{ApicBase, Lvt, Svr, reg};
use x86defs::cpuid::{Leaf1Edx, leaf};

const VECTOR: u8 = 0x51;
/// An address that nobody answers, as the register page when it is off.
const NOBODY: Reg32 = Reg32(0xfea0_0000);
/// SVR after reset: the local APIC is disabled by software.
const SVR_RESET: u32 = Svr::VECTOR.bits();

fn switch_off() {
    platform_wrong!(Bochs, "IA32_APIC_BASE.EN, once cleared, stays so");
    platform_wrong!(QemuTcg, "IA32_APIC_BASE.EN, once cleared, stays so, and the page answers");
    expect_ok("disabled", lapic::set_base(lapic::base() - ApicBase::EN));
}

fn switch_on() {
    expect_ok("xAPIC mode", lapic::set_base(lapic::base() | ApicBase::EN));
}

fn offered() -> bool {
    Leaf1Edx::from_bits_retain(cpuid(leaf::FEATURES, 0).edx).contains(Leaf1Edx::APIC)
}

guest_test!(cpuid_follows);
fn cpuid_follows() {
    expect!(offered(), "CPUID.1:EDX.APIC at first");
    switch_off();
    let while_off = offered();
    switch_on();
    expect!(!while_off, "CPUID.1:EDX.APIC while off");
    expect!(offered(), "CPUID.1:EDX.APIC when on again");
}

guest_test!(page_answers_when_on);
fn page_answers_when_on() {
    let version = read(reg::VERSION);
    switch_off();
    let (page, nobody) = (read(reg::VERSION), NOBODY.read());
    switch_on();
    expect_eq!(read(reg::VERSION), version, "version register when on again");
    expect_eq!(page, nobody, "version register while off, compared with an address that nobody answers");
}

guest_test!(state_is_lost);
fn state_is_lost() {
    let id = lapic::id();
    write(reg::TPR, 0x40);
    write(reg::LDR, 0x0200_0000);
    write(reg::LVT_ERROR, 0x77);
    write(reg::LVT_TIMER, lapic::PERIODIC | u32::from(VECTOR));
    write(reg::INITIAL_COUNT, 10_000);
    lapic::self_ipi(VECTOR);
    switch_off();
    switch_on();
    expect_eq!(lapic::id(), id, "ID");
    expect_eq!(read(reg::SVR), SVR_RESET, "SVR");
    for register in [reg::TPR, reg::LDR, reg::INITIAL_COUNT, reg::CURRENT_COUNT] {
        expect_eq!(read(register), 0, "register {register:#x}");
    }
    for register in [reg::LVT_TIMER, reg::LVT_LINT0, reg::LVT_LINT1, reg::LVT_ERROR] {
        expect_eq!(read(register), Lvt::MASKED.bits(), "register {register:#x}");
    }
    expect!(!has_vector(reg::IRR, VECTOR), "the interrupt is pending still");
    write(reg::SVR, Svr::ENABLE.bits() | SVR_RESET);
    interrupt::enable();
    time::spin_us(1_000);
    interrupt::disable();
    expect_eq!(interrupt::count(VECTOR), 0, "interrupts from before");
    interrupt::handle(VECTOR, lapic::acknowledge);
    lapic::self_ipi(VECTOR);
    interrupt::enable();
    interrupt::disable();
    expect_eq!(interrupt::count(VECTOR), 1, "interrupts when on again");
}

guest_test!(pic_reaches_the_cpu_when_off);
fn pic_reaches_the_cpu_when_off() {
    let vector = pic::vector(pit::IRQ);
    interrupt::handle(vector, pic::acknowledge);
    switch_off();
    pit::program(0, pit::Mode::RateGenerator, (pit::FREQUENCY / 1000) as u16);
    pic::unmask_only(pit::IRQ);
    interrupt::enable();
    let taken = time::wait_us(50_000, || interrupt::count(vector) >= 3);
    interrupt::disable();
    switch_on();
    expect!(taken, "{} interrupts without a local APIC", interrupt::count(vector));
}
