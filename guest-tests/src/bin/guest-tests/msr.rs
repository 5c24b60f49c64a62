//! Model-specific registers.

#![allow(unsafe_code, reason = "RDMSR with chosen registers, FS- and GS-relative access, SWAPGS")]

use core::arch::asm;
use runtime::cpu::{self, Vendor, rdmsr, rdtsc, wrmsr};
use runtime::fault::{Fault, catch};
use runtime::harness::{expect_gp, expect_ok};
use runtime::hw::lapic;
use runtime::memory::{self, write64};
use runtime::{cpu_wrong, expect, expect_eq, guest_test, platform_wrong, skip};
use x86defs::apic::{ApicBase, DEFAULT_BASE};
use x86defs::control::Efer;
use x86defs::event::Exception;
use x86defs::msr::{self, MiscEnable};

/// The first address that is not canonical, and the last but one that is.
const NON_CANONICAL: u64 = 1 << 47;
const HIGHEST_LOW_CANONICAL: u64 = NON_CANONICAL - 8;

guest_test!(apic_base_at_reset);
fn apic_base_at_reset() {
    let base = lapic::base();
    expect!(base.contains(ApicBase::BSP | ApicBase::EN), "{base:?}");
    expect_eq!(base.bits() & !0xfff, DEFAULT_BASE, "base address");
}

guest_test!(apic_base_reserved_bits);
fn apic_base_reserved_bits() {
    platform_wrong!(QemuTcg, "IA32_APIC_BASE accepts reserved bits");
    let base = lapic::base().bits();
    for bit in [0, 7, 9, 63] {
        expect_gp("reserved bit of IA32_APIC_BASE", wrmsr(msr::IA32_APIC_BASE, base | 1 << bit));
    }
    expect_eq!(lapic::base().bits(), base, "IA32_APIC_BASE after faults");
}

guest_test!(efer_in_long_mode);
fn efer_in_long_mode() {
    let efer = cpu::efer();
    expect!(efer.contains(Efer::LME | Efer::LMA | Efer::NXE), "{efer:?}");
    expect_ok("SCE", wrmsr(msr::EFER, (efer | Efer::SCE).bits()));
    expect!(cpu::efer().contains(Efer::SCE), "{:?}", cpu::efer());
    // LMA is read-only: a write that says otherwise is not a fault (SDM 3, 2.2.1).
    expect_ok("LMA clear", wrmsr(msr::EFER, (efer - Efer::LMA).bits()));
    expect!(cpu::efer().contains(Efer::LMA), "{:?}", cpu::efer());
}

guest_test!(efer_lme_is_locked_by_paging);
fn efer_lme_is_locked_by_paging() {
    platform_wrong!(QemuTcg, "EFER.LME can be cleared while paging is on");
    expect_gp("clearing EFER.LME with paging on", wrmsr(msr::EFER, (cpu::efer() - Efer::LME).bits()));
    expect!(cpu::efer().contains(Efer::LME), "{:?}", cpu::efer());
}

guest_test!(efer_reserved_bits);
fn efer_reserved_bits() {
    platform_wrong!(QemuTcg, "EFER drops reserved bits without a fault");
    let efer = cpu::efer();
    for bit in [1, 7, 9, 16, 63] {
        expect_gp("reserved bit of EFER", wrmsr(msr::EFER, efer.bits() | 1 << bit));
    }
    expect_eq!(cpu::efer(), efer, "EFER after faults");
}

guest_test!(pat);
fn pat() {
    expect_eq!(rdmsr(msr::IA32_PAT).ok(), Some(msr::PAT_RESET), "IA32_PAT");
    // UC, WC, WT, WP, WB, UC-: every type there is.
    let other = 0x0706_0504_0100_0706;
    expect_ok("all types", wrmsr(msr::IA32_PAT, other));
    expect_eq!(rdmsr(msr::IA32_PAT).ok(), Some(other), "IA32_PAT");
}

guest_test!(pat_reserved_types);
fn pat_reserved_types() {
    platform_wrong!(QemuTcg, "IA32_PAT accepts reserved types");
    for shift in [0, 24, 56] {
        for kind in [2, 3, 8, 0x80] {
            let value = msr::PAT_RESET & !(0xff << shift) | kind << shift;
            expect_gp("reserved type in IA32_PAT", wrmsr(msr::IA32_PAT, value));
        }
    }
    expect_eq!(rdmsr(msr::IA32_PAT).ok(), Some(msr::PAT_RESET), "IA32_PAT after faults");
}

guest_test!(misc_enable);
fn misc_enable() {
    if cpu::vendor() != Vendor::Intel {
        skip!("Intel only");
    }
    platform_wrong!(Bochs, "there is no IA32_MISC_ENABLE");
    let value = MiscEnable::from_bits_retain(expect_ok("RDMSR", rdmsr(msr::IA32_MISC_ENABLE)));
    expect!(value.contains(MiscEnable::FAST_STRINGS), "{value:?}");
    expect!(!value.intersects(MiscEnable::XD_DISABLE | MiscEnable::LIMIT_CPUID_MAXVAL), "{value:?}");
}

guest_test!(mtrrs);
fn mtrrs() {
    let cap = expect_ok("RDMSR", rdmsr(msr::IA32_MTRRCAP));
    expect!(cap & 0xff <= 10, "{cap:#x} says that there are {} variable ranges", cap & 0xff);
    let default = expect_ok("RDMSR", rdmsr(msr::IA32_MTRR_DEF_TYPE));
    expect!(default & !0xcff == 0, "IA32_MTRR_DEF_TYPE is {default:#x}");
}

/// RDMSR with known values in RAX and RDX; on a fault they must still be there.
fn rdmsr_keeping_registers(number: u64) -> Result<u64, Fault> {
    let result = catch(|| {
        let (low, high): (u64, u64);
        // SAFETY: reads no memory.
        unsafe {
            asm!("rdmsr", in("rcx") number, inout("rax") MARK => low,
                inout("rdx") !MARK => high, options(nomem, nostack))
        };
        high << 32 | low
    });
    if let Err(fault) = &result {
        expect_eq!(fault.rax, MARK, "RAX after the fault of RDMSR {number:#x}");
        expect_eq!(fault.rdx, !MARK, "RDX after the fault of RDMSR {number:#x}");
    }
    result
}

const MARK: u64 = 0x0123_4567_89ab_cdef;

guest_test!(unknown_numbers);
fn unknown_numbers() {
    platform_wrong!(QemuTcg, "unknown MSRs read as zero");
    // The ends of the ranges that MSR bitmaps cover, and numbers around them that no CPU uses.
    const NUMBERS: [u32; 13] = [
        0x31,
        0x1fff,
        0x2000,
        0x3fff_ffff,
        0xbfff_ffff,
        0xc000_0000,
        0xc000_1fff,
        0xc000_2000,
        0xc000_ffff,
        0xc001_1fff,
        0xc001_2000,
        0x7fff_ffff,
        0xffff_ffff,
    ];
    for number in NUMBERS {
        for (what, fault) in
            [("RDMSR", rdmsr_keeping_registers(number.into()).err()), ("WRMSR", wrmsr(number, MARK).err())]
        {
            let is_gp = fault.is_some_and(|f| f.is(Exception::GeneralProtection, 0));
            expect!(is_gp, "{what} {number:#x}: {fault:x?}");
        }
    }
}

guest_test!(vendor_ranges);
fn vendor_ranges() {
    platform_wrong!(QemuTcg, "unknown MSRs read as zero");
    // The first number of AMD's range and the first of the hypervisors'.
    if cpu::vendor() == Vendor::Intel {
        expect_gp("RDMSR of AMD's first MSR", rdmsr_keeping_registers(msr::PERF_EVT_SEL0.into()));
    }
    expect_gp("RDMSR of 0x40000000", rdmsr_keeping_registers(0x4000_0000));
    expect_gp("WRMSR of 0x40000000", wrmsr(0x4000_0000, 0));
}

guest_test!(upper_half_of_rcx_is_ignored);
fn upper_half_of_rcx_is_ignored() {
    cpu_wrong!(QemuTcg, "the MSR permission map is looked up by all of RCX");
    let number = u64::from(msr::IA32_PAT) | MARK << 32;
    expect_eq!(rdmsr_keeping_registers(number).ok(), Some(msr::PAT_RESET), "IA32_PAT");
    expect_gp("RDMSR of an unknown number", rdmsr_keeping_registers(0x31 | MARK << 32));
}

guest_test!(rdmsr_clears_upper_halves);
fn rdmsr_clears_upper_halves() {
    let value = expect_ok("RDMSR", rdmsr_keeping_registers(msr::IA32_PAT.into()));
    expect_eq!(value, msr::PAT_RESET, "RDX << 32 | RAX");
}

guest_test!(segment_bases);
fn segment_bases() {
    let page = memory::frame();
    for (offset, value) in [(0, 0xf5), (8, 0x65), (16, 0xe6)] {
        write64(page + offset, value);
    }
    for (number, base) in [(msr::FS_BASE, page), (msr::GS_BASE, page + 8), (msr::KERNEL_GS_BASE, page + 16)] {
        expect_ok("WRMSR", wrmsr(number, base));
        expect_eq!(rdmsr(number).ok(), Some(base), "MSR {number:#x}");
    }
    let (fs, gs, swapped): (u64, u64, u64);
    // SAFETY: the bases point to memory of ours; nothing else uses FS or GS.
    unsafe {
        asm!("mov {fs}, fs:[0]", "mov {gs}, gs:[0]", "swapgs", "mov {swapped}, gs:[0]", "swapgs",
            fs = out(reg) fs, gs = out(reg) gs, swapped = out(reg) swapped, options(nostack, readonly))
    };
    expect_eq!([fs, gs, swapped], [0xf5, 0x65, 0xe6], "what FS, GS and the swapped GS point to");
}

guest_test!(system_call_registers);
fn system_call_registers() {
    let numbers = [
        (msr::STAR, MARK),
        (msr::LSTAR, HIGHEST_LOW_CANONICAL),
        (msr::CSTAR, !HIGHEST_LOW_CANONICAL),
        (msr::FMASK, 0x47700),
        (msr::IA32_SYSENTER_CS, 8),
        (msr::IA32_SYSENTER_ESP, 0x7000),
        (msr::IA32_SYSENTER_EIP, 0x1234_5678),
    ];
    for (number, value) in numbers {
        expect_ok("WRMSR", wrmsr(number, value));
    }
    for (number, value) in numbers {
        expect_eq!(rdmsr(number).ok(), Some(value), "MSR {number:#x}");
    }
}

guest_test!(non_canonical_values);
fn non_canonical_values() {
    cpu_wrong!(QemuTcg, "non-canonical bases are accepted");
    for number in [msr::FS_BASE, msr::GS_BASE, msr::KERNEL_GS_BASE, msr::LSTAR, msr::CSTAR] {
        let before = rdmsr(number).ok();
        expect_gp("non-canonical value", wrmsr(number, NON_CANONICAL));
        expect_eq!(rdmsr(number).ok(), before, "MSR {number:#x} after the fault");
    }
}

guest_test!(tsc_write);
fn tsc_write() {
    platform_wrong!(QemuTcg, "WRMSR to the time-stamp counter has no effect");
    let before = rdtsc();
    let far = before + (1 << 40);
    expect_ok("WRMSR", wrmsr(msr::IA32_TIME_STAMP_COUNTER, far));
    let after = rdtsc();
    // What a slow machine spends on a WRMSR and an exception frame.
    let slack = runtime::time::us(100_000);
    // Back, since other tests look at how old the machine is.
    expect_ok("WRMSR", wrmsr(msr::IA32_TIME_STAMP_COUNTER, before + (rdtsc() - far)));
    expect!((far..far + slack).contains(&after), "RDTSC {after:#x} after writing {far:#x}");
}

guest_test!(tsc_by_rdmsr);
fn tsc_by_rdmsr() {
    cpu_wrong!(QemuTcg, "RDMSR of the time-stamp counter reads zero");
    let before = rdtsc();
    let read = expect_ok("RDMSR", rdmsr(msr::IA32_TIME_STAMP_COUNTER));
    let after = rdtsc();
    expect!(before <= read && read <= after, "RDMSR {read:#x} between {before:#x} and {after:#x}");
}
