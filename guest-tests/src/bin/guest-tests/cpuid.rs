//! CPUID.

use runtime::cpu::{self, cpuid};
use runtime::{expect, guest_test};

guest_test!(vendor);
fn vendor() {
    let leaf = cpuid(0, 0);
    runtime::println!("{leaf:x?}");
    expect!(leaf.eax >= 1, "{:#x}", leaf.eax);
    let _ = cpu::cr3();
}
