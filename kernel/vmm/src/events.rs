//! The slow path's decision: what to deliver, whether to enter, wait or stop, and when to be called again.

#[cfg(test)]
mod tests;

use crate::board::NEVER;
use crate::emulate;
use crate::hazard;
use crate::screen;
use crate::state::{StopReason, VcpuState, host_tsc};
use crate::vcpu::{Vcpu, Window};
use devices::effects::{Nanos, PowerEvent};
use x86defs::control::Rflags;
use x86defs::event::Event;

/// What to do next with a virtual CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Enter the guest.
    Enter,
    /// Wait for a host interrupt: the guest halts.
    Wait,
    /// Stop the virtual machine, for the reason in [`VcpuState::stop`].
    Stop,
}

/// Takes up everything that the hazard word `taken` announces.
pub fn prepare<V: Vcpu>(vcpu: &mut V, state: &mut VcpuState, taken: u32) -> Next {
    if taken & hazard::STOP != 0 && stops(state) {
        return Next::Stop;
    }
    if taken & hazard::TIMER != 0 || state.halted {
        if host_tsc(vcpu) >= state.expires {
            state.stop = Some(StopReason::TimeLimit);
            return Next::Stop;
        }
        run_due(vcpu, state);
    }
    let cr8 = vcpu.cr8();
    if cr8 != state.lapic.cr8() {
        state.lapic.set_cr8(cr8);
    }
    let signals = state.lapic.drain(&state.port.mailbox);
    if signals.init {
        state.stop = Some(StopReason::Reset("INIT"));
        return Next::Stop;
    }
    deliver(vcpu, state);
    match state.halted {
        false => Next::Enter,
        true if may_wake(vcpu) => Next::Wait,
        true => {
            state.stop = Some(StopReason::Halted);
            Next::Stop
        }
    }
}

/// Whether a stop is really meant, and why.
fn stops(state: &mut VcpuState) -> bool {
    if let Some(event) = state.vm.board.take_power_event() {
        state.stop.get_or_insert(match event {
            PowerEvent::PowerOff(how) => StopReason::PowerOff(how),
            PowerEvent::Reset(how) => StopReason::Reset(how),
            PowerEvent::Exit(status) => StopReason::Exit(status),
        });
    }
    state.stop.is_some()
}

fn run_due<V: Vcpu>(vcpu: &mut V, state: &mut VcpuState) {
    state.lapic.tick(vcpu.tsc());
    let now = state.now(vcpu);
    let screen_due = state.vm.board.screen_due(now);
    state.vm.board.run_due(now);
    if screen_due {
        screen::look(vcpu, state, now);
    }
}

/// The host TSC at which the virtual CPU's next timer is due or its time is over; [`NEVER`].
pub fn next_deadline<V: Vcpu>(vcpu: &V, state: &VcpuState) -> u64 {
    let lapic = state.lapic.deadline().map_or(NEVER, |at| at.saturating_add(vcpu.tsc_offset()));
    let board = match state.vm.board.next_deadline() {
        NEVER => NEVER,
        at => state.vm.clock.host_tsc(Nanos(at)),
    };
    lapic.min(board).min(state.expires)
}

/// A guest that halts with interrupts off has ended: only the NMI button could wake it.
fn may_wake(vcpu: &impl Vcpu) -> bool {
    vcpu.rflags().contains(Rflags::IF)
}

/// Delivers the most urgent event that waits: NMI, then what the 8259 has, then what the local APIC has. What
/// cannot be delivered now opens a window.
fn deliver<V: Vcpu>(vcpu: &mut V, state: &mut VcpuState) {
    if state.lapic.nmi_pending() {
        let free = vcpu.can_take_nmi();
        if free && state.lapic.take_nmi() {
            inject(vcpu, state, Event::NMI);
        }
        vcpu.set_window(Window::Nmi, !free);
    }
    let waiting = state.lapic.ext_int_pending() || state.lapic.next_interrupt().is_some();
    if waiting && vcpu.in_interrupt_shadow() {
        finish_sti_hlt(vcpu, state);
    }
    if waiting && vcpu.can_take_interrupt() {
        let vector = take_interrupt(state);
        inject(vcpu, state, Event::interrupt(vector));
    }
    let more = state.lapic.ext_int_pending() || state.lapic.next_interrupt().is_some();
    vcpu.set_window(Window::Interrupt, more);
    vcpu.set_tpr_threshold(if more { 0 } else { state.lapic.masked_class() });
}

/// In the shadow of STI, HLT is about to execute, and an interrupt waits: HLT ends at once and the interrupt
/// comes after it. Delivered before, the guest would sleep through it; a window does not help on CPUs that lose
/// the shadow at VM entry, as some emulators do.
#[cold]
fn finish_sti_hlt<V: Vcpu>(vcpu: &mut V, state: &VcpuState) {
    const HLT: u8 = 0xf4;
    let mut code = [0; 15];
    let ready = vcpu.rflags().contains(Rflags::IF) && vcpu.cpl() == 0 && vcpu.pending_event().is_none();
    if ready && emulate::fetch(vcpu, state.vm.memory(), &mut code) > 0 && code[0] == HLT {
        vcpu.skip_len(1);
    }
}

fn take_interrupt(state: &mut VcpuState) -> u8 {
    if state.lapic.ext_int_pending() {
        let vector = state.vm.board.acknowledge_pic();
        // The 8259's output may have fallen, which the mailbox tells.
        state.lapic.drain(&state.port.mailbox);
        return vector;
    }
    let vector = state.lapic.next_interrupt().unwrap_or(0);
    state.lapic.acknowledge(vector);
    vector
}

fn inject<V: Vcpu>(vcpu: &mut V, state: &mut VcpuState, event: Event) {
    vcpu.inject(event);
    state.halted = false;
    state.counters.injected += 1;
}
