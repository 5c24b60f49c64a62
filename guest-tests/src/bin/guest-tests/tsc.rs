//! The time-stamp counter and the clocks that it must agree with.

#![allow(unsafe_code, reason = "RDTSCP")]

use core::arch::asm;
use runtime::cpu::{self, cpuid, rdtsc, wrmsr};
use runtime::harness::expect_ok;
use runtime::hw::port::inl;
use runtime::machine;
use runtime::{expect, expect_eq, guest_test, skip};
use x86defs::cpuid::{Ext1Edx, Ext7Edx, leaf};
use x86defs::msr;

/// The ACPI PM timer (ACPI 6.5, 4.8.3.3).
#[derive(Clone, Copy)]
pub(crate) struct PmTimer {
    port: u16,
}

impl PmTimer {
    const FREQUENCY: u64 = 3_579_545;
    /// It may have 24 or 32 bits.
    const MASK: u32 = 0xff_ffff;

    pub(crate) fn find() -> Option<Self> {
        machine::get().acpi.filter(|a| a.pm_timer != 0).map(|a| Self { port: a.pm_timer })
    }
    pub(crate) fn read(self) -> u32 {
        inl(self.port)
    }
    pub(crate) fn microseconds(self, start: u32, end: u32) -> u64 {
        u64::from(end.wrapping_sub(start) & Self::MASK) * 1_000_000 / Self::FREQUENCY
    }
}

guest_test!(monotonic);
fn monotonic() {
    let mut last = rdtsc();
    for _ in 0..1000 {
        let now = rdtsc();
        expect!(now >= last, "from {last:#x} to {now:#x}");
        last = now;
    }
    let start = rdtsc();
    // Through exits, too.
    for _ in 0..20 {
        cpuid(0, 0);
    }
    expect!(rdtsc() > start, "stands still");
}

guest_test!(offset_is_sane);
fn offset_is_sane() {
    // A machine that has just started has a TSC that is not hours old; a wrong offset shows as a huge value.
    if !machine::get().reference {
        let hour = runtime::time::ticks_per_ms() * 3_600_000;
        expect!(rdtsc() < hour, "{:#x} at {} ticks a millisecond", rdtsc(), runtime::time::ticks_per_ms());
    }
    expect!(rdtsc() < 1 << 56, "{:#x}", rdtsc());
}

fn rdtscp() -> (u64, u32) {
    let (low, high, aux): (u32, u32, u32);
    // SAFETY: reads no memory; callers have checked CPUID.
    unsafe { asm!("rdtscp", out("eax") low, out("edx") high, out("ecx") aux, options(nomem, nostack)) };
    (u64::from(high) << 32 | u64::from(low), aux)
}

guest_test!(rdtscp_and_tsc_aux);
fn rdtscp_and_tsc_aux() {
    if !Ext1Edx::from_bits_retain(cpuid(leaf::EXTENDED_FEATURES, 0).edx).contains(Ext1Edx::RDTSCP) {
        skip!("no RDTSCP");
    }
    for value in [0, 0x1234_5678, 0xffff_ffff] {
        expect_ok("WRMSR", wrmsr(msr::TSC_AUX, value));
        expect_eq!(cpu::rdmsr(msr::TSC_AUX).ok(), Some(value), "TSC_AUX");
        let before = rdtsc();
        let (tsc, aux) = rdtscp();
        let after = rdtsc();
        expect_eq!(u64::from(aux), value, "ECX of RDTSCP");
        expect!(before <= tsc && tsc <= after, "RDTSCP {tsc:#x} between {before:#x} and {after:#x}");
    }
}

guest_test!(rate_agrees_with_pm_timer);
fn rate_agrees_with_pm_timer() {
    let Some(pm) = PmTimer::find() else { skip!("no ACPI PM timer") };
    // What an emulator or another process takes away makes a span longer, never shorter.
    let measure = |_| {
        let start = pm.read();
        runtime::time::spin_us(3_000);
        pm.microseconds(start, pm.read())
    };
    let us = (0..5).map(measure).min().unwrap_or(0);
    expect!((2_850..3_400).contains(&us), "3 ms by the TSC are {us} us by the PM timer");
}

guest_test!(pm_timer_is_monotonic);
fn pm_timer_is_monotonic() {
    let Some(pm) = PmTimer::find() else { skip!("no ACPI PM timer") };
    let mut last = pm.read();
    for _ in 0..200 {
        let now = pm.read();
        expect!(now.wrapping_sub(last) & PmTimer::MASK < 1 << 22, "from {last:#x} to {now:#x}");
        last = now;
    }
}

guest_test!(invariant_tsc_is_offered);
fn invariant_tsc_is_offered() {
    if machine::get().reference {
        skip!("a bare machine need not offer it");
    }
    expect!(cpuid(leaf::EXTENDED_MAX, 0).eax >= leaf::POWER_MANAGEMENT, "no leaf 0x80000007");
    let power = Ext7Edx::from_bits_retain(cpuid(leaf::POWER_MANAGEMENT, 0).edx);
    expect!(power.contains(Ext7Edx::INVARIANT_TSC), "{power:?}");
}
