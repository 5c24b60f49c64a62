//! What the loader decides, free of hardware: reading what the boot loader handed over, the memory map, and
//! the checks on the kernel image. The program in `main.rs` acts on it.

#![no_std]
// A test has to use the crate multiboot2's one, unsafe, constructor.
#![cfg_attr(not(test), forbid(unsafe_code))]

#[cfg(test)]
extern crate std;

pub mod error;
pub mod found;
pub mod handover;
pub mod image;
pub mod memory_map;
pub mod multiboot1;
pub mod multiboot2;
pub mod physical;
pub mod pool;
pub mod rsdp;
