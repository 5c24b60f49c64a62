//! How a guest test reports on its serial port: one line per event, each beginning with [`PREFIX`].
//!
//! ```text
//! @@ start cpuid::leaf_0
//! @@ pass cpuid::leaf_0
//! @@ fail msr::unknown expected #GP, RDMSR 0x31 returned 0
//! @@ skip debug::gd QEMU TCG does not clear DR7.GD
//! @@ done 12
//! ```
//! Every other line is free text and belongs to the test that started last.

/// First characters of every protocol line.
pub const PREFIX: &str = "@@ ";
/// A test begins: `start NAME`.
pub const START: &str = "start";
/// The test held: `pass NAME`.
pub const PASS: &str = "pass";
/// The test did not hold: `fail NAME REASON`.
pub const FAIL: &str = "fail";
/// The test was not run: `skip NAME REASON`.
pub const SKIP: &str = "skip";
/// All tests have run: `done COUNT`.
pub const DONE: &str = "done";
/// Line that lists a test without running it (command line word `list`): `test NAME`.
pub const LIST: &str = "test";
/// Name of a module that the guest tests get under the hypervisor.
pub const MODULE_NAME: &str = "pattern.bin";
/// Bytes of that module.
pub const MODULE_LENGTH: usize = 70_000;

/// The byte at this place in that module.
pub const fn module_byte(index: usize) -> u8 {
    (index % 251) as u8
}
