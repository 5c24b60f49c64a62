//! What cannot go on: messages and the end of the virtual machine, off the fast path.

use crate::emulate::InstructionBytes;
use crate::exit::Exit;
use crate::msr::{FaultReason, MsrFault};
use crate::state::{NotEmulated, StopReason, VcpuState};
use crate::vcpu::Vcpu;
use alloc::format;
use alloc::string::ToString;
use x86defs::addr::Gpa;

/// An exit that has no meaning for a guest.
#[cold]
pub(super) fn unsupported<V: Vcpu>(vcpu: &V, state: &mut VcpuState, exit: Exit) {
    let what = match exit {
        Exit::EntryFailed => "the CPU refused to enter the guest; the lines above say why".to_string(),
        other => format!("an exit that nothing handles: {other:?}"),
    };
    state.stop(StopReason::Unsupported(format!("{what} (at {:#x})", vcpu.rip())));
}

/// The instruction at RIP is not one that is emulated.
///
/// Somebody may have changed it since its access was refused. So the CPU has another look, and only if it comes
/// straight back the virtual machine stops.
#[cold]
pub(super) fn cannot_emulate<V: Vcpu>(vcpu: &V, state: &mut VcpuState, bytes: InstructionBytes) {
    let now = NotEmulated { rip: vcpu.rip(), exits: state.counters.total() };
    let before = state.not_emulated.replace(now);
    if before == Some(NotEmulated { exits: now.exits - 1, ..now }) {
        let what = format!("cannot emulate the instruction at {:#x} (bytes {bytes}) on a device", now.rip);
        state.stop(StopReason::Unsupported(what));
    }
}

/// The IDT, the TSS or the stack of an event that was being delivered is not in RAM.
#[cold]
pub(super) fn delivery_failed<V: Vcpu>(vcpu: &V, state: &mut VcpuState, at: Gpa) {
    let what = format!(
        "delivering an event at {:#x} used guest physical address {at}, which is not RAM",
        vcpu.rip()
    );
    state.stop(StopReason::Unsupported(what));
}

/// A machine check: what it has damaged is not known.
#[cold]
pub(super) fn machine_check(state: &mut VcpuState) {
    let what = "a machine check arrived while the guest ran: its state cannot be trusted";
    state.stop(StopReason::Unsupported(what.to_string()));
}

/// An exception that no backend intercepts on purpose.
#[cold]
pub(super) fn unexpected_exception(state: &VcpuState, vector: u8) {
    state.report(format_args!("unexpected exception {vector} was intercepted and dropped"));
}

/// An MSR that nobody answers: counted, and said once for each.
#[cold]
pub(super) fn refused_msr(state: &mut VcpuState, fault: MsrFault) {
    if fault.reason == FaultReason::Unknown {
        state.counters.unknown_msrs += 1;
        if state.msrs.first_time(fault.number) {
            state.report(format_args!("{fault}: #GP"));
        }
    }
}
