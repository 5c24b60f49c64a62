//! Counting and finding bits as pure functions (SDM 2, BSF, BSR, TZCNT, LZCNT, POPCNT).

use crate::memory::Width;
use x86defs::control::Rflags;

/// What is looked for. TZCNT and LZCNT are themselves: CPUs that take them for BSF and BSR, from before 2013, give
/// the same number unless the operand is zero (TZCNT), or another one (LZCNT).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scan {
    /// BSF: the lowest bit that is set.
    Forward,
    /// BSR: the highest bit that is set.
    Reverse,
    /// TZCNT
    TrailingZeros,
    /// LZCNT
    LeadingZeros,
    /// POPCNT
    Population,
}

impl Scan {
    /// The number, or nothing if the destination keeps its value; and all flags. Undefined ones stay.
    pub(super) fn compute(self, width: Width, a: u64, mut flags: Rflags) -> (Option<u64>, Rflags) {
        let a = a & width.mask();
        let trailing = a.trailing_zeros().min(width.bits());
        let leading = a.leading_zeros() + width.bits() - u64::BITS;
        let number = match self {
            Scan::Forward => (a != 0).then_some(trailing),
            Scan::Reverse => (a != 0).then(|| width.bits() - 1 - leading),
            Scan::TrailingZeros => Some(trailing),
            Scan::LeadingZeros => Some(leading),
            Scan::Population => Some(a.count_ones()),
        };
        match self {
            Scan::Forward | Scan::Reverse => flags.set(Rflags::ZF, a == 0),
            Scan::TrailingZeros | Scan::LeadingZeros => {
                flags.set(Rflags::CF, a == 0);
                flags.set(Rflags::ZF, number == Some(0));
            }
            Scan::Population => {
                flags -= super::alu::STATUS;
                flags.set(Rflags::ZF, a == 0);
            }
        }
        (number.map(u64::from), flags)
    }
}
