//! Multiplication and division as pure functions (SDM 2, MUL, IMUL, DIV, IDIV).

use super::alu::sign_extend;
use crate::memory::Width;

/// How operands are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    Unsigned,
    Signed,
}

/// A product of twice the operands' width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Product {
    pub(super) low: u64,
    pub(super) high: u64,
    /// The low half alone is not the product.
    pub(super) overflows: bool,
}

pub(super) fn multiply(sign: Sign, width: Width, a: u64, b: u64) -> Product {
    let extend = |value| extended(sign, width, value);
    let exact = extend(a).wrapping_mul(extend(b));
    let (low, high) = (exact as u64 & width.mask(), (exact >> width.bits()) as u64 & width.mask());
    Product { low, high, overflows: extend(low) != exact }
}

/// Quotient and remainder of a dividend in two halves; nothing if the divisor is zero or the quotient too large.
pub(super) fn divide(sign: Sign, width: Width, high: u64, low: u64, divisor: u64) -> Option<(u64, u64)> {
    let dividend = extended(sign, width, high) << width.bits() | i128::from(low & width.mask());
    let divisor = extended(sign, width, divisor);
    let (quotient, remainder) = match sign {
        // As unsigned numbers, since a dividend of 128 bits has no room for a sign.
        Sign::Unsigned => {
            let (dividend, divisor) = (dividend as u128, divisor as u128);
            (dividend.checked_div(divisor)? as i128, (dividend % divisor) as i128)
        }
        Sign::Signed => (dividend.checked_div(divisor)?, dividend.checked_rem(divisor)?),
    };
    let fits = extended(sign, width, quotient as u64) == quotient;
    fits.then_some((quotient as u64 & width.mask(), remainder as u64 & width.mask()))
}

/// A value of this width, extended to 128 bits.
fn extended(sign: Sign, width: Width, value: u64) -> i128 {
    match sign {
        Sign::Unsigned => i128::from(value & width.mask()),
        Sign::Signed => i128::from(sign_extend(value, width) as i64),
    }
}
