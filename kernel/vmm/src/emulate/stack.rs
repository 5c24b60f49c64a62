//! PUSH, POP, and near CALL and JMP, with operands or a stack that are not RAM (SDM 1, 6.2).

use super::location::Location;
use super::operand::RegisterPart;
use super::{Machine, Next, Stop};
use crate::memory::Width;
use crate::vcpu::{Mode, Vcpu};
use crate::walk::Intent;
use iced_x86::Instruction;
use x86defs::gpr::Gpr;
use x86defs::msr::is_canonical;
use x86defs::segment::{Attributes, SegmentName};

impl<V: Vcpu> Machine<'_, V> {
    pub(super) fn push(&mut self, instruction: &Instruction) -> Result<(), Stop> {
        let width = stack_width(instruction)?;
        let value = self.source(instruction, 0)?;
        self.push_value(width, value)
    }

    pub(super) fn pop(&mut self, instruction: &Instruction) -> Result<(), Stop> {
        let width = stack_width(instruction)?;
        let pointer = self.stack_pointer();
        let before = self.register(pointer);
        let from = self.stack(before, width, Intent::Read)?;
        // An address computed from the stack pointer uses its value after the POP.
        self.set_register(pointer, before.wrapping_add(width.bytes() as u64));
        let to = self.destination(instruction, 0).inspect_err(|_| self.vcpu.set_gpr(Gpr::Rsp, before))?;
        let value = self.load(&from);
        self.assign(&to, value);
        Ok(())
    }

    pub(super) fn call(&mut self, instruction: &Instruction) -> Result<Next, Stop> {
        if !(instruction.is_call_near() || instruction.is_call_near_indirect()) {
            return Err(Stop::Unsupported);
        }
        let target = self.target(instruction)?;
        self.push_value(stack_width(instruction)?, instruction.next_ip())?;
        Ok(Next::At(target))
    }

    pub(super) fn jump(&mut self, instruction: &Instruction) -> Result<Next, Stop> {
        if !instruction.is_jmp_near_indirect() {
            return Err(Stop::Unsupported);
        }
        self.target(instruction).map(Next::At)
    }

    /// The target of a near branch, if it may be jumped to.
    fn target(&mut self, instruction: &Instruction) -> Result<u64, Stop> {
        let target = self.source(instruction, 0)?;
        let allowed = match self.mode {
            Mode::Long => is_canonical(target),
            _ => target <= u64::from(self.vcpu.segment(SegmentName::Cs).limit),
        };
        if allowed { Ok(target) } else { Err(self.general_protection()) }
    }

    fn push_value(&mut self, width: Width, value: u64) -> Result<(), Stop> {
        let pointer = self.stack_pointer();
        let top = self.register(pointer).wrapping_sub(width.bytes() as u64);
        let to = self.stack(top, width, Intent::Write)?;
        self.store(&to, value);
        self.set_register(pointer, top);
        Ok(())
    }

    fn stack(&self, offset: u64, width: Width, intent: Intent) -> Result<Location, Stop> {
        self.locate(SegmentName::Ss, offset & self.stack_address_width().mask(), width, intent)
    }

    fn stack_pointer(&self) -> RegisterPart {
        RegisterPart::low(Gpr::Rsp, self.stack_address_width())
    }

    fn stack_address_width(&self) -> Width {
        if self.mode == Mode::Long {
            return Width::Qword;
        }
        let attributes = self.vcpu.segment(SegmentName::Ss).attributes;
        if attributes.contains(Attributes::DEFAULT_BIG) { Width::Dword } else { Width::Word }
    }
}

/// How many bytes a PUSH, POP or CALL moves on the stack.
fn stack_width(instruction: &Instruction) -> Result<Width, Stop> {
    let bytes = instruction.stack_pointer_increment().unsigned_abs() as usize;
    Width::from_bytes(bytes).ok_or(Stop::Unsupported)
}
