//! XCR0 and the XSAVE area (SDM 1, chapter 13).

use core::fmt;
use x86defs::cpuid::{CpuidResult, Xcr0, leaf};

/// The state components that guests are offered where the CPU has them. AVX-512's three go together.
const OFFERED: Xcr0 = Xcr0::X87.union(Xcr0::SSE).union(Xcr0::AVX).union(Xcr0::AVX512);

/// Bytes of the legacy region and the header, which every area has (SDM 1, 13.4).
const LEGACY_AND_HEADER: u32 = 512 + 64;
/// Components 0 and 1 are in the legacy region; those above Hi16_ZMM are not offered.
const FIRST_EXTENDED: usize = 2;
const COMPONENTS: usize = 8;

/// A refused XSETBV, which raises #GP(0).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XsetbvFault {
    /// ECX names no extended control register.
    Register(u32),
    /// A component that is not offered, or a combination that the manual forbids.
    Value(u64),
}

impl fmt::Display for XsetbvFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Register(number) => write!(f, "there is no extended control register {number}"),
            Self::Value(value) => write!(f, "XCR0 cannot hold {value:#x} here"),
        }
    }
}

impl core::error::Error for XsetbvFault {}

/// Where a component is; all zero if there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Component {
    size: u32,
    /// In the standard format.
    offset: u32,
    /// Starts at a multiple of 64 in the compacted format.
    aligned: bool,
}

/// The components that a guest may enable, and where they are in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XsaveLayout {
    offered: Xcr0,
    components: [Component; COMPONENTS],
}

impl XsaveLayout {
    /// The layout of a CPU with these values of leaf 0xD, which has XSAVE. Sizes are computed from the
    /// components and not taken from subleaf 0: some emulators contradict themselves there.
    pub fn new(host: impl Fn(u32) -> CpuidResult) -> Self {
        let main = host(0);
        let has = Xcr0::from_bits_truncate(u64::from(main.edx) << 32 | u64::from(main.eax));
        let mut offered = OFFERED & has;
        if !offered.contains(Xcr0::SSE | Xcr0::AVX) {
            offered -= Xcr0::AVX;
        }
        if !offered.contains(Xcr0::AVX | Xcr0::AVX512) {
            offered -= Xcr0::AVX512;
        }
        let mut components = [Component::default(); COMPONENTS];
        for (index, component) in components.iter_mut().enumerate().skip(FIRST_EXTENDED) {
            if offered.bits() & 1 << index != 0 {
                let sub = host(index as u32);
                *component = Component { size: sub.eax, offset: sub.ebx, aligned: sub.ecx & 2 != 0 };
            }
        }
        Self { offered, components }
    }

    /// The layout of a CPU without XSAVE: nothing is offered.
    pub const fn none() -> Self {
        let absent = Component { size: 0, offset: 0, aligned: false };
        Self { offered: Xcr0::empty(), components: [absent; COMPONENTS] }
    }

    /// The bits that XCR0 can have.
    pub const fn offered(&self) -> Xcr0 {
        self.offered
    }

    /// Checks an XSETBV (SDM 1, 13.3).
    pub fn check_xsetbv(&self, register: u32, value: u64) -> Result<Xcr0, XsetbvFault> {
        if register != 0 {
            return Err(XsetbvFault::Register(register));
        }
        let fault = XsetbvFault::Value(value);
        let xcr0 = Xcr0::from_bits(value).filter(|v| self.offered.contains(*v)).ok_or(fault)?;
        let avx512 = xcr0 & Xcr0::AVX512;
        let allowed = xcr0.contains(Xcr0::X87)
            && (!xcr0.contains(Xcr0::AVX) || xcr0.contains(Xcr0::SSE))
            && (avx512.is_empty() || (avx512 == Xcr0::AVX512 && xcr0.contains(Xcr0::AVX)));
        if allowed { Ok(xcr0) } else { Err(fault) }
    }

    /// Bytes of an area in the standard format with these components: CPUID.(0xD,0):EBX.
    pub fn standard_size(&self, components: u64) -> u32 {
        self.enabled(components).map(|c| c.offset + c.size).fold(LEGACY_AND_HEADER, u32::max)
    }

    /// Bytes of an area in the compacted format with these components: CPUID.(0xD,1):EBX.
    pub fn compacted_size(&self, components: u64) -> u32 {
        self.enabled(components).fold(LEGACY_AND_HEADER, |end, c| {
            let start = if c.aligned { end.next_multiple_of(64) } else { end };
            start + c.size
        })
    }

    /// Subleaf `index` of CPUID leaf 0xD, from 2 on, for the guest.
    pub(crate) fn subleaf(&self, index: u32) -> CpuidResult {
        match self.components.get(index as usize) {
            Some(c) => CpuidResult { eax: c.size, ebx: c.offset, ecx: u32::from(c.aligned) << 1, edx: 0 },
            None => CpuidResult::default(),
        }
    }

    fn enabled(&self, mask: u64) -> impl Iterator<Item = &Component> {
        self.components.iter().enumerate().filter(move |(i, _)| mask & 1 << i != 0).map(|(_, c)| c)
    }
}

/// The layout of the host's own CPU, from a function that executes CPUID.
pub fn host_layout(host: impl Fn(u32, u32) -> CpuidResult) -> XsaveLayout {
    use x86defs::cpuid::Leaf1Ecx;
    let features = Leaf1Ecx::from_bits_truncate(host(leaf::FEATURES, 0).ecx);
    match features.contains(Leaf1Ecx::XSAVE) && host(leaf::VENDOR, 0).eax >= leaf::XSAVE {
        true => XsaveLayout::new(|subleaf| host(leaf::XSAVE, subleaf)),
        false => XsaveLayout::none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::skylake_xsave as skylake;

    #[test]
    fn offers_x87_to_avx512_and_nothing_else() {
        let layout = XsaveLayout::new(skylake);
        assert_eq!(layout.offered().bits(), 0xe7);
        assert_eq!(layout.subleaf(9), CpuidResult::default());
    }

    #[test]
    fn incomplete_sets_are_cut_down() {
        let with = |eax| XsaveLayout::new(|_| CpuidResult { eax, ..CpuidResult::default() }).offered().bits();
        assert_eq!(with(0b111), 0b111);
        assert_eq!(with(0x67), 0b111, "AVX-512 without Hi16_ZMM");
        assert_eq!(with(0xe3), 0b11, "AVX-512 without AVX");
        assert_eq!(with(0b101), 0b1, "AVX without SSE");
    }

    #[test]
    fn sizes_follow_from_the_components() {
        let layout = XsaveLayout::new(skylake);
        let standard = [(0b1, 576), (0b11, 576), (0b111, 832), (0xe7, 2688)];
        for (xcr0, bytes) in standard {
            assert_eq!(layout.standard_size(xcr0), bytes, "XCR0 {xcr0:#x}");
        }
        assert_eq!(layout.compacted_size(0xe7), 576 + 256 + 64 + 512 + 1024);
        assert_eq!(layout.compacted_size(0b11), 576);
    }

    #[test]
    fn alignment_counts_in_the_compacted_format() {
        let host = |subleaf| match subleaf {
            0 => CpuidResult { eax: 0xe7, ..CpuidResult::default() },
            5 => CpuidResult { eax: 8, ebx: 0x440, ecx: 0, edx: 0 },
            6 => CpuidResult { ecx: 2, ..skylake(6) },
            other => skylake(other),
        };
        assert_eq!(XsaveLayout::new(host).compacted_size(0xe7), 576 + 256 + 64 + 512 + 1024);
    }

    #[test]
    fn xsetbv_takes_the_legal_values_only() {
        let layout = XsaveLayout::new(skylake);
        for value in 0..0x400 {
            let legal = [0b1, 0b11, 0b111, 0xe7].contains(&value);
            assert_eq!(layout.check_xsetbv(0, value).is_ok(), legal, "XCR0 {value:#x}");
        }
        assert_eq!(layout.check_xsetbv(1, 1), Err(XsetbvFault::Register(1)));
        assert_eq!(layout.check_xsetbv(0, 1 << 63 | 1), Err(XsetbvFault::Value(1 << 63 | 1)));
        assert!(XsaveLayout::none().check_xsetbv(0, 1).is_err());
    }
}
