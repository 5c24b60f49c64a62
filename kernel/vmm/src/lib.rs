//! Everything that decides at run time: what an exit does, how guest memory is walked and mapped, how
//! instructions are emulated, how interrupts are routed. Nothing here touches the machine; the kernel
//! acts. Apart from names in counters and the hypercall opcode nothing here knows VMX or SVM.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(any(test, feature = "testing"))]
extern crate std;

pub mod board;
pub mod clock;
pub mod counters;
pub mod cpuid;
pub mod emulate;
pub mod events;
pub mod exit;
pub mod exits;
#[cfg(any(test, feature = "testing"))]
pub mod fake;
pub mod firmware;
pub mod fw_cfg;
pub mod hazard;
pub mod kvmclock;
pub mod lapic;
pub mod memory;
pub mod msr;
pub mod nested;
pub mod ranges;
pub mod screen;
pub mod state;
pub mod vcpu;
pub mod walk;
pub mod xcr0;

pub use exit::Exit;
pub use memory::GuestMemory;
pub use vcpu::Vcpu;
