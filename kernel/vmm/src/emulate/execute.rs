//! What an instruction does, by class of operation.

use super::alu::{Alu, BitChange};
use super::operand::{Place, RegisterPart, operand_width};
use super::{Machine, Next, Stop};
use crate::memory::Width;
use crate::vcpu::Vcpu;
use crate::walk::Intent;
use iced_x86::{Instruction, Mnemonic, OpKind};
use x86defs::control::Rflags;
use x86defs::gpr::Gpr;

/// Instructions that differ in a parameter only.
enum Class {
    /// Copies the source, which is as wide as the destination, or narrower and zero-extended.
    Move,
    /// Copies the source, sign-extended.
    MoveSigned,
    /// Combines both operands into the first.
    Combine(Alu),
    /// Combines both operands for the flags only.
    Compare(Alu),
    /// Changes one operand.
    Change(Alu),
    Bit(BitChange),
    Exchange,
    ExchangeAdd,
    CompareExchange,
    CompareExchange8Bytes,
    Push,
    Pop,
    Call,
    Jump,
}

fn class(mnemonic: Mnemonic) -> Option<Class> {
    Some(match mnemonic {
        Mnemonic::Mov | Mnemonic::Movzx | Mnemonic::Movnti => Class::Move,
        Mnemonic::Movsx | Mnemonic::Movsxd => Class::MoveSigned,
        Mnemonic::Add => Class::Combine(Alu::Add),
        Mnemonic::Adc => Class::Combine(Alu::Adc),
        Mnemonic::Sub => Class::Combine(Alu::Sub),
        Mnemonic::Sbb => Class::Combine(Alu::Sbb),
        Mnemonic::And => Class::Combine(Alu::And),
        Mnemonic::Or => Class::Combine(Alu::Or),
        Mnemonic::Xor => Class::Combine(Alu::Xor),
        Mnemonic::Cmp => Class::Compare(Alu::Sub),
        Mnemonic::Test => Class::Compare(Alu::And),
        Mnemonic::Inc => Class::Change(Alu::Inc),
        Mnemonic::Dec => Class::Change(Alu::Dec),
        Mnemonic::Not => Class::Change(Alu::Not),
        Mnemonic::Neg => Class::Change(Alu::Neg),
        Mnemonic::Bt => Class::Bit(BitChange::Keep),
        Mnemonic::Bts => Class::Bit(BitChange::Set),
        Mnemonic::Btr => Class::Bit(BitChange::Reset),
        Mnemonic::Btc => Class::Bit(BitChange::Complement),
        Mnemonic::Xchg => Class::Exchange,
        Mnemonic::Xadd => Class::ExchangeAdd,
        Mnemonic::Cmpxchg => Class::CompareExchange,
        Mnemonic::Cmpxchg8b => Class::CompareExchange8Bytes,
        Mnemonic::Push => Class::Push,
        Mnemonic::Pop => Class::Pop,
        Mnemonic::Call => Class::Call,
        Mnemonic::Jmp => Class::Jump,
        _ => return None,
    })
}

impl<V: Vcpu> Machine<'_, V> {
    /// Executes a decoded instruction.
    pub(super) fn execute(&mut self, instruction: &Instruction) -> Result<Next, Stop> {
        if instruction.is_string_instruction() {
            return self.string(instruction);
        }
        match class(instruction.mnemonic()).ok_or(Stop::Unsupported)? {
            Class::Move => self.copy(instruction, |value, _| value),
            Class::MoveSigned => self.copy(instruction, sign_extend),
            Class::Combine(alu) => self.combine(instruction, alu),
            Class::Compare(alu) => self.compare(instruction, alu),
            Class::Change(alu) => self.change(instruction, alu),
            Class::Bit(change) => self.bit(instruction, change),
            Class::Exchange => self.exchange(instruction),
            Class::ExchangeAdd => self.exchange_add(instruction),
            Class::CompareExchange => self.compare_exchange(instruction),
            Class::CompareExchange8Bytes => self.compare_exchange_8_bytes(instruction),
            Class::Push => self.push(instruction),
            Class::Pop => self.pop(instruction),
            Class::Call => return self.call(instruction),
            Class::Jump => return self.jump(instruction),
        }?;
        Ok(Next::Following)
    }

    fn copy(&mut self, instruction: &Instruction, extend: fn(u64, Width) -> u64) -> Result<(), Stop> {
        let to = self.destination(instruction, 0)?;
        let value = self.source(instruction, 1)?;
        let width = match instruction.op_kind(1) {
            OpKind::Register | OpKind::Memory => operand_width(instruction, 1)?,
            // Immediates come sign-extended.
            _ => Width::Qword,
        };
        self.assign(&to, extend(value, width));
        Ok(())
    }

    fn combine(&mut self, instruction: &Instruction, alu: Alu) -> Result<(), Stop> {
        let to = self.destination(instruction, 0)?;
        let b = self.source(instruction, 1)?;
        self.modify(instruction, &to, |width, a, flags| alu.compute(width, a, b, flags))?;
        Ok(())
    }

    fn compare(&mut self, instruction: &Instruction, alu: Alu) -> Result<(), Stop> {
        let width = operand_width(instruction, 0)?;
        let a = self.source(instruction, 0)?;
        let b = self.source(instruction, 1)?;
        let (_, flags) = alu.compute(width, a, b, self.vcpu.rflags());
        self.vcpu.set_rflags(flags);
        Ok(())
    }

    fn change(&mut self, instruction: &Instruction, alu: Alu) -> Result<(), Stop> {
        let to = self.destination(instruction, 0)?;
        self.modify(instruction, &to, |width, a, flags| alu.compute(width, a, 0, flags))?;
        Ok(())
    }

    fn bit(&mut self, instruction: &Instruction, change: BitChange) -> Result<(), Stop> {
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

    fn exchange(&mut self, instruction: &Instruction) -> Result<(), Stop> {
        let (a, b) = (self.destination(instruction, 0)?, self.destination(instruction, 1)?);
        let (old_a, old_b) = (self.value(&a), self.value(&b));
        // XCHG with memory is locked without a prefix.
        self.replace_in(&a, old_a, old_b, true)?;
        self.replace_in(&b, old_b, old_a, true)
    }

    fn exchange_add(&mut self, instruction: &Instruction) -> Result<(), Stop> {
        let (to, from) = (self.destination(instruction, 0)?, self.destination(instruction, 1)?);
        let b = self.value(&from);
        let old = self.modify(instruction, &to, |width, a, flags| Alu::Add.compute(width, a, b, flags))?;
        // If both are the same register the sum stays.
        if !matches!((&to, &from), (Place::Register(x), Place::Register(y)) if x == y) {
            self.assign(&from, old);
        }
        Ok(())
    }

    fn compare_exchange(&mut self, instruction: &Instruction) -> Result<(), Stop> {
        let width = operand_width(instruction, 0)?;
        let to = self.destination(instruction, 0)?;
        let new = self.source(instruction, 1)?;
        let accumulator = RegisterPart::low(Gpr::Rax, width);
        let expected = self.register(accumulator);
        let mut equal = false;
        let old = self.modify(instruction, &to, |width, old, flags| {
            equal = old == expected;
            let (_, flags) = Alu::Sub.compute(width, expected, old, flags);
            (if equal { new } else { old }, flags)
        })?;
        if !equal {
            self.set_register(accumulator, old);
        }
        Ok(())
    }

    fn compare_exchange_8_bytes(&mut self, instruction: &Instruction) -> Result<(), Stop> {
        let part = |gpr| RegisterPart::low(gpr, Width::Dword);
        let pair = |m: &Self, high, low| m.register(part(high)) << 32 | m.register(part(low));
        let expected = pair(self, Gpr::Rdx, Gpr::Rax);
        let new = pair(self, Gpr::Rcx, Gpr::Rbx);
        let to = self.destination(instruction, 0)?;
        let old = self.modify(instruction, &to, |_, old, mut flags| {
            flags.set(Rflags::ZF, old == expected);
            (if old == expected { new } else { old }, flags)
        })?;
        if old != expected {
            self.set_register(part(Gpr::Rdx), old >> 32);
            self.set_register(part(Gpr::Rax), old);
        }
        Ok(())
    }

    /// Replaces what is in a place by a function of it, which gives the new flags, too. Returns what was there.
    fn modify(
        &mut self,
        instruction: &Instruction,
        place: &Place,
        change: impl FnOnce(Width, u64, Rflags) -> (u64, Rflags),
    ) -> Result<u64, Stop> {
        let width = operand_width(instruction, 0)?;
        let old = self.value(place);
        let (new, flags) = change(width, old, self.vcpu.rflags());
        self.replace_in(place, old, new, instruction.has_lock_prefix())?;
        self.vcpu.set_rflags(flags);
        Ok(old)
    }

    fn replace_in(&mut self, place: &Place, old: u64, new: u64, locked: bool) -> Result<(), Stop> {
        match place {
            Place::Register(part) => self.set_register(*part, new),
            Place::Memory(location) => self.replace(location, old, new, locked)?,
        }
        Ok(())
    }
}

/// The value of this width, sign-extended to 64 bits.
pub(super) fn sign_extend(value: u64, width: Width) -> u64 {
    let unused = 64 - 8 * width.bytes() as u32;
    ((value << unused) as i64 >> unused) as u64
}
