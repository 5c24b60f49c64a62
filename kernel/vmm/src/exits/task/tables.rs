//! Descriptor tables and task-state segments by linear address, as the CPU accesses them by itself. Where no RAM
//! answers, reads give ones and writes go nowhere.

use super::Fault;
use crate::memory::GuestMemory;
use crate::vcpu::Vcpu;
use crate::walk::{Intent, Paging};
use x86defs::addr::{Gva, PAGE_SIZE};
use x86defs::descriptor::{DESCRIPTOR_BYTES, Descriptor, SELECTOR_TI};
use x86defs::segment::{Attributes, SegmentName};

/// Linear addresses of a guest outside IA-32e mode.
pub(super) struct Linear<'a> {
    memory: &'a dyn GuestMemory,
    paging: Paging,
}

impl<'a> Linear<'a> {
    /// As the CPU sees them when it accesses a table for itself.
    pub(super) fn implicit(vcpu: &dyn Vcpu, memory: &'a dyn GuestMemory) -> Self {
        Self { memory, paging: Paging::of(vcpu).implicit() }
    }

    /// As the stack is accessed, at the current privilege level.
    pub(super) fn of_stack(vcpu: &dyn Vcpu, memory: &'a dyn GuestMemory) -> Self {
        Self { memory, paging: Paging::of(vcpu) }
    }

    /// Calls `f` with the physical address and the part of `0..len` of each page that the bytes lie in.
    fn pieces(
        &self,
        at: u64,
        len: u64,
        intent: Intent,
        mut f: impl FnMut(x86defs::addr::Gpa, core::ops::Range<usize>),
    ) -> Result<(), Fault> {
        let mut done = 0;
        while done < len {
            let from = Gva((at + done) & 0xffff_ffff);
            let piece = (PAGE_SIZE - from.page_offset()).min(len - done);
            let to = self.paging.translate(self.memory, from, intent)?;
            f(to, done as usize..(done + piece) as usize);
            done += piece;
        }
        Ok(())
    }

    /// Raises the page faults of an access without making it.
    pub(super) fn probe(&self, at: u64, len: u64, intent: Intent) -> Result<(), Fault> {
        self.pieces(at, len, intent, |_, _| ())
    }

    /// Reads a little-endian number of up to eight bytes.
    pub(super) fn read(&self, at: u64, width: u8) -> Result<u64, Fault> {
        let mut bytes = [0; 8];
        self.pieces(at, width.into(), Intent::Read, |from, part| {
            let into = &mut bytes[part];
            if self.memory.read(from, into).is_err() {
                into.fill(0xff);
            }
        })?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Writes the low bytes of a number.
    pub(super) fn write(&self, at: u64, width: u8, value: u64) -> Result<(), Fault> {
        let bytes = value.to_le_bytes();
        self.probe(at, width.into(), Intent::Write)?;
        self.pieces(at, width.into(), Intent::Write, |to, part| {
            let _lost_where_no_ram_is = self.memory.write(to, &bytes[part]);
        })
    }

    /// Sets bits of a descriptor, or clears them.
    pub(super) fn change(&self, at: u64, bits: u64, on: bool) -> Result<(), Fault> {
        let old = self.read(at, DESCRIPTOR_BYTES as u8)?;
        let new = if on { old | bits } else { old & !bits };
        if new == old { Ok(()) } else { self.write(at, DESCRIPTOR_BYTES as u8, new) }
    }

    /// A descriptor and where it is; nothing if the selector names none: it is null, or beyond its table.
    pub(super) fn descriptor(
        &self,
        vcpu: &dyn Vcpu,
        selector: u16,
    ) -> Result<Option<(u64, Descriptor)>, Fault> {
        let offset = u64::from(selector & !7);
        let (base, limit) = if selector & SELECTOR_TI == 0 {
            let table = vcpu.gdtr();
            (table.base, u64::from(table.limit))
        } else {
            let table = vcpu.segment(SegmentName::Ldtr);
            if !table.attributes.contains(Attributes::PRESENT)
                || table.attributes.contains(Attributes::UNUSABLE)
            {
                return Ok(None);
            }
            (table.base, u64::from(table.limit))
        };
        let null = offset == 0 && selector & SELECTOR_TI == 0;
        if null || offset + DESCRIPTOR_BYTES - 1 > limit {
            return Ok(None);
        }
        let at = base + offset;
        Ok(Some((at, Descriptor(self.read(at, DESCRIPTOR_BYTES as u8)?))))
    }
}
