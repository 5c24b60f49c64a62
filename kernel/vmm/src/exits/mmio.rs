//! Accesses to guest physical addresses that are not RAM.

use super::report;
use crate::board::MemoryBus;
use crate::emulate::{self, Outcome};
use crate::exit::Access;
use crate::memory::GuestMemory;
use crate::screen;
use crate::state::VcpuState;
use crate::vcpu::Vcpu;
use x86defs::addr::Gpa;
use x86defs::event::Event;

#[inline(always)]
pub(super) fn access<V: Vcpu>(vcpu: &mut V, state: &mut VcpuState, at: Gpa, access: Access) {
    if screen::is_text_page(at) {
        // Only writes are refused there; the instruction is executed again.
        return screen::written(vcpu, state);
    }
    if vcpu.pending_event().is_some() {
        return report::delivery_failed(vcpu, state, at);
    }
    if access.intersects(Access::FETCH | Access::PDPTES) {
        return no_tables_or_code(vcpu, state, access);
    }
    let fault = (!access.contains(Access::PAGE_WALK)).then_some(at);
    let outcome = with_bus(vcpu, state, |vcpu, memory, bus| emulate::emulate(vcpu, memory, bus, fault));
    if let Outcome::Unsupported(bytes) = outcome {
        report::cannot_emulate(vcpu, state, bytes);
    }
}

/// Runs an emulation on the memory and the memory bus of the virtual CPU, with CR8 and TPR in step.
#[inline(always)]
pub(super) fn with_bus<V: Vcpu>(
    vcpu: &mut V,
    state: &mut VcpuState,
    emulation: impl FnOnce(&mut V, &dyn GuestMemory, &mut MemoryBus<'_>) -> Outcome,
) -> Outcome {
    let cr8 = vcpu.cr8();
    if cr8 != state.lapic.cr8() {
        state.lapic.set_cr8(cr8);
    }
    let vm = &*state.vm;
    let tsc = vcpu.tsc();
    let now = vm.clock.nanos(tsc.wrapping_add(vcpu.tsc_offset()));
    let mut bus = MemoryBus { board: &vm.board, lapic: &mut state.lapic, tsc, now, port: &state.port };
    let outcome = emulation(vcpu, vm.memory(), &mut bus);
    if state.lapic.cr8() != cr8 {
        vcpu.set_cr8(state.lapic.cr8());
    }
    outcome
}

/// Nothing but RAM and ROM can be executed. Page tables elsewhere read as ones, which have reserved bits: that is a
/// page fault for a fetch, and #GP(0) for the move to a control register that loads PAE paging's pointers.
#[cold]
fn no_tables_or_code<V: Vcpu>(vcpu: &mut V, state: &VcpuState, access: Access) {
    if access.contains(Access::PDPTES) {
        return vcpu.inject(Event::GP0);
    }
    match emulate::fetch_fault(vcpu, state.vm.memory()) {
        Some(fault) => {
            vcpu.set_cr2(fault.address.0);
            vcpu.inject(fault.event());
        }
        None => vcpu.inject(Event::UD),
    }
}
