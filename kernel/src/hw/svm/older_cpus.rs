//! What older CPUs do not tell about the instruction that exited: where the next one begins (nRIP save), and the
//! operand of MOV to a control register (decode assists). Both are worked out from the instruction's bytes and put
//! where newer CPUs put them. The opcodes are known from the exit; only prefixes vary.

use super::vcpu::SvmVcpu;
use vmm::GuestMemory;
use vmm::vcpu::{Mode, Vcpu};
use x86defs::svm::{Clean, MOV_CR_VALID, SvmFeatures, exit_code as code};

/// Bytes of the longest instruction.
const MAX_LEN: usize = 15;
/// MOV to a control register is 0F 22 and a ModRM byte, whose r/m field is the general register.
const MOV_TO_CR_MODRM: usize = 2;
const REX_B: u8 = 1;

/// Fills in what this CPU leaves out of the VMCB.
pub(super) fn supply(vcpu: &mut SvmVcpu, memory: &dyn GuestMemory) {
    let opcode = opcode_len(vcpu.control().exitcode as u32);
    if opcode == 0 {
        return;
    }
    let mode = Mode::of(vcpu);
    let mut bytes = [0; MAX_LEN];
    let fetched = vmm::emulate::fetch(vcpu, memory, &mut bytes);
    let prefixes = bytes[..fetched].iter().take_while(|byte| is_prefix(**byte, mode)).count();
    if !vcpu.features.contains(SvmFeatures::NRIPS) {
        let next = vcpu.rip().wrapping_add((prefixes + opcode) as u64);
        vcpu.control_mut(Clean::empty()).nrip = match mode.bitness() {
            64 => next,
            32 => next & 0xffff_ffff,
            _ => next & 0xffff,
        };
    }
    let is_cr_write = (code::CR0_WRITE..=code::CR15_WRITE).contains(&(vcpu.control().exitcode as u32));
    if is_cr_write && !vcpu.features.contains(SvmFeatures::DECODE_ASSISTS) {
        let rex = bytes[..prefixes].last().filter(|byte| is_rex(**byte, mode)).copied().unwrap_or(0);
        let modrm = bytes.get(prefixes + MOV_TO_CR_MODRM).copied().unwrap_or(0);
        let register = modrm & 7 | (rex & REX_B) << 3;
        vcpu.control_mut(Clean::empty()).exitinfo1 = MOV_CR_VALID | u64::from(register);
    }
}

/// Length of the opcode, ModRM included, of the instruction that this exit intercepts; 0 for other exits.
fn opcode_len(exitcode: u32) -> usize {
    match exitcode {
        // PAUSE is F3 90: its prefix is part of the opcode and counted as a prefix.
        code::HLT | code::PAUSE => 1,
        code::CPUID | code::MSR | code::INVD | code::WBINVD | code::RDPMC => 2,
        code::VMMCALL | code::XSETBV | code::CR0_WRITE..=code::CR15_WRITE => 3,
        _ => 0,
    }
}

/// Legacy and REX prefixes (APM 3, 1.2).
fn is_prefix(byte: u8, mode: Mode) -> bool {
    matches!(byte, 0x26 | 0x2e | 0x36 | 0x3e | 0x64..=0x67 | 0xf0 | 0xf2 | 0xf3) || is_rex(byte, mode)
}

fn is_rex(byte: u8, mode: Mode) -> bool {
    mode == Mode::Long && matches!(byte, 0x40..=0x4f)
}
