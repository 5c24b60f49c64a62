//! What a guest may do without an exit: intercepts and permission maps, computed once per virtual CPU.
#![allow(unsafe_code, reason = "permission maps are shared with the CPU")]

use super::vcpu::SvmVcpu;
use crate::hw::VcpuSetup;
use crate::mem;
use vmm::Vcpu as _;
use x86defs::addr::Hpa;
use x86defs::control::Cr4;
use x86defs::event::Exception;
use x86defs::svm::{Clean, Intercept3, Intercept4, NP_ENABLE, TlbControl, VirtualInterrupt};

/// Size of the I/O permission map (APM 2, 15.10.1).
const IOPM_BYTES: usize = 12 << 10;
/// Size of the MSR permission map (15.11).
pub(super) const MSRPM_BYTES: usize = 8 << 10;
/// First MSR and byte offset of each part of the MSR permission map; a part covers 0x2000 MSRs, two bits each.
const MSRPM_PARTS: [(u32, usize); 3] = [(0, 0), (0xc000_0000, 0x800), (0xc001_0000, 0x1000)];

/// IRET and VINTR are added while a window is open; CR4 writes only where it is needed.
const INTERCEPT3: Intercept3 = Intercept3::INTR
    .union(Intercept3::NMI)
    .union(Intercept3::INIT)
    .union(Intercept3::RDPMC)
    .union(Intercept3::CPUID)
    .union(Intercept3::INVD)
    .union(Intercept3::HLT)
    .union(Intercept3::INVLPGA)
    .union(Intercept3::IOIO_PROT)
    .union(Intercept3::MSR_PROT)
    .union(Intercept3::SHUTDOWN);

/// PAUSE, RDTSC and RDTSCP run without an exit.
const INTERCEPT4: Intercept4 = Intercept4::VMRUN
    .union(Intercept4::VMMCALL)
    .union(Intercept4::VMLOAD)
    .union(Intercept4::VMSAVE)
    .union(Intercept4::STGI)
    .union(Intercept4::CLGI)
    .union(Intercept4::SKINIT)
    .union(Intercept4::WBINVD)
    .union(Intercept4::MONITOR)
    .union(Intercept4::MWAIT)
    .union(Intercept4::XSETBV)
    .union(Intercept4::RDPRU);

/// A guest could otherwise loop inside the CPU delivering these for ever; machine checks are the host's.
pub(super) const INTERCEPT_EXCEPTIONS: u32 = 1 << Exception::Debug as u32
    | 1 << Exception::AlignmentCheck as u32
    | 1 << Exception::MachineCheck as u32;

/// Fills in the control area of a new virtual CPU.
pub(super) fn initialise(vcpu: &mut SvmVcpu, setup: &VcpuSetup, iopm: Hpa) {
    let trap_cr4 = !Cr4::from_bits_retain(setup.allowed_cr4).contains(crate::cpu::supported_cr4());
    let tsc_offset = setup.tsc_origin.wrapping_neg();
    let control = vcpu.control_mut(Clean::all());
    control.intercept3 = INTERCEPT3;
    control.intercept4 = INTERCEPT4;
    control.intercept_exceptions = INTERCEPT_EXCEPTIONS;
    control.intercept_cr_writes = if trap_cr4 { 1 << 4 } else { 0 };
    control.iopm_base_pa = iopm.0;
    control.msrpm_base_pa = msr_permission_map().0;
    control.tsc_offset = tsc_offset;
    // 0 is the host's; whoever had this one before is flushed at the first entry.
    control.guest_asid = setup.id + 1;
    control.tlb_control = TlbControl::All as u32;
    control.v_int = VirtualInterrupt::V_INTR_MASKING;
    control.np_enable = NP_ENABLE;
    control.n_cr3 = setup.nested_root.0;
    vcpu.set_tsc(0);
}

/// All ones: every port exits.
pub(super) fn io_permission_map() -> Hpa {
    let map = mem::alloc_zeroed(IOPM_BYTES, 4096);
    // SAFETY: just allocated, `IOPM_BYTES` long.
    unsafe { mem::direct(map).as_ptr().write_bytes(0xff, IOPM_BYTES) };
    map
}

/// Ones where an access exits: everything but what the policy passes through.
fn msr_permission_map() -> Hpa {
    let map = mem::alloc_zeroed(MSRPM_BYTES, 4096);
    // SAFETY: just allocated, `MSRPM_BYTES` long, referred to by nobody else yet.
    let bytes = unsafe { core::slice::from_raw_parts_mut(mem::direct(map).as_ptr(), MSRPM_BYTES) };
    bytes.fill(0xff);
    for direct in vmm::msr::direct() {
        let Some((first, offset)) =
            MSRPM_PARTS.into_iter().find(|(first, _)| direct.number.wrapping_sub(*first) < 0x2000)
        else {
            continue;
        };
        let bit = (direct.number - first) as usize * 2;
        let (byte, shift) = (offset + bit / 8, bit % 8);
        bytes[byte] &= !(u8::from(direct.read) << shift | u8::from(direct.write) << (shift + 1));
    }
    map
}
