//! RAM that a boot protocol may use, and what of it is still free. Everything that is placed is taken from here,
//! so that nothing collides with a kernel wherever that is linked.

use crate::memory_map::{HIGH_RAM, MemoryMap};
use abi::boot::MemoryKind;
use alloc::vec::Vec;
use core::ops::Range;
use x86defs::addr::Gpa;

/// Free usable RAM below 4 GiB, as ascending ranges that do not touch what is taken.
#[derive(Clone, Debug)]
pub(crate) struct Space {
    usable: Vec<Range<u64>>,
    free: Vec<Range<u64>>,
}

/// Why a range cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Not all of it is usable RAM below 4 GiB.
    NoRam,
    /// A part of it is taken.
    Taken,
}

impl Space {
    /// All that the guest is told to be usable.
    pub(crate) fn new(map: &MemoryMap) -> Self {
        let usable: Vec<_> = map
            .e820()
            .iter()
            .filter(|range| range.kind == MemoryKind::Usable && range.gpa < HIGH_RAM)
            .map(|range| range.gpa.0..range.gpa.0 + range.len)
            .collect();
        Self { free: usable.clone(), usable }
    }

    /// Takes exactly this range.
    pub(crate) fn claim(&mut self, range: &Range<u64>) -> Result<(), Refused> {
        let holds = |whole: &Range<u64>| whole.start <= range.start && range.end <= whole.end;
        if !self.usable.iter().any(holds) {
            return Err(Refused::NoRam);
        }
        let holder = self.free.iter().position(holds).ok_or(Refused::Taken)?;
        let whole = self.free[holder].clone();
        let rest = [whole.start..range.start, range.end..whole.end];
        self.free.splice(holder..=holder, rest.into_iter().filter(|part| !part.is_empty()));
        Ok(())
    }

    /// Takes the lowest free `len` bytes within a window, on a border of `align` bytes (a power of two).
    pub(crate) fn lowest(&mut self, len: u64, align: u64, window: &Range<u64>) -> Option<Gpa> {
        let at = self.free.iter().find_map(|free| {
            let start = free.start.max(window.start).checked_next_multiple_of(align)?;
            let end = start.checked_add(len)?;
            (end <= free.end.min(window.end)).then_some(start)
        })?;
        self.take(at, len)
    }

    /// Takes the highest free `len` bytes within a window, on a border of `align` bytes (a power of two).
    pub(crate) fn highest(&mut self, len: u64, align: u64, window: &Range<u64>) -> Option<Gpa> {
        let at = self.free.iter().rev().find_map(|free| {
            let last = free.end.min(window.end).checked_sub(len)?;
            let start = last - last % align;
            (start >= free.start.max(window.start)).then_some(start)
        })?;
        self.take(at, len)
    }

    fn take(&mut self, at: u64, len: u64) -> Option<Gpa> {
        self.claim(&(at..at + len)).ok().map(|()| Gpa(at))
    }

    /// The most bytes that can be had in one piece from a page on.
    pub(crate) fn largest(&self, align: u64) -> u64 {
        let room = |free: &Range<u64>| free.end.saturating_sub(free.start.next_multiple_of(align));
        self.free.iter().map(room).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_map::{EBDA, ROM_END};
    use crate::size::{GIB, MIB};
    use x86defs::addr::PAGE_SIZE;

    const ALL: Range<u64> = 0..u64::MAX;

    fn space() -> Space {
        Space::new(&MemoryMap::new(16 * MIB).unwrap())
    }

    #[test]
    fn taken_ram_is_not_given_again() {
        let mut space = space();
        assert_eq!(space.claim(&(0x8000..0x9000)), Ok(()));
        assert_eq!(space.claim(&(0x8fff..0x9001)), Err(Refused::Taken));
        assert_eq!(space.lowest(0x8000, PAGE_SIZE, &ALL), Some(Gpa(0)));
        assert_eq!(space.lowest(1, PAGE_SIZE, &ALL), Some(Gpa(0x9000)));
    }

    #[test]
    fn only_usable_ram_is_given() {
        let mut space = space();
        for range in [EBDA.0 - 1..EBDA.0 + 1, 0xb_8000..0xb_9000, ROM_END.0 - 1..ROM_END.0 + 1] {
            assert_eq!(space.claim(&range), Err(Refused::NoRam), "{range:x?}");
        }
        assert_eq!(space.claim(&(15 * MIB..16 * MIB + 1)), Err(Refused::NoRam));
        assert_eq!(Space::new(&MemoryMap::new(8 * GIB).unwrap()).highest(1, 1, &ALL), Some(Gpa(3 * GIB - 1)));
    }

    #[test]
    fn highest_keeps_alignment_and_window() {
        let mut space = space();
        assert_eq!(space.highest(100, 16, &(0..EBDA.0)), Some(Gpa(EBDA.0 - 112)));
        assert_eq!(space.highest(8, 8, &(0..EBDA.0)), Some(Gpa(EBDA.0 - 8)));
        assert_eq!(space.highest(PAGE_SIZE, PAGE_SIZE, &(0..0xfff)), None);
        assert_eq!(space.highest(u64::MAX, 1, &ALL), None);
        assert_eq!(space.lowest(u64::MAX, 1, &ALL), None);
    }

    #[test]
    fn the_largest_piece_can_be_had() {
        let mut space = space();
        let largest = space.largest(PAGE_SIZE);
        assert_eq!(largest, 15 * MIB);
        assert!(space.clone().lowest(largest + 1, PAGE_SIZE, &ALL).is_none());
        assert!(space.lowest(largest, PAGE_SIZE, &ALL).is_some());
    }
}
