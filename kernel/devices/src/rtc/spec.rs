//! Registers of the MC146818A (Motorola data sheet), with the PC's index port and the CMOS bytes that firmware
//! fills in.

use bitflags::bitflags;

/// Index port: the register number, and the bit that disables NMI.
pub(super) const INDEX_MASK: u8 = 0x7f;
/// Bytes of memory including the clock's.
pub(super) const SIZE: usize = 128;

/// Register numbers.
pub(super) mod register {
    pub(in crate::rtc) const SECONDS: usize = 0x00;
    pub(in crate::rtc) const SECONDS_ALARM: usize = 0x01;
    pub(in crate::rtc) const MINUTES: usize = 0x02;
    pub(in crate::rtc) const MINUTES_ALARM: usize = 0x03;
    pub(in crate::rtc) const HOURS: usize = 0x04;
    pub(in crate::rtc) const HOURS_ALARM: usize = 0x05;
    pub(in crate::rtc) const DAY_OF_WEEK: usize = 0x06;
    pub(in crate::rtc) const DAY: usize = 0x07;
    pub(in crate::rtc) const MONTH: usize = 0x08;
    pub(in crate::rtc) const YEAR: usize = 0x09;
    pub(in crate::rtc) const A: usize = 0x0a;
    pub(in crate::rtc) const B: usize = 0x0b;
    pub(in crate::rtc) const C: usize = 0x0c;
    pub(in crate::rtc) const D: usize = 0x0d;
    /// Installed equipment.
    pub(in crate::rtc) const EQUIPMENT: usize = 0x14;
    /// Base memory in KiB, two bytes.
    pub(in crate::rtc) const BASE_MEMORY: usize = 0x15;
    /// Memory above 1 MiB in KiB, two bytes, twice.
    pub(in crate::rtc) const EXTENDED_MEMORY: usize = 0x17;
    pub(in crate::rtc) const EXTENDED_MEMORY_FOUND: usize = 0x30;
    /// The first two digits of the year.
    pub(in crate::rtc) const CENTURY: usize = 0x32;
    /// Memory between 16 MiB and 4 GiB in 64 KiB, two bytes.
    pub(in crate::rtc) const MEMORY_ABOVE_16M: usize = 0x34;
    /// Memory above 4 GiB in 64 KiB, three bytes.
    pub(in crate::rtc) const MEMORY_ABOVE_4G: usize = 0x5b;
}

/// The math coprocessor is there.
pub(super) const EQUIPMENT_FPU: u8 = 1 << 1;
/// An alarm byte with these bits matches everything.
pub(super) const ALARM_ANY: u8 = 0xc0;
/// Afternoon in 12-hour mode.
pub(super) const PM: u8 = 1 << 7;
/// Register D: the battery is good.
pub(super) const VALID_RAM_AND_TIME: u8 = 1 << 7;

/// Register A: update in progress.
pub(super) const UPDATE_IN_PROGRESS: u8 = 1 << 7;
const DIVIDER_SHIFT: u32 = 4;
const DIVIDER_MASK: u8 = 7;
/// Divider values from here on hold the divider chain in reset.
const DIVIDER_RESET: u8 = 6;
const DIVIDER_32768_HZ: u8 = 2;
const RATE_1024_HZ: u8 = 6;

/// Register A without its read-only bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RegisterA(u8);

impl RegisterA {
    /// What firmware leaves.
    pub(super) const FIRMWARE: RegisterA = RegisterA(DIVIDER_32768_HZ << DIVIDER_SHIFT | RATE_1024_HZ);

    pub(super) const fn new(value: u8) -> RegisterA {
        RegisterA(value & !UPDATE_IN_PROGRESS)
    }

    pub(super) const fn bits(self) -> u8 {
        self.0
    }

    /// The divider chain, and so the clock, stands still.
    pub(super) const fn divider_in_reset(self) -> bool {
        (self.0 >> DIVIDER_SHIFT) & DIVIDER_MASK >= DIVIDER_RESET
    }

    /// The periodic interrupt's period as a power of two of 1/32768 s. The two fastest selections are not
    /// what their numbers promise (table 5 of the data sheet).
    pub(super) const fn period_shift(self) -> Option<u32> {
        match self.0 & 0xf {
            0 => None,
            rate @ 1..=2 => Some(rate as u32 + 6),
            rate => Some(rate as u32 - 1),
        }
    }
}

bitflags! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) struct RegisterB: u8 {
        /// Daylight savings: kept, without effect.
        const DSE = 1 << 0;
        /// 24-hour mode.
        const HOURS_24 = 1 << 1;
        /// Data mode: binary.
        const BINARY = 1 << 2;
        /// Square wave output: not connected.
        const SQWE = 1 << 3;
        /// Update-ended interrupt.
        const UIE = 1 << 4;
        /// Alarm interrupt.
        const AIE = 1 << 5;
        /// Periodic interrupt.
        const PIE = 1 << 6;
        /// Updates are halted so that the program can set the clock.
        const SET = 1 << 7;
    }

    /// The flags have the places of their enables in register B.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) struct RegisterC: u8 {
        const UF = 1 << 4;
        const AF = 1 << 5;
        const PF = 1 << 6;
        const IRQF = 1 << 7;
    }
}
