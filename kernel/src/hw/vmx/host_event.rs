//! Exceptions of the guest that exit, and what was meant for the host: NMIs and machine checks.
#![allow(unsafe_code, reason = "INT n, debug registers")]

use super::instructions::{vmread, vmwrite};
use super::vcpu::VmxVcpu;
use core::arch::asm;
use vmm::{Exit, Vcpu as _};
use x86defs::event::{Event, EventKind, Exception};
use x86defs::vmcs;
use x86defs::vmx::{DebugException, EventInfo, Interruptibility};

const DEBUG: u8 = Exception::Debug as u8;
const MACHINE_CHECK: u8 = Exception::MachineCheck as u8;

/// Exit reason 0.
#[cold]
pub(super) fn exception_or_nmi(vcpu: &mut VmxVcpu) -> Option<Exit> {
    let info = EventInfo(vmread(vmcs::VM_EXIT_INTERRUPTION_INFORMATION));
    if info.kind() == Some(EventKind::Nmi) {
        // The exit blocks NMIs; the IRET of the host's own handler, which counts them, ends that.
        // SAFETY: the host's IDT is loaded.
        unsafe { asm!("int 2") };
        return Some(Exit::HostNmi);
    }
    vcpu.redeliver(info.nmi_unblocking());
    match info.vector() {
        MACHINE_CHECK => {
            // SAFETY: the host's IDT is loaded; its handler reports and stops the machine.
            unsafe { asm!("int 18") };
            None
        }
        // Reported as it is: only it knows its length.
        DEBUG if info.kind() == Some(EventKind::PrivilegedSoftwareException) => {
            let instruction_len = vmread(vmcs::VM_EXIT_INSTRUCTION_LENGTH) as u8;
            vcpu.inject(Event {
                kind: EventKind::PrivilegedSoftwareException,
                instruction_len,
                ..Event::exception(Exception::Debug)
            });
            None
        }
        DEBUG => Some(debug(vcpu)),
        vector => {
            let error_code =
                if info.has_error_code() { vmread(vmcs::VM_EXIT_INTERRUPTION_ERROR_CODE) } else { 0 };
            Some(Exit::Exception(vector, error_code))
        }
    }
}

/// The exit has not changed DR6, which the delivery of #DB does (SDM 3, 18.2.3, 28.1); and what STI and MOV SS block
/// ends with it.
fn debug(vcpu: &mut VmxVcpu) -> Exit {
    let exception = DebugException::from_bits_retain(vmread(vmcs::EXIT_QUALIFICATION));
    vcpu.set_dr6(exception.update_dr6(vcpu.dr6()));
    let state = Interruptibility::from_bits_retain(vmread(vmcs::GUEST_INTERRUPTIBILITY_STATE));
    vmwrite(vmcs::GUEST_INTERRUPTIBILITY_STATE, (state - Interruptibility::ONE_INSTRUCTION).bits());
    Exit::Exception(DEBUG, 0)
}
