//! Model-specific registers as a guest sees them. One table says which exist and how each behaves; those that
//! concern the local APIC, the TSC and the paravirtual clock come before it.

mod direct;
mod fault;
mod mtrr;
mod registers;
mod table;
#[cfg(test)]
mod tests;

pub use direct::{Direct, direct};
pub use fault::{FaultReason, MsrFault};
pub use registers::{MsrSetup, MsrState};

use crate::lapic::{Lapic, LapicEffect};
use crate::memory::NotRam;
use crate::state::VcpuState;
use crate::vcpu::Vcpu;
use x86defs::apic::{X2APIC_FIRST, X2APIC_LAST};
use x86defs::msr::{
    IA32_APIC_BASE, IA32_TIME_STAMP_COUNTER, IA32_TSC_ADJUST, IA32_TSC_DEADLINE, KVM_SYSTEM_TIME_NEW,
    KVM_WALL_CLOCK_NEW,
};

/// RDMSR. A fault is #GP(0), with no register changed.
pub fn read<V: Vcpu>(number: u32, vcpu: &mut V, state: &mut VcpuState) -> Result<u64, MsrFault> {
    match number {
        X2APIC_FIRST..=X2APIC_LAST => {
            state.with_lapic(vcpu, |lapic, now| (lapic.read_msr(number, now), LapicEffect::Nothing))
        }
        IA32_TSC_DEADLINE => Ok(state.lapic.tsc_deadline(vcpu.tsc())),
        IA32_APIC_BASE => Ok(state.lapic.base()),
        IA32_TIME_STAMP_COUNTER => Ok(vcpu.tsc()),
        IA32_TSC_ADJUST => Ok(state.msrs.tsc_adjust),
        KVM_WALL_CLOCK_NEW => Ok(state.kvmclock.wall_clock()),
        KVM_SYSTEM_TIME_NEW => Ok(state.kvmclock.system_time()),
        _ => match state.msrs.read(number, vcpu) {
            Err(fault) if ignored(state, fault) => Ok(0),
            result => result,
        },
    }
}

/// WRMSR. A fault is #GP(0).
pub fn write<V: Vcpu>(number: u32, value: u64, vcpu: &mut V, state: &mut VcpuState) -> Result<(), MsrFault> {
    match number {
        X2APIC_FIRST..=X2APIC_LAST => {
            state.with_lapic(vcpu, |lapic, now| done(lapic.write_msr(number, value, now)))
        }
        IA32_TSC_DEADLINE => {
            let effect = state.lapic.set_tsc_deadline(value);
            state.apply(effect);
            Ok(())
        }
        IA32_APIC_BASE => state.with_lapic(vcpu, |lapic: &mut Lapic, _| done(lapic.set_base(value))),
        IA32_TIME_STAMP_COUNTER => {
            move_tsc(value.wrapping_sub(vcpu.tsc()), vcpu, state);
            Ok(())
        }
        IA32_TSC_ADJUST => {
            move_tsc(value.wrapping_sub(state.msrs.tsc_adjust), vcpu, state);
            Ok(())
        }
        KVM_WALL_CLOCK_NEW => {
            let result = state.kvmclock.set_wall_clock(value, state.vm.memory());
            result.map_err(|NotRam(_)| MsrFault::write(number, value, FaultReason::NotRam))
        }
        KVM_SYSTEM_TIME_NEW => {
            let result = state.kvmclock.set_system_time(value, state.vm.memory());
            result.map_err(|NotRam(_)| MsrFault::write(number, value, FaultReason::NotRam))
        }
        _ => match state.msrs.write(number, value, vcpu) {
            Err(fault) if ignored(state, fault) => Ok(()),
            result => result,
        },
    }
}

/// What the local APIC answered, in two: the result, and the effect to carry out.
fn done(answer: Result<LapicEffect, MsrFault>) -> (Result<(), MsrFault>, LapicEffect) {
    match answer {
        Ok(effect) => (Ok(()), effect),
        Err(fault) => (Err(fault), LapicEffect::Nothing),
    }
}

/// Sets the guest's TSC forward by `delta`. TSC_ADJUST moves with it (SDM 3, 18.17.3), and everything that
/// counts in TSC ticks but tells time.
#[cold]
fn move_tsc<V: Vcpu>(delta: u64, vcpu: &mut V, state: &mut VcpuState) {
    vcpu.set_tsc(vcpu.tsc().wrapping_add(delta));
    state.msrs.tsc_adjust = state.msrs.tsc_adjust.wrapping_add(delta);
    state.kvmclock.tsc_moved(delta, state.vm.memory());
    let effect = state.lapic.tsc_moved(delta);
    state.apply(effect);
}

/// Whether a fault is for an MSR that does not exist, on a virtual machine that ignores these.
#[cold]
fn ignored(state: &mut VcpuState, fault: MsrFault) -> bool {
    let ignored = fault.reason == FaultReason::Unknown && state.msrs.ignores_unknown();
    if ignored {
        state.counters.unknown_msrs += 1;
        if state.msrs.first_time(fault.number) {
            state.report(format_args!("{fault}: ignored"));
        }
    }
    ignored
}
