//! Segment and offset to linear address (SDM 3, 6.3 to 6.5; 64-bit mode: SDM 1, 3.3.7.1).

use super::{Machine, Stop};
use crate::vcpu::{Mode, Vcpu};
use crate::walk::Intent;
use x86defs::addr::Gva;
use x86defs::event::Exception;
use x86defs::msr::is_canonical;
use x86defs::segment::{Attributes, Segment, SegmentName};

impl<V: Vcpu + ?Sized> Machine<'_, V> {
    /// The linear address of `len` bytes, if the segment allows the access.
    pub(super) fn linear(
        &self,
        name: SegmentName,
        offset: u64,
        len: usize,
        intent: Intent,
    ) -> Result<Gva, Stop> {
        let last = len as u64 - 1;
        if self.mode == Mode::Long {
            let base = match name {
                SegmentName::Fs | SegmentName::Gs => self.vcpu.segment(name).base,
                _ => 0,
            };
            let at = Gva(base.wrapping_add(offset));
            let canonical = is_canonical(at.0) && is_canonical(at.offset(last).0);
            return if canonical { Ok(at) } else { Err(self.segment_fault(name)) };
        }
        let segment = self.vcpu.segment(name);
        let checks_rights = !matches!(self.mode, Mode::Real | Mode::Virtual8086);
        if (checks_rights && !allows(&segment, intent)) || !contains(&segment, offset, offset + last) {
            return Err(self.segment_fault(name));
        }
        Ok(Gva(self.wrap_linear(segment.base.wrapping_add(offset))))
    }

    /// A linear address as wide as the mode has them.
    pub(super) fn wrap_linear(&self, at: u64) -> u64 {
        if self.mode == Mode::Long { at } else { at & 0xffff_ffff }
    }

    fn segment_fault(&self, name: SegmentName) -> Stop {
        match name {
            SegmentName::Ss => Stop::exception(self.mode, Exception::StackFault),
            _ => self.general_protection(),
        }
    }
}

/// Whether the type of a segment allows an access.
fn allows(segment: &Segment, intent: Intent) -> bool {
    let attributes = segment.attributes;
    let usable = attributes.contains(Attributes::PRESENT) && !attributes.contains(Attributes::UNUSABLE);
    let code = attributes.contains(Attributes::CODE);
    let read_write = attributes.contains(Attributes::READ_WRITE);
    usable
        && match intent {
            Intent::Write => !code && read_write,
            Intent::Read | Intent::Fetch => !code || read_write,
        }
}

/// Whether the offsets from `first` to `last` lie within the limit.
fn contains(segment: &Segment, first: u64, last: u64) -> bool {
    let attributes = segment.attributes;
    let limit = u64::from(segment.limit);
    if attributes.contains(Attributes::CODE) || !attributes.contains(Attributes::EXPAND_DOWN) {
        return last <= limit;
    }
    let top = if attributes.contains(Attributes::DEFAULT_BIG) { 0xffff_ffff } else { 0xffff };
    first > limit && last <= top
}
