//! Which MSRs there are, and how each behaves. What has no row here does not exist.

use crate::vcpu::StateMsr;
use x86defs::cpuid::Vendor;
use x86defs::msr::{self, DeCfg, FeatureControl, PpinCtl};

/// What a value written to a register that lives in hardware must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Check {
    /// Anything.
    Any,
    /// A canonical address.
    Canonical,
    /// 32 bits: Intel faults on more, AMD drops them.
    Low32,
    /// Eight memory types.
    Pat,
    /// Branch trap only: last-branch records are not offered.
    DebugCtl,
}

/// How a register behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Model {
    /// It lives in hardware.
    State(StateMsr, Check),
    /// Reads as this; writing it is #GP.
    ReadOnly(u64),
    /// Reads as this whatever is written: settings of the CPU that a guest has no say in.
    Fixed(u64),
    /// Reads as zero; writing anything else is #GP.
    Zero,
    /// The rest has rules of its own, in `registers`.
    Efer,
    Mtrr,
    Microcode,
    MiscEnable,
    McgStatus,
    PlatformInfo,
    Hwcr,
    Syscfg,
    TopMem,
    TopMem2,
}

/// One register, or some of consecutive numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) first: u32,
    pub(super) last: u32,
    /// Whose CPUs have it; nothing: everybody's.
    pub(super) vendor: Option<Vendor>,
    pub(super) model: Model,
}

const fn one(number: u32, model: Model) -> Row {
    Row { first: number, last: number, vendor: None, model }
}

const fn range(first: u32, last: u32, model: Model) -> Row {
    Row { first, last, vendor: None, model }
}

const fn of(vendor: Vendor, row: Row) -> Row {
    Row { vendor: Some(vendor), ..row }
}

use Vendor::{Amd, Intel};

/// In order of number. IA32_APIC_BASE, the x2APIC's range, the TSC's registers and the paravirtual clock's come
/// before this table: see `msr::read`.
pub(super) const TABLE: &[Row] = &[
    of(Intel, one(msr::IA32_PLATFORM_ID, Model::ReadOnly(0))),
    of(Intel, one(msr::SMI_COUNT, Model::ReadOnly(0))),
    of(Intel, one(msr::IA32_FEATURE_CONTROL, Model::ReadOnly(FeatureControl::LOCK.bits()))),
    // Linux reads it on AMD, too, where the number is not in the manual.
    one(msr::PPIN_CTL, Model::ReadOnly(PpinCtl::LOCKOUT.bits())),
    one(msr::IA32_BIOS_SIGN_ID, Model::Microcode),
    of(Intel, one(msr::PLATFORM_INFO, Model::PlatformInfo)),
    one(msr::IA32_MTRRCAP, Model::ReadOnly(super::mtrr::Mtrrs::CAPABILITIES)),
    of(Intel, one(msr::MISC_FEATURES_ENABLES, Model::Zero)),
    one(msr::IA32_SYSENTER_CS, Model::State(StateMsr::SysenterCs, Check::Low32)),
    one(msr::IA32_SYSENTER_ESP, Model::State(StateMsr::SysenterEsp, Check::Canonical)),
    one(msr::IA32_SYSENTER_EIP, Model::State(StateMsr::SysenterEip, Check::Canonical)),
    // Machine checks are offered without any bank: the guest sees none of the host's.
    one(msr::IA32_MCG_CAP, Model::ReadOnly(0)),
    one(msr::IA32_MCG_STATUS, Model::McgStatus),
    of(Intel, one(msr::ERROR_CONTROL, Model::Fixed(0))),
    of(Intel, one(msr::IA32_MISC_ENABLE, Model::MiscEnable)),
    one(msr::IA32_DEBUGCTL, Model::State(StateMsr::DebugCtl, Check::DebugCtl)),
    range(msr::IA32_MTRR_PHYSBASE0, msr::IA32_MTRR_PHYSMASK7, Model::Mtrr),
    one(msr::IA32_MTRR_FIX64K_00000, Model::Mtrr),
    range(msr::IA32_MTRR_FIX16K_80000, msr::IA32_MTRR_FIX16K_A0000, Model::Mtrr),
    range(msr::IA32_MTRR_FIX4K_C0000, msr::IA32_MTRR_FIX4K_F8000, Model::Mtrr),
    one(msr::IA32_PAT, Model::State(StateMsr::Pat, Check::Pat)),
    one(msr::IA32_MTRR_DEF_TYPE, Model::Mtrr),
    one(msr::EFER, Model::Efer),
    one(msr::STAR, Model::State(StateMsr::Star, Check::Any)),
    one(msr::LSTAR, Model::State(StateMsr::Lstar, Check::Canonical)),
    one(msr::CSTAR, Model::State(StateMsr::Cstar, Check::Canonical)),
    one(msr::FMASK, Model::State(StateMsr::Fmask, Check::Low32)),
    one(msr::FS_BASE, Model::State(StateMsr::FsBase, Check::Canonical)),
    one(msr::GS_BASE, Model::State(StateMsr::GsBase, Check::Canonical)),
    one(msr::KERNEL_GS_BASE, Model::State(StateMsr::KernelGsBase, Check::Canonical)),
    one(msr::TSC_AUX, Model::State(StateMsr::TscAux, Check::Low32)),
    of(Amd, range(msr::PERF_EVT_SEL0, msr::PERF_CTR3, Model::Fixed(0))),
    of(Amd, one(msr::SYSCFG, Model::Syscfg)),
    of(Amd, one(msr::HWCR, Model::Hwcr)),
    of(Amd, one(msr::TOP_MEM, Model::TopMem)),
    of(Amd, one(msr::TOP_MEM2, Model::TopMem2)),
    of(Amd, one(msr::NB_CFG, Model::Fixed(0))),
    of(Amd, one(msr::INT_PENDING, Model::Fixed(0))),
    of(Amd, one(msr::MMIO_CFG_BASE_ADDR, Model::Fixed(0))),
    of(Amd, range(msr::PSTATE_CUR_LIMIT, msr::PSTATE_DEF7, Model::Fixed(0))),
    of(Amd, range(msr::LS_CFG, msr::BU_CFG, Model::Fixed(0))),
    of(Amd, one(msr::FP_CFG, Model::Fixed(0))),
    of(Amd, one(msr::DE_CFG, Model::Fixed(DeCfg::LFENCE_SERIALIZE.bits()))),
    of(Amd, one(msr::BU_CFG2, Model::Fixed(0))),
];

/// How this register of this vendor's CPUs behaves.
pub(super) fn find(number: u32, vendor: Vendor) -> Option<Model> {
    let index = TABLE.partition_point(|row| row.last < number);
    let row = TABLE.get(index).filter(|row| row.first <= number)?;
    row.vendor.is_none_or(|v| v == vendor).then_some(row.model)
}
