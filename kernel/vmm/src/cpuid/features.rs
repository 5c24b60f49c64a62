//! The feature bits that guests are offered. What has no row here is hidden.

use super::Offered;
use x86defs::cpuid::Register::{self, Eax, Ebx, Ecx, Edx};
use x86defs::cpuid::{
    Ext1Ecx, Ext1Edx, Ext7Edx, Ext8Ebx, Ext21Eax, KvmFeatures, Leaf1Ecx, Leaf1Edx, Leaf6Eax, Leaf7Ebx,
    Leaf7Ecx, Leaf7Edx, Leaf7Sub1Eax, LeafDSub1Eax, Xcr0, leaf,
};

/// When a feature is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// The host has it, and guests can use it just so.
    Host,
    /// The host has it, and the backend the control that it needs.
    Control(Offered),
    /// The host has it, and the guest may enable these state components.
    State(Xcr0),
    /// Always: it is emulated.
    Emulated,
}

/// Bits of one register, and when they are offered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Feature {
    pub(super) leaf: u32,
    pub(super) subleaf: u32,
    pub(super) register: Register,
    pub(super) bits: u32,
    pub(super) when: When,
}

const fn row(leaf: u32, subleaf: u32, register: Register, bits: u32, when: When) -> Feature {
    Feature { leaf, subleaf, register, bits, when }
}

/// Hidden on purpose: VMX and SVM; MONITOR and MWAITX, since a guest that idles has to exit; all of performance
/// monitoring, debug store, thermal and power management; what the laziness table does not switch (XSAVES,
/// WAITPKG, PKU, CET, MPX, AMX, SGX, TSX, processor trace, speculation control); LA57; topology extensions.
pub(super) const FEATURES: &[Feature] = &[
    row(leaf::FEATURES, 0, Ecx, LEAF1_ECX_HOST, When::Host),
    row(leaf::FEATURES, 0, Ecx, LEAF1_ECX_AVX, When::State(Xcr0::AVX)),
    row(leaf::FEATURES, 0, Ecx, Leaf1Ecx::XSAVE.bits(), When::State(Xcr0::X87)),
    row(leaf::FEATURES, 0, Ecx, LEAF1_ECX_EMULATED, When::Emulated),
    row(leaf::FEATURES, 0, Edx, LEAF1_EDX_HOST, When::Host),
    row(leaf::FEATURES, 0, Edx, LEAF1_EDX_EMULATED, When::Emulated),
    row(leaf::THERMAL_POWER, 0, Eax, Leaf6Eax::ARAT.bits(), When::Emulated),
    row(leaf::STRUCTURED_FEATURES, 0, Ebx, LEAF7_EBX_HOST, When::Host),
    row(leaf::STRUCTURED_FEATURES, 0, Ebx, Leaf7Ebx::AVX2.bits(), When::State(Xcr0::AVX)),
    row(leaf::STRUCTURED_FEATURES, 0, Ebx, LEAF7_EBX_AVX512, When::State(Xcr0::AVX512)),
    row(leaf::STRUCTURED_FEATURES, 0, Ebx, Leaf7Ebx::INVPCID.bits(), When::Control(Offered::INVPCID)),
    row(leaf::STRUCTURED_FEATURES, 0, Ebx, Leaf7Ebx::TSC_ADJUST.bits(), When::Emulated),
    row(leaf::STRUCTURED_FEATURES, 0, Ecx, LEAF7_ECX_HOST, When::Host),
    row(leaf::STRUCTURED_FEATURES, 0, Ecx, LEAF7_ECX_AVX, When::State(Xcr0::AVX)),
    row(leaf::STRUCTURED_FEATURES, 0, Ecx, LEAF7_ECX_AVX512, When::State(Xcr0::AVX512)),
    row(leaf::STRUCTURED_FEATURES, 0, Ecx, Leaf7Ecx::RDPID.bits(), When::Control(Offered::RDTSCP)),
    row(leaf::STRUCTURED_FEATURES, 0, Edx, LEAF7_EDX_HOST, When::Host),
    row(leaf::STRUCTURED_FEATURES, 0, Edx, LEAF7_EDX_AVX512, When::State(Xcr0::AVX512)),
    row(leaf::STRUCTURED_FEATURES, 1, Eax, LEAF7_1_EAX_HOST, When::Host),
    row(leaf::STRUCTURED_FEATURES, 1, Eax, LEAF7_1_EAX_AVX, When::State(Xcr0::AVX)),
    row(leaf::STRUCTURED_FEATURES, 1, Eax, LEAF7_1_EAX_AVX512, When::State(Xcr0::AVX512)),
    row(leaf::XSAVE, 1, Eax, LEAFD_1_EAX, When::State(Xcr0::X87)),
    row(leaf::KVM_FEATURES, 0, Eax, KVM_FEATURES, When::Emulated),
    row(leaf::EXTENDED_FEATURES, 0, Ecx, EXT1_ECX_HOST, When::Host),
    row(leaf::EXTENDED_FEATURES, 0, Ecx, EXT1_ECX_AVX, When::State(Xcr0::AVX)),
    row(leaf::EXTENDED_FEATURES, 0, Edx, EXT1_EDX_HOST, When::Host),
    row(leaf::EXTENDED_FEATURES, 0, Edx, Ext1Edx::RDTSCP.bits(), When::Control(Offered::RDTSCP)),
    row(leaf::POWER_MANAGEMENT, 0, Edx, Ext7Edx::INVARIANT_TSC.bits(), When::Emulated),
    row(leaf::ADDRESS_SIZES, 0, Ebx, EXT8_EBX_HOST, When::Host),
    row(leaf::EXTENDED_FEATURES_2, 0, Eax, EXT21_EAX_HOST, When::Host),
];

const LEAF1_ECX_HOST: u32 = Leaf1Ecx::SSE3
    .union(Leaf1Ecx::PCLMULQDQ)
    .union(Leaf1Ecx::SSSE3)
    .union(Leaf1Ecx::CMPXCHG16B)
    .union(Leaf1Ecx::PCID)
    .union(Leaf1Ecx::SSE4_1)
    .union(Leaf1Ecx::SSE4_2)
    .union(Leaf1Ecx::MOVBE)
    .union(Leaf1Ecx::POPCNT)
    .union(Leaf1Ecx::AES)
    .union(Leaf1Ecx::RDRAND)
    .bits();

const LEAF1_ECX_AVX: u32 = Leaf1Ecx::AVX.union(Leaf1Ecx::FMA).union(Leaf1Ecx::F16C).bits();

const LEAF1_ECX_EMULATED: u32 =
    Leaf1Ecx::X2APIC.union(Leaf1Ecx::TSC_DEADLINE).union(Leaf1Ecx::HYPERVISOR).bits();

const LEAF1_EDX_HOST: u32 = Leaf1Edx::FPU
    .union(Leaf1Edx::VME)
    .union(Leaf1Edx::DE)
    .union(Leaf1Edx::PSE)
    .union(Leaf1Edx::TSC)
    .union(Leaf1Edx::MSR)
    .union(Leaf1Edx::PAE)
    .union(Leaf1Edx::CX8)
    .union(Leaf1Edx::SEP)
    .union(Leaf1Edx::PGE)
    .union(Leaf1Edx::CMOV)
    .union(Leaf1Edx::PAT)
    .union(Leaf1Edx::PSE36)
    .union(Leaf1Edx::CLFSH)
    .union(Leaf1Edx::MMX)
    .union(Leaf1Edx::FXSR)
    .union(Leaf1Edx::SSE)
    .union(Leaf1Edx::SSE2)
    .union(Leaf1Edx::SS)
    .bits();

const LEAF1_EDX_EMULATED: u32 =
    Leaf1Edx::APIC.union(Leaf1Edx::MTRR).union(Leaf1Edx::MCE).union(Leaf1Edx::MCA).bits();

const LEAF7_EBX_HOST: u32 = Leaf7Ebx::FSGSBASE
    .union(Leaf7Ebx::BMI1)
    .union(Leaf7Ebx::FDP_EXCPTN_ONLY)
    .union(Leaf7Ebx::SMEP)
    .union(Leaf7Ebx::BMI2)
    .union(Leaf7Ebx::ERMS)
    .union(Leaf7Ebx::NO_FCS_FDS)
    .union(Leaf7Ebx::RDSEED)
    .union(Leaf7Ebx::ADX)
    .union(Leaf7Ebx::SMAP)
    .union(Leaf7Ebx::CLFLUSHOPT)
    .union(Leaf7Ebx::CLWB)
    .union(Leaf7Ebx::SHA)
    .bits();

const LEAF7_EBX_AVX512: u32 = Leaf7Ebx::AVX512F
    .union(Leaf7Ebx::AVX512DQ)
    .union(Leaf7Ebx::AVX512_IFMA)
    .union(Leaf7Ebx::AVX512CD)
    .union(Leaf7Ebx::AVX512BW)
    .union(Leaf7Ebx::AVX512VL)
    .bits();

const LEAF7_ECX_HOST: u32 = Leaf7Ecx::UMIP
    .union(Leaf7Ecx::GFNI)
    .union(Leaf7Ecx::CLDEMOTE)
    .union(Leaf7Ecx::MOVDIRI)
    .union(Leaf7Ecx::MOVDIR64B)
    .bits();

const LEAF7_ECX_AVX: u32 = Leaf7Ecx::VAES.union(Leaf7Ecx::VPCLMULQDQ).bits();

const LEAF7_ECX_AVX512: u32 = Leaf7Ecx::AVX512_VBMI
    .union(Leaf7Ecx::AVX512_VBMI2)
    .union(Leaf7Ecx::AVX512_VNNI)
    .union(Leaf7Ecx::AVX512_BITALG)
    .union(Leaf7Ecx::AVX512_VPOPCNTDQ)
    .bits();

const LEAF7_EDX_HOST: u32 = Leaf7Edx::FSRM.union(Leaf7Edx::SERIALIZE).bits();

const LEAF7_EDX_AVX512: u32 =
    Leaf7Edx::AVX512_4VNNIW.union(Leaf7Edx::AVX512_4FMAPS).union(Leaf7Edx::AVX512_VP2INTERSECT).bits();

const LEAF7_1_EAX_HOST: u32 = Leaf7Sub1Eax::FZLRM.union(Leaf7Sub1Eax::FSRS).union(Leaf7Sub1Eax::FSRCS).bits();

const LEAF7_1_EAX_AVX: u32 = Leaf7Sub1Eax::SHA512
    .union(Leaf7Sub1Eax::SM3)
    .union(Leaf7Sub1Eax::SM4)
    .union(Leaf7Sub1Eax::AVX_VNNI)
    .union(Leaf7Sub1Eax::AVX_IFMA)
    .bits();

const LEAF7_1_EAX_AVX512: u32 = Leaf7Sub1Eax::AVX512_BF16.bits();

const LEAFD_1_EAX: u32 =
    LeafDSub1Eax::XSAVEOPT.union(LeafDSub1Eax::XSAVEC).union(LeafDSub1Eax::XGETBV1).bits();

const KVM_FEATURES: u32 = KvmFeatures::CLOCKSOURCE2.union(KvmFeatures::CLOCKSOURCE_STABLE).bits();

const EXT1_ECX_HOST: u32 = Ext1Ecx::LAHF64
    .union(Ext1Ecx::ABM)
    .union(Ext1Ecx::SSE4A)
    .union(Ext1Ecx::MISALIGN_SSE)
    .union(Ext1Ecx::PREFETCHW)
    .union(Ext1Ecx::TBM)
    .bits();

const EXT1_ECX_AVX: u32 = Ext1Ecx::XOP.union(Ext1Ecx::FMA4).bits();

const EXT1_EDX_HOST: u32 = Ext1Edx::SYSCALL
    .union(Ext1Edx::NX)
    .union(Ext1Edx::MMXEXT)
    .union(Ext1Edx::FFXSR)
    .union(Ext1Edx::PAGE_1G)
    .union(Ext1Edx::LM)
    .union(Ext1Edx::NOW3DEXT)
    .union(Ext1Edx::NOW3D)
    .bits();

const EXT8_EBX_HOST: u32 = Ext8Ebx::CLZERO.union(Ext8Ebx::XSAVEERPTR).union(Ext8Ebx::WBNOINVD).bits();

const EXT21_EAX_HOST: u32 = Ext21Eax::NO_NESTED_DATA_BP
    .union(Ext21Eax::LFENCE_ALWAYS_SERIALIZING)
    .union(Ext21Eax::NULL_SELECTOR_CLEARS_BASE)
    .bits();
