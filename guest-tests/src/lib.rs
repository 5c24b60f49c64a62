//! What the bare-metal guests share: entry from every boot protocol, recoverable faults, interrupts, small
//! drivers and the test harness.
//!
//! A guest owns its machine, and a test's job is to do to it what a kernel should not. The wrappers of
//! privileged instructions here are therefore safe functions: a wrong value breaks the test that passed it,
//! and the harness puts the machine back in order before the next one.

#![no_std]

#[macro_use]
pub mod serial;
#[macro_use]
pub mod harness;
pub mod acpi;
pub mod boot;
pub mod cpu;
pub mod demo;
pub mod entry;
pub mod fault;
pub mod gdt;
pub mod hw;
pub mod interrupt;
pub mod legacy;

pub mod machine;
pub mod memory;
pub mod power;
mod single;
pub mod tasks;
pub mod time;
pub mod user;
