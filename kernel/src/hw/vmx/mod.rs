//! Intel VMX (SDM 3, chapters 24 to 31).
//!
//! The controls are computed once, and constant afterwards but for a closed list: the interrupt and NMI windows,
//! the TPR threshold, whether EFER is switched, IA-32e mode, the TSC offset, the read shadows of CR0 and CR4, the event
//! to inject, and the value of the preemption timer. The host keeps nothing of its own in the CPU that a guest could
//! replace without an exit restoring it.
#![allow(unsafe_code, reason = "VMX instructions and MSRs")]

mod capabilities;
mod dump;
mod entry;
mod entry_failure;
mod ept;
mod exit;
mod host_event;
mod instructions;
mod owned_bits;
mod setup;
mod vcpu;

use super::{Backend, Guest, Missing, VcpuSetup};
use crate::cpu;
use capabilities::Capabilities;
use core::fmt;
use vmm::cpuid::Offered;
use x86_64::registers::control::{Cr0, Cr4};
use x86defs::control::{Cr4 as Cr4Bits, Efer};
use x86defs::msr::{self, FeatureControl};
use x86defs::vmx::SecondaryControls;

/// CPUID.1:ECX: the CPU knows VMX.
const CPUID_VMX: u32 = 1 << 5;

/// The backend.
pub struct Vmx;

/// IA32_FEATURE_CONTROL; the CPU is known to have VMX, and so this MSR.
fn feature_control() -> FeatureControl {
    FeatureControl::from_bits_retain(cpu::rdmsr_safe(msr::IA32_FEATURE_CONTROL).unwrap_or(0))
}

impl Backend for Vmx {
    type Vcpu = vcpu::VmxVcpu;
    type Format = ept::EptFormat;
    const NAME: &'static str = "VMX";

    fn check() -> Result<(), Missing> {
        if cpu::cpuid(1, 0).ecx & CPUID_VMX == 0 {
            return Err(Missing {
                what: "this Intel CPU offers no VMX (CPUID 1 ECX bit 5)",
                advice: "use a CPU with VT-x, or enable \"VT-x\" in the firmware set-up or nested virtualization in the hypervisor below",
            });
        }
        let control = feature_control();
        if control.contains(FeatureControl::LOCK) && !control.contains(FeatureControl::VMX_OUTSIDE_SMX) {
            return Err(Missing {
                what: "VMX is disabled and locked by firmware (IA32_FEATURE_CONTROL)",
                advice: "enable \"VT-x\" or \"Virtualization Technology\" in the firmware set-up",
            });
        }
        Capabilities::read().map(drop)
    }

    unsafe fn enable() -> Result<(), Missing> {
        let capabilities = Capabilities::establish()?;
        let control = feature_control();
        if !control.contains(FeatureControl::LOCK) {
            let unlocked = control | FeatureControl::VMX_OUTSIDE_SMX | FeatureControl::LOCK;
            // SAFETY: the MSR exists and is not locked.
            unsafe { cpu::wrmsr(msr::IA32_FEATURE_CONTROL, unlocked.bits()) };
        }
        let (limits, region) = (&capabilities.limits, setup::region(capabilities));
        // SAFETY: the host's CR0 and CR4 only gain what VMX operation demands; SCE makes EFER the same as that of
        // most 64-bit guests, so that it needs no switching; the region is the CPU's for ever.
        let entered = unsafe {
            Cr0::write_raw((Cr0::read_raw() | limits.cr0_fixed.0) & limits.cr0_fixed.1);
            Cr4::write_raw((Cr4::read_raw() | limits.cr4_fixed.0) & limits.cr4_fixed.1);
            cpu::write_efer(cpu::read_efer() | Efer::SCE);
            instructions::vmxon(region)
        };
        entered.map_err(|_| Missing {
            what: "VMXON failed though CPUID and IA32_FEATURE_CONTROL allow it",
            advice: "another hypervisor or firmware may hold VMX; reset the machine",
        })
    }

    fn capabilities() -> impl fmt::Display {
        Capabilities::get()
    }

    unsafe fn disable() {
        // SAFETY: the caller runs no guest any more; CR4.VMXE may go once VMX operation has ended.
        unsafe {
            instructions::vmxoff();
            Cr4::write_raw(Cr4::read_raw() & !Cr4Bits::VMXE.bits());
        }
    }

    fn offered() -> Offered {
        let secondary = Capabilities::get().secondary;
        let mut offered = Offered::empty();
        offered.set(Offered::RDTSCP, secondary.contains(SecondaryControls::ENABLE_RDTSCP));
        offered.set(Offered::INVPCID, secondary.contains(SecondaryControls::ENABLE_INVPCID));
        offered.set(Offered::XSAVES, secondary.contains(SecondaryControls::ENABLE_XSAVES));
        offered
    }

    fn format() -> Self::Format {
        ept::EptFormat::of_this_cpu()
    }

    fn new_vcpu(setup: &VcpuSetup) -> Self::Vcpu {
        // VPID 0 is the host's; translations of whoever had this one before are dropped by INVEPT.
        vcpu::VmxVcpu::new(setup, setup.id as u16 + 1)
    }

    unsafe fn enter<const PROFILED: bool>(guest: *mut Guest<Self>) -> ! {
        // SAFETY: the caller vouches for `guest`; its VMCS is current since it was made.
        unsafe { entry::run::<PROFILED>(guest) }
    }

    fn leave(_: &mut Self::Vcpu) {
        // Each exit has restored the host. The VMCS stays current, so that the guest can still be looked at.
    }

    fn take_interrupts() {
        // SAFETY: handlers of interrupts need nothing of the guest's; STI's shadow ends after the NOP.
        unsafe { core::arch::asm!("sti", "nop", "cli", options(nostack)) };
    }

    fn idle() {
        // SAFETY: as in `take_interrupts`; STI's shadow closes the gap before HLT.
        unsafe { core::arch::asm!("sti", "hlt", "cli", options(nostack)) };
    }

    fn dump(vcpu: &Self::Vcpu) {
        dump::print(vcpu);
    }
}
