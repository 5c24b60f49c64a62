//! Guests that misbehave, one behaviour at a time: the word on the command line names it. What becomes of the
//! guest does not matter much; the hypervisor must not suffer, and a healthy guest has to run afterwards.
//!
//! A behaviour is registered like a test. One that returns has passed; most of the others have to be stopped.

#![no_std]
#![no_main]

mod delivery;
mod emulation;
mod interrupts;
mod memory;
mod msrs;
mod noncanonical;
mod paging;
mod ports;
mod random;
mod random_code;
mod repeats;
mod resets;
mod spinning;
mod tasks;

runtime::guest_main!(runtime::harness::run);
