//! Local APIC: the registers of `x86defs::apic::reg` behind memory (xAPIC) or MSRs (x2APIC).

use super::mmio::Reg32;
use crate::cpu::{self, rdmsr, wrmsr};
use crate::fault::Fault;
use crate::interrupt::Frame;
use crate::machine;
use crate::single::Single;
use x86defs::apic::{ApicBase, DEFAULT_BASE, DeliveryMode, Icr, Lvt, Shorthand, Svr, reg, x2apic_msr};
use x86defs::cpuid::{Leaf1Ecx, leaf};
use x86defs::msr;

/// Spurious vector outside of tests.
pub const SPURIOUS_VECTOR: u8 = 0xff;
/// Divide configuration (SDM 3, figure 11-10).
pub const DIVIDE_BY_1: u32 = 0b1011;
/// As above.
pub const DIVIDE_BY_16: u32 = 0b0011;
/// Timer modes in place in the LVT entry.
pub const PERIODIC: u32 = 1 << 17;
/// As above.
pub const TSC_DEADLINE: u32 = 2 << 17;

/// A register in the xAPIC page.
pub fn mmio(register: u16) -> Reg32 {
    Reg32(DEFAULT_BASE as u32 + u32::from(register))
}

/// Reads a register in the mode that is active.
pub fn read(register: u16) -> u32 {
    if x2apic_active() {
        rdmsr(x2apic_msr(register)).expect("an x2APIC register that exists") as u32
    } else {
        mmio(register).read()
    }
}

/// Writes a register in the mode that is active.
pub fn write(register: u16, value: u32) {
    if x2apic_active() {
        wrmsr(x2apic_msr(register), value.into()).expect("a valid value of an x2APIC register");
    } else {
        mmio(register).write(value);
    }
}

/// The 32-bit word of ISR, TMR or IRR that holds a vector.
pub fn word_of(register: u16, vector: u8) -> u16 {
    register + u16::from(vector / 32) * 16
}

/// Whether a vector's bit is set in ISR, TMR or IRR.
pub fn has_vector(register: u16, vector: u8) -> bool {
    read(word_of(register, vector)) & 1 << (vector % 32) != 0
}

/// Whether CPUID offers x2APIC mode.
pub fn x2apic_offered() -> bool {
    Leaf1Ecx::from_bits_retain(cpu::cpuid(leaf::FEATURES, 0).ecx).contains(Leaf1Ecx::X2APIC)
}

/// Whether x2APIC mode is active; kept here, since asking the MSR for every access would cost an exit.
static X2APIC_ACTIVE: Single<bool> = Single::new(false);

/// Whether x2APIC mode is active.
pub fn x2apic_active() -> bool {
    X2APIC_ACTIVE.load()
}

/// IA32_APIC_BASE
pub fn base() -> ApicBase {
    ApicBase::from_bits_retain(rdmsr(msr::IA32_APIC_BASE).expect("every CPU with long mode has it"))
}

/// Writes IA32_APIC_BASE.
pub fn set_base(value: ApicBase) -> Result<(), Fault> {
    wrmsr(msr::IA32_APIC_BASE, value.bits())?;
    X2APIC_ACTIVE.store(value.contains(ApicBase::EXTD));
    Ok(())
}

/// Its ID, as an xAPIC destination.
pub fn id() -> u8 {
    if x2apic_active() { read(reg::ID) as u8 } else { (read(reg::ID) >> 24) as u8 }
}

/// Switches to x2APIC mode.
pub fn enable_x2apic() {
    set_base(base() | ApicBase::EN | ApicBase::EXTD).expect("x2APIC mode is offered");
}

/// xAPIC mode, software enabled, every local interrupt masked, no timer, no pending interrupt, priority 0. In
/// Bochs IA32_APIC_BASE.EN stays clear once it was cleared, so that x2APIC mode is final there.
pub fn reset() {
    if base() & (ApicBase::EN | ApicBase::EXTD) != ApicBase::EN
        && machine::get().platform != machine::Maker::Bochs
    {
        // The way back to xAPIC mode leads through "disabled" (SDM 3, 11.12.5).
        let disabled = base() - (ApicBase::EXTD | ApicBase::EN);
        set_base(disabled).and_then(|()| set_base(disabled | ApicBase::EN)).expect("a valid transition");
    }
    write(reg::SVR, Svr::ENABLE.bits() | u32::from(SPURIOUS_VECTOR));
    for lvt in [reg::LVT_TIMER, reg::LVT_LINT0, reg::LVT_LINT1, reg::LVT_ERROR] {
        write(lvt, Lvt::MASKED.bits());
    }
    write(reg::INITIAL_COUNT, 0);
    write(reg::TPR, 0);
    end_all_interrupts();
}

/// Acknowledges whatever a test has left pending or in service.
fn end_all_interrupts() {
    let any = |register: u16| (0..8).any(|n| read(register + n * 16) != 0);
    for _ in 0..=u8::MAX {
        if any(reg::ISR) {
            write(reg::EOI, 0);
        } else if any(reg::IRR) {
            crate::interrupt::enable();
            crate::interrupt::disable();
        } else {
            return;
        }
    }
}

/// Handler that acknowledges.
pub fn acknowledge(_: &mut Frame) {
    write(reg::EOI, 0);
}

/// Sends a fixed interrupt to this CPU, by the shorthand.
pub fn self_ipi(vector: u8) {
    let shorthand = (Shorthand::ToSelf as u32) << 18;
    write(reg::ICR_LOW, shorthand | Icr::ASSERT.bits() as u32 | u32::from(vector));
}

/// Sends an NMI to this CPU, in xAPIC mode. The shorthand permits fixed interrupts only (SDM 3, table 11-3).
pub fn self_nmi() {
    write(reg::ICR_HIGH, u32::from(id()) << 24);
    write(reg::ICR_LOW, Icr::ASSERT.bits() as u32 | DeliveryMode::Nmi.bits());
}

/// Lets the PIC's interrupts through LINT0, as a PC starts.
pub fn virtual_wire() {
    write(reg::LVT_LINT0, DeliveryMode::ExtInt.bits());
}
