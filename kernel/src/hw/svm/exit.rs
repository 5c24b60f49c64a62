//! From the raw exit to the handlers: the whole path on one screen.

use super::vcpu::SvmVcpu;
use super::{Svm, older_cpus};
use crate::hw::Guest;
use crate::run;
use vmm::exit::{Access, Exit, Io, IoForm};
use x86defs::addr::Gpa;
use x86defs::gpr::Gpr;
use x86defs::svm::{IoInfo, MOV_CR_VALID, NestedFaultInfo, exit_code as code};

/// Called by the stub after each #VMEXIT, with GIF clear.
pub(super) extern "C" fn svm_exit<const PROFILED: bool>(guest: &mut Guest<Svm>) {
    if PROFILED { run::profiled(guest, handle) } else { handle(guest) }
}

#[inline(always)]
fn handle(guest: &mut Guest<Svm>) {
    guest.hw.after_exit();
    if !guest.hw.tells_everything() {
        older_cpus::supply(&mut guest.hw, guest.state.vm.memory());
    }
    if let Some(exit) = decode(&mut guest.hw) {
        vmm::exits::handle(&mut guest.hw, &mut guest.state, exit);
    }
    if guest.state.hazard() {
        run::slow_path(guest);
    }
}

/// What the exit means; nothing if the backend has dealt with it.
#[inline(always)]
fn decode(vcpu: &mut SvmVcpu) -> Option<Exit> {
    let control = vcpu.control();
    // Only 32 bits: some emulators do not sign-extend VMEXIT_INVALID.
    Some(match control.exitcode as u32 {
        code::CPUID => Exit::Cpuid,
        code::MSR if control.exitinfo1 & 1 == 0 => Exit::Rdmsr,
        code::MSR => Exit::Wrmsr,
        code::IOIO => Exit::Io(io(control.exitinfo1)),
        code::NPF => Exit::NestedFault(Gpa(control.exitinfo2), access(control.exitinfo1)),
        code::HLT => Exit::Hlt,
        code::VMMCALL => Exit::Hypercall,
        code::INTR => Exit::ExternalInterrupt,
        code::NMI => Exit::HostNmi,
        code::VINTR => Exit::InterruptWindow,
        code::IRET => {
            vcpu.nmi_handler_returns();
            return None;
        }
        code::INIT => Exit::Init,
        code::XSETBV => Exit::Xsetbv,
        code::INVD | code::WBINVD => Exit::CacheFlush,
        code::PAUSE => Exit::Pause,
        code::SHUTDOWN => Exit::TripleFault,
        c @ code::CR0_WRITE..=code::CR15_WRITE if control.exitinfo1 & MOV_CR_VALID != 0 => {
            Exit::WriteCr((c - code::CR0_WRITE) as u8, Gpr::from_number(control.exitinfo1 as u8))
        }
        c @ code::EXCEPTION_0..=code::EXCEPTION_31 => {
            let (vector, error_code) = ((c - code::EXCEPTION_0) as u8, control.exitinfo1 as u32);
            match vcpu.iret_step.take() {
                Some(step) => vcpu.end_step(&step, vector),
                None => Exit::Exception(vector, error_code),
            }
        }
        // In a guest without SVM, VMRUN and its family do not exist; nor do the others that are hidden.
        code::VMRUN | 0x82..=code::SKINIT | code::INVLPGA | code::MONITOR | code::MWAIT | code::RDPRU => {
            Exit::Undefined
        }
        code::RDPMC => Exit::Rdpmc,
        code::INVALID => {
            super::report_failed_checks(vcpu);
            Exit::EntryFailed
        }
        other => Exit::Unknown(other),
    })
}

#[inline(always)]
fn io(info1: u64) -> Io {
    let info = IoInfo::from_bits_retain(info1 as u32);
    let mut form = IoForm::empty();
    form.set(IoForm::IN, info.contains(IoInfo::IN));
    form.set(IoForm::STRING, info.contains(IoInfo::STR));
    form.set(IoForm::REP, info.contains(IoInfo::REP));
    // SZ8, SZ16 and SZ32 stand in the order of their widths 1, 2 and 4.
    Io { port: (info1 >> 16) as u16, width: (info1 >> 4) as u8 & 7, form }
}

#[inline(always)]
fn access(info1: u64) -> Access {
    let info = NestedFaultInfo::from_bits_retain(info1);
    let mut access = Access::empty();
    access.set(Access::WRITE, info.contains(NestedFaultInfo::WRITE));
    access.set(Access::FETCH, info.contains(NestedFaultInfo::FETCH));
    access.set(Access::PAGE_WALK, info.contains(NestedFaultInfo::PAGE_WALK));
    access
}
