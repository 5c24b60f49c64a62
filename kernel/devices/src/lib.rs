//! Device models as pure state machines. They know no vCPU, no VM, no physical port and no clock of their
//! own: time comes in as an argument, everything they cause goes out as [`Effects`].

#![no_std]
#![forbid(unsafe_code)]

pub mod effects;
