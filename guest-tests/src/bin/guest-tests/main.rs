//! The guest tests: one file a topic.

#![no_std]
#![no_main]

use runtime::boot::Boot;

mod control;
mod cpuid;
mod debug;
mod exceptions;
mod msr;
mod ports;
mod user_mode;

runtime::guest_main!(main);

fn main(boot: &'static Boot) {
    runtime::harness::run(boot);
}
