//! Which instruction is which class of operation.

use super::alu::{Alu, BitChange};
use super::scan::Scan;
use super::shift::{DoubleShift, Shift};
use super::wide::Sign;
use super::{Machine, Next, Stop};
use crate::vcpu::Vcpu;
use iced_x86::{Instruction, Mnemonic};

/// Instructions that differ in a parameter only.
#[derive(Clone, Copy)]
enum Class {
    /// Copies the source, which is as wide as the destination, or narrower and zero-extended.
    Move,
    /// Copies the source, sign-extended.
    MoveSigned,
    MoveReversed,
    MoveIf,
    SetIf,
    Translate,
    /// Combines both operands into the first.
    Combine(Alu),
    /// Combines both operands for the flags only.
    Compare(Alu),
    /// Changes one operand.
    Change(Alu),
    Shift(Shift),
    DoubleShift(DoubleShift),
    Bit(BitChange),
    Scan(Scan),
    Multiply(Sign),
    Divide(Sign),
    Bound,
    Exchange,
    ExchangeAdd,
    CompareExchange,
    CompareExchange8Bytes,
    CompareExchange16Bytes,
    Push,
    PushAll,
    PushFlags,
    Pop,
    PopAll,
    Enter,
    Leave,
    Call,
    Jump,
    Return,
    String,
}

/// The class of an instruction. A mnemonic that is absent stops the virtual machine (docs/ARCHITECTURE.md lists them).
fn class(mnemonic: Mnemonic) -> Option<Class> {
    use Mnemonic as M;
    moving(mnemonic).or_else(|| arithmetic(mnemonic)).or_else(|| {
        Some(match mnemonic {
            M::Bound => Class::Bound,
            M::Xchg => Class::Exchange,
            M::Xadd => Class::ExchangeAdd,
            M::Cmpxchg => Class::CompareExchange,
            M::Cmpxchg8b => Class::CompareExchange8Bytes,
            M::Cmpxchg16b => Class::CompareExchange16Bytes,
            M::Push => Class::Push,
            M::Pusha | M::Pushad => Class::PushAll,
            M::Pushf | M::Pushfd | M::Pushfq => Class::PushFlags,
            M::Pop => Class::Pop,
            M::Popa | M::Popad => Class::PopAll,
            M::Enter => Class::Enter,
            M::Leave => Class::Leave,
            M::Call => Class::Call,
            M::Jmp => Class::Jump,
            M::Ret => Class::Return,
            _ => return None,
        })
    })
}

fn moving(mnemonic: Mnemonic) -> Option<Class> {
    use Mnemonic::*;
    Some(match mnemonic {
        Mov | Movzx | Movnti => Class::Move,
        Movsx | Movsxd => Class::MoveSigned,
        Movbe => Class::MoveReversed,
        Cmova | Cmovae | Cmovb | Cmovbe | Cmove | Cmovg | Cmovge | Cmovl | Cmovle | Cmovne | Cmovno
        | Cmovnp | Cmovns | Cmovo | Cmovp | Cmovs => Class::MoveIf,
        Seta | Setae | Setb | Setbe | Sete | Setg | Setge | Setl | Setle | Setne | Setno | Setnp | Setns
        | Seto | Setp | Sets => Class::SetIf,
        Xlatb => Class::Translate,
        // MOVSD is a move of SSE as well: the string instruction is told by its operands.
        Movsb | Movsw | Movsd | Movsq | Stosb | Stosw | Stosd | Stosq | Lodsb | Lodsw | Lodsd | Lodsq
        | Cmpsb | Cmpsw | Cmpsd | Cmpsq | Scasb | Scasw | Scasd | Scasq => Class::String,
        _ => return None,
    })
}

fn arithmetic(mnemonic: Mnemonic) -> Option<Class> {
    use Mnemonic as M;
    Some(match mnemonic {
        M::Add => Class::Combine(Alu::Add),
        M::Adc => Class::Combine(Alu::Adc),
        M::Sub => Class::Combine(Alu::Sub),
        M::Sbb => Class::Combine(Alu::Sbb),
        M::And => Class::Combine(Alu::And),
        M::Or => Class::Combine(Alu::Or),
        M::Xor => Class::Combine(Alu::Xor),
        M::Cmp => Class::Compare(Alu::Sub),
        M::Test => Class::Compare(Alu::And),
        M::Inc => Class::Change(Alu::Inc),
        M::Dec => Class::Change(Alu::Dec),
        M::Not => Class::Change(Alu::Not),
        M::Neg => Class::Change(Alu::Neg),
        M::Rol => Class::Shift(Shift::Rol),
        M::Ror => Class::Shift(Shift::Ror),
        M::Rcl => Class::Shift(Shift::Rcl),
        M::Rcr => Class::Shift(Shift::Rcr),
        M::Shl | M::Sal => Class::Shift(Shift::Shl),
        M::Shr => Class::Shift(Shift::Shr),
        M::Sar => Class::Shift(Shift::Sar),
        M::Shld => Class::DoubleShift(DoubleShift::Left),
        M::Shrd => Class::DoubleShift(DoubleShift::Right),
        M::Bt => Class::Bit(BitChange::Keep),
        M::Bts => Class::Bit(BitChange::Set),
        M::Btr => Class::Bit(BitChange::Reset),
        M::Btc => Class::Bit(BitChange::Complement),
        M::Bsf => Class::Scan(Scan::Forward),
        M::Bsr => Class::Scan(Scan::Reverse),
        M::Tzcnt => Class::Scan(Scan::TrailingZeros),
        M::Lzcnt => Class::Scan(Scan::LeadingZeros),
        M::Popcnt => Class::Scan(Scan::Population),
        M::Mul => Class::Multiply(Sign::Unsigned),
        M::Imul => Class::Multiply(Sign::Signed),
        M::Div => Class::Divide(Sign::Unsigned),
        M::Idiv => Class::Divide(Sign::Signed),
        _ => return None,
    })
}

impl<V: Vcpu + ?Sized> Machine<'_, V> {
    /// Executes a decoded instruction.
    pub(super) fn execute(&mut self, instruction: &Instruction) -> Result<Next, Stop> {
        match class(instruction.mnemonic()).ok_or(Stop::Unsupported)? {
            Class::Move => self.copy(instruction, |value, _| value),
            Class::MoveSigned => self.copy(instruction, super::alu::sign_extend),
            Class::MoveReversed => self.copy(instruction, super::moves::reversed),
            Class::MoveIf => self.copy_if(instruction),
            Class::SetIf => self.set_if(instruction),
            Class::Translate => self.translate(instruction),
            Class::Combine(alu) => self.combine(instruction, alu),
            Class::Compare(alu) => self.compare(instruction, alu),
            Class::Change(alu) => self.change(instruction, alu),
            Class::Shift(shift) => self.shift(instruction, shift),
            Class::DoubleShift(shift) => self.double_shift(instruction, shift),
            Class::Bit(change) => self.bit(instruction, change),
            Class::Scan(scan) => self.scan(instruction, scan),
            Class::Multiply(sign) => self.multiply(instruction, sign),
            Class::Divide(sign) => self.divide(instruction, sign),
            Class::Bound => self.bound(instruction),
            Class::Exchange => self.exchange(instruction),
            Class::ExchangeAdd => self.exchange_add(instruction),
            Class::CompareExchange => self.compare_exchange(instruction),
            Class::CompareExchange8Bytes => self.compare_exchange_8_bytes(instruction),
            Class::CompareExchange16Bytes => self.compare_exchange_16_bytes(instruction),
            Class::Push => self.push(instruction),
            Class::PushAll => self.push_all(instruction),
            Class::PushFlags => self.push_flags(instruction),
            Class::Pop => self.pop(instruction),
            Class::PopAll => self.pop_all(instruction),
            Class::Enter => self.enter(instruction),
            Class::Leave => self.leave(instruction),
            Class::Call => return self.call(instruction),
            Class::Jump => return self.jump(instruction),
            Class::Return => return self.near_return(instruction),
            Class::String => return self.string(instruction),
        }?;
        Ok(Next::Following)
    }
}
