//! The bits of CR4 and EFER that exist on a CPU with these features.

use x86defs::control::{Cr4, Efer};
use x86defs::cpuid::{CpuidResult, Ext1Edx, Leaf1Ecx, Leaf1Edx, Leaf7Ebx, Leaf7Ecx};

/// The features that guests see, by register.
pub(super) struct Seen {
    pub(super) leaf1: CpuidResult,
    pub(super) leaf7: CpuidResult,
    pub(super) extended: CpuidResult,
}

impl Seen {
    /// SDM 3, 2.5: a bit of CR4 is reserved on a CPU without its feature.
    pub(super) fn cr4(&self) -> Cr4 {
        let edx = Leaf1Edx::from_bits_truncate(self.leaf1.edx);
        let ecx = Leaf1Ecx::from_bits_truncate(self.leaf1.ecx);
        let ebx7 = Leaf7Ebx::from_bits_truncate(self.leaf7.ebx);
        let ecx7 = Leaf7Ecx::from_bits_truncate(self.leaf7.ecx);
        let pairs = [
            (edx.contains(Leaf1Edx::VME), Cr4::VME | Cr4::PVI),
            (edx.contains(Leaf1Edx::TSC), Cr4::TSD),
            (edx.contains(Leaf1Edx::DE), Cr4::DE),
            (edx.contains(Leaf1Edx::PSE), Cr4::PSE),
            (edx.contains(Leaf1Edx::PAE), Cr4::PAE),
            (edx.contains(Leaf1Edx::MCE), Cr4::MCE),
            (edx.contains(Leaf1Edx::PGE), Cr4::PGE),
            (edx.contains(Leaf1Edx::FXSR), Cr4::OSFXSR),
            (edx.contains(Leaf1Edx::SSE), Cr4::OSXMMEXCPT),
            (ecx.contains(Leaf1Ecx::PCID), Cr4::PCIDE),
            (ecx.contains(Leaf1Ecx::XSAVE), Cr4::OSXSAVE),
            (ebx7.contains(Leaf7Ebx::FSGSBASE), Cr4::FSGSBASE),
            (ebx7.contains(Leaf7Ebx::SMEP), Cr4::SMEP),
            (ebx7.contains(Leaf7Ebx::SMAP), Cr4::SMAP),
            (ecx7.contains(Leaf7Ecx::UMIP), Cr4::UMIP),
        ];
        // RDPMC exists without any counter that CPUID would tell of.
        pairs.iter().filter(|(seen, _)| *seen).fold(Cr4::PCE, |all, (_, bit)| all | *bit)
    }

    /// APM 2, 3.1.7.
    pub(super) fn efer(&self) -> Efer {
        let edx = Ext1Edx::from_bits_truncate(self.extended.edx);
        let pairs = [
            // Intel shows SYSCALL in 64-bit mode only, but SCE always.
            (edx.intersects(Ext1Edx::SYSCALL | Ext1Edx::LM), Efer::SCE),
            (edx.contains(Ext1Edx::LM), Efer::LME | Efer::LMA),
            (edx.contains(Ext1Edx::NX), Efer::NXE),
            (edx.contains(Ext1Edx::FFXSR), Efer::FFXSR),
        ];
        pairs.iter().filter(|(seen, _)| *seen).fold(Efer::empty(), |all, (_, bit)| all | *bit)
    }
}
