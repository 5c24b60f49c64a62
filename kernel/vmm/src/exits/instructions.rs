//! CPUID, HLT and hypercalls.

use crate::hazard;
use crate::state::VcpuState;
use crate::vcpu::Vcpu;
use x86defs::event::Event;
use x86defs::gpr::Gpr;

/// What an unknown hypercall returns: "no such call", as Linux's paravirtual interface spells it (-ENOSYS).
const NO_SUCH_CALL: u64 = -1000i64 as u64;

pub(super) fn cpuid<V: Vcpu>(vcpu: &mut V, state: &VcpuState) {
    let (leaf, subleaf) = (vcpu.gpr(Gpr::Rax) as u32, vcpu.gpr(Gpr::Rcx) as u32);
    let r = state.cpuid.lookup(leaf, subleaf, vcpu, &state.lapic);
    vcpu.set_gpr(Gpr::Rax, r.eax.into());
    vcpu.set_gpr(Gpr::Rbx, r.ebx.into());
    vcpu.set_gpr(Gpr::Rcx, r.ecx.into());
    vcpu.set_gpr(Gpr::Rdx, r.edx.into());
    vcpu.skip();
}

pub(super) fn hlt<V: Vcpu>(vcpu: &mut V, state: &mut VcpuState) {
    vcpu.skip();
    state.halted = true;
    state.port.alert(hazard::HALT);
}

/// No hypercall is offered. Above ring 0 the instruction does not exist, on both vendors.
pub(super) fn hypercall<V: Vcpu>(vcpu: &mut V) {
    if vcpu.cpl() != 0 {
        return vcpu.inject(Event::UD);
    }
    vcpu.set_gpr(Gpr::Rax, NO_SUCH_CALL);
    vcpu.skip();
}
