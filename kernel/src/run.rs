//! Running a virtual CPU: its stack, the slow path between two entries, and its end.
//!
//! A virtual CPU has a stack of its own. [`run`] switches to it and enters the guest; exits are handled on it;
//! when the virtual machine stops, [`leave`] switches back and `run` returns.
#![allow(unsafe_code, reason = "stack switches")]

mod input;
mod switch;

use crate::apic;
use crate::cpu::rdtsc;
use crate::hw::{Backend, Guest};
use crate::mem::stack::{Stack, this_cpu};
use core::sync::atomic::Ordering;
use vmm::events::{self, Next};
use vmm::hazard;
use vmm::state::StopReason;

pub use input::poll as poll_input;

/// Alignment of the guest object at the top of its stack.
const GUEST_ALIGN: u64 = 64;

/// Runs a virtual CPU on `stack` until its virtual machine stops.
pub fn run<B: Backend>(guest: Guest<B>, stack: &Stack, profile: bool) -> (Guest<B>, StopReason) {
    let at = (stack.top().0 - size_of::<Guest<B>>() as u64) & !(GUEST_ALIGN - 1);
    let place = at as *mut Guest<B>;
    let cpu = this_cpu();
    // SAFETY: the top of a stack that nobody uses; the object stays there until it is read out below.
    unsafe {
        place.write(guest);
        let state = &(*place).state;
        let hazard = &state.port.hazard;
        hazard.raise(hazard::TIMER);
        cpu.hazard.store(hazard.word() as *const _ as usize, Ordering::Relaxed);
        switch::onto(place.cast(), if profile { enter::<B, true> } else { enter::<B, false> });
        cpu.hazard.store(0, Ordering::Relaxed);
        apic::arm(u64::MAX);
        let mut guest = place.read();
        B::leave(&mut guest.hw);
        let reason = guest.state.stop.take().unwrap_or(StopReason::PowerOff("ACPI S5"));
        (guest, reason)
    }
}

/// First code on the virtual CPU's stack.
unsafe extern "C" fn enter<B: Backend, const PROFILED: bool>(place: *mut u8) -> ! {
    let guest = place.cast::<Guest<B>>();
    // SAFETY: `run` has put it there and nobody else uses it.
    unsafe {
        prepare_entry(&mut *guest);
        B::enter::<PROFILED>(guest)
    }
}

/// Does what keeps a virtual CPU from going straight back into its guest, and returns when nothing does.
#[cold]
#[inline(never)]
pub fn slow_path<B: Backend>(guest: &mut Guest<B>) {
    prepare_entry(guest);
}

fn prepare_entry<B: Backend>(guest: &mut Guest<B>) {
    let Guest { hw, state } = guest;
    loop {
        let mut taken = state.port.hazard.take();
        if taken & hazard::HOST_INTERRUPT != 0 {
            B::take_interrupts();
            taken |= state.port.hazard.take();
        }
        let more_input = input::feed(state, hw, taken & hazard::CONSOLE != 0);
        let next = events::prepare(hw, state, taken);
        let poll = if more_input { rdtsc() + input::poll_ticks() } else { u64::MAX };
        apic::arm(events::next_deadline(hw, state).min(poll));
        let pending = state.port.hazard.any();
        match next {
            Next::Stop => switch::back(),
            Next::Enter if !pending => return,
            Next::Wait if !pending => wait::<B>(state),
            Next::Enter | Next::Wait => {}
        }
    }
}

/// Runs `exit`, the handling of one exit, and adds the time it takes to the profile; waiting in HLT does not
/// count.
pub fn profiled<B: Backend>(guest: &mut Guest<B>, exit: impl FnOnce(&mut Guest<B>)) {
    let (begin, idle) = (rdtsc(), guest.state.counters.idle);
    exit(guest);
    let counters = &mut guest.state.counters;
    counters.in_hypervisor += (rdtsc() - begin).saturating_sub(counters.idle - idle);
}

fn wait<B: Backend>(state: &mut vmm::state::VcpuState) {
    let begin = rdtsc();
    B::idle();
    state.counters.idle += rdtsc() - begin;
}
