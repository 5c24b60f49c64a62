//! The table, and each register's boundaries.

mod dispatch;

use super::table::{Model, TABLE};
use super::*;
use crate::fake::{FakeVcpu, msr_setup as setup};
use crate::vcpu::StateMsr;
use std::vec::Vec;
use x86defs::control::{Cr0, Efer};
use x86defs::cpuid::Vendor;
use x86defs::msr as number;

struct Cpu {
    vcpu: FakeVcpu,
    msrs: MsrState,
}

impl Cpu {
    fn new(vendor: Vendor) -> Self {
        Self { vcpu: FakeVcpu::real(), msrs: MsrState::new(setup(vendor)) }
    }
    fn read(&self, number: u32) -> Result<u64, FaultReason> {
        self.msrs.read(number, &self.vcpu).map_err(|f| f.reason)
    }
    fn write(&mut self, number: u32, value: u64) -> Result<(), FaultReason> {
        self.msrs.write(number, value, &mut self.vcpu).map_err(|f| f.reason)
    }
    /// Writes the register's own value back, with these bits changed.
    fn flip(&mut self, number: u32, bits: u64) -> Result<(), FaultReason> {
        let old = self.read(number)?;
        self.write(number, old ^ bits)
    }
}

#[test]
fn the_table_is_in_order() {
    for pair in TABLE.windows(2) {
        assert!(pair[0].last < pair[1].first, "{:#x} before {:#x}", pair[0].last, pair[1].first);
    }
    for row in TABLE {
        assert!(row.first <= row.last && row.last - row.first < 16);
    }
}

#[test]
fn only_rows_exist_and_only_on_their_vendors_cpus() {
    for vendor in [Vendor::Intel, Vendor::Amd] {
        let cpu = Cpu::new(vendor);
        let blocks =
            [0, 0x1000, 0x4000_0000, 0x4b56_4d00, 0xc000_0000, 0xc001_0000, 0xc001_1000, 0xffff_f000];
        for n in blocks.into_iter().flat_map(|first| first..=first + 0xfff) {
            let row = TABLE.iter().find(|r| (r.first..=r.last).contains(&n));
            let exists = row.is_some_and(|r| r.vendor.is_none_or(|v| v == vendor));
            let expected = if exists { None } else { Some(FaultReason::Unknown) };
            assert_eq!(cpu.read(n).err(), expected, "{vendor:?} MSR {n:#x}");
        }
    }
}

#[test]
fn what_linux_reads_is_there() {
    let intel = [0x17, 0x34, 0x3a, 0x4e, 0x8b, 0xce, 0xfe, 0x140, 0x179, 0x17a, 0x17f, 0x1a0, 0x277, 0x2ff];
    for n in intel.into_iter().chain(0x200..=0x20f).chain([0x250, 0x258, 0x259]).chain(0x268..=0x26f) {
        assert!(Cpu::new(Vendor::Intel).read(n).is_ok(), "MSR {n:#x}");
    }
    let amd =
        [0x8b, 0xc001_0010, 0xc001_0015, 0xc001_001a, 0xc001_001d, 0xc001_001f, 0xc001_1020, 0xc001_1029];
    for n in amd.into_iter().chain(0xc001_0000..=0xc001_0007) {
        assert!(Cpu::new(Vendor::Amd).read(n).is_ok(), "MSR {n:#x}");
    }
    let cpu = Cpu::new(Vendor::Intel);
    assert_eq!(cpu.read(number::IA32_MISC_ENABLE), Ok(0x1801));
    assert_eq!(cpu.read(number::IA32_FEATURE_CONTROL), Ok(1));
    assert_eq!(cpu.read(number::IA32_BIOS_SIGN_ID), Ok(0x42 << 32));
    assert_eq!(cpu.read(number::PLATFORM_INFO), Ok(29 << 8));
    assert_eq!(cpu.read(number::IA32_MTRR_DEF_TYPE), Ok(0x806));
    let cpu = Cpu::new(Vendor::Amd);
    assert_eq!(cpu.read(number::HWCR), Ok(1 << 24));
    assert_eq!(cpu.read(number::IA32_BIOS_SIGN_ID), Ok(0x42));
    assert_eq!(cpu.read(number::TOP_MEM2), Ok(0x1_4000_0000));
    assert_eq!(cpu.read(number::DE_CFG), Ok(2));
}

#[test]
fn registers_in_hardware_keep_what_is_written() {
    for vendor in [Vendor::Intel, Vendor::Amd] {
        let mut cpu = Cpu::new(vendor);
        let rows = TABLE.iter().filter_map(|r| match r.model {
            Model::State(register, _) => Some((r.first, register)),
            _ => None,
        });
        for (n, register) in rows.collect::<Vec<_>>() {
            let value = if register == StateMsr::DebugCtl { 2 } else { 0x0606_0606 };
            assert_eq!(cpu.write(n, value), Ok(()), "MSR {n:#x}");
            assert_eq!(cpu.read(n), Ok(value));
            assert_eq!(cpu.vcpu.state_msr(register), value);
        }
    }
}

#[test]
fn addresses_must_be_canonical() {
    let mut cpu = Cpu::new(Vendor::Intel);
    let addresses = [
        number::LSTAR,
        number::CSTAR,
        number::FS_BASE,
        number::GS_BASE,
        number::KERNEL_GS_BASE,
        number::IA32_SYSENTER_ESP,
        number::IA32_SYSENTER_EIP,
    ];
    for n in addresses {
        assert_eq!(cpu.write(n, 0x7fff_ffff_ffff), Ok(()));
        assert_eq!(cpu.write(n, 0xffff_8000_0000_0000), Ok(()));
        for bad in [0x8000_0000_0000, 0xffff_7fff_ffff_ffff, 1 << 63] {
            assert_eq!(cpu.write(n, bad), Err(FaultReason::NonCanonical), "MSR {n:#x}");
        }
        assert_eq!(cpu.read(n), Ok(0xffff_8000_0000_0000), "a refused value is not kept");
    }
}

#[test]
fn high_halves_fault_on_intel_and_are_dropped_on_amd() {
    for n in [number::FMASK, number::IA32_SYSENTER_CS, number::TSC_AUX] {
        assert_eq!(Cpu::new(Vendor::Intel).write(n, 1 << 32), Err(FaultReason::ReservedBits));
        let mut amd = Cpu::new(Vendor::Amd);
        assert_eq!((amd.write(n, 1 << 32 | 5), amd.read(n)), (Ok(()), Ok(5)));
    }
}

#[test]
fn memory_types_are_checked() {
    let mut cpu = Cpu::new(Vendor::Intel);
    for encoding in 0..=255u64 {
        let mtrr = matches!(encoding, 0 | 1 | 4 | 5 | 6);
        assert_eq!(cpu.write(number::IA32_PAT, encoding << 24).is_ok(), mtrr || encoding == 7);
        assert_eq!(cpu.write(number::IA32_MTRR_DEF_TYPE, 0xc00 | encoding).is_ok(), mtrr);
        assert_eq!(cpu.write(number::IA32_MTRR_FIX64K_00000, encoding << 56).is_ok(), mtrr);
        assert_eq!(cpu.write(number::IA32_MTRR_PHYSBASE0, 0x1000 | encoding).is_ok(), mtrr);
    }
    assert_eq!(cpu.write(number::IA32_MTRR_DEF_TYPE, 1 << 12), Err(FaultReason::ReservedBits));
}

#[test]
fn each_mtrr_is_a_register_of_its_own() {
    let mut cpu = Cpu::new(Vendor::Amd);
    let fixed = [0x250, 0x258, 0x259].into_iter().chain(0x268..=0x26f);
    let all: Vec<u32> = fixed.chain(0x200..=0x20f).collect();
    for (i, &n) in all.iter().enumerate() {
        let value = if n >= 0x250 { (i as u64 & 1) << 16 } else { (i as u64) << 12 };
        assert_eq!(cpu.write(n, value), Ok(()));
    }
    for (i, &n) in all.iter().enumerate() {
        let value = if n >= 0x250 { (i as u64 & 1) << 16 } else { (i as u64) << 12 };
        assert_eq!(cpu.read(n), Ok(value), "MSR {n:#x}");
    }
    assert_eq!(cpu.write(0x200, 1 << 40), Err(FaultReason::ReservedBits), "beyond the address width");
    assert_eq!(cpu.write(0x201, 1 << 39 | 1 << 11), Ok(()));
    assert_eq!(cpu.write(0x201, 1 << 10), Err(FaultReason::ReservedBits));
}

#[test]
fn efer_follows_the_manual() {
    let mut cpu = Cpu::new(Vendor::Intel);
    let (sce, lme, lma, nxe) = (1, 1 << 8, 1 << 10, 1 << 11);
    assert_eq!(cpu.write(number::EFER, sce | lme | nxe), Ok(()));
    assert_eq!(cpu.write(number::EFER, lma | nxe), Ok(()));
    assert_eq!(cpu.read(number::EFER), Ok(nxe), "LMA cannot be written");
    for reserved in (0..64).filter(|b| ![0, 8, 10, 11].contains(b)) {
        let result = cpu.write(number::EFER, 1 << reserved);
        assert_eq!(result, Err(FaultReason::ReservedBits), "bit {reserved}");
    }
    cpu.vcpu.efer = Efer::LME | Efer::LMA;
    cpu.vcpu.cr0 = Cr0::PE | Cr0::PG;
    assert_eq!(cpu.write(number::EFER, 0), Err(FaultReason::Transition));
    assert_eq!(cpu.write(number::EFER, lme | nxe), Ok(()));
    assert_eq!(cpu.read(number::EFER), Ok(lme | lma | nxe), "LMA stays");
}

#[test]
fn each_register_takes_its_own_bits_and_no_others() {
    // Number, bits that change, bits that are accepted without effect; all others fault.
    let intel = [
        (number::IA32_MISC_ENABLE, 1, 1 << 11 | 1 << 12),
        (number::IA32_MCG_STATUS, 7, 0),
        (number::MISC_FEATURES_ENABLES, 0, 0),
        (number::IA32_BIOS_SIGN_ID, 0, 0),
        (number::IA32_DEBUGCTL, 2, 0),
        (number::ERROR_CONTROL, 0, u64::MAX),
        (number::IA32_FEATURE_CONTROL, 0, 0),
        (number::PLATFORM_INFO, 0, 0),
        (number::IA32_MTRRCAP, 0, 0),
        (number::IA32_MCG_CAP, 0, 0),
    ];
    let amd = [
        (number::HWCR, 0x4_0148, 1 << 24),
        (number::SYSCFG, 0x7c_0000, 0),
        (number::TOP_MEM, 0, 0),
        (number::NB_CFG, 0, u64::MAX),
        (number::DE_CFG, 0, u64::MAX),
        (number::PERF_EVT_SEL0, 0, u64::MAX),
        (number::IA32_BIOS_SIGN_ID, 0, 0),
    ];
    for (vendor, rows) in [(Vendor::Intel, &intel[..]), (Vendor::Amd, &amd[..])] {
        for &(n, changes, ignored) in rows {
            for bit in (0..64).map(|b| 1u64 << b) {
                let mut cpu = Cpu::new(vendor);
                let before = cpu.read(n).expect("readable");
                let result = cpu.flip(n, bit);
                assert_eq!(result.is_ok(), (changes | ignored) & bit != 0, "MSR {n:#x}, bit {bit:#x}");
                let after = if changes & bit != 0 { before ^ bit } else { before };
                assert_eq!(cpu.read(n), Ok(after), "MSR {n:#x}, bit {bit:#x}");
            }
        }
    }
}

#[test]
fn direct_registers_exist_and_are_in_order() {
    for pair in direct().windows(2) {
        assert!(pair[0].number < pair[1].number);
    }
    for d in direct() {
        let here = TABLE.iter().any(|r| r.first == d.number && matches!(r.model, Model::State(..)));
        assert!(here || d.number == number::IA32_TIME_STAMP_COUNTER && !d.write, "MSR {:#x}", d.number);
    }
    let passed = |n| direct().iter().any(|d| d.number == n);
    assert!(!passed(number::EFER) && !passed(number::IA32_PAT) && !passed(number::IA32_DEBUGCTL));
}

#[test]
fn an_unknown_msr_is_new_once() {
    let mut msrs = MsrState::new(setup(Vendor::Intel));
    assert!(msrs.first_time(0x31) && !msrs.first_time(0x31) && msrs.first_time(0x32));
    let news = (0x1000..0x2000).filter(|n| msrs.first_time(*n)).count();
    assert!(news < 64, "a guest cannot fill the log");
}

#[test]
fn faults_read_as_sentences() {
    let fault = MsrFault::write(0x1b, 0x400, FaultReason::Transition);
    assert_eq!(std::format!("{fault}"), "WRMSR of 0x400 to MSR 0x1b: it cannot change to this value now");
}
