//! Secure virtual machine: the VMCB, its intercepts and its exit codes (APM 2, chapter 15 and appendices B, C).

#![allow(missing_docs, reason = "bits, codes and fields carry the names that the manual defines")]

pub mod checks;
mod segments;

use crate::event::EventKind;
use bitflags::bitflags;

/// VM_CR: SVM disable and its lock (APM 2, 15.30.1).
pub const MSR_VM_CR: u32 = 0xc001_0114;
/// VM_CR.SVMDIS: EFER.SVME cannot be set.
pub const VM_CR_SVMDIS: u64 = 1 << 4;
/// VM_CR.LOCK: SVMDIS cannot be changed before the next reset.
pub const VM_CR_LOCK: u64 = 1 << 3;
/// VM_HSAVE_PA: physical address of the host's save area (APM 2, 15.30.4).
pub const MSR_VM_HSAVE_PA: u32 = 0xc001_0117;

bitflags! {
    /// CPUID Fn8000_000A EDX: SVM features (APM 3, E.4.9).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SvmFeatures: u32 {
        const NP = 1 << 0;
        const LBR_VIRT = 1 << 1;
        const SVM_LOCK = 1 << 2;
        const NRIPS = 1 << 3;
        const TSC_RATE_MSR = 1 << 4;
        const VMCB_CLEAN = 1 << 5;
        const FLUSH_BY_ASID = 1 << 6;
        const DECODE_ASSISTS = 1 << 7;
        const PAUSE_FILTER = 1 << 10;
    }

    /// VMCB offset 0x0c: the third intercept vector.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Intercept3: u32 {
        const INTR = 1 << 0;
        const NMI = 1 << 1;
        const SMI = 1 << 2;
        const INIT = 1 << 3;
        const VINTR = 1 << 4;
        const CR0_SEL_WRITE = 1 << 5;
        const RDTSC = 1 << 14;
        const RDPMC = 1 << 15;
        const CPUID = 1 << 18;
        const IRET = 1 << 20;
        const INVD = 1 << 22;
        const PAUSE = 1 << 23;
        const HLT = 1 << 24;
        const INVLPGA = 1 << 26;
        const IOIO_PROT = 1 << 27;
        const MSR_PROT = 1 << 28;
        const TASK_SWITCH = 1 << 29;
        const FERR_FREEZE = 1 << 30;
        const SHUTDOWN = 1 << 31;
    }

    /// VMCB offset 0x10: the fourth intercept vector.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Intercept4: u32 {
        const VMRUN = 1 << 0;
        const VMMCALL = 1 << 1;
        const VMLOAD = 1 << 2;
        const VMSAVE = 1 << 3;
        const STGI = 1 << 4;
        const CLGI = 1 << 5;
        const SKINIT = 1 << 6;
        const RDTSCP = 1 << 7;
        const ICEBP = 1 << 8;
        const WBINVD = 1 << 9;
        const MONITOR = 1 << 10;
        const MWAIT = 1 << 11;
        const MWAIT_ARMED = 1 << 12;
        const XSETBV = 1 << 13;
        const RDPRU = 1 << 14;
    }

    /// VMCB offset 0x60: virtual interrupt control.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct VirtualInterrupt: u64 {
        const V_TPR = 0xf;
        const V_IRQ = 1 << 8;
        const V_GIF = 1 << 9;
        const V_INTR_PRIO = 0xf << 16;
        const V_IGN_TPR = 1 << 20;
        const V_INTR_MASKING = 1 << 24;
        const V_INTR_VECTOR = 0xff << 32;
    }

    /// VMCB offset 0xc0: what the CPU may still have cached of the VMCB (15.15.3). A set bit says "unchanged".
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Clean: u32 {
        const I = 1 << 0;
        const IOPM = 1 << 1;
        const ASID = 1 << 2;
        const TPR = 1 << 3;
        const NP = 1 << 4;
        const CRX = 1 << 5;
        const DRX = 1 << 6;
        const DT = 1 << 7;
        const SEG = 1 << 8;
        const CR2 = 1 << 9;
        const LBR = 1 << 10;
        const AVIC = 1 << 11;
    }

    /// EXITINFO1 of an IOIO intercept (15.10.2).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct IoInfo: u32 {
        const IN = 1 << 0;
        const STR = 1 << 2;
        const REP = 1 << 3;
        const SZ8 = 1 << 4;
        const SZ16 = 1 << 5;
        const SZ32 = 1 << 6;
    }

    /// EXITINFO1 of a nested page fault (15.25.6).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct NestedFaultInfo: u64 {
        const PRESENT = 1 << 0;
        const WRITE = 1 << 1;
        const USER = 1 << 2;
        const RESERVED = 1 << 3;
        const FETCH = 1 << 4;
        const FINAL_TRANSLATION = 1 << 32;
        const PAGE_WALK = 1 << 33;
    }
}

/// VMCB offset 0x68: the guest is in an interrupt shadow.
pub const INTERRUPT_SHADOW: u64 = 1 << 0;
/// VMCB offset 0x90: nested paging is on.
pub const NP_ENABLE: u64 = 1 << 0;
/// EXITINFO1 of a MOV CR intercept with decode assists: the instruction was a MOV (15.33.1).
pub const MOV_CR_VALID: u64 = 1 << 63;

/// TLB_CONTROL: what a VMRUN flushes (15.16.1).
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlbControl {
    /// Nothing.
    None = 0,
    /// All translations of all address spaces.
    All = 1,
    /// This guest's; needs [`SvmFeatures::FLUSH_BY_ASID`].
    Guest = 3,
}

/// EXITINTINFO and EVENTINJ (15.7.2, 15.20): vector in bits 7:0, kind in 10:8, error code in 63:32.
pub mod event_field {
    /// An error code is pushed.
    pub const ERROR_CODE_VALID: u64 = 1 << 11;
    /// The field holds an event.
    pub const VALID: u64 = 1 << 31;
}

/// An event in the layout of EXITINTINFO and EVENTINJ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventField(pub u64);

impl EventField {
    /// Whether there is an event.
    pub const fn is_valid(self) -> bool {
        self.0 & event_field::VALID != 0
    }

    /// Whether VMRUN takes it: the type is not reserved, and an exception has a vector that exceptions have.
    pub const fn is_legal(self) -> bool {
        const EXCEPTION: u64 = EventKind::Exception as u64;
        const NMI_VECTOR: u8 = 2;
        match self.0 >> 8 & 7 {
            0 | 2 | 4 => true,
            EXCEPTION => self.0 as u8 != NMI_VECTOR && (self.0 as u8) < 32,
            _ => false,
        }
    }
}

/// Exit codes (APM 2, appendix C). They are compared as 32 bits: some emulators do not sign-extend
/// [`exit_code::INVALID`].
pub mod exit_code {
    pub const CR0_READ: u32 = 0x00;
    pub const CR0_WRITE: u32 = 0x10;
    pub const CR4_WRITE: u32 = 0x14;
    pub const CR15_WRITE: u32 = 0x1f;
    pub const EXCEPTION_0: u32 = 0x40;
    pub const EXCEPTION_31: u32 = 0x5f;
    pub const INTR: u32 = 0x60;
    pub const NMI: u32 = 0x61;
    pub const SMI: u32 = 0x62;
    pub const INIT: u32 = 0x63;
    pub const VINTR: u32 = 0x64;
    pub const RDPMC: u32 = 0x6f;
    pub const CPUID: u32 = 0x72;
    pub const IRET: u32 = 0x74;
    pub const INVD: u32 = 0x76;
    pub const PAUSE: u32 = 0x77;
    pub const HLT: u32 = 0x78;
    pub const INVLPGA: u32 = 0x7a;
    pub const IOIO: u32 = 0x7b;
    pub const MSR: u32 = 0x7c;
    pub const TASK_SWITCH: u32 = 0x7d;
    pub const SHUTDOWN: u32 = 0x7f;
    pub const VMRUN: u32 = 0x80;
    pub const VMMCALL: u32 = 0x81;
    pub const SKINIT: u32 = 0x86;
    pub const WBINVD: u32 = 0x89;
    pub const MONITOR: u32 = 0x8a;
    pub const MWAIT: u32 = 0x8b;
    pub const XSETBV: u32 = 0x8d;
    pub const RDPRU: u32 = 0x8e;
    pub const NPF: u32 = 0x400;
    pub const INVALID: u32 = 0xffff_ffff;
}

/// A segment register in the VMCB (appendix B): attributes are descriptor bits 55:52 and 47:40.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct VmcbSegment {
    pub selector: u16,
    pub attributes: u16,
    pub limit: u32,
    pub base: u64,
}

/// The control area (appendix B, table B-1).
#[repr(C)]
#[derive(Debug)]
pub struct ControlArea {
    pub intercept_cr_reads: u16,
    pub intercept_cr_writes: u16,
    pub intercept_dr_reads: u16,
    pub intercept_dr_writes: u16,
    pub intercept_exceptions: u32,
    pub intercept3: Intercept3,
    pub intercept4: Intercept4,
    pub intercept5: u32,
    _reserved_18: [u8; 0x24],
    pub pause_filter_threshold: u16,
    pub pause_filter_count: u16,
    pub iopm_base_pa: u64,
    pub msrpm_base_pa: u64,
    pub tsc_offset: u64,
    pub guest_asid: u32,
    pub tlb_control: u32,
    pub v_int: VirtualInterrupt,
    pub interrupt_shadow: u64,
    pub exitcode: u64,
    pub exitinfo1: u64,
    pub exitinfo2: u64,
    pub exitintinfo: u64,
    pub np_enable: u64,
    _reserved_98: [u8; 0x10],
    pub eventinj: u64,
    pub n_cr3: u64,
    pub lbr_virtualization_enable: u64,
    pub clean: Clean,
    _reserved_c4: u32,
    pub nrip: u64,
    pub fetched_bytes: u8,
    pub instruction_bytes: [u8; 15],
    _reserved_e0: [u8; 0x400 - 0xe0],
}

/// The state-save area (appendix B, table B-2).
#[repr(C)]
#[derive(Debug)]
pub struct SaveArea {
    pub es: VmcbSegment,
    pub cs: VmcbSegment,
    pub ss: VmcbSegment,
    pub ds: VmcbSegment,
    pub fs: VmcbSegment,
    pub gs: VmcbSegment,
    pub gdtr: VmcbSegment,
    pub ldtr: VmcbSegment,
    pub idtr: VmcbSegment,
    pub tr: VmcbSegment,
    _reserved_a0: [u8; 0x2b],
    pub cpl: u8,
    _reserved_cc: u32,
    pub efer: u64,
    _reserved_d8: [u8; 0x70],
    pub cr4: u64,
    pub cr3: u64,
    pub cr0: u64,
    pub dr7: u64,
    pub dr6: u64,
    pub rflags: u64,
    pub rip: u64,
    _reserved_180: [u8; 0x58],
    pub rsp: u64,
    _reserved_1e0: [u8; 0x18],
    pub rax: u64,
    pub star: u64,
    pub lstar: u64,
    pub cstar: u64,
    pub sfmask: u64,
    pub kernel_gs_base: u64,
    pub sysenter_cs: u64,
    pub sysenter_esp: u64,
    pub sysenter_eip: u64,
    pub cr2: u64,
    _reserved_248: [u8; 0x20],
    pub g_pat: u64,
    pub dbgctl: u64,
    pub br_from: u64,
    pub br_to: u64,
    pub last_excp_from: u64,
    pub last_excp_to: u64,
    _reserved_298: [u8; 0xc00 - 0x298],
}

/// A virtual machine control block: one page.
#[repr(C, align(4096))]
#[derive(Debug)]
pub struct Vmcb {
    pub control: ControlArea,
    pub save: SaveArea,
}

const _: () = {
    assert!(size_of::<Vmcb>() == 4096);
    assert!(core::mem::offset_of!(ControlArea, pause_filter_threshold) == 0x3c);
    assert!(core::mem::offset_of!(ControlArea, eventinj) == 0xa8);
    assert!(core::mem::offset_of!(ControlArea, nrip) == 0xc8);
    assert!(core::mem::offset_of!(SaveArea, cpl) == 0xcb);
    assert!(core::mem::offset_of!(SaveArea, efer) == 0xd0);
    assert!(core::mem::offset_of!(SaveArea, cr4) == 0x148);
    assert!(core::mem::offset_of!(SaveArea, rip) == 0x178);
    assert!(core::mem::offset_of!(SaveArea, rsp) == 0x1d8);
    assert!(core::mem::offset_of!(SaveArea, rax) == 0x1f8);
    assert!(core::mem::offset_of!(SaveArea, cr2) == 0x240);
    assert!(core::mem::offset_of!(SaveArea, g_pat) == 0x268);
};
