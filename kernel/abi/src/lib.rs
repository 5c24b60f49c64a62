//! Structures that cross a boundary between separately built programs: loader to kernel, guest test to
//! xtask. Every one is versioned, `repr(C)`, and holds physical addresses only.

#![no_std]
#![forbid(unsafe_code)]

pub mod boot;
pub mod test_protocol;
