//! Instructions that move a value: MOV and its relatives, CMOVcc, SETcc, XLAT.

use super::operand::{RegisterPart, operand_width};
use super::{Machine, Stop};
use crate::memory::Width;
use crate::vcpu::Vcpu;
use crate::walk::Intent;
use iced_x86::{ConditionCode, Instruction, OpKind};
use x86defs::control::Rflags;
use x86defs::gpr::Gpr;

impl<V: Vcpu + ?Sized> Machine<'_, V> {
    pub(super) fn copy(
        &mut self,
        instruction: &Instruction,
        convert: fn(u64, Width) -> u64,
    ) -> Result<(), Stop> {
        let to = self.destination(instruction, 0)?;
        let value = self.source(instruction, 1)?;
        let width = match instruction.op_kind(1) {
            OpKind::Register | OpKind::Memory => operand_width(instruction, 1)?,
            // Immediates come sign-extended.
            _ => Width::Qword,
        };
        self.assign(&to, convert(value, width));
        Ok(())
    }

    /// CMOVcc reads its source in any case, and clears the upper half of a 32-bit destination.
    pub(super) fn copy_if(&mut self, instruction: &Instruction) -> Result<(), Stop> {
        let to = self.destination(instruction, 0)?;
        let source = self.source(instruction, 1)?;
        let value = if self.condition(instruction) { source } else { self.value(&to) };
        self.assign(&to, value);
        Ok(())
    }

    pub(super) fn set_if(&mut self, instruction: &Instruction) -> Result<(), Stop> {
        let to = self.destination(instruction, 0)?;
        let value = u64::from(self.condition(instruction));
        self.assign(&to, value);
        Ok(())
    }

    /// XLAT: the decoder makes a memory operand of (E/R)BX + AL.
    pub(super) fn translate(&mut self, instruction: &Instruction) -> Result<(), Stop> {
        let from = self.memory_operand(instruction, 0, Intent::Read)?;
        let value = self.load(&from);
        self.set_register(RegisterPart::low(Gpr::Rax, Width::Byte), value);
        Ok(())
    }

    /// Whether the condition of an instruction holds (SDM 1, appendix B).
    fn condition(&self, instruction: &Instruction) -> bool {
        use ConditionCode as C;
        let flags = self.vcpu.rflags();
        let any = |wanted| flags.intersects(wanted);
        let less = any(Rflags::SF) != any(Rflags::OF);
        match instruction.condition_code() {
            C::None => false,
            C::o => any(Rflags::OF),
            C::no => !any(Rflags::OF),
            C::b => any(Rflags::CF),
            C::ae => !any(Rflags::CF),
            C::e => any(Rflags::ZF),
            C::ne => !any(Rflags::ZF),
            C::be => any(Rflags::CF | Rflags::ZF),
            C::a => !any(Rflags::CF | Rflags::ZF),
            C::s => any(Rflags::SF),
            C::ns => !any(Rflags::SF),
            C::p => any(Rflags::PF),
            C::np => !any(Rflags::PF),
            C::l => less,
            C::ge => !less,
            C::le => less || any(Rflags::ZF),
            C::g => !less && !any(Rflags::ZF),
        }
    }
}

/// The bytes of a value of this width in the other order.
pub(super) fn reversed(value: u64, width: Width) -> u64 {
    value.swap_bytes() >> (u64::BITS - width.bits())
}
