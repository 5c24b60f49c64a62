//! Instructions that Rust has no words for. Those that can fault return the fault.

#![allow(unsafe_code, reason = "privileged instructions")]

use crate::fault::{Fault, catch};
use core::arch::asm;
use x86defs::control::{Cr0, Cr4, Efer};
use x86defs::cpuid::leaf;
use x86defs::msr;

/// RDMSR
pub fn rdmsr(number: u32) -> Result<u64, Fault> {
    catch(|| {
        let (low, high): (u32, u32);
        // SAFETY: reads no memory.
        unsafe { asm!("rdmsr", in("ecx") number, out("eax") low, out("edx") high, options(nomem, nostack)) };
        u64::from(high) << 32 | u64::from(low)
    })
}

/// WRMSR
pub fn wrmsr(number: u32, value: u64) -> Result<(), Fault> {
    let (low, high) = (value as u32, (value >> 32) as u32);
    // SAFETY: see the crate's text.
    catch(|| unsafe { asm!("wrmsr", in("ecx") number, in("eax") low, in("edx") high, options(nostack)) })
}

macro_rules! control_register {
    ($read:ident, $write:ident, $name:literal) => {
        #[doc = concat!("MOV from ", $name)]
        pub fn $read() -> u64 {
            let value;
            // SAFETY: reads no memory.
            unsafe { asm!(concat!("mov {}, ", $name), out(reg) value, options(nomem, nostack, preserves_flags)) };
            value
        }
        #[doc = concat!("MOV to ", $name)]
        pub fn $write(value: u64) -> Result<(), Fault> {
            // SAFETY: see the crate's text.
            catch(|| unsafe { asm!(concat!("mov ", $name, ", {}"), in(reg) value, options(nostack)) })
        }
    };
}

control_register!(cr0_bits, set_cr0_bits, "cr0");
control_register!(cr2, set_cr2, "cr2");
control_register!(cr3, set_cr3, "cr3");
control_register!(cr4_bits, set_cr4_bits, "cr4");
control_register!(cr8, set_cr8, "cr8");
control_register!(dr0, set_dr0, "dr0");
control_register!(dr1, set_dr1, "dr1");
control_register!(dr2, set_dr2, "dr2");
control_register!(dr3, set_dr3, "dr3");
control_register!(dr6, set_dr6, "dr6");
control_register!(dr7, set_dr7, "dr7");

/// CR0
pub fn cr0() -> Cr0 {
    Cr0::from_bits_retain(cr0_bits())
}
/// MOV to CR0
pub fn set_cr0(value: Cr0) -> Result<(), Fault> {
    set_cr0_bits(value.bits())
}
/// CR4
pub fn cr4() -> Cr4 {
    Cr4::from_bits_retain(cr4_bits())
}
/// MOV to CR4
pub fn set_cr4(value: Cr4) -> Result<(), Fault> {
    set_cr4_bits(value.bits())
}
/// EFER
pub fn efer() -> Efer {
    Efer::from_bits_retain(rdmsr(msr::EFER).expect("long mode has EFER"))
}

/// The four registers of a CPUID leaf.
pub use core::arch::x86_64::CpuidResult;

/// CPUID
pub fn cpuid(leaf: u32, subleaf: u32) -> CpuidResult {
    core::arch::x86_64::__cpuid_count(leaf, subleaf)
}

/// XSETBV
pub fn xsetbv(register: u32, value: u64) -> Result<(), Fault> {
    let (low, high) = (value as u32, (value >> 32) as u32);
    // SAFETY: see the crate's text.
    catch(|| unsafe { asm!("xsetbv", in("ecx") register, in("eax") low, in("edx") high, options(nostack)) })
}

/// XGETBV
pub fn xgetbv(register: u32) -> Result<u64, Fault> {
    catch(|| {
        let (low, high): (u32, u32);
        // SAFETY: reads no memory.
        unsafe {
            asm!("xgetbv", in("ecx") register, out("eax") low, out("edx") high, options(nomem, nostack))
        };
        u64::from(high) << 32 | u64::from(low)
    })
}

/// Who made the CPU, or is said to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "names")]
pub enum Vendor {
    Intel,
    Amd,
    Other,
}

/// The vendor by CPUID leaf 0.
pub fn vendor() -> Vendor {
    let leaf = cpuid(leaf::VENDOR, 0);
    match [leaf.ebx, leaf.edx, leaf.ecx].map(u32::to_le_bytes).as_flattened() {
        b"GenuineIntel" => Vendor::Intel,
        b"AuthenticAMD" => Vendor::Amd,
        _ => Vendor::Other,
    }
}

/// RDTSC
pub fn rdtsc() -> u64 {
    // SAFETY: every CPU with long mode has it, and CR4.TSD does not matter in ring 0.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// INVLPG
pub fn invlpg(address: u64) {
    // SAFETY: translations come back from the page tables.
    unsafe { asm!("invlpg [{}]", in(reg) address, options(nostack, preserves_flags)) }
}

/// RFLAGS
pub fn rflags() -> u64 {
    let value;
    // SAFETY: leaves the stack as it was.
    unsafe { asm!("pushfq", "pop {}", out(reg) value, options(nomem, preserves_flags)) };
    value
}
