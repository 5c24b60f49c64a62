//! AMD SVM (APM 2, chapter 15).
//!
//! From #VMEXIT to VMRUN GIF is clear, and FS, GS, TR, LDTR and the SYSCALL MSRs are the guest's: the host
//! needs none of them, since it runs at one privilege level and no IDT entry uses IST while a guest is
//! resident. RFLAGS.IF is set, so that a physical interrupt ends the guest's turn (15.13.1).
#![allow(unsafe_code, reason = "SVM instructions and MSRs")]

mod controls;
mod entry;
mod exit;
mod nmi;
mod npt;
mod older_cpus;
mod vcpu;

use super::{Backend, Guest, Missing, VcpuSetup};
use crate::{cpu, mem, trap};
use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};
use vmm::Vcpu as _;
use x86defs::addr::Hpa;
use x86defs::control::Efer;
use x86defs::msr::{DE_CFG, DeCfg};
use x86defs::svm::checks;
use x86defs::svm::{MSR_VM_CR, MSR_VM_HSAVE_PA, SvmFeatures, VM_CR_LOCK, VM_CR_SVMDIS};

/// CPUID Fn8000_0001 ECX: the CPU knows SVM.
const CPUID_SVM: u32 = 1 << 2;

/// The backend.
pub struct Svm;

/// Physical address of the I/O permission map, all ones, shared by every guest: no port is passed through.
static IOPM: AtomicU64 = AtomicU64::new(0);
/// The host's EFER.
static HOST_EFER: AtomicU64 = AtomicU64::new(0);

/// Guests read in DE_CFG that LFENCE is serialising, which is a choice of the host's on older CPUs.
fn serialise_lfence() {
    if let Some(value) = cpu::rdmsr_safe(DE_CFG) {
        // SAFETY: the bit only makes LFENCE wait for older instructions.
        unsafe { cpu::wrmsr_safe(DE_CFG, value | DeCfg::LFENCE_SERIALIZE.bits()) };
    }
}

/// CPUID Fn8000_000A, which describes SVM.
struct Report(cpu::CpuidResult);

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "revision {}, {} ASIDs", self.0.eax & 0xff, self.0.ebx)?;
        for (name, _) in SvmFeatures::from_bits_retain(self.0.edx).iter_names() {
            write!(f, ", {name}")?;
        }
        Ok(())
    }
}

/// VMRUN has refused the VMCB: says on the console which check fails, by name.
#[cold]
fn report_failed_checks(vcpu: &vcpu::SvmVcpu) {
    crate::println!("VMRUN refused the VMCB; the checks that fail (APM 2, 15.5.1):");
    checks::check(vcpu.vmcb(), cpu::physical_bits(), |failed| crate::println!("  {failed}"));
}

fn features() -> SvmFeatures {
    SvmFeatures::from_bits_retain(cpu::cpuid(0x8000_000a, 0).edx)
}

impl Backend for Svm {
    type Vcpu = vcpu::SvmVcpu;
    type Format = npt::NptFormat;
    const NAME: &'static str = "SVM";

    fn check() -> Result<(), Missing> {
        let extended = cpu::cpuid(0x8000_0000, 0).eax;
        if extended < 0x8000_000a || cpu::cpuid(0x8000_0001, 0).ecx & CPUID_SVM == 0 {
            return Err(Missing {
                what: "this AMD CPU offers no SVM (CPUID 8000_0001 ECX bit 2)",
                advice: "use a CPU with AMD-V, or give the virtual machine one (QEMU: -cpu EPYC,+svm,+npt)",
            });
        }
        let vm_cr = cpu::rdmsr_safe(MSR_VM_CR).unwrap_or(0);
        if vm_cr & VM_CR_SVMDIS != 0 {
            return Err(Missing {
                what: if vm_cr & VM_CR_LOCK != 0 {
                    "SVM is disabled and locked by firmware (VM_CR.SVMDIS)"
                } else {
                    "SVM is disabled by firmware (VM_CR.SVMDIS)"
                },
                advice: "enable \"SVM\" or \"AMD-V\" in the firmware set-up",
            });
        }
        if !features().contains(SvmFeatures::NP) {
            return Err(Missing {
                what: "this CPU has SVM but no nested paging (CPUID 8000_000A EDX bit 0)",
                advice: "use a CPU of family 10h (Barcelona, 2007) or later",
            });
        }
        Ok(())
    }

    unsafe fn enable() -> Result<(), Missing> {
        let efer = cpu::read_efer() | Efer::SVME;
        HOST_EFER.store(efer.bits(), Ordering::Relaxed);
        // SAFETY: `check` found SVM present and not disabled.
        unsafe { cpu::write_efer(efer) };
        let hsave = mem::alloc_zeroed(4096, 4096);
        // SAFETY: the page is reserved for this for ever.
        unsafe { cpu::wrmsr(MSR_VM_HSAVE_PA, hsave.0) };
        serialise_lfence();
        if IOPM.load(Ordering::Relaxed) == 0 {
            IOPM.store(controls::io_permission_map().0, Ordering::Relaxed);
        }
        Ok(())
    }

    fn capabilities() -> impl fmt::Display {
        Report(cpu::cpuid(0x8000_000a, 0))
    }

    unsafe fn disable() {
        let efer = Efer::from_bits_retain(HOST_EFER.load(Ordering::Relaxed)) - Efer::SVME;
        // SAFETY: GIF is set first, since STGI needs SVME; the caller runs no guest any more.
        unsafe {
            core::arch::asm!("cli", "stgi", options(nomem, nostack));
            cpu::write_efer(efer);
        }
    }

    fn offered() -> vmm::cpuid::Offered {
        // SVM runs these in a guest without a control of their own.
        vmm::cpuid::Offered::all()
    }

    fn format() -> Self::Format {
        npt::NptFormat::of_this_cpu()
    }

    fn new_vcpu(setup: &VcpuSetup) -> Self::Vcpu {
        let vmcb_pa: Hpa = mem::alloc_zeroed(4096, 4096);
        let mut vcpu = vcpu::SvmVcpu::new(vmcb_pa, features());
        controls::initialise(&mut vcpu, setup, Hpa(IOPM.load(Ordering::Relaxed)));
        vcpu.set_efer(Efer::empty());
        vcpu
    }

    unsafe fn enter<const PROFILED: bool>(guest: *mut Guest<Self>) -> ! {
        // A guest's TR would be read for an IST stack: none may be used from here on.
        trap::forbid_ist();
        // SAFETY: the caller vouches for `guest`; the host needs nothing that VMLOAD replaces.
        unsafe {
            core::arch::asm!("clgi", "sti", options(nomem, nostack));
            (*guest).hw.vmload();
            (*guest).hw.resident = true;
            entry::run::<PROFILED>(guest)
        }
    }

    fn leave(vcpu: &mut Self::Vcpu) {
        vcpu.resident = false;
        // SAFETY: back to the host's way: interrupts off by RFLAGS.IF, GIF set.
        unsafe { core::arch::asm!("cli", "stgi", options(nostack)) };
        trap::init();
    }

    fn take_interrupts() {
        // SAFETY: with IF set, STGI lets pending interrupts in; their handlers need nothing of the guest's.
        unsafe { core::arch::asm!("stgi", "nop", "clgi", options(nostack)) };
    }

    fn idle() {
        // SAFETY: as in `take_interrupts`; the shadow of STI closes the gap before HLT.
        unsafe { core::arch::asm!("cli", "stgi", "sti", "hlt", "clgi", options(nostack)) };
    }

    fn dump(vcpu: &Self::Vcpu) {
        let (control, save) = (vcpu.control(), vcpu.save());
        crate::println!(
            "  exit code {:#x} info1 {:#x} info2 {:#x} intinfo {:#x} inject {:#x} v_int {:?} shadow {:#x}",
            control.exitcode,
            control.exitinfo1,
            control.exitinfo2,
            control.exitintinfo,
            control.eventinj,
            control.v_int,
            control.interrupt_shadow
        );
        crate::println!(
            "  rip {:#x} rsp {:#x} rflags {:#x} cr0 {:#x} cr2 {:#x} cr3 {:#x} cr4 {:#x} efer {:#x} cpl {}",
            save.rip,
            save.rsp,
            save.rflags,
            save.cr0,
            save.cr2,
            save.cr3,
            save.cr4,
            save.efer,
            save.cpl
        );
        crate::println!("  cs {:x?}", save.cs);
        crate::println!("  ss {:x?}", save.ss);
    }
}
