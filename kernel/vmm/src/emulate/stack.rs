//! PUSH, POP, ENTER, LEAVE, and near CALL, JMP and RET, with operands or a stack that are not RAM (SDM 1, 6.2
//! and 6.5).

use super::location::Location;
use super::operand::RegisterPart;
use super::{Machine, Next, Stop};
use crate::memory::Width;
use crate::vcpu::{Mode, Vcpu};
use crate::walk::Intent;
use iced_x86::{Code, Instruction};
use x86defs::control::Rflags;
use x86defs::gpr::Gpr;
use x86defs::msr::is_canonical;
use x86defs::segment::{Attributes, SegmentName};

/// The registers of PUSHA and POPA: the first ones, in the order of their numbers.
const ALL_REGISTERS: usize = 8;

impl<V: Vcpu + ?Sized> Machine<'_, V> {
    pub(super) fn push(&mut self, instruction: &Instruction) -> Result<(), Stop> {
        let width = stack_width(instruction)?;
        let value = self.source(instruction, 0)?;
        self.push_value(width, value)
    }

    pub(super) fn pop(&mut self, instruction: &Instruction) -> Result<(), Stop> {
        let width = stack_width(instruction)?;
        let pointer = self.stack_pointer();
        let (top, whole) = (self.register(pointer), self.vcpu.gpr(Gpr::Rsp));
        let from = self.stack(top, width, Intent::Read)?;
        // An address computed from the stack pointer uses its value after the POP.
        self.set_register(pointer, top.wrapping_add(width.bytes() as u64));
        let to = self.destination(instruction, 0).inspect_err(|_| self.vcpu.set_gpr(Gpr::Rsp, whole))?;
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

    pub(super) fn near_return(&mut self, instruction: &Instruction) -> Result<Next, Stop> {
        let width = width_of(instruction.code())?;
        let parameters = instruction.try_immediate(0).unwrap_or(0);
        let top = self.register(self.stack_pointer());
        let (target, top) = self.popped(width, top)?;
        self.check_target(target)?;
        self.set_register(self.stack_pointer(), top.wrapping_add(parameters));
        Ok(Next::At(target))
    }

    /// PUSHA. The stack pointer among the registers is the one from before.
    pub(super) fn push_all(&mut self, instruction: &Instruction) -> Result<(), Stop> {
        let width = width_of(instruction.code())?;
        let mut top = self.register(self.stack_pointer());
        for gpr in Gpr::ALL.into_iter().take(ALL_REGISTERS) {
            top = self.pushed(width, top, self.vcpu.gpr(gpr))?;
        }
        self.set_register(self.stack_pointer(), top);
        Ok(())
    }

    /// POPA. The stack pointer among the registers is dropped.
    pub(super) fn pop_all(&mut self, instruction: &Instruction) -> Result<(), Stop> {
        let width = width_of(instruction.code())?;
        let mut top = self.register(self.stack_pointer());
        let mut values = [0; ALL_REGISTERS];
        for value in values.iter_mut().rev() {
            (*value, top) = self.popped(width, top)?;
        }
        for (gpr, value) in Gpr::ALL.into_iter().zip(values).filter(|(gpr, _)| *gpr != Gpr::Rsp) {
            self.set_register(RegisterPart::low(gpr, width), value);
        }
        self.set_register(self.stack_pointer(), top);
        Ok(())
    }

    pub(super) fn push_flags(&mut self, instruction: &Instruction) -> Result<(), Stop> {
        let flags = self.vcpu.rflags() - (Rflags::VM | Rflags::RF);
        self.push_value(width_of(instruction.code())?, flags.bits())
    }

    pub(super) fn enter(&mut self, instruction: &Instruction) -> Result<(), Stop> {
        let width = width_of(instruction.code())?;
        let level = instruction.immediate8_2nd() % 32;
        let frame_pointer = RegisterPart::low(Gpr::Rbp, self.stack_address_width());
        let mut outer = self.register(frame_pointer);
        let frame = self.pushed(width, self.register(self.stack_pointer()), self.vcpu.gpr(Gpr::Rbp))?;
        let mut top = frame;
        // The frame pointers of the enclosing procedures, and the new one.
        for _ in 1..level {
            outer = outer.wrapping_sub(width.bytes() as u64);
            let from = self.stack(outer, width, Intent::Read)?;
            let pointer = self.load(&from);
            top = self.pushed(width, top, pointer)?;
        }
        if level > 0 {
            top = self.pushed(width, top, frame)?;
        }
        let top = top.wrapping_sub(u64::from(instruction.immediate16()));
        // The CPU makes sure that the procedure can use its stack.
        self.stack(top, width, Intent::Write)?;
        self.set_register(RegisterPart::low(Gpr::Rbp, width), frame);
        self.set_register(self.stack_pointer(), top);
        Ok(())
    }

    pub(super) fn leave(&mut self, instruction: &Instruction) -> Result<(), Stop> {
        let width = width_of(instruction.code())?;
        let frame = self.register(RegisterPart::low(Gpr::Rbp, self.stack_address_width()));
        let (outer, top) = self.popped(width, frame)?;
        self.set_register(self.stack_pointer(), top);
        self.set_register(RegisterPart::low(Gpr::Rbp, width), outer);
        Ok(())
    }

    /// The target of a near branch, if it may be jumped to.
    fn target(&mut self, instruction: &Instruction) -> Result<u64, Stop> {
        let target = self.source(instruction, 0)?;
        self.check_target(target)?;
        Ok(target)
    }

    fn check_target(&self, target: u64) -> Result<(), Stop> {
        let allowed = match self.mode {
            Mode::Long => is_canonical(target),
            _ => target <= u64::from(self.vcpu.segment(SegmentName::Cs).limit),
        };
        if allowed { Ok(()) } else { Err(self.general_protection()) }
    }

    fn push_value(&mut self, width: Width, value: u64) -> Result<(), Stop> {
        let top = self.pushed(width, self.register(self.stack_pointer()), value)?;
        self.set_register(self.stack_pointer(), top);
        Ok(())
    }

    /// Stores a value below `top`, and returns where that is.
    fn pushed(&mut self, width: Width, top: u64, value: u64) -> Result<u64, Stop> {
        let top = top.wrapping_sub(width.bytes() as u64);
        let to = self.stack(top, width, Intent::Write)?;
        self.store(&to, value);
        Ok(top)
    }

    /// The value at `top`, and what is the top without it.
    fn popped(&mut self, width: Width, top: u64) -> Result<(u64, u64), Stop> {
        let from = self.stack(top, width, Intent::Read)?;
        Ok((self.load(&from), top.wrapping_add(width.bytes() as u64)))
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

/// How many bytes the instructions move that have their width in the opcode.
fn width_of(code: Code) -> Result<Width, Stop> {
    use Code::*;
    Ok(match code {
        Retnw | Retnw_imm16 | Enterw_imm16_imm8 | Leavew | Pushaw | Popaw | Pushfw => Width::Word,
        Retnd | Retnd_imm16 | Enterd_imm16_imm8 | Leaved | Pushad | Popad | Pushfd => Width::Dword,
        Retnq | Retnq_imm16 | Enterq_imm16_imm8 | Leaveq | Pushfq => Width::Qword,
        _ => return Err(Stop::Unsupported),
    })
}
