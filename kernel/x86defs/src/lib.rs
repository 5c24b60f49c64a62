//! Facts of the x86-64 architecture as typed data: registers, MSRs, CPUID, descriptors, VMCS and VMCB.
//! Names are those of the Intel SDM and the AMD APM; every constant is written here once.

#![no_std]
#![forbid(unsafe_code)]

pub mod addr;
pub mod control;
pub mod event;
pub mod gpr;
pub mod segment;
pub mod svm;
