//! What a CPU looks like after power-up, RESET and INIT (SDM 3, table 10-1; APM 2, table 14-1).

use crate::control::{Cr0, Rflags};
use crate::segment::{Attributes, DescriptorTable, Segment, SegmentName};

/// How a CPU came to its initial state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResetKind {
    /// Power-up or RESET: everything is new.
    Reset,
    /// INIT keeps what [`ResetState`] does not hold: x87, SSE and extended state, XCR0, MTRRs, PAT, the
    /// other MSRs, the TSC and the caches (hence CR0.CD and CR0.NW). IA32_EFER is cleared.
    Init,
}

/// The architectural state. The general registers but RDX are zero, and so are CR2, CR3, CR4, CR8 and
/// EFER, in both kinds; DR0 to DR3 are zero, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResetState {
    /// CR0. INIT keeps CD and NW.
    pub cr0: Cr0,
    /// Flags.
    pub rflags: Rflags,
    /// Instruction pointer.
    pub rip: u64,
    /// RDX: the CPU's signature, CPUID.1:EAX.
    pub rdx: u64,
    /// Segments, in the order of [`SegmentName::ALL`].
    pub segments: [Segment; 8],
    /// GDTR and IDTR.
    pub tables: DescriptorTable,
    /// DR6.
    pub dr6: u64,
    /// DR7.
    pub dr7: u64,
}

/// XCR0 after RESET: x87 only; INIT keeps it.
pub const XCR0_RESET: u64 = 1;
/// DR6 with no condition recorded (SDM 3, 18.2.3).
pub const DR6_RESET: u64 = 0xffff_0ff0;
/// DR7 with no breakpoint armed (SDM 3, 18.2.4).
pub const DR7_RESET: u64 = 0x400;
/// Where execution starts, 16 bytes below 4 GiB.
const RESET_RIP: u64 = 0xfff0;
const RESET_CS: u16 = 0xf000;
const RESET_CS_BASE: u64 = 0xffff_0000;
const REAL_MODE_LIMIT: u32 = 0xffff;

impl ResetState {
    /// The state after `kind` of a CPU with this signature; `cr0` is its value before, of which INIT keeps
    /// CD and NW.
    pub fn new(kind: ResetKind, signature: u32, cr0: Cr0) -> Self {
        let cache = Cr0::CD | Cr0::NW;
        let cache = match kind {
            ResetKind::Reset => cache,
            ResetKind::Init => cr0 & cache,
        };
        Self {
            cr0: Cr0::ET | cache,
            rflags: Rflags::ONE,
            rip: RESET_RIP,
            rdx: signature.into(),
            segments: SegmentName::ALL.map(Self::segment),
            tables: DescriptorTable { base: 0, limit: REAL_MODE_LIMIT as u16 },
            dr6: DR6_RESET,
            dr7: DR7_RESET,
        }
    }

    /// Where a startup IPI with this vector makes the CPU begin: CS and RIP (SDM 3, 9.4.4).
    pub fn startup(vector: u8) -> (Segment, u64) {
        let selector = u16::from(vector) << 8;
        (Segment { selector, base: u64::from(selector) << 4, ..Self::segment(SegmentName::Cs) }, 0)
    }

    fn segment(name: SegmentName) -> Segment {
        let data =
            Attributes::PRESENT | Attributes::NON_SYSTEM | Attributes::READ_WRITE | Attributes::ACCESSED;
        let busy_tss = Attributes::from_bits_retain(11);
        let ldt = Attributes::from_bits_retain(2);
        let (selector, base, attributes) = match name {
            SegmentName::Cs => (RESET_CS, RESET_CS_BASE, data | Attributes::CODE),
            SegmentName::Ldtr => (0, 0, Attributes::PRESENT | ldt),
            SegmentName::Tr => (0, 0, Attributes::PRESENT | busy_tss),
            _ => (0, 0, data),
        };
        Segment { selector, attributes, limit: REAL_MODE_LIMIT, base }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reset_starts_16_bytes_below_4_gib_with_caches_off() {
        let s = ResetState::new(ResetKind::Reset, 0x50654, Cr0::empty());
        assert_eq!(s.cr0.bits(), 0x6000_0010);
        let cs = s.segments[SegmentName::Cs as usize];
        assert_eq!(cs.base + s.rip, 0xffff_fff0);
        assert_eq!((cs.selector, cs.limit, cs.attributes.bits()), (0xf000, 0xffff, 0x9b));
        assert_eq!(s.segments[SegmentName::Ds as usize].attributes.bits(), 0x93);
        assert_eq!(s.segments[SegmentName::Ldtr as usize].attributes.bits(), 0x82);
        assert_eq!(s.segments[SegmentName::Tr as usize].attributes.bits(), 0x8b);
        assert_eq!((s.rdx, s.rflags.bits(), s.dr6, s.dr7), (0x50654, 2, 0xffff_0ff0, 0x400));
    }

    #[test]
    fn init_keeps_the_cache_bits_of_cr0_and_nothing_else_of_it() {
        let before = Cr0::PE | Cr0::PG | Cr0::WP | Cr0::CD;
        assert_eq!(ResetState::new(ResetKind::Init, 0, before).cr0, Cr0::ET | Cr0::CD);
        assert_eq!(ResetState::new(ResetKind::Init, 0, Cr0::PE).cr0, Cr0::ET);
    }

    #[test]
    fn a_startup_ipi_starts_at_its_page() {
        let (cs, rip) = ResetState::startup(0x9a);
        assert_eq!((cs.selector, cs.base, rip), (0x9a00, 0x9_a000, 0));
    }
}
