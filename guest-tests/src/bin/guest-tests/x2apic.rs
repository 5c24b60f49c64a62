//! The local APIC in x2APIC mode. On a machine that finds no way back to xAPIC mode (see `lapic::reset`), what
//! runs after these tests is in x2APIC mode, too; they come last.

use runtime::cpu::{self, rdmsr, wrmsr};
use runtime::harness::{expect_gp, expect_ok};
use runtime::hw::lapic::{self, read, write};
use runtime::interrupt;
use runtime::{expect_eq, guest_test, platform_wrong, skip};
use x86defs::apic::{ApicBase, Lvt, reg, x2apic_msr};

const VECTOR: u8 = 0x51;

fn let_interrupts_in() {
    interrupt::enable();
    interrupt::disable();
}

fn needs_x2apic() {
    if !lapic::x2apic_offered() {
        skip!("no x2APIC");
    }
}

guest_test!(transitions);
fn transitions() {
    needs_x2apic();
    platform_wrong!(Bochs, "IA32_APIC_BASE.EN, once cleared, stays so");
    expect_gp("x2APIC MSR in xAPIC mode", rdmsr(x2apic_msr(reg::ID)));
    let xapic = lapic::base();
    expect_gp("EXTD without EN", lapic::set_base((xapic | ApicBase::EXTD) - ApicBase::EN));
    expect_ok("x2APIC mode", lapic::set_base(xapic | ApicBase::EXTD));
    expect_gp("back to xAPIC mode", lapic::set_base(xapic));
    expect_ok("disabled", lapic::set_base(xapic - ApicBase::EN));
    expect_gp("from disabled to x2APIC", lapic::set_base(xapic | ApicBase::EXTD));
    expect_ok("xAPIC mode", lapic::set_base(xapic));
    expect_eq!(lapic::base(), xapic, "IA32_APIC_BASE");
}

guest_test!(registers);
fn registers() {
    needs_x2apic();
    let id = u32::from(lapic::id());
    lapic::enable_x2apic();
    expect_eq!(read(reg::ID), id, "ID");
    // Logical ID from the ID (SDM 3, 11.12.10.2).
    expect_eq!(read(reg::LDR), (id >> 4) << 16 | 1 << (id & 15), "LDR");
    write(reg::TPR, 0x30);
    expect_eq!(read(reg::TPR), 0x30, "TPR");
    expect_eq!(cpu::cr8(), 3, "CR8");
    write(reg::TPR, 0);
    write(reg::LVT_ERROR, Lvt::MASKED.bits() | 0x77);
    expect_eq!(read(reg::LVT_ERROR), Lvt::MASKED.bits() | 0x77, "LVT error");
}

guest_test!(faults);
fn faults() {
    needs_x2apic();
    lapic::enable_x2apic();
    expect_gp("DFR does not exist", rdmsr(x2apic_msr(reg::DFR)));
    expect_gp("ICR has no high half", rdmsr(x2apic_msr(reg::ICR_HIGH)));
    expect_gp("a reserved register", rdmsr(msr_after(reg::SELF_IPI)));
    expect_gp("EOI is write-only", rdmsr(x2apic_msr(reg::EOI)));
    expect_gp("SELF_IPI is write-only", rdmsr(x2apic_msr(reg::SELF_IPI)));
    expect_gp("ID is read-only", wrmsr(x2apic_msr(reg::ID), 0));
    expect_gp("LDR is read-only", wrmsr(x2apic_msr(reg::LDR), 0));
    expect_gp("EOI takes 0 only", wrmsr(x2apic_msr(reg::EOI), 1));
    expect_gp("ESR takes 0 only", wrmsr(x2apic_msr(reg::ESR), 1));
    expect_gp("upper half of TPR", wrmsr(x2apic_msr(reg::TPR), 1 << 32));
    expect_gp("reserved bits of SVR", wrmsr(x2apic_msr(reg::SVR), 1 << 20));
}

/// The MSR behind the last register.
fn msr_after(register: u16) -> u32 {
    x2apic_msr(register) + 1
}

guest_test!(interrupts);
fn interrupts() {
    needs_x2apic();
    let id = u64::from(lapic::id());
    lapic::enable_x2apic();
    interrupt::handle(VECTOR, lapic::acknowledge);
    expect_ok("SELF_IPI", wrmsr(x2apic_msr(reg::SELF_IPI), VECTOR.into()));
    let_interrupts_in();
    expect_eq!(interrupt::count(VECTOR), 1, "interrupts after SELF_IPI");
    expect_ok("ICR", wrmsr(x2apic_msr(reg::ICR_LOW), id << 32 | 1 << 14 | u64::from(VECTOR)));
    let_interrupts_in();
    expect_eq!(interrupt::count(VECTOR), 2, "interrupts after ICR with our ID");
    lapic::self_ipi(VECTOR);
    let_interrupts_in();
    expect_eq!(interrupt::count(VECTOR), 3, "interrupts after ICR with the shorthand");
}
