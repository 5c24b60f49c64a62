//! A host with every feature, and what is set up on it.

use crate::cpuid::{Offered, Setup};
use crate::fake::TSC_KHZ;
use crate::lapic::TimerClock;
use crate::msr::MsrSetup;
use x86defs::control::Efer;
use x86defs::cpuid::{CpuidResult, Vendor, leaf};

const ALL_ONES: CpuidResult = CpuidResult { eax: !0, ebx: !0, ecx: !0, edx: !0 };
/// Intel's name, as EBX, EDX and ECX spell it.
pub const INTEL: [&[u8; 4]; 3] = [b"Genu", b"ineI", b"ntel"];
/// AMD's.
pub const AMD: [&[u8; 4]; 3] = [b"Auth", b"enti", b"cAMD"];

/// A CPU with every feature bit, and sane values where sanity matters.
pub fn host(vendor: [&[u8; 4]; 3]) -> impl Fn(u32, u32) -> CpuidResult {
    let word = |bytes: &[u8; 4]| u32::from_le_bytes(*bytes);
    let (ebx, edx, ecx) = (word(vendor[0]), word(vendor[1]), word(vendor[2]));
    move |leaf, subleaf| match leaf {
        leaf::VENDOR => CpuidResult { eax: 0x20, ebx, ecx, edx },
        leaf::FEATURES => CpuidResult { eax: 0x0005_0654, ebx: 0x0710_0800, ..ALL_ONES },
        leaf::CACHE_PARAMETERS => match subleaf {
            0 => CpuidResult { eax: 0x1c00_4121, ebx: 0x01c0_003f, ecx: 63, edx: 0 },
            1 => CpuidResult { eax: 0x1c03_c163, ebx: 0x0280_003f, ecx: 0x9fff, edx: 4 },
            _ => CpuidResult::default(),
        },
        leaf::XSAVE => skylake_xsave(subleaf),
        leaf::EXTENDED_MAX => CpuidResult { eax: 0x8000_0028, ebx, ecx, edx },
        leaf::ADDRESS_SIZES => CpuidResult { eax: 0x3034, ..ALL_ONES },
        _ => ALL_ONES,
    }
}

/// Leaf 0xD of a CPU with x87 to AVX-512 and PKRU, in the layout of Skylake.
pub fn skylake_xsave(subleaf: u32) -> CpuidResult {
    let (eax, ebx, ecx) = match subleaf {
        0 => (0x2e7, 0x240, 0xa88),
        1 => (0xf, 0x240, 0),
        2 => (0x100, 0x240, 0),
        5 => (0x40, 0x440, 0),
        6 => (0x200, 0x480, 0),
        7 => (0x400, 0x680, 0),
        9 => (8, 0xa80, 0),
        _ => (0, 0, 0),
    };
    CpuidResult { eax, ebx, ecx, edx: 0 }
}

/// One virtual CPU, and a backend that has every control.
pub fn cpuid_setup() -> Setup {
    Setup {
        offered: Offered::all(),
        apic_id: 0,
        cpus: 1,
        physical_bits: 40,
        clock: TimerClock::for_tsc(TSC_KHZ),
    }
}

/// The registers of this vendor's CPU.
pub fn msr_setup(vendor: Vendor) -> MsrSetup {
    MsrSetup {
        vendor,
        physical_bits: 40,
        tsc_khz: TSC_KHZ,
        allowed_efer: Efer::SCE | Efer::LME | Efer::LMA | Efer::NXE,
        microcode: 0x42,
        low_ram_end: 0x4000_0000,
        high_ram_end: 0x1_4000_0000,
        ignore_unknown: false,
    }
}
