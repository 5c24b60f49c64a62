//! Facts of the x86-64 architecture as typed data: registers, MSRs, CPUID, descriptors, VMCS and VMCB.
//! Names are those of the Intel SDM and the AMD APM; every constant is written here once.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod addr;
pub mod apic;
pub mod control;
pub mod cpuid;
pub mod descriptor;
pub mod ept;
pub mod event;
pub mod gpr;
pub mod memory_type;
pub mod msr;
pub mod npt;
pub mod reset;
pub mod segment;
pub mod svm;
pub mod vmcs;
pub mod vmx;
