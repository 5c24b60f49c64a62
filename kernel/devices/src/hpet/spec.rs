//! Registers of the high precision event timers (IA-PC HPET Specification 1.0a, 2.3).

use bitflags::bitflags;

/// The counter's frequency: a tick is 10 ns.
pub(super) const CLOCK_HZ: u64 = 100_000_000;
/// The same in femtoseconds, as the capabilities give it.
const COUNTER_CLK_PERIOD: u64 = 1_000_000_000_000_000 / CLOCK_HZ;

/// Registers are eight bytes wide. General capabilities and ID.
pub(super) const GCAP_ID: u16 = 0x000;
/// General configuration.
pub(super) const GEN_CONF: u16 = 0x010;
/// General interrupt status.
pub(super) const GINTR_STA: u16 = 0x020;
/// Main counter.
pub(super) const MAIN_CNT: u16 = 0x0f0;
/// The first timer's registers; those of the others follow.
pub(super) const TIMERS_FIRST: u16 = 0x100;
/// Distance of two timers' registers.
pub(super) const TIMER_STRIDE: u16 = 0x20;
/// Within a timer's registers: configuration and capabilities, then comparator.
pub(super) const TIM_CONF: u16 = 0x00;
/// See [`TIM_CONF`].
pub(super) const TIM_COMP: u16 = 0x08;

const REV_ID: u64 = 1;
const NUM_TIM_CAP_SHIFT: u32 = 8;
const COUNT_SIZE_CAP: u64 = 1 << 13;
const LEG_RT_CAP: u64 = 1 << 15;
const VENDOR_ID_SHIFT: u32 = 16;
const INTEL: u64 = 0x8086;
const COUNTER_CLK_PERIOD_SHIFT: u32 = 32;

/// The value of GCAP_ID for this many timers: a 64-bit counter, legacy replacement is possible.
pub(super) const fn capabilities(timers: usize) -> u64 {
    REV_ID
        | (timers as u64 - 1) << NUM_TIM_CAP_SHIFT
        | COUNT_SIZE_CAP
        | LEG_RT_CAP
        | INTEL << VENDOR_ID_SHIFT
        | COUNTER_CLK_PERIOD << COUNTER_CLK_PERIOD_SHIFT
}

bitflags! {
    /// General configuration.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) struct GenConf: u64 {
        /// The counter runs and timers interrupt.
        const ENABLE_CNF = 1 << 0;
        /// Timers 0 and 1 replace the 8254 and the clock at IRQ 0 and 8.
        const LEG_RT_CNF = 1 << 1;
    }

    /// A timer's configuration, as far as it can be written.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) struct TimConf: u64 {
        /// Level triggered; otherwise edge triggered.
        const INT_TYPE_CNF = 1 << 1;
        const INT_ENB_CNF = 1 << 2;
        /// Periodic; otherwise one-shot.
        const TYPE_CNF = 1 << 3;
        /// The next write to the comparator sets it, in periodic mode as well.
        const VAL_SET_CNF = 1 << 6;
        /// The timer compares 32 bits.
        const MODE_32_CNF = 1 << 8;
        /// I/O APIC pin.
        const INT_ROUTE_CNF = 0x1f << INT_ROUTE_SHIFT;
    }
}

pub(super) const INT_ROUTE_SHIFT: u32 = 9;
/// Each timer can be periodic and is 64 bits wide.
const PER_INT_CAP: u64 = 1 << 4;
const SIZE_CAP: u64 = 1 << 5;
const INT_ROUTE_CAP_SHIFT: u32 = 32;
/// The I/O APIC pins that a timer can be routed to: 20 to 23, which nobody else has.
pub(super) const INT_ROUTE_CAP: u32 = 0x00f0_0000;
/// The read-only part of a timer's configuration register.
pub(super) const TIM_CAP: u64 = PER_INT_CAP | SIZE_CAP | (INT_ROUTE_CAP as u64) << INT_ROUTE_CAP_SHIFT;
