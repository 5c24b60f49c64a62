//! Every MSR of the ranges in use, and a hundred thousand others.

use crate::random::Random;
use core::ops::RangeInclusive;
use runtime::cpu::{rdmsr, wrmsr};
use runtime::guest_test;
use runtime::hw::lapic;
use x86defs::msr;

/// With the numbers on either side.
const RANGES: [RangeInclusive<u32>; 5] = [
    0..=0x2000,
    0x3fff_ffff..=0x4000_0200,
    0x4b56_4cff..=0x4b56_4e00,
    0xbfff_ffff..=0xc000_2000,
    0xc000_ffff..=0xc001_2000,
];
const RANDOM_NUMBERS: usize = 100_000;
/// Its value decides what the x2APIC's range is, which has a behaviour of its own.
const SPARED: u32 = msr::IA32_APIC_BASE;

fn numbers() -> impl Iterator<Item = u32> {
    RANGES.into_iter().flatten().filter(|number| *number != SPARED)
}

fn random_numbers() -> impl Iterator<Item = u32> {
    let mut random = Random::new(3);
    core::iter::repeat_with(move || random.next() as u32)
        .take(RANDOM_NUMBERS)
        .filter(|number| *number != SPARED)
}

guest_test!(reads);
fn reads() {
    for number in numbers() {
        let _ = rdmsr(number);
    }
}

guest_test!(writes);
fn writes() {
    let mut random = Random::new(4);
    for number in numbers() {
        let old = rdmsr(number);
        for value in [0, u64::MAX, random.odd(), random.next()] {
            let _ = wrmsr(number, value);
        }
        if let Ok(old) = old {
            let _ = wrmsr(number, old);
        }
    }
}

guest_test!(random_reads);
fn random_reads() {
    for number in random_numbers() {
        let _ = rdmsr(number);
    }
}

guest_test!(random_writes);
fn random_writes() {
    let mut random = Random::new(5);
    for number in random_numbers() {
        let _ = wrmsr(number, random.odd());
    }
}

guest_test!(x2apic_registers);
/// Only fixed interrupts and NMIs are sent: an INIT would end it.
fn x2apic_registers() {
    const ICR: u32 = 0x830;
    const DELIVERY_MODE: u64 = 7 << 8;
    if !lapic::x2apic_offered() {
        runtime::skip!("no x2APIC mode");
    }
    lapic::enable_x2apic();
    let mut random = Random::new(6);
    for round in 0..32 {
        for number in 0x800..=0x8ff {
            let _ = rdmsr(number);
            let value = if round == 0 { u64::MAX } else { random.odd() };
            let _ = wrmsr(number, if number == ICR { value & !DELIVERY_MODE } else { value });
        }
    }
}

guest_test!(apic_base);
fn apic_base() {
    let mut random = Random::new(7);
    let old = rdmsr(SPARED);
    for _ in 0..10_000 {
        let _ = wrmsr(SPARED, random.odd());
    }
    for bit in 0..64 {
        let _ = wrmsr(SPARED, 1 << bit);
        let _ = wrmsr(SPARED, old.unwrap_or(0) ^ 1 << bit);
    }
    let _ = old.map(|old| wrmsr(SPARED, old));
}
