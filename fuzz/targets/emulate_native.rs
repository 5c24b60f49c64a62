//! Integer instructions of 64-bit mode with memory operands, emulated and then executed by the CPU: registers, memory
//! and every flag that the manuals define have to agree. The operands lie in RAM, on a device, or on both.

#![no_main]
#![allow(unsafe_code, reason = "executes the instruction of an input")]

use fuzz::native::{self, CODE, DATA, DATA_LEN, MAX_LEN, PAGE, Registers};
use fuzz::operands::{self, Memory, PAGES};
use iced_x86::{CpuidFeature, OpKind, Register};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use vmm::emulate::{Outcome, emulate};
use vmm::fake::FakeVcpu;
use x86defs::control::Rflags;
use x86defs::gpr::Gpr;

#[derive(Arbitrary, Debug)]
struct Input {
    code: [u8; MAX_LEN],
    registers: [Value; 16],
    flags: u16,
    /// Where the memory operand is put, from the middle of the data.
    operand: i8,
    /// Which pages of the data are a device's.
    device: [bool; PAGES],
    /// What the data holds around its middle.
    data: [u8; WINDOW],
}

#[derive(Arbitrary, Debug)]
enum Value {
    Pointer(i8),
    Small(i8),
    Any(u64),
}

/// Between the two pages.
const MIDDLE: u64 = DATA + PAGE as u64;
/// Bytes of the data that are not zero.
const WINDOW: usize = 64;
/// Flags that an input chooses.
const CHOSEN: Rflags = STATUS.union(Rflags::DF);
const STATUS: Rflags =
    Rflags::CF.union(Rflags::PF).union(Rflags::AF).union(Rflags::ZF).union(Rflags::SF).union(Rflags::OF);

fuzz_target!(init: native::keep_signals_off_the_stack(), |input: Input| {
    let instruction = Decoder::with_ip(64, &input.code, CODE, DecoderOptions::NONE).decode();
    if !can_be_judged(&instruction) {
        return;
    }
    let before = registers(&input, &instruction);
    let code = native::code(&input.code[..instruction.len()]);
    let mut data = [0; DATA_LEN];
    data[PAGE - WINDOW / 2..PAGE + WINDOW / 2].copy_from_slice(&input.data);

    let mut memory = Memory::new(&code, &data, input.device);
    let mut vcpu = memory.vcpu();
    vcpu.gprs = before.gprs;
    vcpu.rflags = Rflags::from_bits_retain(before.flags);
    let outcome = emulate(&mut vcpu, &memory.ram, &mut memory.device, None);
    if outcome != Outcome::Done || vcpu.rip != instruction.next_ip() {
        return;
    }
    // SAFETY: The instruction is one of those that change registers, status flags and memory only and go on behind
    // themselves. Where it accesses memory the emulation has found all of it mapped just as here.
    let after = unsafe { native::execute(&code, &before, &mut data) };
    compare(&instruction, &before, &vcpu, &after);
    assert_eq!(memory.differs_at(&data), None, "memory after {instruction}");
});

/// Whether the instruction accesses memory and does the same in any 64-bit code at any privilege level.
fn can_be_judged(instruction: &Instruction) -> bool {
    let own = |register: Register| register.is_gpr() || register == Register::None;
    let registers_only = (0..instruction.op_count())
        .all(|n| instruction.op_kind(n) != OpKind::Register || own(instruction.op_register(n)));
    let in_memory = !InstructionInfoFactory::new().info(instruction).used_memory().is_empty();
    !instruction.is_invalid()
        && in_memory
        && instruction.flow_control() == FlowControl::Next
        && !instruction.is_privileged()
        && registers_only
        && !shifts_out_of_a_word(instruction)
        && !matches!(instruction.memory_segment(), Register::FS | Register::GS)
        && instruction.cpuid_features().iter().all(|feature| has(*feature))
}

/// SHLD and SHRD of 16 bits have no defined result for counts above 16.
fn shifts_out_of_a_word(instruction: &Instruction) -> bool {
    matches!(instruction.mnemonic(), Mnemonic::Shld | Mnemonic::Shrd) && instruction.memory_size().size() == 2
}

/// Whether the CPU has what the emulator may know.
fn has(feature: CpuidFeature) -> bool {
    use CpuidFeature::*;
    match feature {
        INTEL8086 | INTEL186 | INTEL286 | INTEL386 | INTEL486 | X64 | CMOV | CX8 | SSE2 => true,
        CMPXCHG16B => is_x86_feature_detected!("cmpxchg16b"),
        MOVBE => is_x86_feature_detected!("movbe"),
        POPCNT => is_x86_feature_detected!("popcnt"),
        LZCNT => is_x86_feature_detected!("lzcnt"),
        BMI1 => is_x86_feature_detected!("bmi1"),
        BMI2 => is_x86_feature_detected!("bmi2"),
        ADX => is_x86_feature_detected!("adx"),
        _ => false,
    }
}

/// The registers of an input, changed so that the instruction's accesses lie around the middle of the data.
fn registers(input: &Input, instruction: &Instruction) -> Registers {
    let mut gprs = [0; 16];
    for (gpr, value) in gprs.iter_mut().zip(&input.registers) {
        *gpr = match *value {
            Value::Pointer(offset) => MIDDLE.wrapping_add_signed(offset.into()),
            Value::Small(value) => value as u64,
            Value::Any(value) => value,
        };
    }
    operands::aim(instruction, &mut gprs, MIDDLE.wrapping_add_signed(input.operand.into()));
    let chosen = Rflags::from_bits_truncate(input.flags.into()) & CHOSEN;
    Registers { gprs, flags: (chosen | Rflags::ONE | Rflags::IF).bits() }
}

fn compare(instruction: &Instruction, before: &Registers, vcpu: &FakeVcpu, after: &Registers) {
    for number in 0..16 {
        let gpr = Gpr::from_number(number as u8);
        let (emulated, native) = (vcpu.gprs[number], after.gprs[number]);
        assert!(
            emulated == native,
            "{gpr:?} after {instruction}: {emulated:#x}, on the CPU {native:#x}\nbefore: {before:x?}"
        );
    }
    let defined = (STATUS | Rflags::DF) - operands::undefined(instruction);
    let native = Rflags::from_bits_truncate(after.flags) & defined;
    assert_eq!(vcpu.rflags & defined, native, "flags after {instruction}\nbefore: {before:x?}");
}
