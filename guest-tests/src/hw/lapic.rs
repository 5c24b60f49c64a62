//! Local APIC (SDM 3, chapter 11): the same registers behind memory (xAPIC) or MSRs (x2APIC).

#![allow(missing_docs, reason = "names of the manuals")]

use super::mmio::Reg32;
use crate::cpu::{self, msr, rdmsr, wrmsr};
use crate::interrupt::Frame;

/// Where it lies after reset.
pub const BASE: u32 = 0xfee0_0000;

/// IA32_APIC_BASE.
pub mod apic_base {
    pub const BSP: u64 = 1 << 8;
    pub const EXTD: u64 = 1 << 10;
    pub const EN: u64 = 1 << 11;
}

/// A register by its offset in the xAPIC page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Register(pub u32);

pub const ID: Register = Register(0x20);
pub const VERSION: Register = Register(0x30);
pub const TPR: Register = Register(0x80);
pub const PPR: Register = Register(0xa0);
pub const EOI: Register = Register(0xb0);
pub const LDR: Register = Register(0xd0);
pub const DFR: Register = Register(0xe0);
pub const SVR: Register = Register(0xf0);
pub const ISR0: Register = Register(0x100);
pub const TMR0: Register = Register(0x180);
pub const IRR0: Register = Register(0x200);
pub const ESR: Register = Register(0x280);
pub const ICR_LOW: Register = Register(0x300);
pub const ICR_HIGH: Register = Register(0x310);
pub const LVT_TIMER: Register = Register(0x320);
pub const LVT_THERMAL: Register = Register(0x330);
pub const LVT_PMC: Register = Register(0x340);
pub const LVT_LINT0: Register = Register(0x350);
pub const LVT_LINT1: Register = Register(0x360);
pub const LVT_ERROR: Register = Register(0x370);
pub const TIMER_INITIAL: Register = Register(0x380);
pub const TIMER_CURRENT: Register = Register(0x390);
pub const TIMER_DIVIDE: Register = Register(0x3e0);
/// x2APIC only.
pub const SELF_IPI: Register = Register(0x3f0);

pub const SVR_ENABLE: u32 = 1 << 8;
/// Spurious vector outside of tests.
pub const SPURIOUS_VECTOR: u8 = 0xff;
pub const LVT_MASKED: u32 = 1 << 16;
pub const TIMER_PERIODIC: u32 = 1 << 17;
pub const TIMER_TSC_DEADLINE: u32 = 2 << 17;
pub const DIVIDE_BY_1: u32 = 0b1011;
pub const DIVIDE_BY_16: u32 = 0b0011;
pub const DELIVERY_EXTINT: u32 = 7 << 8;
pub const DELIVERY_NMI: u32 = 4 << 8;
pub const ICR_ASSERT: u32 = 1 << 14;
pub const ICR_SELF: u32 = 1 << 18;
pub const ESR_SEND_ILLEGAL_VECTOR: u32 = 1 << 5;
pub const ESR_RECEIVE_ILLEGAL_VECTOR: u32 = 1 << 6;

impl Register {
    /// The MSR that holds it in x2APIC mode (SDM 3, 11.12.1.2).
    pub const fn msr(self) -> u32 {
        msr::X2APIC_FIRST + self.0 / 16
    }
    /// The n-th 32-bit word of a 256-bit register.
    #[must_use]
    pub const fn word(self, n: u32) -> Self {
        Self(self.0 + n * 16)
    }
    pub fn read(self) -> u32 {
        if x2apic_active() {
            rdmsr(self.msr()).expect("an x2APIC register that exists") as u32
        } else {
            Reg32(BASE + self.0).read()
        }
    }
    pub fn write(self, value: u32) {
        if x2apic_active() {
            wrmsr(self.msr(), u64::from(value)).expect("a valid value of an x2APIC register");
        } else {
            Reg32(BASE + self.0).write(value)
        }
    }
}

/// Whether the vector's bit is set in a 256-bit register.
pub fn has_vector(register: Register, vector: u8) -> bool {
    register.word(u32::from(vector) / 32).read() & 1 << (vector % 32) != 0
}

pub fn x2apic_offered() -> bool {
    cpu::cpuid(1, 0).ecx & 1 << 21 != 0
}

pub fn x2apic_active() -> bool {
    x2apic_offered() && base_msr() & apic_base::EXTD != 0
}

pub fn base_msr() -> u64 {
    rdmsr(msr::APIC_BASE).expect("every CPU with long mode has IA32_APIC_BASE")
}

/// Its ID, as an xAPIC destination.
pub fn id() -> u8 {
    if x2apic_active() { ID.read() as u8 } else { (ID.read() >> 24) as u8 }
}

/// xAPIC mode, software enabled, every local interrupt masked, no timer, no pending interrupt, priority 0.
pub fn reset() {
    if x2apic_active() {
        // The way back to xAPIC mode leads through "disabled" (SDM 3, 11.12.5).
        let base = base_msr() & !(apic_base::EXTD | apic_base::EN);
        wrmsr(msr::APIC_BASE, base)
            .and_then(|()| wrmsr(msr::APIC_BASE, base | apic_base::EN))
            .expect("a valid transition");
    }
    SVR.write(SVR_ENABLE | u32::from(SPURIOUS_VECTOR));
    for lvt in [LVT_TIMER, LVT_LINT0, LVT_LINT1, LVT_ERROR] {
        lvt.write(LVT_MASKED);
    }
    TIMER_INITIAL.write(0);
    TPR.write(0);
    end_all_interrupts();
}

/// Acknowledges whatever a test has left in service.
fn end_all_interrupts() {
    for _ in 0..=u8::MAX {
        if (0..8).all(|n| ISR0.word(n).read() == 0) {
            return;
        }
        EOI.write(0);
    }
}

/// Handler that acknowledges.
pub fn acknowledge(_: &mut Frame) {
    EOI.write(0);
}

/// Sends a fixed interrupt to this CPU.
pub fn self_ipi(vector: u8) {
    send_self(u32::from(vector));
}

/// Sends an interrupt command to this CPU by the shorthand.
pub fn send_self(command: u32) {
    ICR_LOW.write(ICR_SELF | ICR_ASSERT | command);
}
