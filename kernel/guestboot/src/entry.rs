//! The state in which a virtual CPU executes its first instruction.

use alloc::vec::Vec;
use x86defs::addr::{Gpa, Gva};
use x86defs::control::{Cr0, Cr4, Efer, Rflags};
use x86defs::gpr::Gpr;
use x86defs::segment::{Attributes, DescriptorTable, Segment};

/// Registers at entry. What is not named here is as after a reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryState {
    /// Instruction pointer.
    pub rip: Gva,
    /// The general registers.
    pub registers: Registers,
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
    /// All five data segments: DS, ES, FS, GS and SS.
    pub data: Segment,
    /// Task register: busy, as VM entry demands (SDM 3, 27.3.1.2).
    pub tr: Segment,
    /// Global descriptor table.
    pub gdtr: DescriptorTable,
}

/// General registers, of which few are not zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers([u64; Gpr::ALL.len()]);

impl Registers {
    /// These values; zero in the others.
    pub fn of(values: &[(Gpr, u64)]) -> Self {
        let mut registers = Self::default();
        for (register, value) in values {
            registers.0[*register as usize] = *value;
        }
        registers
    }

    /// One value.
    pub fn get(&self, register: Gpr) -> u64 {
        self.0[register as usize]
    }
}

/// Selector of the code segment: those of Linux's boot protocol and of GRUB.
pub const BOOT_CS: u16 = 0x10;
/// Selector of the data segments.
pub const BOOT_DS: u16 = 0x18;

/// The GDT behind [`BOOT_CS`] and [`BOOT_DS`], as bytes.
pub fn boot_gdt(cs: &Segment) -> Vec<u8> {
    let descriptors = [0, 0, descriptor(cs), descriptor(&data(BOOT_DS))];
    descriptors.iter().flat_map(|descriptor| descriptor.to_le_bytes()).collect()
}

/// The GDTR that names a [`boot_gdt`] at this place.
pub fn boot_gdtr(at: Gpa) -> DescriptorTable {
    const ENTRIES: u16 = 4;
    DescriptorTable { base: at.0, limit: ENTRIES * 8 - 1 }
}

/// Flat 32-bit protected mode without paging: what multiboot, PVH and Linux's 32-bit entry ask for.
pub fn protected_mode(rip: u64, gdt: Gpa, registers: Registers) -> EntryState {
    EntryState {
        rip: Gva(rip),
        registers,
        rflags: Rflags::ONE,
        cr0: Cr0::PE | Cr0::ET,
        cr3: Gpa(0),
        cr4: Cr4::empty(),
        efer: Efer::empty(),
        cs: code32(BOOT_CS),
        data: data(BOOT_DS),
        tr: busy_tss(),
        gdtr: boot_gdtr(gdt),
    }
}

/// A flat 32-bit code segment.
pub fn code32(selector: u16) -> Segment {
    Segment { attributes: flat() | Attributes::CODE | Attributes::DEFAULT_BIG, ..data(selector) }
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
    fn code_of_32_bits_has_the_default_size_bit() {
        assert_eq!(descriptor(&code32(BOOT_CS)), 0x00cf_9b00_0000_ffff);
        assert_eq!(boot_gdt(&code32(BOOT_CS)).len(), usize::from(boot_gdtr(Gpa(0)).limit) + 1);
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
