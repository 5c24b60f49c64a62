//! The VMX instructions (SDM 3, chapter 31), with their failures as values.
#![allow(unsafe_code, reason = "VMX instructions")]

use core::arch::asm;
use x86defs::addr::{Gva, Hpa};
use x86defs::vmcs::{Encoding, Field};

/// An instruction that failed: RFLAGS.CF or RFLAGS.ZF was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct VmFail;

/// What INVVPID invalidates (SDM 3, 31.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Invvpid {
    Address(Gva),
    Context,
}

fn result(failed: u8) -> Result<(), VmFail> {
    if failed == 0 { Ok(()) } else { Err(VmFail) }
}

/// VMXON.
///
/// # Safety
/// CR0, CR4 and IA32_FEATURE_CONTROL allow it, and the page is the CPU's from now on.
pub(super) unsafe fn vmxon(region: Hpa) -> Result<(), VmFail> {
    let failed: u8;
    // SAFETY: the caller's promise.
    unsafe { asm!("vmxon [{}]", "setbe {}", in(reg) &region.0, out(reg_byte) failed, options(nostack)) };
    result(failed)
}

/// VMXOFF.
///
/// # Safety
/// The CPU is in VMX root operation and runs no guest any more.
pub(super) unsafe fn vmxoff() {
    // SAFETY: the caller's promise.
    unsafe { asm!("vmxoff", options(nostack)) };
}

/// VMCLEAR and VMPTRLD: makes a VMCS current on this CPU, ready for VMLAUNCH.
///
/// # Safety
/// The page is a VMCS region that no other CPU uses.
pub(super) unsafe fn make_current(vmcs: Hpa) -> Result<(), VmFail> {
    let (clear, load): (u8, u8);
    // SAFETY: the caller's promise.
    unsafe {
        asm!("vmclear [{0}]", "setbe {1}", "vmptrld [{0}]", "setbe {2}",
            in(reg) &vmcs.0, out(reg_byte) clear, out(reg_byte) load, options(nostack));
    }
    result(clear | load)
}

/// VMCLEAR: the CPU writes back what it holds of a VMCS and lets go of it.
///
/// # Safety
/// The page is a VMCS region whose guest does not run.
pub(super) unsafe fn vmclear(vmcs: Hpa) {
    // SAFETY: the caller's promise.
    unsafe { asm!("vmclear [{}]", in(reg) &vmcs.0, options(nostack)) };
}

/// Reads a field that every CPU has which [`check`](super::capabilities::Capabilities::read) accepts.
#[inline(always)]
pub(super) fn vmread<F: Field>(field: F) -> F::Value {
    let raw: u64;
    // SAFETY: reads the current VMCS; a virtual CPU is made only together with one.
    unsafe {
        asm!("vmread {}, {}", out(reg) raw, in(reg) u64::from(field.encoding().0), options(nomem, nostack));
    }
    F::narrow(raw)
}

/// Reads a field, or nothing if this CPU lacks it: for the dump.
pub(super) fn vmread_checked(field: Encoding) -> Option<u64> {
    let (raw, failed): (u64, u8);
    // SAFETY: as in `vmread`.
    unsafe {
        asm!("vmread {}, {}", "setbe {}", out(reg) raw, in(reg) u64::from(field.0), out(reg_byte) failed,
            options(nomem, nostack));
    }
    result(failed).ok().map(|()| raw)
}

/// Writes a field that every CPU has which [`check`](super::capabilities::Capabilities::read) accepts.
#[inline(always)]
pub(super) fn vmwrite<F: Field>(field: F, value: F::Value) {
    // SAFETY: writes the current VMCS; what a value means for the guest is checked by the next VM entry, and host
    // state is written by `setup` and `entry` alone.
    unsafe {
        asm!("vmwrite {}, {}", in(reg) u64::from(field.encoding().0), in(reg) F::widen(value),
            options(nomem, nostack));
    }
}

/// INVEPT of everything that was cached for one set of tables.
pub(super) fn invept(ept_pointer: u64) {
    const SINGLE_CONTEXT: u64 = 1;
    let descriptor = [ept_pointer, 0];
    // SAFETY: only drops cached translations; `check` demands this type.
    unsafe { asm!("invept {}, [{}]", in(reg) SINGLE_CONTEXT, in(reg) &descriptor, options(nostack)) };
}

/// INVVPID. The caller has made sure that the CPU has this type.
pub(super) fn invvpid(vpid: u16, what: Invvpid) {
    const INDIVIDUAL_ADDRESS: u64 = 0;
    const SINGLE_CONTEXT: u64 = 1;
    let (kind, address) = match what {
        Invvpid::Address(address) => (INDIVIDUAL_ADDRESS, address.0),
        Invvpid::Context => (SINGLE_CONTEXT, 0),
    };
    let descriptor = [u64::from(vpid), address];
    // SAFETY: only drops cached translations; with a bad address it fails without effect.
    unsafe { asm!("invvpid {}, [{}]", in(reg) kind, in(reg) &descriptor, options(nostack)) };
}
