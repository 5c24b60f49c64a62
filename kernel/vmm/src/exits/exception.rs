//! Exceptions that exit: the guest gets them back, unless it would loop inside the CPU.

use super::report;
use crate::state::{StopReason, VcpuState};
use crate::vcpu::Vcpu;
use x86defs::event::{Event, Exception};

/// DR7.GD: general detect (SDM 3, 18.2.4).
pub(super) const DR7_GD: u64 = 1 << 13;

pub(super) fn reflect<V: Vcpu>(vcpu: &mut V, state: &mut VcpuState, vector: u8, error_code: u32) {
    const DEBUG: u8 = Exception::Debug as u8;
    const ALIGNMENT: u8 = Exception::AlignmentCheck as u8;
    const MACHINE_CHECK: u8 = Exception::MachineCheck as u8;
    match vector {
        DEBUG => {
            // Delivery of #DB clears general detect (SDM 3, 18.3.1.3).
            vcpu.set_dr7(vcpu.dr7() & !DR7_GD);
            let interrupted = vcpu.take_pending_event();
            raise_during(vcpu, state, interrupted, Event::exception(Exception::Debug));
        }
        ALIGNMENT => {
            let interrupted = vcpu.take_pending_event();
            raise_during(vcpu, state, interrupted, Event::fault(Exception::AlignmentCheck, error_code));
        }
        MACHINE_CHECK => report::machine_check(state),
        // Backends intercept no other.
        _ => report::unexpected_exception(state, vector),
    }
}

/// Raises an exception that came up while `first` was delivered.
pub(super) fn raise_during<V: Vcpu>(
    vcpu: &mut V,
    state: &mut VcpuState,
    first: Option<Event>,
    second: Event,
) {
    match first.map_or(Some(second), |first| first.followed_by(second)) {
        Some(event) => vcpu.inject(event),
        None => state.stop(StopReason::TripleFault),
    }
}
