//! Memory operands: where they lie physically, and access to them, be it RAM or not.

use super::{Bus, Machine, Stop};
use crate::memory::{GuestMemory, Width};
use crate::vcpu::Vcpu;
use crate::walk::Intent;
use x86defs::addr::{Gpa, Gva, PAGE_SIZE};
use x86defs::event::{Event, Exception};
use x86defs::segment::SegmentName;

/// A memory operand after segmentation and paging have allowed the access to all of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Location {
    pub(super) width: Width,
    first: Gpa,
    /// Where the operand goes on in another page, and how many bytes are before that.
    rest: Option<(usize, Gpa)>,
}

impl<V: Vcpu + ?Sized> Machine<'_, V> {
    /// Finds a memory operand.
    pub(super) fn locate(
        &self,
        segment: SegmentName,
        offset: u64,
        width: Width,
        intent: Intent,
    ) -> Result<Location, Stop> {
        let at = self.linear(segment, offset, width.bytes(), intent)?;
        if self.paging.checks_alignment() && !at.0.is_multiple_of(width.bytes() as u64) {
            return Err(Stop::Fault(Event::fault(Exception::AlignmentCheck, 0)));
        }
        let first = self.paging.translate(self.memory, at, intent)?;
        let in_page = (PAGE_SIZE - at.page_offset()) as usize;
        let rest = if in_page < width.bytes() {
            let next = Gva(self.wrap_linear(at.0.wrapping_add(in_page as u64)));
            Some((in_page, self.paging.translate(self.memory, next, intent)?))
        } else {
            None
        };
        Ok(Location { width, first, rest })
    }

    /// Reads an operand.
    pub(super) fn load(&mut self, location: &Location) -> u64 {
        let Some((in_page, rest)) = location.rest else {
            return load(self.memory, self.bus, location.first, location.width);
        };
        let mut value = 0;
        for (at, width, position) in pieces(location.width, location.first, in_page, rest) {
            value |= load(self.memory, self.bus, at, width) << (8 * position);
        }
        value
    }

    /// Writes an operand.
    pub(super) fn store(&mut self, location: &Location, value: u64) {
        let Some((in_page, rest)) = location.rest else {
            return store(self.memory, self.bus, location.first, location.width, value);
        };
        for (at, width, position) in pieces(location.width, location.first, in_page, rest) {
            store(self.memory, self.bus, at, width, value >> (8 * position));
        }
    }

    /// Writes an operand that was `old` when it was read, atomically where the instruction is and the operand
    /// can be.
    pub(super) fn replace(
        &mut self,
        location: &Location,
        old: u64,
        new: u64,
        locked: bool,
    ) -> Result<(), Stop> {
        if locked && location.rest.is_none() {
            let swap = self.memory.compare_exchange(location.first, location.width, old, new);
            if let Ok(swap) = swap {
                return swap.map(drop).map_err(|_changed| Stop::Again);
            }
        }
        self.store(location, new);
        Ok(())
    }

    /// Reads in one page.
    pub(super) fn load_at(&mut self, at: Gpa, width: Width) -> u64 {
        load(self.memory, self.bus, at, width)
    }

    /// Writes in one page.
    pub(super) fn store_at(&mut self, at: Gpa, width: Width, value: u64) {
        store(self.memory, self.bus, at, width, value);
    }
}

/// The naturally aligned accesses that make up an operand in two pages: address, width, position in bytes.
fn pieces(width: Width, first: Gpa, in_page: usize, rest: Gpa) -> impl Iterator<Item = (Gpa, Width, usize)> {
    let mut position = 0;
    core::iter::from_fn(move || {
        let (at, left) = if position < in_page {
            (first.offset(position as u64), in_page - position)
        } else {
            (rest.offset((position - in_page) as u64), width.bytes() - position)
        };
        let piece = [Width::Dword, Width::Word, Width::Byte]
            .into_iter()
            .find(|w| w.bytes() <= left && at.0.is_multiple_of(w.bytes() as u64))?;
        let here = position;
        position += piece.bytes();
        Some((at, piece, here))
    })
}

fn load(memory: &dyn GuestMemory, bus: &mut dyn Bus, at: Gpa, width: Width) -> u64 {
    if at.0.is_multiple_of(width.bytes() as u64) {
        return memory.load(at, width).unwrap_or_else(|_not_ram| bus.read(at, width) & width.mask());
    }
    let mut bytes = [0; 8];
    match memory.read(at, &mut bytes[..width.bytes()]) {
        Ok(()) => u64::from_le_bytes(bytes),
        Err(_not_ram) => bus.read(at, width) & width.mask(),
    }
}

fn store(memory: &dyn GuestMemory, bus: &mut dyn Bus, at: Gpa, width: Width, value: u64) {
    let value = value & width.mask();
    let stored = if at.0.is_multiple_of(width.bytes() as u64) {
        memory.store(at, width, value)
    } else {
        memory.write(at, &value.to_le_bytes()[..width.bytes()])
    };
    if stored.is_err() {
        bus.write(at, width, value);
    }
}
