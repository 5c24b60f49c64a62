//! RDMSR and WRMSR.

use super::report;
use crate::msr::{self, MsrFault};
use crate::state::VcpuState;
use crate::vcpu::Vcpu;
use x86defs::event::Event;
use x86defs::gpr::Gpr;

#[inline(always)]
pub(super) fn read<V: Vcpu>(vcpu: &mut V, state: &mut VcpuState) {
    let number = vcpu.gpr(Gpr::Rcx) as u32;
    match msr::read(number, vcpu, state) {
        Ok(value) => {
            vcpu.set_gpr(Gpr::Rax, value & 0xffff_ffff);
            vcpu.set_gpr(Gpr::Rdx, value >> 32);
            vcpu.skip();
        }
        Err(fault) => refuse(vcpu, state, fault),
    }
}

#[inline(always)]
pub(super) fn write<V: Vcpu>(vcpu: &mut V, state: &mut VcpuState) {
    let number = vcpu.gpr(Gpr::Rcx) as u32;
    let value = vcpu.gpr(Gpr::Rax) & 0xffff_ffff | vcpu.gpr(Gpr::Rdx) << 32;
    match msr::write(number, value, vcpu, state) {
        Ok(()) => vcpu.skip(),
        Err(fault) => refuse(vcpu, state, fault),
    }
}

#[cold]
fn refuse<V: Vcpu>(vcpu: &mut V, state: &mut VcpuState, fault: MsrFault) {
    report::refused_msr(state, fault);
    vcpu.inject(Event::GP0);
}
