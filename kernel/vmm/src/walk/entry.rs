//! Paging-structure entries of the three schemes (SDM 3, tables 5-4 to 5-20).

use crate::memory::Width;
use bitflags::bitflags;

bitflags! {
    /// The flags that the schemes share.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) struct Bits: u64 {
        const PRESENT = 1 << 0;
        const WRITE = 1 << 1;
        const USER = 1 << 2;
        const ACCESSED = 1 << 5;
        const DIRTY = 1 << 6;
        const PAGE_SIZE = 1 << 7;
        const NO_EXECUTE = 1 << 63;
    }
}

/// How linear addresses are translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheme {
    /// They are physical addresses.
    Off,
    /// 32-bit paging: two levels of 4-byte entries.
    Bits32,
    /// PAE paging: four pointers, then two levels of 8-byte entries.
    Pae,
    /// 4-level paging: 8-byte entries.
    Long,
}

/// Lowest address bit of what an entry at each level covers.
pub(super) const PT_SHIFT: u32 = 12;
pub(super) const PD_SHIFT: u32 = 21;
const PD32_SHIFT: u32 = 22;
pub(super) const PDPT_SHIFT: u32 = 30;
pub(super) const PML4_SHIFT: u32 = 39;

/// Bits 51:12 of an entry.
const ADDRESS: u64 = bits(12, 52);

/// Bits from `low` up to, not including, `high`.
const fn bits(low: u32, high: u32) -> u64 {
    (1 << high) - (1 << low)
}

impl Scheme {
    /// The bits of CR3 that are the address of the top table.
    pub(super) const fn root_mask(self) -> u64 {
        match self {
            Scheme::Off => 0,
            Scheme::Bits32 => bits(12, 32),
            Scheme::Pae => bits(5, 32),
            Scheme::Long => ADDRESS,
        }
    }

    pub(super) const fn width(self) -> Width {
        match self {
            Scheme::Bits32 => Width::Dword,
            _ => Width::Qword,
        }
    }

    pub(super) const fn top_shift(self) -> u32 {
        match self {
            Scheme::Off => PT_SHIFT,
            Scheme::Bits32 => PD32_SHIFT,
            Scheme::Pae => PDPT_SHIFT,
            Scheme::Long => PML4_SHIFT,
        }
    }

    /// How many bits of a linear address select an entry of a table.
    pub(super) const fn index_bits(self) -> u32 {
        match self {
            Scheme::Bits32 => 10,
            _ => 9,
        }
    }

    pub(super) const fn index_mask(self) -> u64 {
        (1 << self.index_bits()) - 1
    }

    /// Whether an entry maps a page.
    #[inline(always)]
    pub(super) fn is_leaf(self, shift: u32, entry: Bits, page_size_extension: bool) -> bool {
        let large = match (self, shift) {
            (_, PT_SHIFT) => return true,
            (Scheme::Bits32, PD32_SHIFT) => page_size_extension,
            (_, PD_SHIFT) | (Scheme::Long, PDPT_SHIFT) => true,
            _ => false,
        };
        large && entry.contains(Bits::PAGE_SIZE)
    }

    /// Whether an entry has permissions and an accessed flag: the pointers of PAE paging do not.
    pub(super) fn has_flags(self, shift: u32) -> bool {
        !(self == Scheme::Pae && shift == PDPT_SHIFT)
    }

    /// The physical address in an entry.
    #[inline(always)]
    pub(super) fn frame(self, shift: u32, entry: Bits) -> u64 {
        let raw = entry.bits();
        if self == Scheme::Bits32 && shift == PD32_SHIFT {
            // PSE-36: bits 39:32 of the address are in bits 20:13.
            return raw & bits(PD32_SHIFT, 32) | (raw & bits(13, 21)) << (32 - 13);
        }
        raw & ADDRESS
    }

    /// The bits that must be clear in an entry.
    #[inline(always)]
    pub(super) fn reserved(self, shift: u32, leaf: bool, physical_bits: u8, no_execute: bool) -> u64 {
        let physical_bits = u32::from(physical_bits);
        match self {
            Scheme::Off => 0,
            // PSE-36: of bits 21:13 those that a physical address of this width, or of 40 bits, does not use.
            Scheme::Bits32 if leaf && shift == PD32_SHIFT => bits(13 + physical_bits.clamp(32, 40) - 32, 22),
            Scheme::Bits32 => 0,
            Scheme::Pae if shift == PDPT_SHIFT => {
                bits(1, 3) | bits(5, 9) | bits(physical_bits, 63) | Bits::NO_EXECUTE.bits()
            }
            Scheme::Pae | Scheme::Long => {
                let end_of_address = if self == Scheme::Pae { 63 } else { 52 };
                let below_page = if leaf && shift > PT_SHIFT { bits(13, shift) } else { 0 };
                let large_top = if shift == PML4_SHIFT { Bits::PAGE_SIZE.bits() } else { 0 };
                let execute = if no_execute { 0 } else { Bits::NO_EXECUTE.bits() };
                bits(physical_bits, end_of_address) | below_page | large_top | execute
            }
        }
    }
}
