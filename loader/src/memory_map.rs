//! The memory map that is handed to the kernel: sorted, without overlaps, whole pages.

use abi::boot::{MAX_RANGES, MemoryKind, MemoryRange, PhysRange};
use arrayvec::ArrayVec;
use x86defs::addr::PAGE_SIZE;

use crate::error::LoaderError;

/// Where firmware maps overlap, the later kind in this list wins.
const PRECEDENCE: [MemoryKind; 5] = [
    MemoryKind::Usable,
    MemoryKind::AcpiReclaimable,
    MemoryKind::AcpiNvs,
    MemoryKind::Reserved,
    MemoryKind::Bad,
];

/// The real-mode interrupt vectors and the BIOS data area, which firmware calls usable. Also, nobody should be
/// given address 0.
const REAL_MODE_PAGE: PhysRange = PhysRange { start: 0, len: PAGE_SIZE };

/// A sorted list of ranges; what is in none of them is not memory.
#[derive(Debug, Default)]
pub struct MemoryMap {
    ranges: ArrayVec<MemoryRange, MAX_RANGES>,
}

/// Memory that belongs to whoever holds this.
#[derive(Debug, PartialEq, Eq)]
pub struct Allocation(PhysRange);

impl Allocation {
    /// Where it is.
    pub const fn range(&self) -> PhysRange {
        self.0
    }
}

impl MemoryMap {
    /// Puts the firmware's map in order.
    pub fn new(firmware: &[MemoryRange]) -> Result<Self, LoaderError> {
        let mut map = Self::default();
        for kind in PRECEDENCE {
            for entry in firmware.iter().filter(|e| e.kind == kind) {
                let pages = match kind {
                    MemoryKind::Usable => inward(entry.range),
                    _ => outward(entry.range),
                };
                map.paint(pages, kind)?;
            }
        }
        map.paint(REAL_MODE_PAGE, MemoryKind::Reserved)?;
        Ok(map)
    }

    /// Takes the pages that `range` touches out of what can be allocated.
    pub fn reserve(&mut self, range: PhysRange, kind: MemoryKind) -> Result<(), LoaderError> {
        self.paint(outward(range), kind)
    }

    /// Takes `len` bytes, rounded up to pages, from the lowest usable memory inside `window`.
    pub fn allocate(&mut self, len: u64, align: u64, window: PhysRange) -> Result<Allocation, LoaderError> {
        let none = LoaderError::NoRoom { len, align };
        let len = len.checked_next_multiple_of(PAGE_SIZE).ok_or(none)?;
        let align = align.max(PAGE_SIZE);
        let range = self.usable().find_map(|free| {
            let start = free.start.max(window.start).checked_next_multiple_of(align)?;
            let fits = start.checked_add(len)? <= free.end().min(window.end());
            fits.then_some(PhysRange { start, len })
        });
        let range = range.ok_or(none)?;
        self.paint(range, MemoryKind::Image)?;
        Ok(Allocation(range))
    }

    /// The ranges in order.
    pub fn ranges(&self) -> &[MemoryRange] {
        &self.ranges
    }

    /// Usable bytes below `limit`.
    pub fn usable_below(&self, limit: u64) -> u64 {
        self.usable().map(|r| r.end().min(limit).saturating_sub(r.start)).sum()
    }

    fn usable(&self) -> impl Iterator<Item = PhysRange> {
        self.ranges.iter().filter(|r| r.kind == MemoryKind::Usable).map(|r| r.range)
    }

    /// Makes `range` all of one kind, whatever was there before.
    fn paint(&mut self, range: PhysRange, kind: MemoryKind) -> Result<(), LoaderError> {
        if range.len == 0 {
            return Ok(());
        }
        let mut painted = Self::default();
        for old in &self.ranges {
            painted.append(between(old.range.start, old.range.end().min(range.start)), old.kind)?;
        }
        painted.append(range, kind)?;
        for old in &self.ranges {
            painted.append(between(old.range.start.max(range.end()), old.range.end()), old.kind)?;
        }
        *self = painted;
        Ok(())
    }

    /// Adds a range that begins at or after the end of the last; equal neighbours become one.
    fn append(&mut self, range: PhysRange, kind: MemoryKind) -> Result<(), LoaderError> {
        if range.len == 0 {
            return Ok(());
        }
        if let Some(last) = self.ranges.last_mut()
            && last.kind == kind
            && last.range.end() == range.start
        {
            last.range.len += range.len;
            return Ok(());
        }
        self.ranges.try_push(MemoryRange { range, kind, reserved: 0 }).map_err(|_| LoaderError::TooManyRanges)
    }
}

const fn between(start: u64, end: u64) -> PhysRange {
    PhysRange { start, len: end.saturating_sub(start) }
}

/// The whole pages inside a range.
fn inward(range: PhysRange) -> PhysRange {
    let end = range.end() & !(PAGE_SIZE - 1);
    between(range.start.checked_next_multiple_of(PAGE_SIZE).unwrap_or(end), end)
}

/// The pages that a range touches.
fn outward(range: PhysRange) -> PhysRange {
    if range.len == 0 {
        return range;
    }
    let last_page = !(PAGE_SIZE - 1);
    between(
        range.start & !(PAGE_SIZE - 1),
        range.end().checked_next_multiple_of(PAGE_SIZE).unwrap_or(last_page),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use MemoryKind::*;
    use std::vec::Vec;

    const ALL: PhysRange = PhysRange { start: 0, len: u64::MAX };

    fn entry(start: u64, end: u64, kind: MemoryKind) -> MemoryRange {
        MemoryRange { range: between(start, end), kind, reserved: 0 }
    }

    fn shown(map: &MemoryMap) -> Vec<(u64, u64, MemoryKind)> {
        map.ranges().iter().map(|r| (r.range.start, r.range.end(), r.kind)).collect()
    }

    fn pc() -> MemoryMap {
        MemoryMap::new(&[
            entry(0, 0x9_fc00, Usable),
            entry(0x9_fc00, 0xa_0000, Reserved),
            entry(0xf_0000, 0x10_0000, Reserved),
            entry(0x10_0000, 0x7fe_0000, Usable),
            entry(0x7fe_0000, 0x800_0000, Reserved),
            entry(0x1_0000_0000, 0x1_4000_0000, Usable),
        ])
        .unwrap()
    }

    #[test]
    fn a_pc_keeps_its_shape() {
        assert_eq!(
            shown(&pc()),
            [
                (0, 0x1000, Reserved),
                (0x1000, 0x9_f000, Usable),
                (0x9_f000, 0xa_0000, Reserved),
                (0xf_0000, 0x10_0000, Reserved),
                (0x10_0000, 0x7fe_0000, Usable),
                (0x7fe_0000, 0x800_0000, Reserved),
                (0x1_0000_0000, 0x1_4000_0000, Usable),
            ]
        );
    }

    #[test]
    fn unsorted_overlapping_entries_give_the_careful_answer() {
        let map = MemoryMap::new(&[
            entry(0x8000, 0xa800, Reserved),
            entry(0x5000, 0x6001, AcpiReclaimable),
            entry(0x1800, 0x2_0000, Usable),
            entry(0x1_0000, 0x3_0000, Usable),
            entry(0x6000, 0x7000, AcpiNvs),
            entry(0x9000, 0x9fff, Bad),
        ])
        .unwrap();
        assert_eq!(
            shown(&map),
            [
                (0, 0x1000, Reserved),
                (0x2000, 0x5000, Usable),
                (0x5000, 0x6000, AcpiReclaimable),
                (0x6000, 0x7000, AcpiNvs),
                (0x7000, 0x8000, Usable),
                (0x8000, 0x9000, Reserved),
                (0x9000, 0xa000, Bad),
                (0xa000, 0xb000, Reserved),
                (0xb000, 0x3_0000, Usable),
            ]
        );
    }

    #[test]
    fn wild_lengths_do_not_wrap() {
        let map = MemoryMap::new(&[
            MemoryRange { range: PhysRange { start: 0x10_0000, len: u64::MAX }, kind: Usable, reserved: 0 },
            MemoryRange {
                range: PhysRange { start: u64::MAX - 5, len: u64::MAX },
                kind: Reserved,
                reserved: 0,
            },
            MemoryRange { range: PhysRange { start: u64::MAX - 5, len: 3 }, kind: Usable, reserved: 0 },
        ])
        .unwrap();
        assert_eq!(shown(&map), [(0, 0x1000, Reserved), (0x10_0000, !0xfff, Usable)]);
    }

    #[test]
    fn reserving_rounds_outward_and_merges_neighbours() {
        let mut map = pc();
        map.reserve(PhysRange { start: 0x20_0001, len: 0x1000 }, Module).unwrap();
        map.reserve(PhysRange { start: 0x20_2000, len: 1 }, Module).unwrap();
        map.reserve(PhysRange { start: 0x20_5800, len: 0 }, Module).unwrap();
        assert!(shown(&map).contains(&(0x20_0000, 0x20_3000, Module)));
        assert!(shown(&map).contains(&(0x20_3000, 0x7fe_0000, Usable)));
    }

    #[test]
    fn allocations_are_aligned_disjoint_and_gone_from_the_usable() {
        let mut map = pc();
        let before = map.usable_below(u64::MAX);
        let window = PhysRange { start: 0x10_0000, len: 0xfff0_0000 };
        let a = map.allocate(0x1234, 0x20_0000, window).unwrap();
        let b = map.allocate(0x1000, 1, window).unwrap();
        assert_eq!(a.range(), PhysRange { start: 0x20_0000, len: 0x2000 });
        assert_eq!(b.range(), PhysRange { start: 0x10_0000, len: 0x1000 });
        assert_eq!(map.usable_below(u64::MAX), before - 0x3000);
        let c = map.allocate(0x1000, 0x20_0000, window).unwrap();
        assert_eq!(c.range().start, 0x40_0000);
    }

    #[test]
    fn nothing_is_allocated_outside_the_window() {
        let mut map = pc();
        let low = PhysRange { start: 0, len: 0x10_0000 };
        assert_eq!(map.allocate(0x1000, 1, low).unwrap().range().start, 0x1000);
        let error = map.allocate(0xa_0000, 1, low).unwrap_err();
        assert_eq!(error, LoaderError::NoRoom { len: 0xa_0000, align: 1 });
        assert!(map.allocate(u64::MAX, 1, ALL).is_err());
        assert!(map.allocate(0x1000, 1 << 63, ALL).is_err());
    }

    #[test]
    fn a_map_that_does_not_fit_is_an_error() {
        let every_other: Vec<_> =
            (1..=MAX_RANGES as u64).map(|n| entry(n * 0x2000, n * 0x2000 + 0x1000, Usable)).collect();
        assert_eq!(MemoryMap::new(&every_other).unwrap_err(), LoaderError::TooManyRanges);
        assert!(MemoryMap::new(&every_other[1..]).is_ok());
    }
}
