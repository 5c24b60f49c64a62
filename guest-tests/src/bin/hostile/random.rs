//! Random numbers that are the same in every run.

/// Sequence of a 64-bit state, by shifts and a multiplication (xorshift64*).
pub(crate) struct Random(u64);

impl Random {
    /// A sequence of its own for each seed.
    pub(crate) fn new(seed: u64) -> Self {
        // Zero would stay zero.
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// A number with few bits set or few clear as often as any other: such numbers find more.
    pub(crate) fn odd(&mut self) -> u64 {
        let any = self.next();
        match self.below(6) {
            0 => 0,
            1 => u64::MAX,
            2 => 1 << (any % 64),
            3 => !(1 << (any % 64)),
            4 => any >> (any % 64),
            _ => any,
        }
    }
}
