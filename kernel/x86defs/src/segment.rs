//! Segment registers with their hidden parts.

#![allow(missing_docs, reason = "bits carry the names that the manuals define")]

use bitflags::bitflags;

/// A segment register; the first six have their numbers of instruction encodings.
#[allow(missing_docs)]
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentName {
    Es,
    Cs,
    Ss,
    Ds,
    Fs,
    Gs,
    Ldtr,
    Tr,
}

impl SegmentName {
    /// All eight.
    pub const ALL: [SegmentName; 8] = [
        SegmentName::Es,
        SegmentName::Cs,
        SegmentName::Ss,
        SegmentName::Ds,
        SegmentName::Fs,
        SegmentName::Gs,
        SegmentName::Ldtr,
        SegmentName::Tr,
    ];
}

bitflags! {
    /// Attributes in the layout of the VMX access-rights field (SDM 3, 25.4.1): type in bits 3:0, DPL in 6:5.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Attributes: u32 {
        const ACCESSED = 1 << 0;
        /// Writable (data) or readable (code).
        const READ_WRITE = 1 << 1;
        /// Expand-down (data) or conforming (code).
        const EXPAND_DOWN = 1 << 2;
        const CODE = 1 << 3;
        /// Code or data, not a system segment.
        const NON_SYSTEM = 1 << 4;
        const DPL = 3 << 5;
        const PRESENT = 1 << 7;
        const AVAILABLE = 1 << 12;
        const LONG = 1 << 13;
        const DEFAULT_BIG = 1 << 14;
        const GRANULARITY = 1 << 15;
        /// Unusable (VMX); backends without this bit translate it to "not present".
        const UNUSABLE = 1 << 16;
    }
}

/// A segment register with its hidden part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Visible part.
    pub selector: u16,
    /// Attributes.
    pub attributes: Attributes,
    /// Limit in bytes, already scaled by the granularity.
    pub limit: u32,
    /// Base, a linear address.
    pub base: u64,
}

impl Segment {
    /// Descriptor privilege level.
    pub const fn dpl(&self) -> u8 {
        (self.attributes.bits() >> 5) as u8 & 3
    }
}

/// GDTR or IDTR.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DescriptorTable {
    /// Linear address of the first entry.
    pub base: u64,
    /// Offset of the last byte.
    pub limit: u16,
}
