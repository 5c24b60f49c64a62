//! REP with the highest count on devices, and on what is not there.

#![allow(unsafe_code, reason = "string instructions over all of memory")]

use core::arch::asm;
use runtime::fault::catch_all;
use runtime::guest_test;
use runtime::hw::{ioapic, lapic};

/// VGA memory, where nothing answers.
const NOTHING: u64 = 0xa_0000;
/// The beginning of what is neither RAM nor device.
const HOLE: u64 = 0xc000_0000;
const DELAY_PORT: u16 = 0x80;

macro_rules! repeats {
    ($name:ident, $instruction:literal, from $from:expr, to $to:expr, port $port:expr) => {
        guest_test!($name);
        fn $name() {
            // SAFETY: the guest has nothing to lose, and an exception ends it.
            let _ = catch_all(|| unsafe {
                asm!($instruction, inout("rcx") u64::MAX => _, inout("rsi") $from => _, inout("rdi") $to => _,
                    in("rdx") u64::from($port), in("rax") u64::MAX)
            });
        }
    };
}

repeats!(outs_of_memory, "rep outsb", from 0u64, to 0u64, port DELAY_PORT);
repeats!(outs_of_nothing, "rep outsd", from HOLE, to 0u64, port DELAY_PORT);
repeats!(outs_backwards, "std; rep outsw; cld", from HOLE, to 0u64, port DELAY_PORT);
repeats!(ins_into_nothing, "rep insb", from 0u64, to HOLE, port DELAY_PORT);
repeats!(ins_into_rom, "rep insd", from 0u64, to 0xe_0000u64, port DELAY_PORT);
repeats!(ins_over_all_memory, "rep insb", from 0u64, to 0u64, port DELAY_PORT);
repeats!(movs_between_devices, "rep movsd", from u64::from(lapic::mmio(0).0), to u64::from(ioapic::BASE), port 0u16);
repeats!(stos_into_nothing, "rep stosq", from 0u64, to NOTHING, port 0u16);
repeats!(stos_over_the_hole, "rep stosb", from 0u64, to HOLE, port 0u16);
repeats!(lods_of_nothing, "rep lodsb", from HOLE, to 0u64, port 0u16);
repeats!(scas_of_nothing, "rep scasb", from 0u64, to HOLE, port 0u16);
repeats!(cmps_of_nothing, "repe cmpsb", from HOLE, to HOLE, port 0u16);
