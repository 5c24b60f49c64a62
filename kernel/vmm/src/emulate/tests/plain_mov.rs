//! The short decoder, judged by the full one.

use super::super::plain_mov::{PlainMov, Transfer, decode};
use super::*;
use iced_x86::code_asm::*;
use iced_x86::{Decoder, DecoderOptions, Instruction, OpKind, Register};

/// Different in every register, small enough for sums not to be canonical by accident.
fn registers(gpr: Gpr) -> u64 {
    0x0123_4567_89ab_cdef_u64.rotate_left(4 * gpr as u32)
}

/// What the full decoder says of a MOV.
fn oracle(instruction: &Instruction) -> PlainMov {
    let width = Width::from_bytes(instruction.memory_size().size()).unwrap();
    let gpr = |n| Gpr::from_number(instruction.op_register(n).number() as u8);
    let transfer = match (instruction.op_kind(0), instruction.op_kind(1)) {
        (OpKind::Register, _) => Transfer::Load(gpr(0)),
        (_, OpKind::Register) => Transfer::Store(gpr(1)),
        // The short decoder leaves it to the store to drop the upper half.
        _ => Transfer::StoreImmediate(instruction.immediate(1) as i32 as u64),
    };
    let memory = if instruction.op_kind(0) == OpKind::Memory { 0 } else { 1 };
    let offset = instruction
        .virtual_address(memory, 0, |register, _, _| match register {
            Register::CS | Register::DS | Register::ES | Register::SS => Some(0),
            gpr => Some(registers(Gpr::from_number(gpr.number() as u8))),
        })
        .unwrap();
    PlainMov { len: instruction.len() as u8, width, transfer, offset }
}

#[test]
fn agrees_with_the_full_decoder_on_every_form() {
    let tail = [0x84, 0x91, 0xa2, 0xb3, 0xc4, 0xd5, 0xe6, 0xf7, 0x08, 0x19];
    let mut agreed = 0;
    for prefix in [None].into_iter().chain((0x40..=0x4f).map(Some)) {
        for opcode in [0x89, 0x8b, 0xc7] {
            for modrm in 0..=255 {
                // Only with this R/M does a SIB byte follow.
                let sibs = if modrm & 7 == 4 { 0..=255 } else { 0x5a..=0x5a };
                for sib in sibs {
                    let code: Vec<u8> = prefix.into_iter().chain([opcode, modrm, sib]).chain(tail).collect();
                    let instruction = Decoder::with_ip(64, &code, 0x7000_1000, DecoderOptions::NONE).decode();
                    let is_memory_mov = !instruction.is_invalid() && modrm >> 6 != 3;
                    let expected = is_memory_mov.then(|| oracle(&instruction));
                    let decoded = decode(&code, 0x7000_1000, registers);
                    assert_eq!(decoded, expected, "{code:02x?} {instruction:?}");
                    agreed += usize::from(decoded.is_some());
                }
            }
        }
    }
    assert!(agreed > 200_000);
}

#[test]
fn leaves_every_other_instruction_alone() {
    for first in 0..=255u8 {
        for second in 0..=255 {
            let code = [first, second, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            if let Some(mov) = decode(&code, 0, registers) {
                let instruction = Decoder::new(64, &code, DecoderOptions::NONE).decode();
                assert_eq!(mov, oracle(&instruction), "{code:02x?}");
                assert_eq!(instruction.mnemonic(), iced_x86::Mnemonic::Mov);
            }
        }
    }
}

#[test]
fn incomplete_bytes_are_no_instruction() {
    let code = [0x41, 0xc7, 0x84, 0x24, 1, 2, 3, 4, 5, 6, 7, 8];
    assert!(decode(&code, 0, registers).is_some());
    for len in 0..code.len() {
        assert_eq!(decode(&code[..len], 0, registers), None, "{len} bytes");
    }
}

/// A guest whose device page cannot be translated: only the address of the exit leads to the device.
fn blind() -> Guest {
    let mut guest = Guest::long();
    guest.memory.poke(0x4000 + 8 * (DEVICE >> 12 & 511), Width::Qword, 0);
    guest.set(Gpr::Rbx, DEVICE);
    guest.bus.poke(DEVICE_AT + 0x30, Width::Dword, 0x8000_0001);
    guest
}

fn step(g: &mut Guest, at: u64) -> Outcome {
    g.bus.writes.clear();
    g.vcpu.rip = CODE;
    emulate(&mut g.vcpu, &g.memory, &mut g.bus, Some(Gpa(at)))
}

#[test]
fn the_address_of_the_exit_spares_the_translation() {
    let mut g = blind();
    g.set(Gpr::Rax, u64::MAX).assemble(|a| a.mov(eax, dword_ptr(rbx + 0x30)));
    assert_eq!(step(&mut g, DEVICE_AT + 0x30), Outcome::Done);
    assert_eq!((g.get(Gpr::Rax), g.vcpu.rip), (0x8000_0001, CODE + g.len));
    g.assemble(|a| a.mov(dword_ptr(rbx + 0x40), eax));
    assert_eq!(step(&mut g, DEVICE_AT + 0x40), Outcome::Done);
    assert_eq!(g.bus.writes, [(DEVICE_AT + 0x40, Width::Dword, 0x8000_0001)]);
    g.assemble(|a| a.mov(dword_ptr(rbx), -1));
    assert_eq!(step(&mut g, DEVICE_AT), Outcome::Done);
    assert_eq!(g.bus.writes, [(DEVICE_AT, Width::Dword, 0xffff_ffff)]);
    g.assemble(|a| a.mov(qword_ptr(rbx + 8), -1));
    assert_eq!(step(&mut g, DEVICE_AT + 8), Outcome::Done);
    assert_eq!(g.bus.writes, [(DEVICE_AT + 8, Width::Qword, u64::MAX)]);
}

#[test]
fn an_exit_elsewhere_goes_the_long_way() {
    let mut g = blind();
    g.assemble(|a| a.mov(dword_ptr(rbx + 0x40), eax));
    assert!(matches!(step(&mut g, DEVICE_AT + 0x44), Outcome::Fault(..)), "another address");
    g.vcpu.pending = None;
    g.assemble(|a| a.or(dword_ptr(rbx + 0x40), eax));
    assert!(matches!(step(&mut g, DEVICE_AT + 0x40), Outcome::Fault(..)), "another instruction");
}

#[test]
fn an_operand_in_two_pages_goes_the_long_way() {
    let mut g = Guest::long();
    g.set(Gpr::Rbx, MIXED + 0xffe).set(Gpr::Rax, 0x4433_2211).assemble(|a| a.mov(dword_ptr(rbx), eax));
    assert_eq!(step(&mut g, DEVICE_AT), Outcome::Done);
    assert_eq!(g.bus.writes, [(DEVICE_AT, Width::Word, 0x4433)]);
    assert_eq!(g.memory.peek(MIXED_AT + 0xffe, Width::Word), 0x2211);
}

#[test]
fn rom_takes_no_writes() {
    let mut g = Guest::long();
    g.memory.protect(DATA_AT..DATA_AT + 0x1000);
    g.set(Gpr::Rbx, DATA).set(Gpr::Rax, 5).assemble(|a| a.mov(dword_ptr(rbx), eax));
    assert_eq!(step(&mut g, DATA_AT), Outcome::Done);
    assert!(g.bus.writes.is_empty());
    assert_eq!(g.memory.peek(DATA_AT, Width::Dword), 0);
}
