//! The local APIC's registers (SDM 3, chapter 11; APM 2, chapter 16).

#![allow(missing_docs, reason = "bits and registers carry the names that the manuals define")]

use bitflags::bitflags;

/// Where the registers are after reset (SDM 3, 11.4.1).
pub const DEFAULT_BASE: u64 = 0xfee0_0000;
/// Bytes of the register page.
pub const PAGE_BYTES: u16 = 0x1000;

/// Register offsets in the xAPIC page; MSR 0x800 + offset / 16 in x2APIC mode (SDM 3, table 11-1, 11-6).
pub mod reg {
    pub const ID: u16 = 0x020;
    pub const VERSION: u16 = 0x030;
    pub const TPR: u16 = 0x080;
    /// Arbitration priority, xAPIC only.
    pub const APR: u16 = 0x090;
    pub const PPR: u16 = 0x0a0;
    pub const EOI: u16 = 0x0b0;
    /// Remote read, xAPIC only.
    pub const RRD: u16 = 0x0c0;
    pub const LDR: u16 = 0x0d0;
    /// Destination format, xAPIC only.
    pub const DFR: u16 = 0x0e0;
    pub const SVR: u16 = 0x0f0;
    /// First of eight registers of 32 vectors each.
    pub const ISR: u16 = 0x100;
    pub const TMR: u16 = 0x180;
    pub const IRR: u16 = 0x200;
    pub const ESR: u16 = 0x280;
    pub const ICR_LOW: u16 = 0x300;
    /// xAPIC only; in x2APIC mode ICR is one register of 64 bits.
    pub const ICR_HIGH: u16 = 0x310;
    pub const LVT_TIMER: u16 = 0x320;
    pub const LVT_THERMAL: u16 = 0x330;
    pub const LVT_PERFORMANCE: u16 = 0x340;
    pub const LVT_LINT0: u16 = 0x350;
    pub const LVT_LINT1: u16 = 0x360;
    pub const LVT_ERROR: u16 = 0x370;
    pub const INITIAL_COUNT: u16 = 0x380;
    pub const CURRENT_COUNT: u16 = 0x390;
    pub const DIVIDE: u16 = 0x3e0;
    /// x2APIC only.
    pub const SELF_IPI: u16 = 0x3f0;
}

/// First x2APIC MSR; the register at offset `o` has number `X2APIC_FIRST + o / 16`.
pub const X2APIC_FIRST: u32 = 0x800;
/// Last MSR of the range that a local APIC in x2APIC mode answers (SDM 3, 11.12.1.2).
pub const X2APIC_LAST: u32 = 0x83f;

/// The x2APIC MSR of a register.
pub const fn x2apic_msr(register: u16) -> u32 {
    X2APIC_FIRST + (register >> 4) as u32
}

bitflags! {
    /// IA32_APIC_BASE (SDM 3, 11.4.4, 11.12.1).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ApicBase: u64 {
        const BSP = 1 << 8;
        /// x2APIC mode.
        const EXTD = 1 << 10;
        /// Global enable.
        const EN = 1 << 11;
    }

    /// Spurious-interrupt vector register (SDM 3, 11.9).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Svr: u32 {
        const VECTOR = 0xff;
        const ENABLE = 1 << 8;
        const FOCUS_DISABLE = 1 << 9;
    }

    /// A local vector table entry (SDM 3, figure 11-8).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Lvt: u32 {
        const VECTOR = 0xff;
        const DELIVERY_MODE = 7 << 8;
        const DELIVERY_STATUS = 1 << 12;
        const ACTIVE_LOW = 1 << 13;
        const REMOTE_IRR = 1 << 14;
        const LEVEL = 1 << 15;
        const MASKED = 1 << 16;
        /// Timer: 0 one-shot, 1 periodic, 2 TSC-deadline.
        const TIMER_MODE = 3 << 17;
    }

    /// Error status register (SDM 3, 11.5.3).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Esr: u32 {
        const SEND_ILLEGAL_VECTOR = 1 << 5;
        const RECEIVE_ILLEGAL_VECTOR = 1 << 6;
        const ILLEGAL_REGISTER = 1 << 7;
    }

    /// Interrupt command register (SDM 3, 11.6.1, 11.12.9).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Icr: u64 {
        const VECTOR = 0xff;
        const DELIVERY_MODE = 7 << 8;
        const LOGICAL = 1 << 11;
        /// Read-only, and absent in x2APIC mode.
        const DELIVERY_STATUS = 1 << 12;
        const ASSERT = 1 << 14;
        const LEVEL = 1 << 15;
        const SHORTHAND = 3 << 18;
        const DESTINATION = 0xffff_ffff << 32;
    }
}

/// Delivery modes of LVT entries, ICR and IOAPIC entries (SDM 3, 11.5.1, 11.6.1).
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryMode {
    Fixed = 0,
    LowestPriority = 1,
    Smi = 2,
    Reserved = 3,
    Nmi = 4,
    Init = 5,
    Startup = 6,
    ExtInt = 7,
}

impl DeliveryMode {
    /// The mode in bits 10:8 of an LVT entry, an ICR or an IOAPIC entry.
    pub const fn of(register: u32) -> Self {
        match (register >> 8) & 7 {
            0 => Self::Fixed,
            1 => Self::LowestPriority,
            2 => Self::Smi,
            3 => Self::Reserved,
            4 => Self::Nmi,
            5 => Self::Init,
            6 => Self::Startup,
            _ => Self::ExtInt,
        }
    }
    /// The bits that mean it.
    pub const fn bits(self) -> u32 {
        (self as u32) << 8
    }
}

/// Destination shorthand of the ICR (SDM 3, 11.6.1).
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shorthand {
    None = 0,
    ToSelf = 1,
    All = 2,
    AllButSelf = 3,
}

impl Shorthand {
    /// The shorthand in bits 19:18 of an ICR.
    pub const fn of(icr: u64) -> Self {
        match (icr >> 18) & 3 {
            0 => Self::None,
            1 => Self::ToSelf,
            2 => Self::All,
            _ => Self::AllButSelf,
        }
    }
}

/// Bits 18:17 of the timer's LVT entry (SDM 3, 11.5.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimerMode {
    #[default]
    OneShot,
    Periodic,
    TscDeadline,
    /// Both bits set.
    Reserved,
}

impl TimerMode {
    /// The mode that a timer LVT entry selects.
    pub const fn of(lvt: Lvt) -> Self {
        match (lvt.bits() >> 17) & 3 {
            0 => Self::OneShot,
            1 => Self::Periodic,
            2 => Self::TscDeadline,
            _ => Self::Reserved,
        }
    }
}

/// DFR value of the flat model; the cluster model has bits 31:28 clear (SDM 3, 11.6.2.2).
pub const DFR_FLAT: u32 = 0xffff_ffff;
/// The bits of DFR that always read as one.
pub const DFR_FIXED: u32 = 0x0fff_ffff;
/// Broadcast in an 8-bit physical destination.
pub const BROADCAST_XAPIC: u32 = 0xff;
/// Broadcast in a 32-bit destination.
pub const BROADCAST_X2APIC: u32 = 0xffff_ffff;
/// Vectors below are reserved; to send or receive one is an error (SDM 3, 11.5.2).
pub const FIRST_LEGAL_VECTOR: u8 = 16;
