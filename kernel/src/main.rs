//! Gossamer, the kernel: what acts. Everything that decides is in `vmm`.
//!
//! 1. An exit moves only what the guest has touched.
//! 2. One privilege level, no floating point, no thread-locals: host code needs nothing that a guest owns.
//! 3. Host code runs with interrupts off; they are let in at two places only.
//! 4. Nothing a guest does panics, hangs or reads the host.

#![no_std]
#![no_main]
#![allow(unreachable_pub, reason = "a program has no users; `pub` means its own modules")]

extern crate alloc;

mod apic;
mod boot;
mod config;
mod console;
mod cpu;
mod hw;
mod machine;
mod mem;
mod run;
mod time;
mod trap;
mod vm;
