//! Free physical memory of the host: sorted ranges, first fit.

use abi::boot::PhysRange;
use arrayvec::ArrayVec;

/// Most separate free ranges; freeing beyond that loses memory rather than failing.
const MAX_RANGES: usize = 256;

/// What is free.
#[derive(Debug, Default)]
pub struct FreeRanges {
    /// Sorted by address, not touching each other, none empty.
    ranges: ArrayVec<PhysRange, MAX_RANGES>,
}

impl FreeRanges {
    /// Nothing is free.
    pub const fn new() -> Self {
        Self { ranges: ArrayVec::new_const() }
    }

    /// Bytes free.
    pub fn total(&self) -> u64 {
        self.ranges.iter().map(|r| r.len).sum()
    }

    /// Takes `len` bytes at a multiple of `align`, a power of two, as low as possible.
    pub fn take(&mut self, len: u64, align: u64) -> Option<u64> {
        let (index, start) = self.ranges.iter().enumerate().find_map(|(i, r)| {
            let start = r.start.checked_next_multiple_of(align)?;
            (start.checked_add(len)? <= r.end()).then_some((i, start))
        })?;
        self.cut(index, start, len);
        Some(start)
    }

    /// Takes as much as is contiguous, at most `len` bytes and a multiple of `align`, which it is aligned to:
    /// all of `len` if any range has that much, else the largest piece there is.
    pub fn take_up_to(&mut self, len: u64, align: u64) -> Option<PhysRange> {
        if let Some(start) = self.take(len, align) {
            return Some(PhysRange { start, len });
        }
        let (index, best) = self
            .ranges
            .iter()
            .enumerate()
            .filter_map(|(i, r)| {
                let start = r.start.checked_next_multiple_of(align)?;
                let len = r.end().checked_sub(start)? & !(align - 1);
                (len > 0).then_some((i, PhysRange { start, len }))
            })
            .max_by_key(|(_, r)| r.len)?;
        self.cut(index, best.start, best.len);
        Some(best)
    }

    /// Gives a range back, or adds one that was never taken.
    pub fn give(&mut self, range: PhysRange) {
        if range.len == 0 {
            return;
        }
        let at = self.ranges.partition_point(|r| r.start < range.start);
        let joins_previous = at > 0 && self.ranges[at - 1].end() == range.start;
        let joins_next = at < self.ranges.len() && range.end() == self.ranges[at].start;
        match (joins_previous, joins_next) {
            (true, true) => {
                let next = self.ranges.remove(at);
                self.ranges[at - 1].len += range.len + next.len;
            }
            (true, false) => self.ranges[at - 1].len += range.len,
            (false, true) => {
                self.ranges[at].start = range.start;
                self.ranges[at].len += range.len;
            }
            (false, false) => {
                // A full list drops the range: memory is lost, nothing else.
                let _ = self.ranges.try_insert(at, range);
            }
        }
    }

    /// Removes `start..start + len`, which lies in range `index`.
    fn cut(&mut self, index: usize, start: u64, len: u64) {
        let old = self.ranges.remove(index);
        self.give(PhysRange { start: old.start, len: start - old.start });
        self.give(PhysRange { start: start + len, len: old.end() - (start + len) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn free(ranges: &[(u64, u64)]) -> FreeRanges {
        let mut free = FreeRanges::new();
        for (start, len) in ranges {
            free.give(PhysRange { start: *start, len: *len });
        }
        free
    }

    #[test]
    fn takes_aligned_and_keeps_the_rest() {
        let mut f = free(&[(0x1000, 0x5000)]);
        assert_eq!(f.take(0x1000, 0x4000), Some(0x4000));
        assert_eq!(f.total(), 0x4000);
        assert_eq!(f.take(0x3000, 0x1000), Some(0x1000));
        assert_eq!(f.take(0x1000, 0x1000), Some(0x5000));
        assert_eq!(f.take(0x1000, 0x1000), None);
    }

    #[test]
    fn merges_what_comes_back() {
        let mut f = free(&[(0x1000, 0x1000), (0x3000, 0x1000)]);
        f.give(PhysRange { start: 0x2000, len: 0x1000 });
        assert_eq!(f.take(0x3000, 0x1000), Some(0x1000));
    }

    #[test]
    fn falls_back_to_the_largest_piece() {
        let mut f = free(&[(0x1000, 0x2000), (0x10_0000, 0x8000)]);
        assert_eq!(f.take_up_to(0x20_0000, 0x1000), Some(PhysRange { start: 0x10_0000, len: 0x8000 }));
        assert_eq!(f.take_up_to(0x20_0000, 0x1000), Some(PhysRange { start: 0x1000, len: 0x2000 }));
        assert_eq!(f.take_up_to(0x20_0000, 0x1000), None);
    }

    #[test]
    fn survives_wild_requests() {
        let mut f = free(&[(0x1000, 0x2000)]);
        assert_eq!(f.take(u64::MAX, 0x1000), None);
        assert_eq!(f.take(0x1000, 1 << 63), None);
        assert_eq!(f.total(), 0x2000);
    }
}
