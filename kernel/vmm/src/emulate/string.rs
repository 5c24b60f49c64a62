//! String instructions and their repetition (SDM 2, REP; SDM 1, 7.3.9).

use super::alu::Alu;
use super::operand::{RegisterPart, memory_segment};
use super::{Machine, Next, Stop};
use crate::memory::Width;
use crate::vcpu::Vcpu;
use crate::walk::Intent;
use iced_x86::{Instruction, Mnemonic, OpKind};
use x86defs::control::Rflags;
use x86defs::gpr::Gpr;
use x86defs::segment::SegmentName;

/// Repetitions per exit. What is left is done after the next exit, so that interrupts and other virtual CPUs
/// have their turn.
pub(super) const MAX_REPETITIONS: u32 = 4096;

/// The widths of a string instruction.
#[derive(Clone, Copy)]
pub(super) struct Widths {
    /// Of an element.
    pub(super) element: Width,
    /// Of the index and count registers.
    address: Width,
}

impl Widths {
    pub(super) fn of(instruction: &Instruction) -> Result<Widths, Stop> {
        let address = instruction.op_kinds().find_map(|kind| match kind {
            OpKind::MemorySegSI | OpKind::MemoryESDI => Some(Width::Word),
            OpKind::MemorySegESI | OpKind::MemoryESEDI => Some(Width::Dword),
            OpKind::MemorySegRSI | OpKind::MemoryESRDI => Some(Width::Qword),
            _ => None,
        });
        let element = Width::from_bytes(instruction.memory_size().size());
        match (element, address) {
            (Some(element), Some(address)) => Ok(Widths { element, address }),
            _ => Err(Stop::Unsupported),
        }
    }
}

impl<V: Vcpu + ?Sized> Machine<'_, V> {
    pub(super) fn string(&mut self, instruction: &Instruction) -> Result<Next, Stop> {
        use Mnemonic::*;
        let widths = Widths::of(instruction)?;
        let step = match instruction.mnemonic() {
            Movsb | Movsw | Movsd | Movsq => Self::movs,
            Stosb | Stosw | Stosd | Stosq => Self::stos,
            Lodsb | Lodsw | Lodsd | Lodsq => Self::lods,
            Cmpsb | Cmpsw | Cmpsd | Cmpsq => Self::cmps,
            Scasb | Scasw | Scasd | Scasq => Self::scas,
            _ => return Err(Stop::Unsupported),
        };
        let compares =
            matches!(instruction.mnemonic(), Cmpsb | Cmpsw | Cmpsd | Cmpsq | Scasb | Scasw | Scasd | Scasq);
        // REPE goes on while ZF is set, REPNE while it is clear.
        let go_on_while_zero = compares.then(|| instruction.has_rep_prefix());
        self.repeat(instruction, widths, go_on_while_zero, |machine| {
            step(machine, widths, memory_segment(instruction))
        })
    }

    /// Does one step, or as many as the count register says but not more than is decent for one exit.
    pub(super) fn repeat(
        &mut self,
        instruction: &Instruction,
        widths: Widths,
        go_on_while_zero: Option<bool>,
        mut step: impl FnMut(&mut Self) -> Result<(), Stop>,
    ) -> Result<Next, Stop> {
        if !instruction.has_rep_prefix() && !instruction.has_repne_prefix() {
            step(self)?;
            return Ok(Next::Following);
        }
        let counter = RegisterPart::low(Gpr::Rcx, widths.address);
        // Single-stepping stops after each repetition.
        let trap = self.vcpu.rflags().contains(Rflags::TF);
        let most = if trap { 1 } else { MAX_REPETITIONS };
        for _ in 0..most {
            let count = self.register(counter);
            if count == 0 {
                return Ok(Next::Following);
            }
            step(self)?;
            self.set_register(counter, count - 1);
            let zero = self.vcpu.rflags().contains(Rflags::ZF);
            if go_on_while_zero.is_some_and(|wanted| wanted != zero) {
                return Ok(Next::Following);
            }
        }
        Ok(if self.register(counter) == 0 { Next::Following } else { Next::Same })
    }

    /// An index register's value.
    pub(super) fn index(&self, gpr: Gpr, widths: Widths) -> u64 {
        self.register(RegisterPart::low(gpr, widths.address))
    }

    /// Moves an index register to the next element.
    pub(super) fn advance(&mut self, gpr: Gpr, widths: Widths) {
        let bytes = widths.element.bytes() as u64;
        let backwards = self.vcpu.rflags().contains(Rflags::DF);
        let step = if backwards { bytes.wrapping_neg() } else { bytes };
        let next = self.index(gpr, widths).wrapping_add(step);
        self.set_register(RegisterPart::low(gpr, widths.address), next);
    }

    fn load_source(&mut self, widths: Widths, segment: SegmentName) -> Result<u64, Stop> {
        let offset = self.index(Gpr::Rsi, widths);
        let from = self.locate(segment, offset, widths.element, Intent::Read)?;
        Ok(self.load(&from))
    }

    fn movs(&mut self, widths: Widths, segment: SegmentName) -> Result<(), Stop> {
        let to = self.locate(SegmentName::Es, self.index(Gpr::Rdi, widths), widths.element, Intent::Write)?;
        let value = self.load_source(widths, segment)?;
        self.store(&to, value);
        self.advance(Gpr::Rsi, widths);
        self.advance(Gpr::Rdi, widths);
        Ok(())
    }

    fn stos(&mut self, widths: Widths, _: SegmentName) -> Result<(), Stop> {
        let to = self.locate(SegmentName::Es, self.index(Gpr::Rdi, widths), widths.element, Intent::Write)?;
        let value = self.register(RegisterPart::low(Gpr::Rax, widths.element));
        self.store(&to, value);
        self.advance(Gpr::Rdi, widths);
        Ok(())
    }

    fn lods(&mut self, widths: Widths, segment: SegmentName) -> Result<(), Stop> {
        let value = self.load_source(widths, segment)?;
        self.set_register(RegisterPart::low(Gpr::Rax, widths.element), value);
        self.advance(Gpr::Rsi, widths);
        Ok(())
    }

    fn cmps(&mut self, widths: Widths, segment: SegmentName) -> Result<(), Stop> {
        let other =
            self.locate(SegmentName::Es, self.index(Gpr::Rdi, widths), widths.element, Intent::Read)?;
        let a = self.load_source(widths, segment)?;
        let b = self.load(&other);
        self.set_flags_of_difference(widths.element, a, b);
        self.advance(Gpr::Rsi, widths);
        self.advance(Gpr::Rdi, widths);
        Ok(())
    }

    fn scas(&mut self, widths: Widths, _: SegmentName) -> Result<(), Stop> {
        let other =
            self.locate(SegmentName::Es, self.index(Gpr::Rdi, widths), widths.element, Intent::Read)?;
        let a = self.register(RegisterPart::low(Gpr::Rax, widths.element));
        let b = self.load(&other);
        self.set_flags_of_difference(widths.element, a, b);
        self.advance(Gpr::Rdi, widths);
        Ok(())
    }

    fn set_flags_of_difference(&mut self, width: Width, a: u64, b: u64) {
        let (_, flags) = Alu::Sub.compute(width, a, b, self.vcpu.rflags());
        self.vcpu.set_rflags(flags);
    }
}
