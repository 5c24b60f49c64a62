//! Segment descriptors of the GDT and LDTs, and task-state segments (SDM 3, 3.4.5, 8.2; APM 2, 4.7, 12.2).

use crate::segment::{Attributes, Segment};

/// Bit 2 of a selector: the descriptor lies in the LDT.
pub const SELECTOR_TI: u16 = 1 << 2;
/// Bits 1:0 of a selector: the requested privilege level.
pub const SELECTOR_RPL: u16 = 3;
/// Bytes of a descriptor.
pub const DESCRIPTOR_BYTES: u64 = 8;

/// Types of system descriptors in 32-bit mode (SDM 3, table 3-2).
#[allow(missing_docs, reason = "types carry the names that the manual defines")]
pub mod system_type {
    pub const TSS_16_AVAILABLE: u32 = 1;
    pub const LDT: u32 = 2;
    pub const TSS_16_BUSY: u32 = 3;
    pub const TSS_32_AVAILABLE: u32 = 9;
    pub const TSS_32_BUSY: u32 = 11;
    /// What an available TSS and the same one busy differ in.
    pub const TSS_BUSY: u32 = 1 << 1;
}

/// A segment descriptor of eight bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor(pub u64);

impl Descriptor {
    /// The accessed bit of code and data.
    pub const ACCESSED: u64 = 1 << 40;
    /// The busy bit of a TSS.
    pub const BUSY: u64 = 1 << 41;

    /// Type, DPL and flags.
    pub const fn attributes(self) -> Attributes {
        let (low, high) = (self.0 >> 40 & 0xff, self.0 >> 52 & 0xf);
        Attributes::from_bits_retain((low | high << 12) as u32)
    }

    /// The type of a system descriptor; nothing for code and data.
    pub const fn system_type(self) -> Option<u32> {
        let attributes = self.attributes();
        if attributes.contains(Attributes::NON_SYSTEM) { None } else { Some(attributes.bits() & 0xf) }
    }

    /// First linear address.
    pub const fn base(self) -> u64 {
        self.0 >> 16 & 0xff_ffff | (self.0 >> 56) << 24
    }

    /// Limit in bytes.
    pub const fn limit(self) -> u32 {
        let raw = (self.0 & 0xffff | self.0 >> 32 & 0xf_0000) as u32;
        if self.attributes().contains(Attributes::GRANULARITY) { raw << 12 | 0xfff } else { raw }
    }

    /// The segment register that this selector loads.
    pub const fn segment(self, selector: u16) -> Segment {
        Segment { selector, attributes: self.attributes(), limit: self.limit(), base: self.base() }
    }
}

/// Where a task-state segment keeps what (SDM 3, figures 8-2 and 8-10).
#[derive(Debug)]
pub struct TssLayout {
    /// Bytes of a register.
    pub width: u8,
    /// The least limit that the descriptor may have.
    pub least_limit: u32,
    /// CR3, if there is a place for it.
    pub cr3: Option<u64>,
    /// EIP.
    pub eip: u64,
    /// EFLAGS.
    pub eflags: u64,
    /// EAX, and after it the other general registers in encoding order.
    pub gprs: u64,
    /// ES, and after it the other segment registers in encoding order.
    pub segments: u64,
    /// How many segment registers there are.
    pub segment_count: u64,
    /// The LDT's selector.
    pub ldt: u64,
    /// The word whose bit 0 is the debug-trap flag, if there is one.
    pub trap: Option<u64>,
}

impl TssLayout {
    /// Selector of the task that this one is nested in.
    pub const LINK: u64 = 0;

    /// The 32-bit TSS.
    pub const BITS_32: TssLayout = TssLayout {
        width: 4,
        least_limit: 0x67,
        cr3: Some(0x1c),
        eip: 0x20,
        eflags: 0x24,
        gprs: 0x28,
        segments: 0x48,
        segment_count: 6,
        ldt: 0x60,
        trap: Some(0x64),
    };

    /// The 16-bit TSS.
    pub const BITS_16: TssLayout = TssLayout {
        width: 2,
        least_limit: 0x2b,
        cr3: None,
        eip: 0x0e,
        eflags: 0x10,
        gprs: 0x12,
        segments: 0x22,
        segment_count: 4,
        ldt: 0x2a,
        trap: None,
    };

    /// The layout that a TSS of this type has, busy or not.
    pub const fn of_type(system_type: u32) -> Option<&'static TssLayout> {
        match system_type & !system_type::TSS_BUSY {
            system_type::TSS_16_AVAILABLE => Some(&Self::BITS_16),
            system_type::TSS_32_AVAILABLE => Some(&Self::BITS_32),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flat_code_segment() {
        let code = Descriptor(0x00cf_9b00_0000_ffff);
        let segment = code.segment(8);
        assert_eq!((segment.base, segment.limit, segment.attributes.bits()), (0, u32::MAX, 0xc09b));
        assert_eq!(code.system_type(), None);
    }

    #[test]
    fn a_task_state_segment() {
        let tss = Descriptor(0x1200_8b34_5678_0067);
        assert_eq!((tss.base(), tss.limit()), (0x1234_5678, 0x67));
        assert_eq!(tss.system_type(), Some(system_type::TSS_32_BUSY));
        assert!(tss.system_type().and_then(TssLayout::of_type).is_some_and(|layout| layout.width == 4));
        assert!(TssLayout::of_type(system_type::LDT).is_none());
    }
}
