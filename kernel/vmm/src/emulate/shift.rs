//! Shifts and rotations as pure functions (SDM 2, SAL/SAR/SHL/SHR, RCL/RCR/ROL/ROR, SHLD, SHRD).
//!
//! What the manual leaves undefined is what the definition for a count of one gives, and AF is cleared.

use super::alu::{STATUS, sign_extend, sign_zero_parity, top_bit};
use crate::memory::Width;
use x86defs::control::Rflags;

/// A shift or rotation of one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shift {
    Rol,
    Ror,
    /// Through the carry flag.
    Rcl,
    Rcr,
    Shl,
    Shr,
    /// Keeps the sign.
    Sar,
}

/// The direction of a shift that is filled from a second operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DoubleShift {
    Left,
    Right,
}

impl Shift {
    /// The result and all flags.
    pub(super) fn compute(self, width: Width, a: u64, count: u64, flags: Rflags) -> (u64, Rflags) {
        let count = effective_count(width, count);
        if count == 0 {
            return (a, flags);
        }
        let carry = flags.contains(Rflags::CF);
        let (value, carry) = self.moved(width, a & width.mask(), count, carry);
        let overflow = match self {
            Shift::Rol | Shift::Rcl | Shift::Shl => top_bit(width, value) != carry,
            Shift::Ror | Shift::Rcr | Shift::Shr => top_bit(width, value) != top_bit(width, value << 1),
            Shift::Sar => false,
        };
        let changed = match self {
            Shift::Shl | Shift::Shr | Shift::Sar => STATUS,
            _ => Rflags::CF | Rflags::OF,
        };
        (value, (flags - changed) | status(width, value, carry, overflow) & changed)
    }

    /// The result, and the bit that went to CF.
    fn moved(self, width: Width, a: u64, count: u32, carry: bool) -> (u64, bool) {
        let bits = width.bits();
        let low = |value: u128| value as u64 & width.mask();
        match self {
            Shift::Shl => {
                let all = u128::from(a) << count;
                (low(all), all >> bits & 1 != 0)
            }
            Shift::Shr => (a >> count, a >> (count - 1) & 1 != 0),
            Shift::Sar => {
                let all = sign_extend(a, width) as i64;
                ((all >> count) as u64 & width.mask(), all >> (count - 1) & 1 != 0)
            }
            Shift::Rol => {
                let value = low(rotate_left(a.into(), bits, count));
                (value, value & 1 != 0)
            }
            Shift::Ror => {
                let value = low(rotate_left(a.into(), bits, bits - count % bits));
                (value, top_bit(width, value))
            }
            Shift::Rcl | Shift::Rcr => {
                let (with_carry, places) = (u128::from(carry) << bits | u128::from(a), bits + 1);
                let left = if self == Shift::Rcl { count } else { places - count % places };
                let all = rotate_left(with_carry, places, left);
                (low(all), all >> bits & 1 != 0)
            }
        }
    }
}

impl DoubleShift {
    /// `a` shifted, with what it loses filled from `filler`; the result and all flags.
    pub(super) fn compute(
        self,
        width: Width,
        a: u64,
        filler: u64,
        count: u64,
        flags: Rflags,
    ) -> (u64, Rflags) {
        let (bits, count) = (width.bits(), effective_count(width, count));
        if count == 0 {
            return (a, flags);
        }
        let (a, filler) = (u128::from(a & width.mask()), u128::from(filler & width.mask()));
        let (all, carry) = match self {
            DoubleShift::Left => {
                let both = a << bits | filler;
                (both << count >> bits, both >> (2 * bits - count) & 1 != 0)
            }
            DoubleShift::Right => {
                let both = filler << bits | a;
                (both >> count, both >> (count - 1) & 1 != 0)
            }
        };
        let value = all as u64 & width.mask();
        let overflow = top_bit(width, value) != top_bit(width, a as u64);
        (value, (flags - STATUS) | status(width, value, carry, overflow))
    }
}

/// Counts are taken modulo 32, and with operands of 64 bits modulo 64.
fn effective_count(width: Width, count: u64) -> u32 {
    count as u32 & if width == Width::Qword { 0x3f } else { 0x1f }
}

/// Rotates the low `bits` of a value.
fn rotate_left(value: u128, bits: u32, count: u32) -> u128 {
    let count = count % bits;
    (value << count | value >> (bits - count)) & ((1 << bits) - 1)
}

fn status(width: Width, value: u64, carry: bool, overflow: bool) -> Rflags {
    let mut status = sign_zero_parity(width, value);
    status.set(Rflags::CF, carry);
    status.set(Rflags::OF, overflow);
    status
}
