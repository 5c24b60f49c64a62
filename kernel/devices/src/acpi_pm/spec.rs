//! Registers of ACPI's fixed hardware (ACPI 6.5, section 4.8.3).

use bitflags::bitflags;

/// Frequency of the power management timer.
pub(super) const TIMER_HZ: u64 = 3_579_545;

/// Offset of the dword with status (low half) and enable (high half).
pub(super) const EVENT: u16 = 0;
pub(super) const CONTROL: u16 = 4;
pub(super) const TIMER: u16 = 8;
/// Where the enable register begins in the event block's dword.
pub(super) const ENABLE_SHIFT: u32 = 16;

bitflags! {
    /// PM1 status: written ones clear.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) struct Status: u16 {
        /// The timer's highest bit has changed.
        const TMR_STS = 1 << 0;
        const PWRBTN_STS = 1 << 8;
    }

    /// PM1 enable.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) struct Enable: u16 {
        const TMR_EN = 1 << 0;
        const GBL_EN = 1 << 5;
        const PWRBTN_EN = 1 << 8;
        /// Kept, without effect: there is no sleep button and the clock's alarm is not a wake source, but
        /// guests that enable all fixed events look whether it worked.
        const SLPBTN_EN = 1 << 9;
        const RTC_EN = 1 << 10;
    }

    /// PM1 control.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) struct Control: u16 {
        /// Power management events are SCIs.
        const SCI_EN = 1 << 0;
        /// Bus masters end C3: kept, without effect.
        const BM_RLD = 1 << 1;
        const SLP_TYP = 7 << 10;
        /// Enter the sleeping state; reads as zero.
        const SLP_EN = 1 << 13;
    }
}

impl Control {
    /// What a write can change and a read gives back.
    pub(super) const STORED: Control = Control::BM_RLD.union(Control::SLP_TYP);
    pub(super) const SLP_TYP_SHIFT: u32 = 10;
}
