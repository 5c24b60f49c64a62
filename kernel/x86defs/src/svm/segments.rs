//! Segment registers as the VMCB packs them: attributes are descriptor bits 55:52 and 47:40 (APM 2, 15.5.1),
//! while ours are bits 55:40.

use super::{SaveArea, VmcbSegment};
use crate::segment::{Attributes, Segment, SegmentName};

impl From<VmcbSegment> for Segment {
    fn from(s: VmcbSegment) -> Self {
        let bits = u32::from(s.attributes & 0xff) | u32::from(s.attributes >> 8 & 0xf) << 12;
        let mut attributes = Attributes::from_bits_retain(bits);
        attributes.set(Attributes::UNUSABLE, !attributes.contains(Attributes::PRESENT));
        Self { selector: s.selector, attributes, limit: s.limit, base: s.base }
    }
}

impl From<Segment> for VmcbSegment {
    fn from(s: Segment) -> Self {
        let bits = if s.attributes.contains(Attributes::UNUSABLE) { 0 } else { s.attributes.bits() };
        let attributes = (bits & 0xff | (bits >> 12 & 0xf) << 8) as u16;
        Self { selector: s.selector, attributes, limit: s.limit, base: s.base }
    }
}

impl SaveArea {
    /// A segment register.
    pub fn segment(&self, name: SegmentName) -> VmcbSegment {
        match name {
            SegmentName::Es => self.es,
            SegmentName::Cs => self.cs,
            SegmentName::Ss => self.ss,
            SegmentName::Ds => self.ds,
            SegmentName::Fs => self.fs,
            SegmentName::Gs => self.gs,
            SegmentName::Ldtr => self.ldtr,
            SegmentName::Tr => self.tr,
        }
    }

    /// A segment register, to be changed.
    pub fn segment_mut(&mut self, name: SegmentName) -> &mut VmcbSegment {
        match name {
            SegmentName::Es => &mut self.es,
            SegmentName::Cs => &mut self.cs,
            SegmentName::Ss => &mut self.ss,
            SegmentName::Ds => &mut self.ds,
            SegmentName::Fs => &mut self.fs,
            SegmentName::Gs => &mut self.gs,
            SegmentName::Ldtr => &mut self.ldtr,
            SegmentName::Tr => &mut self.tr,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_survive_the_packing() {
        let code = Segment {
            selector: 0x10,
            attributes: Attributes::from_bits_retain(0xa09b),
            limit: u32::MAX,
            base: 0x1234,
        };
        let packed = VmcbSegment::from(code);
        assert_eq!(packed.attributes, 0xa9b);
        assert_eq!(Segment::from(packed), code);
    }

    #[test]
    fn unusable_is_not_present() {
        let unusable =
            Segment { attributes: Attributes::UNUSABLE | Attributes::NON_SYSTEM, ..Segment::default() };
        let packed = VmcbSegment::from(unusable);
        assert_eq!(packed.attributes, 0);
        assert!(Segment::from(packed).attributes.contains(Attributes::UNUSABLE));
    }
}
