//! The state in which a virtual CPU executes its first instruction.

use x86defs::addr::{Gpa, Gva};
use x86defs::control::{Cr0, Cr4, Efer, Rflags};
use x86defs::segment::{Attributes, DescriptorTable, Segment};

/// Registers at entry. General registers that are not named are zero; so are FS, GS and LDTR, which are
/// unusable, and the IDTR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryState {
    /// Instruction pointer.
    pub rip: Gva,
    /// Stack pointer.
    pub rsp: Gva,
    /// RSI.
    pub rsi: u64,
    /// Flags.
    pub rflags: Rflags,
    /// CR0.
    pub cr0: Cr0,
    /// CR3: the top page table.
    pub cr3: Gpa,
    /// CR4.
    pub cr4: Cr4,
    /// IA32_EFER.
    pub efer: Efer,
    /// Code segment.
    pub cs: Segment,
    /// Data segments DS and ES.
    pub ds: Segment,
    /// Stack segment.
    pub ss: Segment,
    /// Task register: busy, as VM entry demands (SDM 3, 27.3.1.2).
    pub tr: Segment,
    /// Global descriptor table.
    pub gdtr: DescriptorTable,
}

/// A flat 64-bit code segment.
pub fn code64(selector: u16) -> Segment {
    Segment { selector, attributes: flat() | Attributes::CODE | Attributes::LONG, limit: u32::MAX, base: 0 }
}

/// A flat 32-bit data segment.
pub fn data(selector: u16) -> Segment {
    Segment { selector, attributes: flat() | Attributes::DEFAULT_BIG, limit: u32::MAX, base: 0 }
}

/// A task register without a descriptor behind it: an empty busy 64-bit TSS (SDM 3, 8.2.1: type 11).
pub fn busy_tss() -> Segment {
    const LAST_BYTE: u32 = 0x67;
    let attributes = Attributes::ACCESSED | Attributes::READ_WRITE | Attributes::CODE | Attributes::PRESENT;
    Segment { selector: 0, attributes, limit: LAST_BYTE, base: 0 }
}

fn flat() -> Attributes {
    Attributes::PRESENT
        | Attributes::NON_SYSTEM
        | Attributes::READ_WRITE
        | Attributes::ACCESSED
        | Attributes::GRANULARITY
}

/// The descriptor of a code or data segment as it stands in a GDT (SDM 3, 3.4.5).
pub fn descriptor(segment: &Segment) -> u64 {
    let granular = segment.attributes.contains(Attributes::GRANULARITY);
    let limit = u64::from(if granular { segment.limit >> 12 } else { segment.limit });
    let base = segment.base & 0xffff_ffff;
    // The access-rights layout is bits 55:40 of the descriptor, where 51:48 hold part of the limit.
    let attributes = u64::from(segment.attributes.bits()) & 0xf0ff;
    (limit & 0xffff)
        | (base & 0xff_ffff) << 16
        | attributes << 40
        | (limit >> 16 & 0xf) << 48
        | base >> 24 << 56
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_those_of_the_manual() {
        assert_eq!(descriptor(&code64(0x10)), 0x00af_9b00_0000_ffff);
        assert_eq!(descriptor(&data(0x18)), 0x00cf_9300_0000_ffff);
    }

    #[test]
    fn base_and_limit_are_scattered() {
        let attributes = Attributes::PRESENT | Attributes::NON_SYSTEM | Attributes::READ_WRITE;
        let segment = Segment { selector: 8, attributes, limit: 0xa_bcde, base: 0x1234_5678 };
        assert_eq!(descriptor(&segment), 0x120a_9234_5678_bcde);
    }

    #[test]
    fn task_register_is_a_busy_tss() {
        assert_eq!(busy_tss().attributes.bits(), 0x8b);
    }
}
