//! The guest tests: one file a topic.

#![no_std]
#![no_main]

use runtime::boot::Boot;

mod cpuid;

runtime::guest_main!(main);

fn main(boot: &'static Boot) {
    runtime::harness::run(boot);
}
