//! Model-specific registers: numbers and bits (SDM 4, chapter 2; APM 2, appendix A; family PPRs).

#![allow(missing_docs, reason = "registers and bits carry the names that the manuals define")]

use bitflags::bitflags;

// Architectural (SDM 4, table 2-2).
pub const IA32_TIME_STAMP_COUNTER: u32 = 0x10;
pub const IA32_PLATFORM_ID: u32 = 0x17;
pub const IA32_APIC_BASE: u32 = 0x1b;
pub const IA32_FEATURE_CONTROL: u32 = 0x3a;
pub const IA32_TSC_ADJUST: u32 = 0x3b;
pub const IA32_SPEC_CTRL: u32 = 0x48;
pub const IA32_PRED_CMD: u32 = 0x49;
/// BIOS_SIGN_ID on Intel, PATCH_LEVEL on AMD.
pub const IA32_BIOS_SIGN_ID: u32 = 0x8b;
pub const IA32_MTRRCAP: u32 = 0xfe;
pub const IA32_ARCH_CAPABILITIES: u32 = 0x10a;
pub const IA32_SYSENTER_CS: u32 = 0x174;
pub const IA32_SYSENTER_ESP: u32 = 0x175;
pub const IA32_SYSENTER_EIP: u32 = 0x176;
pub const IA32_MCG_CAP: u32 = 0x179;
pub const IA32_MCG_STATUS: u32 = 0x17a;
pub const IA32_MISC_ENABLE: u32 = 0x1a0;
pub const IA32_DEBUGCTL: u32 = 0x1d9;
pub const IA32_MTRR_PHYSBASE0: u32 = 0x200;
pub const IA32_MTRR_PHYSMASK7: u32 = 0x20f;
pub const IA32_MTRR_FIX64K_00000: u32 = 0x250;
pub const IA32_MTRR_FIX16K_80000: u32 = 0x258;
pub const IA32_MTRR_FIX16K_A0000: u32 = 0x259;
pub const IA32_MTRR_FIX4K_C0000: u32 = 0x268;
pub const IA32_MTRR_FIX4K_F8000: u32 = 0x26f;
pub const IA32_PAT: u32 = 0x277;
pub const IA32_MTRR_DEF_TYPE: u32 = 0x2ff;
pub const IA32_TSC_DEADLINE: u32 = 0x6e0;
pub const IA32_XSS: u32 = 0xda0;

// VMX capabilities (SDM 3, appendix A).
pub const IA32_VMX_BASIC: u32 = 0x480;
pub const IA32_VMX_PINBASED_CTLS: u32 = 0x481;
pub const IA32_VMX_PROCBASED_CTLS: u32 = 0x482;
pub const IA32_VMX_EXIT_CTLS: u32 = 0x483;
pub const IA32_VMX_ENTRY_CTLS: u32 = 0x484;
pub const IA32_VMX_MISC: u32 = 0x485;
pub const IA32_VMX_CR0_FIXED0: u32 = 0x486;
pub const IA32_VMX_CR0_FIXED1: u32 = 0x487;
pub const IA32_VMX_CR4_FIXED0: u32 = 0x488;
pub const IA32_VMX_CR4_FIXED1: u32 = 0x489;
pub const IA32_VMX_PROCBASED_CTLS2: u32 = 0x48b;
pub const IA32_VMX_EPT_VPID_CAP: u32 = 0x48c;
pub const IA32_VMX_TRUE_PINBASED_CTLS: u32 = 0x48d;
pub const IA32_VMX_TRUE_PROCBASED_CTLS: u32 = 0x48e;
pub const IA32_VMX_TRUE_EXIT_CTLS: u32 = 0x48f;
pub const IA32_VMX_TRUE_ENTRY_CTLS: u32 = 0x490;

// Intel, of some models (SDM 4, tables 2-20 and after).
pub const SMI_COUNT: u32 = 0x34;
pub const PPIN_CTL: u32 = 0x4e;
pub const PLATFORM_INFO: u32 = 0xce;
pub const MISC_FEATURES_ENABLES: u32 = 0x140;
pub const ERROR_CONTROL: u32 = 0x17f;

// Long mode (SDM 4, table 2-2; APM 2, 3.1.7, 6.1.1).
pub const EFER: u32 = 0xc000_0080;
pub const STAR: u32 = 0xc000_0081;
pub const LSTAR: u32 = 0xc000_0082;
pub const CSTAR: u32 = 0xc000_0083;
pub const FMASK: u32 = 0xc000_0084;
pub const FS_BASE: u32 = 0xc000_0100;
pub const GS_BASE: u32 = 0xc000_0101;
pub const KERNEL_GS_BASE: u32 = 0xc000_0102;
pub const TSC_AUX: u32 = 0xc000_0103;

// AMD (APM 2, appendix A; PPR of family 17h, 2.1.14).
pub const PERF_EVT_SEL0: u32 = 0xc001_0000;
pub const PERF_CTR3: u32 = 0xc001_0007;
pub const SYSCFG: u32 = 0xc001_0010;
pub const HWCR: u32 = 0xc001_0015;
pub const TOP_MEM: u32 = 0xc001_001a;
pub const TOP_MEM2: u32 = 0xc001_001d;
pub const NB_CFG: u32 = 0xc001_001f;
pub const INT_PENDING: u32 = 0xc001_0055;
pub const MMIO_CFG_BASE_ADDR: u32 = 0xc001_0058;
pub const PSTATE_CUR_LIMIT: u32 = 0xc001_0061;
pub const PSTATE_CTL: u32 = 0xc001_0062;
pub const PSTATE_STATUS: u32 = 0xc001_0063;
pub const PSTATE_DEF0: u32 = 0xc001_0064;
pub const PSTATE_DEF7: u32 = 0xc001_006b;
pub const VM_CR: u32 = 0xc001_0114;
pub const VM_HSAVE_PA: u32 = 0xc001_0117;
pub const LS_CFG: u32 = 0xc001_1020;
pub const IC_CFG: u32 = 0xc001_1021;
pub const DC_CFG: u32 = 0xc001_1022;
pub const BU_CFG: u32 = 0xc001_1023;
pub const FP_CFG: u32 = 0xc001_1028;
pub const DE_CFG: u32 = 0xc001_1029;
pub const BU_CFG2: u32 = 0xc001_102a;

// Paravirtual clock (Linux, Documentation/virt/kvm/x86/msr.rst).
pub const KVM_WALL_CLOCK_NEW: u32 = 0x4b56_4d00;
pub const KVM_SYSTEM_TIME_NEW: u32 = 0x4b56_4d01;

bitflags! {
    /// IA32_FEATURE_CONTROL.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct FeatureControl: u64 {
        const LOCK = 1 << 0;
        const VMX_IN_SMX = 1 << 1;
        const VMX_OUTSIDE_SMX = 1 << 2;
    }

    /// IA32_MISC_ENABLE.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct MiscEnable: u64 {
        const FAST_STRINGS = 1 << 0;
        const BTS_UNAVAILABLE = 1 << 11;
        const PEBS_UNAVAILABLE = 1 << 12;
        const LIMIT_CPUID_MAXVAL = 1 << 22;
        const XD_DISABLE = 1 << 34;
    }

    /// IA32_MTRRCAP.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct MtrrCap: u64 {
        const VCNT = 0xff;
        const FIX = 1 << 8;
        const WC = 1 << 10;
    }

    /// IA32_MTRR_DEF_TYPE.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct MtrrDefType: u64 {
        const TYPE = 0xff;
        const FE = 1 << 10;
        const E = 1 << 11;
    }

    /// IA32_DEBUGCTL.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct DebugCtl: u64 {
        const LBR = 1 << 0;
        const BTF = 1 << 1;
    }

    /// PPIN_CTL.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct PpinCtl: u64 {
        const LOCKOUT = 1 << 0;
        const ENABLE = 1 << 1;
    }

    /// SYSCFG.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Syscfg: u64 {
        const MTRR_FIX_DRAM_EN = 1 << 18;
        const MTRR_FIX_DRAM_MOD_EN = 1 << 19;
        const MTRR_VAR_DRAM_EN = 1 << 20;
        const MTRR_TOM2_EN = 1 << 21;
        const TOM2_FORCE_MEM_TYPE_WB = 1 << 22;
    }

    /// HWCR.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Hwcr: u64 {
        const TLB_CACHE_DIS = 1 << 3;
        const FF_DIS = 1 << 6;
        const IGNNE_EM = 1 << 8;
        const MC_STATUS_WR_EN = 1 << 18;
        const TSC_FREQ_SEL = 1 << 24;
    }

    /// VM_CR (APM 2, 15.30.1).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct VmCr: u64 {
        const LOCK = 1 << 3;
        const SVMDIS = 1 << 4;
    }

    /// DE_CFG.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct DeCfg: u64 {
        /// LFENCE waits for the instructions before it.
        const LFENCE_SERIALIZE = 1 << 1;
    }

    /// KVM_SYSTEM_TIME_NEW.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct SystemTime: u64 {
        const ENABLE = 1 << 0;
    }
}

/// UC- (SDM 3, table 12-10): a PAT entry may hold it besides the encodings of `MemoryType`.
pub const PAT_UNCACHED: u8 = 7;
/// IA32_PAT after reset (SDM 3, table 12-12).
pub const PAT_RESET: u64 = 0x0007_0406_0007_0406;
/// PHYSMASK: the range is in use (SDM 3, 12.11.2.3).
pub const MTRR_PHYSMASK_VALID: u64 = 1 << 11;

/// Whether a linear address is canonical with 48-bit addresses (SDM 1, 3.3.7.1).
pub const fn is_canonical(address: u64) -> bool {
    ((address as i64) << 16) >> 16 == address as i64
}
