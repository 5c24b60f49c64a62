//! Control registers of which the host owns some bits: the guest reads its own view of those, and writing another
//! value to one exits (SDM 3, 25.6.6).

use super::instructions::{vmread, vmwrite};
use x86defs::control::{Cr0, Cr4};
use x86defs::vmcs::{self, FieldNatural};
use x86defs::vmx::Limits;

/// What a guest's CR0 never has in hardware: caches stay on.
const CACHE_DISABLE: Cr0 = Cr0::CD.union(Cr0::NW);
/// CR0 bits that the host needs to know of, besides those that VMX operation fixes.
const OWNED_CR0: Cr0 = Cr0::PG.union(CACHE_DISABLE);

/// CR0 or CR4.
pub(super) struct OwnedBits {
    /// The bits that the host owns.
    mask: u64,
    /// The guest's view of them.
    view: u64,
    /// Bits that are set in hardware, whatever the guest writes.
    always: u64,
    /// Bits that can be set in hardware.
    possible: u64,
    hardware: FieldNatural,
    shadow: FieldNatural,
}

impl OwnedBits {
    /// CR0 of an unrestricted guest, which may clear PE and PG though VMX operation fixes them (SDM 3, 27.3.1.1).
    pub(super) fn cr0(limits: &Limits) -> Self {
        let (zero, one) = limits.cr0_fixed;
        let always = zero & !(Cr0::PE | Cr0::PG).bits();
        let mask = OWNED_CR0.bits() | always | !one;
        vmwrite(vmcs::CR0_GUEST_HOST_MASK, mask);
        Self {
            mask,
            view: 0,
            always,
            possible: one & !CACHE_DISABLE.bits(),
            hardware: vmcs::GUEST_CR0,
            shadow: vmcs::CR0_READ_SHADOW,
        }
    }

    /// CR4 of a guest that may set the bits in `allowed`.
    pub(super) fn cr4(limits: &Limits, allowed: u64) -> Self {
        let (always, possible) = limits.cr4_fixed;
        let mask = !allowed | Cr4::VMXE.bits() | always | !possible;
        vmwrite(vmcs::CR4_GUEST_HOST_MASK, mask);
        Self { mask, view: 0, always, possible, hardware: vmcs::GUEST_CR4, shadow: vmcs::CR4_READ_SHADOW }
    }

    /// The register as the guest sees it.
    pub(super) fn get(&self) -> u64 {
        vmread(self.hardware) & !self.mask | self.view & self.mask
    }

    /// Sets the register as the guest shall see it.
    pub(super) fn set(&mut self, value: u64) {
        self.view = value;
        vmwrite(self.shadow, value);
        vmwrite(self.hardware, (value | self.always) & self.possible);
    }
}
