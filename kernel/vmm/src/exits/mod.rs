//! What each exit does, once for both vendors. One exit, one call.

mod control;
mod exception;
mod instructions;
mod io;
mod mmio;
mod msr;
mod report;
mod task;
#[cfg(test)]
mod tests;

use crate::exit::Exit;
use crate::hazard;
use crate::state::{StopReason, VcpuState};
use crate::vcpu::{Vcpu, Window};
use x86defs::event::Event;

/// Handles a decoded exit. Afterwards the guest can be entered again unless the hazard word says otherwise.
#[inline(always)]
pub fn handle<V: Vcpu>(vcpu: &mut V, state: &mut VcpuState, exit: Exit) {
    state.counters.exit(exit);
    match exit {
        Exit::Cpuid => instructions::cpuid(vcpu, state),
        Exit::Rdmsr => msr::read(vcpu, state),
        Exit::Wrmsr => msr::write(vcpu, state),
        Exit::Io(io) => io::access(vcpu, state, io),
        Exit::NestedFault(at, access) => mmio::access(vcpu, state, at, access),
        Exit::Hlt => instructions::hlt(vcpu, state),
        Exit::Hypercall => instructions::hypercall(vcpu),
        // A host NMI stays pending while SVM's GIF is clear: it has to be let in, too.
        Exit::ExternalInterrupt | Exit::HostNmi | Exit::Init | Exit::Slice => {
            state.port.alert(hazard::HOST_INTERRUPT);
        }
        Exit::InterruptWindow => window(vcpu, state, Window::Interrupt),
        Exit::NmiWindow => window(vcpu, state, Window::Nmi),
        Exit::CacheFlush | Exit::Pause => vcpu.skip(),
        Exit::Xsetbv => control::xsetbv(vcpu, state),
        Exit::WriteCr(register, from) => control::write(vcpu, state, register, from),
        Exit::ReadCr(register, to) => control::read(vcpu, register, to),
        Exit::Clts => control::clts(vcpu),
        Exit::Lmsw(value) => control::lmsw(vcpu, state, value),
        Exit::MovDr(register, gpr, write) => control::mov_dr(vcpu, register, gpr, write),
        Exit::Exception(vector, error_code) => exception::reflect(vcpu, state, vector, error_code),
        Exit::Undefined => vcpu.inject(Event::UD),
        Exit::Rdpmc => vcpu.inject(Event::GP0),
        Exit::TripleFault => state.stop(StopReason::TripleFault),
        Exit::TaskSwitch(request) => task::switch(vcpu, state, request),
        Exit::EntryFailed | Exit::Unknown(_) => report::unsupported(vcpu, state, exit),
    }
}

/// A window is open: the slow path decides what goes through.
fn window<V: Vcpu>(vcpu: &mut V, state: &VcpuState, window: Window) {
    vcpu.set_window(window, false);
    vcpu.set_tpr_threshold(0);
    state.port.alert(hazard::EVENT);
}
