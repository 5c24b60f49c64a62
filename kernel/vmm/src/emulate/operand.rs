//! The operands of a decoded instruction.

use super::location::Location;
use super::{Machine, Stop};
use crate::memory::Width;
use crate::vcpu::Vcpu;
use crate::walk::Intent;
use iced_x86::{CodeSize, Instruction, OpKind, Register};
use x86defs::gpr::Gpr;
use x86defs::segment::SegmentName;

/// A part of a general register that instructions name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RegisterPart {
    gpr: Gpr,
    width: Width,
    /// AH, CH, DH or BH.
    high: bool,
}

/// An operand that can be written.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    Register(RegisterPart),
    Memory(Location),
}

impl RegisterPart {
    pub(super) const fn low(gpr: Gpr, width: Width) -> RegisterPart {
        RegisterPart { gpr, width, high: false }
    }

    fn of(register: Register) -> Option<RegisterPart> {
        if register.is_gpr8() {
            // In the decoder's order AL..BL, AH..BH, SPL..DIL, R8L...
            let number = (register as u32 - Register::AL as u32) as u8;
            return Some(match number {
                0..4 => RegisterPart::low(Gpr::from_number(number), Width::Byte),
                4..8 => RegisterPart {
                    high: true,
                    ..RegisterPart::low(Gpr::from_number(number - 4), Width::Byte)
                },
                _ => RegisterPart::low(Gpr::from_number(number - 4), Width::Byte),
            });
        }
        let width = Width::from_bytes(register.size())?;
        register.is_gpr().then(|| RegisterPart::low(Gpr::from_number(register.number() as u8), width))
    }
}

impl<V: Vcpu + ?Sized> Machine<'_, V> {
    /// The value of operand `n`, zero-extended; an immediate is sign-extended.
    pub(super) fn source(&mut self, instruction: &Instruction, n: u32) -> Result<u64, Stop> {
        match instruction.op_kind(n) {
            OpKind::Register => {
                let register = instruction.op_register(n);
                if let Some(segment) = segment_name(register) {
                    return Ok(u64::from(self.vcpu.segment(segment).selector));
                }
                RegisterPart::of(register).map(|part| self.register(part)).ok_or(Stop::Unsupported)
            }
            OpKind::Memory => {
                let location = self.memory_operand(instruction, n, Intent::Read)?;
                Ok(self.load(&location))
            }
            OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64 => {
                Ok(instruction.near_branch_target())
            }
            _ => instruction.try_immediate(n).map_err(|_| Stop::Unsupported),
        }
    }

    /// Operand `n`, to be written and perhaps read before.
    pub(super) fn destination(&self, instruction: &Instruction, n: u32) -> Result<Place, Stop> {
        self.place(instruction, n, Intent::Write)
    }

    /// Operand `n`. For memory the access is checked here, before anything happens.
    pub(super) fn place(&self, instruction: &Instruction, n: u32, intent: Intent) -> Result<Place, Stop> {
        match instruction.op_kind(n) {
            // Writing to a segment, control or debug register is more than a move.
            OpKind::Register => {
                let part = RegisterPart::of(instruction.op_register(n));
                part.map(Place::Register).ok_or(Stop::Unsupported)
            }
            OpKind::Memory => self.memory_operand(instruction, n, intent).map(Place::Memory),
            _ => Err(Stop::Unsupported),
        }
    }

    pub(super) fn memory_operand(
        &self,
        instruction: &Instruction,
        n: u32,
        intent: Intent,
    ) -> Result<Location, Stop> {
        let width = operand_width(instruction, n)?;
        self.locate(memory_segment(instruction), self.effective_address(instruction), width, intent)
    }

    /// The two halves of a memory operand of 16 bytes, which has to be aligned.
    pub(super) fn aligned_16_bytes(
        &self,
        instruction: &Instruction,
        intent: Intent,
    ) -> Result<[Location; 2], Stop> {
        let (segment, offset) = (memory_segment(instruction), self.effective_address(instruction));
        if !self.linear(segment, offset, 16, intent)?.0.is_multiple_of(16) {
            return Err(self.general_protection());
        }
        let half = |at| self.locate(segment, at, Width::Qword, intent);
        Ok([half(offset)?, half(offset.wrapping_add(8))?])
    }

    /// The value in a place, zero-extended.
    pub(super) fn value(&mut self, place: &Place) -> u64 {
        match place {
            Place::Register(part) => self.register(*part),
            Place::Memory(location) => self.load(location),
        }
    }

    /// Sets a place.
    pub(super) fn assign(&mut self, place: &Place, value: u64) {
        match place {
            Place::Register(part) => self.set_register(*part, value),
            Place::Memory(location) => self.store(location, value),
        }
    }

    pub(super) fn register(&self, part: RegisterPart) -> u64 {
        let shift = if part.high { 8 } else { 0 };
        (self.vcpu.gpr(part.gpr) >> shift) & part.width.mask()
    }

    /// Sets a part of a register: 32 bits clear the upper half, fewer keep the rest (SDM 1, 3.4.1.1).
    pub(super) fn set_register(&mut self, part: RegisterPart, value: u64) {
        let value = value & part.width.mask();
        let whole = match part.width {
            Width::Qword | Width::Dword => value,
            width => {
                let shift = if part.high { 8 } else { 0 };
                (self.vcpu.gpr(part.gpr) & !(width.mask() << shift)) | (value << shift)
            }
        };
        self.vcpu.set_gpr(part.gpr, whole);
    }

    /// The offset of the memory operand in its segment.
    fn effective_address(&self, instruction: &Instruction) -> u64 {
        // A displacement from RIP has become an absolute address in the decoder.
        let base = self.address_part(instruction.memory_base());
        let index = self.address_part(instruction.memory_index());
        let scaled = index.wrapping_mul(u64::from(instruction.memory_index_scale()));
        let sum = base.wrapping_add(scaled).wrapping_add(instruction.memory_displacement64());
        sum & address_width(instruction).mask()
    }

    fn address_part(&self, register: Register) -> u64 {
        RegisterPart::of(register).map_or(0, |part| self.register(part))
    }

    /// The element of a bit string in memory in which a bit is: the string starts at the memory operand and
    /// reaches to both sides of it.
    pub(super) fn bit_string_element(
        &self,
        instruction: &Instruction,
        bit: i64,
        intent: Intent,
    ) -> Result<Location, Stop> {
        let width = operand_width(instruction, 0)?;
        let bytes = width.bytes() as i64;
        let element = bit.div_euclid(8 * bytes) * bytes;
        let offset = self.effective_address(instruction).wrapping_add_signed(element);
        let offset = offset & address_width(instruction).mask();
        self.locate(memory_segment(instruction), offset, width, intent)
    }
}

/// Width of a register or memory operand.
pub(super) fn operand_width(instruction: &Instruction, n: u32) -> Result<Width, Stop> {
    let bytes = match instruction.op_kind(n) {
        OpKind::Register => instruction.op_register(n).size(),
        _ => instruction.memory_size().size(),
    };
    Width::from_bytes(bytes).ok_or(Stop::Unsupported)
}

/// The segment of the memory operand that can be overridden: in 64-bit mode by FS and GS only (SDM 1, 3.3.7.1).
pub(super) fn memory_segment(instruction: &Instruction) -> SegmentName {
    let segment = segment_name(instruction.memory_segment()).unwrap_or(SegmentName::Ds);
    if instruction.code_size() != CodeSize::Code64 || matches!(segment, SegmentName::Fs | SegmentName::Gs) {
        return segment;
    }
    match instruction.memory_base() {
        Register::RSP | Register::RBP | Register::ESP | Register::EBP => SegmentName::Ss,
        _ => SegmentName::Ds,
    }
}

fn segment_name(register: Register) -> Option<SegmentName> {
    Some(match register {
        Register::ES => SegmentName::Es,
        Register::CS => SegmentName::Cs,
        Register::SS => SegmentName::Ss,
        Register::DS => SegmentName::Ds,
        Register::FS => SegmentName::Fs,
        Register::GS => SegmentName::Gs,
        _ => return None,
    })
}

/// Width of the addresses that a memory operand is computed with.
fn address_width(instruction: &Instruction) -> Width {
    let register = match instruction.memory_base() {
        Register::None => instruction.memory_index(),
        base => base,
    };
    let bytes = match (register, instruction.memory_displ_size()) {
        (Register::None, size @ (2 | 4 | 8)) => size as usize,
        (Register::None, _) => code_width(instruction).bytes(),
        (register, _) => register.size(),
    };
    Width::from_bytes(bytes).unwrap_or(code_width(instruction))
}

fn code_width(instruction: &Instruction) -> Width {
    match instruction.code_size() {
        CodeSize::Code16 => Width::Word,
        CodeSize::Code32 => Width::Dword,
        CodeSize::Code64 | CodeSize::Unknown => Width::Qword,
    }
}
