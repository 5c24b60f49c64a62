//! Instructions that read, change and write in one step, atomically where that matters: XCHG, XADD, CMPXCHG.

use super::alu::Alu;
use super::operand::{Place, RegisterPart, operand_width};
use super::{Machine, Stop};
use crate::memory::Width;
use crate::vcpu::Vcpu;
use crate::walk::Intent;
use iced_x86::Instruction;
use x86defs::control::Rflags;
use x86defs::gpr::Gpr;

impl<V: Vcpu + ?Sized> Machine<'_, V> {
    pub(super) fn exchange(&mut self, instruction: &Instruction) -> Result<(), Stop> {
        let (a, b) = (self.destination(instruction, 0)?, self.destination(instruction, 1)?);
        let (old_a, old_b) = (self.value(&a), self.value(&b));
        // XCHG with memory is locked without a prefix.
        self.replace_in(&a, old_a, old_b, true)?;
        self.replace_in(&b, old_b, old_a, true)
    }

    pub(super) fn exchange_add(&mut self, instruction: &Instruction) -> Result<(), Stop> {
        let (to, from) = (self.destination(instruction, 0)?, self.destination(instruction, 1)?);
        let b = self.value(&from);
        let old = self.modify(instruction, &to, |width, a, flags| Alu::Add.compute(width, a, b, flags))?;
        // If both are the same register the sum stays.
        if !matches!((&to, &from), (Place::Register(x), Place::Register(y)) if x == y) {
            self.assign(&from, old);
        }
        Ok(())
    }

    pub(super) fn compare_exchange(&mut self, instruction: &Instruction) -> Result<(), Stop> {
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

    pub(super) fn compare_exchange_8_bytes(&mut self, instruction: &Instruction) -> Result<(), Stop> {
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

    /// CMPXCHG16B, whose operand is aligned and therefore in one page.
    pub(super) fn compare_exchange_16_bytes(&mut self, instruction: &Instruction) -> Result<(), Stop> {
        let [low, high] = self.aligned_16_bytes(instruction, Intent::Write)?;
        let old = (self.load(&high), self.load(&low));
        let expected = (self.vcpu.gpr(Gpr::Rdx), self.vcpu.gpr(Gpr::Rax));
        let equal = old == expected;
        // Like its shorter relatives it writes in any case.
        let new = if equal { (self.vcpu.gpr(Gpr::Rcx), self.vcpu.gpr(Gpr::Rbx)) } else { old };
        self.store(&low, new.1);
        self.store(&high, new.0);
        if !equal {
            self.vcpu.set_gpr(Gpr::Rdx, old.0);
            self.vcpu.set_gpr(Gpr::Rax, old.1);
        }
        let mut flags = self.vcpu.rflags();
        flags.set(Rflags::ZF, equal);
        self.vcpu.set_rflags(flags);
        Ok(())
    }

    /// Replaces what is in a place by a function of it, which gives the new flags, too. Returns what was there.
    pub(super) fn modify(
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
