//! The registers that the table describes.

use super::fault::{FaultReason, MsrFault};
use super::mtrr::Mtrrs;
use super::table::{Check, Model, find};
use crate::vcpu::Vcpu;
use arrayvec::ArrayVec;
use x86defs::control::{Cr0, Efer};
use x86defs::cpuid::Vendor;
use x86defs::memory_type::MemoryType;
use x86defs::msr::{self, DebugCtl, Hwcr, MiscEnable, Syscfg};

/// What registers depend on besides the virtual CPU.
#[derive(Clone, Copy, Debug)]
pub struct MsrSetup {
    /// Vendor of the CPU.
    pub vendor: Vendor,
    /// Width of guest physical addresses in bits.
    pub physical_bits: u8,
    /// Frequency of the TSC.
    pub tsc_khz: u64,
    /// The bits that EFER can have.
    pub allowed_efer: Efer,
    /// The host's microcode revision.
    pub microcode: u32,
    /// End of the RAM below 4 GiB.
    pub low_ram_end: u64,
    /// End of the RAM above 4 GiB; 4 GiB if there is none.
    pub high_ram_end: u64,
    /// Unknown MSRs read as zero and take any value, instead of #GP.
    pub ignore_unknown: bool,
}

/// Numbers of unknown MSRs that are remembered.
const REMEMBERED: usize = 64;

/// The registers of a virtual CPU that live in no hardware.
#[derive(Clone, Debug)]
pub struct MsrState {
    setup: MsrSetup,
    mtrrs: Mtrrs,
    misc_enable: MiscEnable,
    mcg_status: u64,
    hwcr: Hwcr,
    syscfg: Syscfg,
    /// IA32_TSC_ADJUST: the sum of all that the guest has moved its TSC by.
    pub(super) tsc_adjust: u64,
    seen: ArrayVec<u32, REMEMBERED>,
}

/// Bits of HWCR that old and new kernels set for the CPU's errata, of no meaning here.
const HWCR_WRITABLE: Hwcr =
    Hwcr::TLB_CACHE_DIS.union(Hwcr::FF_DIS).union(Hwcr::IGNNE_EM).union(Hwcr::MC_STATUS_WR_EN);
/// Bits of IA32_MISC_ENABLE that can change.
const MISC_ENABLE_WRITABLE: MiscEnable = MiscEnable::FAST_STRINGS;
/// Bits of IA32_MISC_ENABLE that read as one whatever is written.
const MISC_ENABLE_READ_ONLY: MiscEnable = MiscEnable::BTS_UNAVAILABLE.union(MiscEnable::PEBS_UNAVAILABLE);
/// IA32_MCG_STATUS: RIPV, EIPV and MCIP.
const MCG_STATUS_BITS: u64 = 7;
/// PLATFORM_INFO: the ratio of the TSC to a bus of 100 MHz.
const PLATFORM_INFO_RATIO_SHIFT: u32 = 8;
const BUS_KHZ: u64 = 100_000;

impl MsrState {
    /// The registers after firmware has run.
    pub fn new(setup: MsrSetup) -> Self {
        Self {
            setup,
            mtrrs: Mtrrs::new(setup.physical_bits),
            misc_enable: MiscEnable::FAST_STRINGS | MISC_ENABLE_READ_ONLY,
            mcg_status: 0,
            hwcr: Hwcr::TSC_FREQ_SEL,
            syscfg: Syscfg::MTRR_TOM2_EN | Syscfg::TOM2_FORCE_MEM_TYPE_WB,
            tsc_adjust: 0,
            seen: ArrayVec::new(),
        }
    }

    /// Whether this unknown MSR has not been asked about before; to be logged once. When too many have been,
    /// further ones are not.
    pub fn first_time(&mut self, number: u32) -> bool {
        !self.seen.contains(&number) && self.seen.try_push(number).is_ok()
    }

    /// Whether unknown MSRs are ignored.
    pub fn ignores_unknown(&self) -> bool {
        self.setup.ignore_unknown
    }

    pub(super) fn read(&self, number: u32, vcpu: &impl Vcpu) -> Result<u64, MsrFault> {
        let unknown = MsrFault::read(number, FaultReason::Unknown);
        Ok(match find(number, self.setup.vendor).ok_or(unknown)? {
            Model::State(register, _) => vcpu.state_msr(register),
            Model::ReadOnly(value) | Model::Fixed(value) => value,
            Model::Zero => 0,
            Model::Efer => vcpu.efer().bits(),
            Model::Mtrr => self.mtrrs.read(number).ok_or(unknown)?,
            Model::Microcode => match self.setup.vendor {
                Vendor::Intel => u64::from(self.setup.microcode) << 32,
                Vendor::Amd => self.setup.microcode.into(),
            },
            Model::MiscEnable => self.misc_enable.bits(),
            Model::McgStatus => self.mcg_status,
            Model::PlatformInfo => ((self.setup.tsc_khz / BUS_KHZ) & 0xff) << PLATFORM_INFO_RATIO_SHIFT,
            Model::Hwcr => self.hwcr.bits(),
            Model::Syscfg => self.syscfg.bits(),
            Model::TopMem => self.setup.low_ram_end,
            Model::TopMem2 => self.setup.high_ram_end,
        })
    }

    pub(super) fn write(&mut self, number: u32, value: u64, vcpu: &mut impl Vcpu) -> Result<(), MsrFault> {
        let fault = |reason| MsrFault::write(number, value, reason);
        let reserved = fault(FaultReason::ReservedBits);
        let only = |bits: u64| if value & !bits == 0 { Ok(value) } else { Err(reserved) };
        match find(number, self.setup.vendor).ok_or(fault(FaultReason::Unknown))? {
            Model::State(register, check) => {
                let value = self.checked(value, check).map_err(fault)?;
                vcpu.set_state_msr(register, value);
            }
            Model::ReadOnly(_) => return Err(fault(FaultReason::ReadOnly)),
            Model::Fixed(_) => {}
            Model::Zero => {
                only(0)?;
            }
            Model::Efer => return self.write_efer(value, vcpu).map_err(fault),
            Model::Mtrr => return self.mtrrs.write(number, value),
            // Intel: loads zero before CPUID puts the revision back; AMD: read-only.
            Model::Microcode if self.setup.vendor == Vendor::Intel => {
                only(0)?;
            }
            Model::MiscEnable => {
                only((MISC_ENABLE_WRITABLE | MISC_ENABLE_READ_ONLY).bits())?;
                let new = MiscEnable::from_bits_truncate(value);
                self.misc_enable = new & MISC_ENABLE_WRITABLE | MISC_ENABLE_READ_ONLY;
            }
            Model::McgStatus => self.mcg_status = only(MCG_STATUS_BITS)?,
            Model::Hwcr => {
                only((HWCR_WRITABLE | Hwcr::TSC_FREQ_SEL).bits())?;
                self.hwcr = Hwcr::from_bits_truncate(value) & HWCR_WRITABLE | Hwcr::TSC_FREQ_SEL;
            }
            Model::Syscfg => {
                self.syscfg = Syscfg::from_bits_truncate(only(Syscfg::all().bits())?);
            }
            Model::Microcode | Model::PlatformInfo | Model::TopMem | Model::TopMem2 => {
                return Err(fault(FaultReason::ReadOnly));
            }
        }
        Ok(())
    }

    /// The value as it goes to hardware.
    fn checked(&self, value: u64, check: Check) -> Result<u64, FaultReason> {
        let valid = match check {
            Check::Any => true,
            Check::Canonical if msr::is_canonical(value) => true,
            Check::Canonical => return Err(FaultReason::NonCanonical),
            Check::Low32 if self.setup.vendor == Vendor::Amd => return Ok(value & 0xffff_ffff),
            Check::Low32 => value >> 32 == 0,
            Check::Pat => value
                .to_le_bytes()
                .into_iter()
                .all(|entry| entry == msr::PAT_UNCACHED || MemoryType::from_encoding(entry).is_some()),
            Check::DebugCtl => value & !DebugCtl::BTF.bits() == 0,
        };
        if valid { Ok(value) } else { Err(FaultReason::ReservedBits) }
    }

    /// LMA follows LME and paging, and a write does not change it. LME is fixed while paging is on
    /// (SDM 3, 4.1.2).
    fn write_efer(&self, value: u64, vcpu: &mut impl Vcpu) -> Result<(), FaultReason> {
        let new = Efer::from_bits(value)
            .filter(|new| self.setup.allowed_efer.contains(*new))
            .ok_or(FaultReason::ReservedBits)?;
        let old = vcpu.efer();
        if (old ^ new).contains(Efer::LME) && vcpu.cr0().contains(Cr0::PG) {
            return Err(FaultReason::Transition);
        }
        vcpu.set_efer(new.difference(Efer::LMA) | old & Efer::LMA);
        Ok(())
    }
}
