//! Instructions that compute: operands and flags are read here, results come from pure functions.

use super::alu::{Alu, BitChange, sign_extend};
use super::operand::{Place, RegisterPart, operand_width};
use super::scan::Scan;
use super::shift::{DoubleShift, Shift};
use super::wide::{self, Sign};
use super::{Machine, Stop};
use crate::memory::Width;
use crate::vcpu::Vcpu;
use crate::walk::Intent;
use iced_x86::{Instruction, OpKind};
use x86defs::control::Rflags;
use x86defs::event::{Event, Exception};
use x86defs::gpr::Gpr;

impl<V: Vcpu + ?Sized> Machine<'_, V> {
    pub(super) fn combine(&mut self, instruction: &Instruction, alu: Alu) -> Result<(), Stop> {
        let to = self.destination(instruction, 0)?;
        let b = self.source(instruction, 1)?;
        self.modify(instruction, &to, |width, a, flags| alu.compute(width, a, b, flags))?;
        Ok(())
    }

    pub(super) fn compare(&mut self, instruction: &Instruction, alu: Alu) -> Result<(), Stop> {
        let width = operand_width(instruction, 0)?;
        let a = self.source(instruction, 0)?;
        let b = self.source(instruction, 1)?;
        let (_, flags) = alu.compute(width, a, b, self.vcpu.rflags());
        self.vcpu.set_rflags(flags);
        Ok(())
    }

    pub(super) fn change(&mut self, instruction: &Instruction, alu: Alu) -> Result<(), Stop> {
        let to = self.destination(instruction, 0)?;
        self.modify(instruction, &to, |width, a, flags| alu.compute(width, a, 0, flags))?;
        Ok(())
    }

    pub(super) fn shift(&mut self, instruction: &Instruction, shift: Shift) -> Result<(), Stop> {
        let to = self.destination(instruction, 0)?;
        let count = self.source(instruction, 1)?;
        self.modify(instruction, &to, |width, a, flags| shift.compute(width, a, count, flags))?;
        Ok(())
    }

    pub(super) fn double_shift(&mut self, instruction: &Instruction, shift: DoubleShift) -> Result<(), Stop> {
        let to = self.destination(instruction, 0)?;
        let filler = self.source(instruction, 1)?;
        let count = self.source(instruction, 2)?;
        self.modify(instruction, &to, |width, a, flags| shift.compute(width, a, filler, count, flags))?;
        Ok(())
    }

    pub(super) fn bit(&mut self, instruction: &Instruction, change: BitChange) -> Result<(), Stop> {
        let number = self.source(instruction, 1)?;
        let intent = if change == BitChange::Keep { Intent::Read } else { Intent::Write };
        let to = if instruction.op_kind(0) == OpKind::Memory && instruction.op_kind(1) == OpKind::Register {
            let signed = sign_extend(number, operand_width(instruction, 1)?) as i64;
            Place::Memory(self.bit_string_element(instruction, signed, intent)?)
        } else {
            self.place(instruction, 0, intent)?
        };
        if change == BitChange::Keep {
            let a = self.value(&to);
            let width = operand_width(instruction, 0)?;
            let (_, flags) = change.compute(width, a, number, self.vcpu.rflags());
            self.vcpu.set_rflags(flags);
            return Ok(());
        }
        self.modify(instruction, &to, |width, a, flags| change.compute(width, a, number, flags))?;
        Ok(())
    }

    pub(super) fn scan(&mut self, instruction: &Instruction, scan: Scan) -> Result<(), Stop> {
        let to = self.destination(instruction, 0)?;
        let a = self.source(instruction, 1)?;
        let width = operand_width(instruction, 1)?;
        let (number, flags) = scan.compute(width, a, self.vcpu.rflags());
        if let Some(number) = number {
            self.assign(&to, number);
        }
        self.vcpu.set_rflags(flags);
        Ok(())
    }

    /// MUL, and IMUL with one, two or three operands.
    pub(super) fn multiply(&mut self, instruction: &Instruction, sign: Sign) -> Result<(), Stop> {
        let width = operand_width(instruction, 0)?;
        let product = if instruction.op_count() == 1 {
            let b = self.source(instruction, 0)?;
            let a = self.register(RegisterPart::low(Gpr::Rax, width));
            let product = wide::multiply(sign, width, a, b);
            self.set_accumulators(width, product.high, product.low);
            product
        } else {
            let last = instruction.op_count() - 1;
            let a = self.source(instruction, last - 1)?;
            let b = self.source(instruction, last)?;
            let product = wide::multiply(sign, width, a, b);
            let to = self.destination(instruction, 0)?;
            self.assign(&to, product.low);
            product
        };
        let mut flags = self.vcpu.rflags();
        flags.set(Rflags::CF | Rflags::OF, product.overflows);
        self.vcpu.set_rflags(flags);
        Ok(())
    }

    pub(super) fn divide(&mut self, instruction: &Instruction, sign: Sign) -> Result<(), Stop> {
        let width = operand_width(instruction, 0)?;
        let divisor = self.source(instruction, 0)?;
        let (high, low) = self.accumulators(width);
        let (quotient, remainder) = wide::divide(sign, width, high, low, divisor)
            .ok_or(Stop::Fault(Event::exception(Exception::DivideError)))?;
        self.set_accumulators(width, remainder, quotient);
        Ok(())
    }

    /// BOUND: the index may be equal to either bound.
    pub(super) fn bound(&mut self, instruction: &Instruction) -> Result<(), Stop> {
        let width = operand_width(instruction, 0)?;
        let index = self.source(instruction, 0)?;
        let bounds = self.source(instruction, 1)?;
        let signed = |value| sign_extend(value, width) as i64;
        let (lower, upper) = (signed(bounds), signed(bounds >> width.bits()));
        if (lower..=upper).contains(&signed(index)) {
            return Ok(());
        }
        Err(Stop::Fault(Event::exception(Exception::BoundRange)))
    }

    /// AH and AL, or the parts of RDX and RAX that are so wide.
    fn accumulators(&self, width: Width) -> (u64, u64) {
        let low = |gpr| self.register(RegisterPart::low(gpr, width));
        match width {
            Width::Byte => (self.register(RegisterPart::low(Gpr::Rax, Width::Word)) >> 8, low(Gpr::Rax)),
            _ => (low(Gpr::Rdx), low(Gpr::Rax)),
        }
    }

    fn set_accumulators(&mut self, width: Width, high: u64, low: u64) {
        if width == Width::Byte {
            return self.set_register(RegisterPart::low(Gpr::Rax, Width::Word), high << 8 | low);
        }
        self.set_register(RegisterPart::low(Gpr::Rdx, width), high);
        self.set_register(RegisterPart::low(Gpr::Rax, width), low);
    }
}
