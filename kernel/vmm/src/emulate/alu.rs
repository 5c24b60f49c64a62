//! Arithmetic and logic as pure functions: operands and flags in, result and flags out.

use crate::memory::Width;
use x86defs::control::Rflags;

/// An operation whose flags follow from its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alu {
    Add,
    Adc,
    Sub,
    Sbb,
    And,
    Or,
    Xor,
    /// Adds one and keeps CF.
    Inc,
    /// Subtracts one and keeps CF.
    Dec,
    /// Inverts and keeps all flags.
    Not,
    /// Subtracts from zero.
    Neg,
}

/// What a bit test does to the bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BitChange {
    Keep,
    Set,
    Reset,
    Complement,
}

/// The flags that arithmetic defines. AF after logic is undefined in the manual; CPUs clear it.
pub(super) const STATUS: Rflags =
    Rflags::CF.union(Rflags::PF).union(Rflags::AF).union(Rflags::ZF).union(Rflags::SF).union(Rflags::OF);

impl Alu {
    /// The result in the low bits of the width, and all flags. Operations with one operand ignore `b`.
    pub(super) fn compute(self, width: Width, a: u64, b: u64, flags: Rflags) -> (u64, Rflags) {
        let carry = u64::from(flags.contains(Rflags::CF));
        let except_carry = |status: Rflags| (status - Rflags::CF) | (flags & Rflags::CF);
        let (value, status) = match self {
            Alu::Add => add(width, a, b, 0),
            Alu::Adc => add(width, a, b, carry),
            Alu::Sub => subtract(width, a, b, 0),
            Alu::Sbb => subtract(width, a, b, carry),
            Alu::And => logic(width, a & b),
            Alu::Or => logic(width, a | b),
            Alu::Xor => logic(width, a ^ b),
            Alu::Neg => subtract(width, 0, a, 0),
            Alu::Inc => {
                let (value, status) = add(width, a, 1, 0);
                (value, except_carry(status))
            }
            Alu::Dec => {
                let (value, status) = subtract(width, a, 1, 0);
                (value, except_carry(status))
            }
            Alu::Not => (!a & width.mask(), flags & STATUS),
        };
        (value, (flags - STATUS) | status)
    }
}

impl BitChange {
    /// The operand with the bit changed, and the flags: CF is what the bit was.
    pub(super) fn compute(self, width: Width, a: u64, bit: u64, mut flags: Rflags) -> (u64, Rflags) {
        let mask = 1 << (bit % (8 * width.bytes() as u64));
        flags.set(Rflags::CF, a & mask != 0);
        let value = match self {
            BitChange::Keep => a,
            BitChange::Set => a | mask,
            BitChange::Reset => a & !mask,
            BitChange::Complement => a ^ mask,
        };
        (value, flags)
    }
}

/// The value of this width, sign-extended to 64 bits.
pub(super) fn sign_extend(value: u64, width: Width) -> u64 {
    let unused = 64 - width.bits();
    ((value << unused) as i64 >> unused) as u64
}

/// The sign of a value of this width.
pub(super) fn top_bit(width: Width, value: u64) -> bool {
    value >> (width.bits() - 1) & 1 != 0
}

/// SF, ZF and PF of a result.
pub(super) fn sign_zero_parity(width: Width, value: u64) -> Rflags {
    let mut status = Rflags::empty();
    status.set(Rflags::SF, top_bit(width, value));
    status.set(Rflags::ZF, value == 0);
    status.set(Rflags::PF, (value as u8).count_ones().is_multiple_of(2));
    status
}

fn logic(width: Width, value: u64) -> (u64, Rflags) {
    let value = value & width.mask();
    (value, sign_zero_parity(width, value))
}

/// Status flags of a sum or difference, from what each bit carried into or borrowed from the next.
fn arithmetic(width: Width, value: u64, carries: u64, overflows: u64) -> (u64, Rflags) {
    let value = value & width.mask();
    let mut status = sign_zero_parity(width, value);
    status.set(Rflags::CF, top_bit(width, carries));
    status.set(Rflags::AF, carries & 1 << 3 != 0);
    status.set(Rflags::OF, top_bit(width, overflows));
    (value, status)
}

fn add(width: Width, a: u64, b: u64, carry: u64) -> (u64, Rflags) {
    let sum = a.wrapping_add(b).wrapping_add(carry);
    let carries = (a & b) | ((a | b) & !sum);
    arithmetic(width, sum, carries, (a ^ sum) & (b ^ sum))
}

fn subtract(width: Width, a: u64, b: u64, borrow: u64) -> (u64, Rflags) {
    let difference = a.wrapping_sub(b).wrapping_sub(borrow);
    let borrows = (!a & b) | (!(a ^ b) & difference);
    arithmetic(width, difference, borrows, (a ^ b) & (a ^ difference))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    const WIDTHS: [Width; 4] = [Width::Byte, Width::Word, Width::Dword, Width::Qword];

    /// Values around every boundary of a width, and some without a pattern.
    fn values(width: Width) -> Vec<u64> {
        let top = 1 << (8 * width.bytes() - 1);
        [0, 1, 2, 0xf, 0x10, 0x7f, 0x80, 0xff, top - 1, top, top + 1, u64::MAX, u64::MAX - 1]
            .into_iter()
            .chain((1..20).map(|i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
            .map(|value| value & width.mask())
            .collect()
    }

    fn signed(width: Width, value: u64) -> i128 {
        let bits = 8 * width.bytes() as u32;
        i128::from((value << (64 - bits)) as i64 >> (64 - bits))
    }

    /// Flags by the manual's words, from exact integers: the unsigned and the signed result, and that of the
    /// low four bits.
    fn expected(width: Width, unsigned: i128, exact: i128, nibble: i128) -> (u64, Rflags) {
        let value = unsigned as u64 & width.mask();
        let mut flags = Rflags::empty();
        flags.set(Rflags::CF, unsigned < 0 || unsigned > i128::from(width.mask()));
        flags.set(Rflags::AF, !(0..16).contains(&nibble));
        flags.set(Rflags::OF, exact != signed(width, value));
        flags.set(Rflags::ZF, value == 0);
        flags.set(Rflags::SF, signed(width, value) < 0);
        flags.set(Rflags::PF, (0..8).filter(|bit| value & 1 << bit != 0).count() % 2 == 0);
        (value, flags)
    }

    /// Compares an operation for all pairs of values, with all flags clear and all set.
    fn compare(alu: Alu, oracle: impl Fn(Width, u64, u64, Rflags) -> (u64, Rflags)) {
        for width in WIDTHS {
            for a in values(width) {
                for b in values(width) {
                    for before in [Rflags::ONE, Rflags::all()] {
                        let (value, status) = oracle(width, a, b, before);
                        let flags = (before - STATUS) | status;
                        let computed = alu.compute(width, a, b, before);
                        assert_eq!(computed, (value, flags), "{alu:?} {width:?} {a:#x}, {b:#x}, {before:?}");
                    }
                }
            }
        }
    }

    fn carry_in(flags: Rflags) -> i128 {
        i128::from(flags.contains(Rflags::CF))
    }

    fn sum(width: Width, a: u64, b: u64, carry: i128) -> (u64, Rflags) {
        let (x, y) = (i128::from(a), i128::from(b));
        let exact = signed(width, a) + signed(width, b) + carry;
        expected(width, x + y + carry, exact, x % 16 + y % 16 + carry)
    }

    fn difference(width: Width, a: u64, b: u64, borrow: i128) -> (u64, Rflags) {
        let (x, y) = (i128::from(a), i128::from(b));
        let exact = signed(width, a) - signed(width, b) - borrow;
        expected(width, x - y - borrow, exact, x % 16 - y % 16 - borrow)
    }

    fn keeping_carry((value, status): (u64, Rflags), before: Rflags) -> (u64, Rflags) {
        (value, (status - Rflags::CF) | (before & Rflags::CF))
    }

    fn logical(width: Width, value: u64) -> (u64, Rflags) {
        let (value, status) = expected(width, i128::from(value), 0, 0);
        (value, status - Rflags::OF)
    }

    #[test]
    fn sums_and_differences() {
        compare(Alu::Add, |w, a, b, _| sum(w, a, b, 0));
        compare(Alu::Adc, |w, a, b, f| sum(w, a, b, carry_in(f)));
        compare(Alu::Sub, |w, a, b, _| difference(w, a, b, 0));
        compare(Alu::Sbb, |w, a, b, f| difference(w, a, b, carry_in(f)));
    }

    #[test]
    fn operations_with_one_operand() {
        compare(Alu::Inc, |w, a, _, f| keeping_carry(sum(w, a, 1, 0), f));
        compare(Alu::Dec, |w, a, _, f| keeping_carry(difference(w, a, 1, 0), f));
        compare(Alu::Neg, |w, a, _, _| difference(w, 0, a, 0));
        compare(Alu::Not, |w, a, _, f| (w.mask() - a, f & STATUS));
    }

    #[test]
    fn logic_clears_carry_and_overflow() {
        compare(Alu::And, |w, a, b, _| logical(w, a & b));
        compare(Alu::Or, |w, a, b, _| logical(w, a | b));
        compare(Alu::Xor, |w, a, b, _| logical(w, a ^ b));
    }

    #[test]
    fn operands_wider_than_the_operation_do_not_matter() {
        let (value, flags) = Alu::Add.compute(Width::Byte, 0x1ff, u64::MAX, Rflags::ONE);
        assert_eq!(value, 0xfe);
        assert_eq!(flags, Rflags::ONE | Rflags::CF | Rflags::AF | Rflags::SF);
    }

    #[test]
    fn bits_are_tested_and_changed() {
        for before in [Rflags::ONE, Rflags::all()] {
            let clear = before - Rflags::CF;
            let set = before | Rflags::CF;
            assert_eq!(BitChange::Keep.compute(Width::Word, 0x8000, 15, before), (0x8000, set));
            assert_eq!(BitChange::Keep.compute(Width::Word, 0x8000, 14, before), (0x8000, clear));
            assert_eq!(BitChange::Set.compute(Width::Dword, 0, 31, before), (1 << 31, clear));
            assert_eq!(BitChange::Reset.compute(Width::Qword, u64::MAX, 63, before), (u64::MAX >> 1, set));
            assert_eq!(BitChange::Complement.compute(Width::Dword, 1, 32, before), (0, set), "modulo width");
        }
    }
}
