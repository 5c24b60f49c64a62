//! High precision event timers (IA-PC HPET Specification 1.0a, 2.3).

#![allow(missing_docs, reason = "names of the specification")]

use super::mmio::{Reg32, Reg64};

/// Where a PC has them.
pub const BASE: u32 = 0xfed0_0000;
pub const GCAP_ID: Reg64 = Reg64(BASE);
pub const GEN_CONF: Reg64 = Reg64(BASE + 0x10);
pub const GINTR_STA: Reg64 = Reg64(BASE + 0x20);
pub const MAIN_CNT: Reg64 = Reg64(BASE + 0xf0);

/// GEN_CONF.
pub const ENABLE_CNF: u64 = 1 << 0;
pub const LEG_RT_CNF: u64 = 1 << 1;
/// TIMn_CONF.
pub const INT_TYPE_LEVEL: u64 = 1 << 1;
pub const INT_ENB_CNF: u64 = 1 << 2;
pub const TYPE_PERIODIC: u64 = 1 << 3;
pub const PER_INT_CAP: u64 = 1 << 4;
pub const SIZE_CAP: u64 = 1 << 5;
pub const VAL_SET_CNF: u64 = 1 << 6;
pub const INT_ROUTE_SHIFT: u32 = 9;
pub const INT_ROUTE_CAP_SHIFT: u32 = 32;

/// TIMn_CONF.
pub fn config(timer: u32) -> Reg64 {
    Reg64(BASE + 0x100 + 0x20 * timer)
}

/// TIMn_COMP.
pub fn comparator(timer: u32) -> Reg64 {
    Reg64(BASE + 0x108 + 0x20 * timer)
}

/// The lower half of a register.
pub fn low(register: Reg64) -> Reg32 {
    Reg32(register.0)
}

/// The upper half.
pub fn high(register: Reg64) -> Reg32 {
    Reg32(register.0 + 4)
}

/// Femtoseconds a tick; nothing where there are no timers.
pub fn period() -> Option<u64> {
    const LONGEST: u64 = 100_000_000;
    let period = GCAP_ID.read() >> 32;
    (1..=LONGEST).contains(&period).then_some(period)
}

/// Ticks in so many microseconds.
pub fn ticks(microseconds: u64) -> u64 {
    microseconds * 1_000_000_000 / period().unwrap_or(1)
}

/// Halted, counter and timers at rest.
pub fn reset() {
    if period().is_some() {
        GEN_CONF.write(0);
        for timer in 0..3 {
            config(timer).write(0);
        }
        GINTR_STA.write(7);
        MAIN_CNT.write(0);
    }
}
