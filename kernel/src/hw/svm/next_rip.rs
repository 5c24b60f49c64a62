//! Where the next instruction begins, for CPUs without nRIP save: the exits whose instruction has a fixed
//! opcode differ in length only by their prefixes.

use super::vcpu::SvmVcpu;
use vmm::GuestMemory;
use vmm::vcpu::{Mode, Vcpu};
use x86defs::svm::{Clean, exit_code as code};

/// Length of the opcode of the instruction that this exit intercepts; 0 for other exits.
fn opcode_len(exitcode: u32) -> u8 {
    match exitcode {
        code::HLT => 1,
        code::CPUID | code::MSR | code::INVD | code::WBINVD | code::PAUSE | code::RDPMC => 2,
        code::VMMCALL | code::XSETBV => 3,
        _ => 0,
    }
}

/// Fills in the VMCB's nRIP as a CPU with nRIP save would.
pub(super) fn supply(vcpu: &mut SvmVcpu, memory: &dyn GuestMemory) {
    let opcode = opcode_len(vcpu.control().exitcode as u32);
    if opcode == 0 {
        return;
    }
    let mode = Mode::of(vcpu);
    let mut bytes = [0; 15];
    let fetched = vmm::emulate::fetch(vcpu, memory, &mut bytes);
    let prefixes = bytes[..fetched].iter().take_while(|byte| is_prefix(**byte, mode)).count();
    // PAUSE is F3 90: its prefix is part of the opcode.
    let opcode = if vcpu.control().exitcode as u32 == code::PAUSE { 1 } else { usize::from(opcode) };
    let next = vcpu.rip().wrapping_add((prefixes + opcode) as u64);
    vcpu.control_mut(Clean::empty()).nrip = match mode.bitness() {
        64 => next,
        32 => next & 0xffff_ffff,
        _ => next & 0xffff,
    };
}

/// Legacy and REX prefixes (APM 3, 1.2).
fn is_prefix(byte: u8, mode: Mode) -> bool {
    matches!(byte, 0x26 | 0x2e | 0x36 | 0x3e | 0x64..=0x67 | 0xf0 | 0xf2 | 0xf3)
        || mode == Mode::Long && matches!(byte, 0x40..=0x4f)
}
