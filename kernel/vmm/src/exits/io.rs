//! Port I/O.

use crate::board::Ports;
use crate::emulate::{self, Outcome};
use crate::exit::{Io, IoForm};
use crate::exits::{mmio, report};
use crate::state::VcpuState;
use crate::vcpu::Vcpu;
use x86defs::gpr::Gpr;

#[inline(always)]
pub(super) fn access<V: Vcpu>(vcpu: &mut V, state: &mut VcpuState, io: Io) {
    if io.form.contains(IoForm::STRING) {
        return string(vcpu, state, io);
    }
    let now = state.now(vcpu);
    let rax = vcpu.gpr(Gpr::Rax);
    if io.form.contains(IoForm::IN) {
        let value = u64::from(state.vm.board.input(io.port, io.width, now));
        vcpu.set_gpr(Gpr::Rax, merge(rax, value, io.width));
    } else {
        let value = rax as u32 & (u32::MAX >> (32 - 8 * u32::from(io.width)));
        state.vm.board.output(io.port, io.width, value, now);
    }
    vcpu.skip();
}

/// IN to AL or AX keeps the rest of RAX; to EAX it clears the upper half (SDM 1, 3.4.1.1).
fn merge(rax: u64, value: u64, width: u8) -> u64 {
    match width {
        1 => rax & !0xff | value,
        2 => rax & !0xffff | value,
        _ => value,
    }
}

#[cold]
fn string<V: Vcpu>(vcpu: &mut V, state: &mut VcpuState, io: Io) {
    let mut ports = Ports { board: &state.vm.clone().board, now: state.now(vcpu) };
    let outcome = mmio::with_bus(vcpu, state, |vcpu, memory, bus| {
        emulate::emulate_string_io(vcpu, memory, bus, io, &mut ports)
    });
    if let Outcome::Unsupported(bytes) = outcome {
        report::cannot_emulate(vcpu, state, bytes);
    }
}
