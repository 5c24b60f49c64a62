//! IA32_APIC_BASE and the modes that it switches between (SDM 3, 11.4.3, 11.12.5).

use super::{Lapic, LapicEffect};
use crate::msr::{FaultReason, MsrFault};
use x86defs::addr::{Gpa, PAGE_SIZE};
use x86defs::apic::ApicBase;
use x86defs::msr::IA32_APIC_BASE;

/// How the local APIC is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApicMode {
    /// Globally disabled: the CPU works as one without an APIC.
    Disabled,
    /// Through its page of memory.
    XApic,
    /// Through MSRs.
    X2Apic,
}

impl ApicMode {
    /// The mode that EN and EXTD select; EXTD alone is no mode.
    fn of(base: ApicBase) -> Option<Self> {
        match (base.contains(ApicBase::EN), base.contains(ApicBase::EXTD)) {
            (false, false) => Some(Self::Disabled),
            (true, false) => Some(Self::XApic),
            (true, true) => Some(Self::X2Apic),
            (false, true) => None,
        }
    }

    /// Whether software may go from this mode to `to` in one write (SDM 3, figure 11-27).
    fn may_become(self, to: Self) -> bool {
        !matches!((self, to), (Self::Disabled, Self::X2Apic) | (Self::X2Apic, Self::XApic))
    }
}

impl Lapic {
    /// Reads IA32_APIC_BASE.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// The mode that IA32_APIC_BASE selects.
    pub fn mode(&self) -> ApicMode {
        self.mode
    }

    /// Where the register page is, if there is one: in xAPIC mode only.
    pub fn mmio_base(&self) -> Option<Gpa> {
        (self.mode == ApicMode::XApic).then_some(Gpa(self.base).page())
    }

    /// Writes IA32_APIC_BASE. A disabled APIC has lost its state when it is enabled again (SDM 3, 11.4.3).
    pub fn set_base(&mut self, value: u64) -> Result<LapicEffect, MsrFault> {
        let address = self.address_mask & !(PAGE_SIZE - 1);
        if value & !(address | ApicBase::all().bits()) != 0 {
            return Err(MsrFault::write(IA32_APIC_BASE, value, FaultReason::ReservedBits));
        }
        let mode = ApicMode::of(ApicBase::from_bits_truncate(value))
            .filter(|&to| self.mode.may_become(to))
            .ok_or(MsrFault::write(IA32_APIC_BASE, value, FaultReason::Transition))?;
        if mode == ApicMode::Disabled {
            self.init();
        } else if mode != self.mode {
            self.icr_destination = 0;
        }
        self.base = value;
        self.mode = mode;
        Ok(LapicEffect::Address)
    }
}
