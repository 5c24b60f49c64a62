//! From the raw exit to the handlers: the whole path on one screen.

use super::capabilities::Capabilities;
use super::instructions::vmread;
use super::vcpu::VmxVcpu;
use super::{Vmx, entry_failure, host_event, setup};
use crate::hw::Guest;
use crate::run;
use vmm::Vcpu as _;
use vmm::exit::{Access, Exit, Io, IoForm, TaskSwitchSource};
use x86defs::addr::Gpa;
use x86defs::vmcs;
use x86defs::vmx::{
    CrAccess, EptViolation, ExitReason as Reason, IoAccess, MovDr, TaskSwitch, TaskSwitchCause,
};

/// Called by the stub after each exit.
pub(super) extern "C" fn vmx_exit<const PROFILED: bool>(guest: &mut Guest<Vmx>) {
    if PROFILED { run::profiled(guest, handle) } else { handle(guest) }
}

#[inline(always)]
fn handle(guest: &mut Guest<Vmx>) {
    guest.hw.after_exit();
    let reason = Reason(vmread(vmcs::EXIT_REASON));
    if let Some(exit) = decode(&mut guest.hw, reason) {
        vmm::exits::handle(&mut guest.hw, &mut guest.state, exit);
    }
    if guest.state.hazard() {
        run::slow_path(guest);
    }
}

/// What the exit means; nothing if the backend has dealt with it.
#[inline(always)]
fn decode(vcpu: &mut VmxVcpu, reason: Reason) -> Option<Exit> {
    Some(match reason {
        Reason::CPUID => Exit::Cpuid,
        Reason::RDMSR => Exit::Rdmsr,
        Reason::WRMSR => Exit::Wrmsr,
        Reason::IO_INSTRUCTION => Exit::Io(io(IoAccess(vmread(vmcs::EXIT_QUALIFICATION)))),
        Reason::EPT_VIOLATION => ept_violation(vcpu),
        Reason::HLT => Exit::Hlt,
        Reason::VMCALL => Exit::Hypercall,
        Reason::EXTERNAL_INTERRUPT => Exit::ExternalInterrupt,
        Reason::INTERRUPT_WINDOW | Reason::TPR_BELOW_THRESHOLD => Exit::InterruptWindow,
        Reason::NMI_WINDOW => Exit::NmiWindow,
        Reason::PREEMPTION_TIMER => slice_over(),
        Reason::CR_ACCESS => control_register(CrAccess::from(vmread(vmcs::EXIT_QUALIFICATION))),
        Reason::MOV_DR => debug_register(MovDr(vmread(vmcs::EXIT_QUALIFICATION))),
        Reason::EXCEPTION_OR_NMI => return host_event::exception_or_nmi(vcpu),
        Reason::XSETBV => Exit::Xsetbv,
        Reason::INVD | Reason::WBINVD => Exit::CacheFlush,
        Reason::PAUSE => Exit::Pause,
        Reason::RDPMC => Exit::Rdpmc,
        Reason::TASK_SWITCH => task_switch(vcpu),
        Reason::TRIPLE_FAULT => Exit::TripleFault,
        Reason::INIT_SIGNAL => Exit::Init,
        reason if reason.entry_failure().is_some() => entry_failure::guest_state(reason),
        reason if is_hidden(reason) => Exit::Undefined,
        other => Exit::Unknown(other.0),
    })
}

/// Instructions that no guest is offered.
fn is_hidden(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::VMCLEAR
            | Reason::VMLAUNCH
            | Reason::VMPTRLD
            | Reason::VMPTRST
            | Reason::VMREAD
            | Reason::VMRESUME
            | Reason::VMWRITE
            | Reason::VMXOFF
            | Reason::VMXON
            | Reason::INVEPT
            | Reason::INVVPID
            | Reason::VMFUNC
            | Reason::GETSEC
            | Reason::MONITOR
            | Reason::MWAIT
            | Reason::ENCLS
            | Reason::RSM
    )
}

#[inline(always)]
fn io(access: IoAccess) -> Io {
    let mut form = IoForm::empty();
    form.set(IoForm::IN, access.is_in());
    form.set(IoForm::STRING, access.is_string());
    form.set(IoForm::REP, access.is_rep());
    Io { port: access.port(), width: access.width(), form }
}

#[inline(always)]
fn ept_violation(vcpu: &mut VmxVcpu) -> Exit {
    let violation = EptViolation::from_bits_retain(vmread(vmcs::EXIT_QUALIFICATION));
    vcpu.redeliver(violation.contains(EptViolation::NMI_UNBLOCKING));
    let mut access = Access::empty();
    access.set(Access::WRITE, violation.contains(EptViolation::WRITE));
    access.set(Access::FETCH, violation.contains(EptViolation::FETCH));
    access.set(Access::PAGE_WALK, violation.is_page_walk());
    access.set(Access::PDPTES, !violation.contains(EptViolation::LINEAR_ADDRESS_VALID));
    Exit::NestedFault(Gpa(vmread(vmcs::GUEST_PHYSICAL_ADDRESS)), access)
}

fn slice_over() -> Exit {
    setup::start_slice(Capabilities::get());
    Exit::Slice
}

fn control_register(access: CrAccess) -> Exit {
    match access {
        CrAccess::MovTo(number, register) => Exit::WriteCr(number, register),
        CrAccess::MovFrom(number, register) => Exit::ReadCr(number, register),
        CrAccess::Clts => Exit::Clts,
        CrAccess::Lmsw(operand) => Exit::Lmsw(operand),
    }
}

fn debug_register(access: MovDr) -> Exit {
    Exit::MovDr(access.number(), access.register(), access.is_write())
}

/// The event whose gate leads to the switch is put up, and its length is that of its instruction.
#[cold]
fn task_switch(vcpu: &mut VmxVcpu) -> Exit {
    let request = TaskSwitch(vmread(vmcs::EXIT_QUALIFICATION));
    vcpu.redeliver(false);
    let source = match request.cause() {
        TaskSwitchCause::Call => TaskSwitchSource::Call,
        TaskSwitchCause::Iret => TaskSwitchSource::Iret,
        TaskSwitchCause::Jmp => TaskSwitchSource::Jmp,
        TaskSwitchCause::Gate => TaskSwitchSource::Gate,
    };
    let instruction_len = match source {
        TaskSwitchSource::Gate => vcpu.pending_event().map_or(0, |event| event.instruction_len),
        _ => vmread(vmcs::VM_EXIT_INSTRUCTION_LENGTH) as u8,
    };
    Exit::TaskSwitch(vmm::exit::TaskSwitch { selector: request.selector(), source, instruction_len })
}

/// Called by the stub if VMLAUNCH or VMRESUME failed before it looked at the guest's state.
pub(super) extern "C" fn vmx_instruction_failed(guest: &mut Guest<Vmx>) -> ! {
    let exit = entry_failure::instruction();
    vmm::exits::handle(&mut guest.hw, &mut guest.state, exit);
    run::slow_path(guest);
    // The virtual machine has ended, and this CPU with it.
    crate::cpu::halt()
}
