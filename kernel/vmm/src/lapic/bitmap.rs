//! One bit for each interrupt vector.

/// ISR, TMR or IRR (SDM 3, 11.8.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Vectors(pub(super) [u64; 4]);

impl Vectors {
    pub(super) fn contains(&self, vector: u8) -> bool {
        self.0[usize::from(vector >> 6)] & Self::bit(vector) != 0
    }

    pub(super) fn insert(&mut self, vector: u8) {
        self.0[usize::from(vector >> 6)] |= Self::bit(vector);
    }

    pub(super) fn remove(&mut self, vector: u8) {
        self.0[usize::from(vector >> 6)] &= !Self::bit(vector);
    }

    pub(super) fn set(&mut self, vector: u8, to: bool) {
        if to { self.insert(vector) } else { self.remove(vector) }
    }

    /// The highest vector, which has the highest priority.
    pub(super) fn highest(&self) -> Option<u8> {
        let word = (0..4usize).rev().find(|&i| self.0[i] != 0)?;
        Some((word as u8) << 6 | (63 - self.0[word].leading_zeros() as u8))
    }

    /// The register number `index` of eight: vectors 32 * index and up, the lowest in bit 0.
    pub(super) fn register(&self, index: u16) -> u32 {
        let index = usize::from(index & 7);
        (self.0[index / 2] >> (32 * (index & 1))) as u32
    }

    const fn bit(vector: u8) -> u64 {
        1 << (vector & 63)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_vector_has_its_own_bit_in_the_register_that_the_manual_says() {
        for vector in 0..=255u8 {
            let mut v = Vectors::default();
            v.insert(vector);
            for index in 0..8 {
                let expected = if index == u16::from(vector / 32) { 1 << (vector % 32) } else { 0 };
                assert_eq!(v.register(index), expected, "vector {vector}, register {index}");
            }
            assert!(v.contains(vector));
            assert_eq!(v.highest(), Some(vector));
            v.remove(vector);
            assert_eq!(v, Vectors::default());
        }
    }

    #[test]
    fn the_highest_vector_wins() {
        let mut v = Vectors::default();
        assert_eq!(v.highest(), None);
        for vector in [0x31, 0xfe, 0x80, 0x7f] {
            v.insert(vector);
        }
        for expected in [0xfe, 0x80, 0x7f, 0x31] {
            assert_eq!(v.highest(), Some(expected));
            v.remove(expected);
        }
    }
}
