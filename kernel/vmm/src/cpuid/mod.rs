//! What CPUID tells a guest. One table of feature bits says what is passed from the host, what needs a
//! control, what is emulated and, by silence, what is hidden; the other leaves are computed beside it. The
//! result is worked out once, and a lookup patches in the few bits that change.

mod build;
mod controls;
mod features;
#[cfg(test)]
mod tests;

use crate::lapic::{ApicMode, Lapic, TimerClock};
use crate::vcpu::Vcpu;
use crate::xcr0::XsaveLayout;
use arrayvec::ArrayVec;
use bitflags::bitflags;
use x86defs::control::{Cr4, Efer};
use x86defs::cpuid::{CpuidResult, Leaf1Ecx, Leaf1Edx, LeafDSub1Eax, Vendor, leaf};

bitflags! {
    /// Features that are #UD in a guest unless the backend has a control for them, and has set it.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Offered: u32 {
        /// RDTSCP and RDPID.
        const RDTSCP = 1 << 0;
        /// INVPCID.
        const INVPCID = 1 << 1;
        /// XSAVES and XRSTORS.
        const XSAVES = 1 << 2;
        /// TPAUSE, UMONITOR and UMWAIT.
        const WAITPKG = 1 << 3;
    }
}

/// What CPUID depends on besides the host's own.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// The backend's controls.
    pub offered: Offered,
    /// This virtual CPU's APIC id.
    pub apic_id: u32,
    /// Virtual CPUs of the virtual machine, at least 1.
    pub cpus: u32,
    /// Width of guest physical addresses in bits.
    pub physical_bits: u8,
    /// Clock of the local APIC's timer, with the measured frequency of the TSC.
    pub clock: TimerClock,
}

/// Basic leaves that can exist: up to 0x16.
const BASIC: usize = leaf::FREQUENCY as usize + 1;
/// Extended leaves that can exist: up to 0x80000021.
const EXTENDED: usize = (leaf::EXTENDED_FEATURES_2 - leaf::EXTENDED_MAX) as usize + 1;
/// Subleaves other than 0 that can exist: of caches, features, topology and XSAVE.
const SUBLEAVES: usize = 24;

/// A subleaf other than 0.
#[derive(Clone, Copy, Debug)]
struct Subleaf {
    leaf: u32,
    subleaf: u32,
    result: CpuidResult,
}

/// What CPUID tells one virtual CPU.
#[derive(Clone, Debug)]
pub struct CpuidTable {
    vendor: Vendor,
    apic_id: u32,
    /// Subleaf 0 of the basic leaves up to the highest that exists.
    basic: ArrayVec<CpuidResult, BASIC>,
    extended: ArrayVec<CpuidResult, EXTENDED>,
    /// Bit n: basic leaf n has subleaves.
    with_subleaves: u32,
    subleaves: ArrayVec<Subleaf, SUBLEAVES>,
    hypervisor: CpuidResult,
    kvm: [CpuidResult; 2],
    xsave: XsaveLayout,
    allowed_cr4: Cr4,
    allowed_efer: Efer,
}

impl CpuidTable {
    /// Works the table out from the host's CPUID, a function of leaf and subleaf.
    pub fn new(host: impl Fn(u32, u32) -> CpuidResult, setup: &Setup) -> Self {
        build::table(&host, setup)
    }

    /// CPUID with this EAX and ECX.
    pub fn lookup(&self, leaf: u32, subleaf: u32, vcpu: &impl Vcpu, lapic: &Lapic) -> CpuidResult {
        let Some(&first) = self.basic.get(leaf as usize) else {
            return self.beyond_basic(leaf, subleaf, vcpu, lapic);
        };
        match leaf {
            leaf::FEATURES => with_live_features(first, vcpu, lapic),
            leaf::XSAVE => self.xsave_leaf(subleaf, vcpu),
            _ if subleaf == 0 || self.with_subleaves & 1 << leaf == 0 => first,
            _ => self.subleaf(leaf, subleaf),
        }
    }

    /// Leaf 0xD: EBX is the size of the area for what is enabled now.
    fn xsave_leaf(&self, subleaf: u32, vcpu: &impl Vcpu) -> CpuidResult {
        match subleaf {
            0 if !self.xsave.offered().is_empty() => {
                CpuidResult { ebx: self.xsave.standard_size(vcpu.xcr0()), ..self.basic[leaf::XSAVE as usize] }
            }
            1 => {
                let mut result = self.subleaf(leaf::XSAVE, 1);
                if result.eax & LeafDSub1Eax::XSAVEC.bits() != 0 {
                    result.ebx = self.xsave.compacted_size(vcpu.xcr0());
                }
                result
            }
            0 => CpuidResult::default(),
            _ => self.xsave.subleaf(subleaf),
        }
    }

    fn subleaf(&self, leaf: u32, subleaf: u32) -> CpuidResult {
        match self.subleaves.iter().find(|s| s.leaf == leaf && s.subleaf == subleaf) {
            Some(found) => found.result,
            // SDM 2, CPUID leaf 0BH: an invalid level still tells its number and the id.
            None if leaf == leaf::EXTENDED_TOPOLOGY => {
                CpuidResult { ecx: subleaf & 0xff, edx: self.apic_id, ..CpuidResult::default() }
            }
            None => CpuidResult::default(),
        }
    }

    /// Leaves of hypervisors, extended leaves, and those that do not exist: Intel answers these with the
    /// highest basic leaf, AMD with zeros.
    fn beyond_basic(&self, leaf: u32, subleaf: u32, vcpu: &impl Vcpu, lapic: &Lapic) -> CpuidResult {
        if (leaf::HYPERVISOR..leaf::HYPERVISOR_END).contains(&leaf) {
            return self.hypervisor_leaf(leaf);
        }
        if let Some(&extended) = self.extended.get(leaf.wrapping_sub(leaf::EXTENDED_MAX) as usize) {
            return match (leaf, self.vendor) {
                (leaf::EXTENDED_FEATURES, Vendor::Amd) => with_live_apic(extended, lapic),
                _ => extended,
            };
        }
        match self.vendor {
            Vendor::Intel => self.lookup(self.max_basic(), subleaf, vcpu, lapic),
            Vendor::Amd => CpuidResult::default(),
        }
    }

    fn hypervisor_leaf(&self, leaf: u32) -> CpuidResult {
        match leaf {
            leaf::HYPERVISOR => self.hypervisor,
            leaf::HYPERVISOR_SECOND => self.kvm[0],
            leaf::KVM_FEATURES => self.kvm[1],
            _ => CpuidResult::default(),
        }
    }

    fn max_basic(&self) -> u32 {
        self.basic.len() as u32 - 1
    }

    /// Vendor, whose rules hold for the guest, too.
    pub fn vendor(&self) -> Vendor {
        self.vendor
    }

    /// CPUID.1:EAX, which is also in EDX after reset.
    pub fn signature(&self) -> u32 {
        self.basic[leaf::FEATURES as usize].eax
    }

    /// The state components that the guest may enable.
    pub fn xsave(&self) -> &XsaveLayout {
        &self.xsave
    }

    /// The bits of CR4 that are not reserved. VMXE is not among them.
    pub fn allowed_cr4(&self) -> Cr4 {
        self.allowed_cr4
    }

    /// The bits of EFER that are not reserved.
    pub fn allowed_efer(&self) -> Efer {
        self.allowed_efer
    }
}

/// Leaf 1: OSXSAVE is a copy of the bit in CR4; an APIC that is globally disabled is not there.
fn with_live_features(mut result: CpuidResult, vcpu: &impl Vcpu, lapic: &Lapic) -> CpuidResult {
    if vcpu.cr4().contains(Cr4::OSXSAVE) {
        result.ecx |= Leaf1Ecx::OSXSAVE.bits();
    }
    with_live_apic(result, lapic)
}

/// The APIC bit has the same place in leaf 1 and in AMD's copy.
fn with_live_apic(mut result: CpuidResult, lapic: &Lapic) -> CpuidResult {
    if lapic.mode() == ApicMode::Disabled {
        result.edx &= !Leaf1Edx::APIC.bits();
    }
    result
}
