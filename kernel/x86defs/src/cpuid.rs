//! CPUID: leaves and feature bits (SDM 2, CPUID; APM 3, appendix E).

#![allow(missing_docs, reason = "leaves and bits carry the names that the manuals define")]

use bitflags::bitflags;

/// What CPUID returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuidResult {
    pub eax: u32,
    pub ebx: u32,
    pub ecx: u32,
    pub edx: u32,
}

/// One of the four registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Register {
    Eax,
    Ebx,
    Ecx,
    Edx,
}

impl CpuidResult {
    /// The value of a register.
    pub const fn get(&self, register: Register) -> u32 {
        match register {
            Register::Eax => self.eax,
            Register::Ebx => self.ebx,
            Register::Ecx => self.ecx,
            Register::Edx => self.edx,
        }
    }
    /// A register, to change it.
    pub const fn get_mut(&mut self, register: Register) -> &mut u32 {
        match register {
            Register::Eax => &mut self.eax,
            Register::Ebx => &mut self.ebx,
            Register::Ecx => &mut self.ecx,
            Register::Edx => &mut self.edx,
        }
    }
}

/// Who made the CPU, as far as it matters to software.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vendor {
    Intel,
    /// AMD, and those who follow its manual.
    Amd,
}

impl Vendor {
    /// The vendor that leaf 0 names.
    pub const fn of(leaf0: &CpuidResult) -> Vendor {
        let intel = [*b"Genu", *b"ineI", *b"ntel"];
        let is_intel = leaf0.ebx == u32::from_le_bytes(intel[0])
            && leaf0.edx == u32::from_le_bytes(intel[1])
            && leaf0.ecx == u32::from_le_bytes(intel[2]);
        if is_intel { Vendor::Intel } else { Vendor::Amd }
    }
}

pub mod leaf {
    pub const VENDOR: u32 = 0;
    pub const FEATURES: u32 = 1;
    pub const CACHE_DESCRIPTORS: u32 = 2;
    pub const CACHE_PARAMETERS: u32 = 4;
    pub const MONITOR: u32 = 5;
    pub const THERMAL_POWER: u32 = 6;
    pub const STRUCTURED_FEATURES: u32 = 7;
    pub const PERFORMANCE_MONITORING: u32 = 0xa;
    pub const EXTENDED_TOPOLOGY: u32 = 0xb;
    pub const XSAVE: u32 = 0xd;
    pub const TSC: u32 = 0x15;
    pub const FREQUENCY: u32 = 0x16;
    pub const V2_EXTENDED_TOPOLOGY: u32 = 0x1f;
    /// First leaf of hypervisors.
    pub const HYPERVISOR: u32 = 0x4000_0000;
    /// Where a second hypervisor interface is looked for, in steps of 0x100.
    pub const HYPERVISOR_SECOND: u32 = 0x4000_0100;
    pub const KVM_FEATURES: u32 = HYPERVISOR_SECOND + 1;
    /// End of the range of hypervisors, exclusive.
    pub const HYPERVISOR_END: u32 = 0x5000_0000;
    pub const EXTENDED_MAX: u32 = 0x8000_0000;
    pub const EXTENDED_FEATURES: u32 = 0x8000_0001;
    pub const BRAND_FIRST: u32 = 0x8000_0002;
    pub const BRAND_LAST: u32 = 0x8000_0004;
    pub const L1_CACHE_TLB: u32 = 0x8000_0005;
    pub const L2_CACHE_TLB: u32 = 0x8000_0006;
    pub const POWER_MANAGEMENT: u32 = 0x8000_0007;
    pub const ADDRESS_SIZES: u32 = 0x8000_0008;
    pub const SVM: u32 = 0x8000_000a;
    pub const TLB_1G: u32 = 0x8000_0019;
    pub const OPTIMIZATION: u32 = 0x8000_001a;
    pub const CACHE_TOPOLOGY: u32 = 0x8000_001d;
    pub const EXTENDED_FEATURES_2: u32 = 0x8000_0021;
}

bitflags! {
    /// CPUID.1:ECX
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Leaf1Ecx: u32 {
        const SSE3 = 1 << 0;
        const PCLMULQDQ = 1 << 1;
        const DTES64 = 1 << 2;
        const MONITOR = 1 << 3;
        const DS_CPL = 1 << 4;
        const VMX = 1 << 5;
        const SMX = 1 << 6;
        const EIST = 1 << 7;
        const TM2 = 1 << 8;
        const SSSE3 = 1 << 9;
        const FMA = 1 << 12;
        const CMPXCHG16B = 1 << 13;
        const PDCM = 1 << 15;
        const PCID = 1 << 17;
        const SSE4_1 = 1 << 19;
        const SSE4_2 = 1 << 20;
        const X2APIC = 1 << 21;
        const MOVBE = 1 << 22;
        const POPCNT = 1 << 23;
        const TSC_DEADLINE = 1 << 24;
        const AES = 1 << 25;
        const XSAVE = 1 << 26;
        const OSXSAVE = 1 << 27;
        const AVX = 1 << 28;
        const F16C = 1 << 29;
        const RDRAND = 1 << 30;
        const HYPERVISOR = 1 << 31;
    }

    /// CPUID.1:EDX
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Leaf1Edx: u32 {
        const FPU = 1 << 0;
        const VME = 1 << 1;
        const DE = 1 << 2;
        const PSE = 1 << 3;
        const TSC = 1 << 4;
        const MSR = 1 << 5;
        const PAE = 1 << 6;
        const MCE = 1 << 7;
        const CX8 = 1 << 8;
        const APIC = 1 << 9;
        const SEP = 1 << 11;
        const MTRR = 1 << 12;
        const PGE = 1 << 13;
        const MCA = 1 << 14;
        const CMOV = 1 << 15;
        const PAT = 1 << 16;
        const PSE36 = 1 << 17;
        const CLFSH = 1 << 19;
        const MMX = 1 << 23;
        const FXSR = 1 << 24;
        const SSE = 1 << 25;
        const SSE2 = 1 << 26;
        const SS = 1 << 27;
        const HTT = 1 << 28;
    }

    /// CPUID.6:EAX
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Leaf6Eax: u32 {
        /// The APIC timer runs in every idle state.
        const ARAT = 1 << 2;
    }

    /// CPUID.(7,0):EBX
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Leaf7Ebx: u32 {
        const FSGSBASE = 1 << 0;
        const TSC_ADJUST = 1 << 1;
        const SGX = 1 << 2;
        const BMI1 = 1 << 3;
        const HLE = 1 << 4;
        const AVX2 = 1 << 5;
        const FDP_EXCPTN_ONLY = 1 << 6;
        const SMEP = 1 << 7;
        const BMI2 = 1 << 8;
        const ERMS = 1 << 9;
        const INVPCID = 1 << 10;
        const RTM = 1 << 11;
        const NO_FCS_FDS = 1 << 13;
        const MPX = 1 << 14;
        const AVX512F = 1 << 16;
        const AVX512DQ = 1 << 17;
        const RDSEED = 1 << 18;
        const ADX = 1 << 19;
        const SMAP = 1 << 20;
        const AVX512_IFMA = 1 << 21;
        const CLFLUSHOPT = 1 << 23;
        const CLWB = 1 << 24;
        const INTEL_PT = 1 << 25;
        const AVX512CD = 1 << 28;
        const SHA = 1 << 29;
        const AVX512BW = 1 << 30;
        const AVX512VL = 1 << 31;
    }

    /// CPUID.(7,0):ECX
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Leaf7Ecx: u32 {
        const AVX512_VBMI = 1 << 1;
        const UMIP = 1 << 2;
        const PKU = 1 << 3;
        const WAITPKG = 1 << 5;
        const AVX512_VBMI2 = 1 << 6;
        const CET_SS = 1 << 7;
        const GFNI = 1 << 8;
        const VAES = 1 << 9;
        const VPCLMULQDQ = 1 << 10;
        const AVX512_VNNI = 1 << 11;
        const AVX512_BITALG = 1 << 12;
        const AVX512_VPOPCNTDQ = 1 << 14;
        const LA57 = 1 << 16;
        const RDPID = 1 << 22;
        const CLDEMOTE = 1 << 25;
        const MOVDIRI = 1 << 27;
        const MOVDIR64B = 1 << 28;
    }

    /// CPUID.(7,0):EDX
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Leaf7Edx: u32 {
        const AVX512_4VNNIW = 1 << 2;
        const AVX512_4FMAPS = 1 << 3;
        const FSRM = 1 << 4;
        const AVX512_VP2INTERSECT = 1 << 8;
        const SERIALIZE = 1 << 14;
        const IBRS_IBPB = 1 << 26;
        const STIBP = 1 << 27;
        const ARCH_CAPABILITIES = 1 << 29;
        const SSBD = 1 << 31;
    }

    /// CPUID.(7,1):EAX
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Leaf7Sub1Eax: u32 {
        const SHA512 = 1 << 0;
        const SM3 = 1 << 1;
        const SM4 = 1 << 2;
        const AVX_VNNI = 1 << 4;
        const AVX512_BF16 = 1 << 5;
        const FZLRM = 1 << 10;
        const FSRS = 1 << 11;
        const FSRCS = 1 << 12;
        const AVX_IFMA = 1 << 23;
    }

    /// CPUID.(0xD,1):EAX
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct LeafDSub1Eax: u32 {
        const XSAVEOPT = 1 << 0;
        const XSAVEC = 1 << 1;
        const XGETBV1 = 1 << 2;
        const XSAVES = 1 << 3;
        const XFD = 1 << 4;
    }

    /// CPUID.0x40000001 of the KVM interface, EAX
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct KvmFeatures: u32 {
        const CLOCKSOURCE2 = 1 << 3;
        const CLOCKSOURCE_STABLE = 1 << 24;
    }

    /// CPUID.0x80000001:ECX
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Ext1Ecx: u32 {
        const LAHF64 = 1 << 0;
        const CMP_LEGACY = 1 << 1;
        const SVM = 1 << 2;
        const EXT_APIC_SPACE = 1 << 3;
        const ALT_MOV_CR8 = 1 << 4;
        const ABM = 1 << 5;
        const SSE4A = 1 << 6;
        const MISALIGN_SSE = 1 << 7;
        const PREFETCHW = 1 << 8;
        const OSVW = 1 << 9;
        const IBS = 1 << 10;
        const XOP = 1 << 11;
        const SKINIT = 1 << 12;
        const WDT = 1 << 13;
        const LWP = 1 << 15;
        const FMA4 = 1 << 16;
        const TCE = 1 << 17;
        const TBM = 1 << 21;
        const TOPOLOGY_EXTENSIONS = 1 << 22;
        const PERF_CTR_CORE = 1 << 23;
        const MONITORX = 1 << 29;
    }

    /// CPUID.0x80000001:EDX
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Ext1Edx: u32 {
        const SYSCALL = 1 << 11;
        const NX = 1 << 20;
        const MMXEXT = 1 << 22;
        const FFXSR = 1 << 25;
        const PAGE_1G = 1 << 26;
        const RDTSCP = 1 << 27;
        const LM = 1 << 29;
        const NOW3DEXT = 1 << 30;
        const NOW3D = 1 << 31;
        /// The bits that AMD repeats from CPUID.1:EDX.
        const REPEATED = 0x0183_f3ff;
    }

    /// CPUID.0x80000007:EDX
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Ext7Edx: u32 {
        const INVARIANT_TSC = 1 << 8;
    }

    /// CPUID.0x80000008:EBX
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Ext8Ebx: u32 {
        const CLZERO = 1 << 0;
        const XSAVEERPTR = 1 << 2;
        const WBNOINVD = 1 << 9;
    }

    /// CPUID.0x80000021:EAX
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Ext21Eax: u32 {
        const NO_NESTED_DATA_BP = 1 << 0;
        const LFENCE_ALWAYS_SERIALIZING = 1 << 2;
        const NULL_SELECTOR_CLEARS_BASE = 1 << 6;
    }

    /// XCR0 and the state components of XSAVE (SDM 1, 13.1).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Xcr0: u64 {
        const X87 = 1 << 0;
        const SSE = 1 << 1;
        const AVX = 1 << 2;
        const BNDREGS = 1 << 3;
        const BNDCSR = 1 << 4;
        const OPMASK = 1 << 5;
        const ZMM_HI256 = 1 << 6;
        const HI16_ZMM = 1 << 7;
        const PKRU = 1 << 9;
        const TILECFG = 1 << 17;
        const TILEDATA = 1 << 18;
        /// AVX-512, whose three components are enabled together.
        const AVX512 = 7 << 5;
    }
}
