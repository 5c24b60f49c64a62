//! Registers of the I/O APIC (Intel 82093AA data sheet, section 3; the EOI register of version 0x20: 82801 I/O
//! controller hub data sheets, "Advanced Programmable Interrupt Controller").

use x86defs::apic::DeliveryMode;

/// Offsets of the directly accessible registers.
pub(super) const IOREGSEL: u16 = 0x00;
pub(super) const IOWIN: u16 = 0x10;
pub(super) const EOIR: u16 = 0x40;

/// Indirect registers: numbers for IOREGSEL.
pub(super) const IOAPICID: u8 = 0x00;
pub(super) const IOAPICVER: u8 = 0x01;
pub(super) const IOAPICARB: u8 = 0x02;
/// Low half of the first redirection entry; its high half and the other entries follow.
pub(super) const IOREDTBL: u8 = 0x10;

pub(super) const ID_SHIFT: u32 = 24;
pub(super) const ID_MASK: u32 = 0xf;
pub(super) const VERSION: u32 = 0x20;
pub(super) const MAX_REDIRECTION_ENTRY_SHIFT: u32 = 16;

/// A redirection table entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry(u64);

impl Entry {
    const LOGICAL: u64 = 1 << 11;
    const DELIVERY_STATUS: u64 = 1 << 12;
    const REMOTE_IRR: u64 = 1 << 14;
    const LEVEL: u64 = 1 << 15;
    const MASKED: u64 = 1 << 16;
    const DESTINATION_SHIFT: u32 = 56;
    /// Vector, delivery mode, destination mode, polarity, trigger mode, mask and destination.
    const WRITABLE: u64 =
        0xff << Self::DESTINATION_SHIFT | 0x1_ffff & !(Self::DELIVERY_STATUS | Self::REMOTE_IRR);

    pub(super) const RESET: Entry = Entry(Self::MASKED);

    pub(super) const fn vector(self) -> u8 {
        self.0 as u8
    }

    pub(super) const fn destination(self) -> u8 {
        (self.0 >> Self::DESTINATION_SHIFT) as u8
    }

    pub(super) const fn is_logical(self) -> bool {
        self.0 & Self::LOGICAL != 0
    }

    pub(super) const fn is_masked(self) -> bool {
        self.0 & Self::MASKED != 0
    }

    /// `None` for the two reserved encodings; a start-up is for inter-processor interrupts only.
    pub(super) const fn delivery_mode(self) -> Option<DeliveryMode> {
        match DeliveryMode::of(self.0 as u32) {
            DeliveryMode::Reserved | DeliveryMode::Startup => None,
            mode => Some(mode),
        }
    }

    /// Level triggered, in effect: SMI, NMI, INIT and ExtINT are edges whatever the trigger mode says.
    pub(super) fn is_level(self) -> bool {
        let has_eoi =
            matches!(self.delivery_mode(), Some(DeliveryMode::Fixed | DeliveryMode::LowestPriority));
        self.0 & Self::LEVEL != 0 && has_eoi
    }

    pub(super) const fn remote_irr(self) -> bool {
        self.0 & Self::REMOTE_IRR != 0
    }

    pub(super) fn set_remote_irr(&mut self, set: bool) {
        self.0 = self.0 & !Self::REMOTE_IRR | if set { Self::REMOTE_IRR } else { 0 };
    }

    pub(super) const fn half(self, high: bool) -> u32 {
        (self.0 >> (32 * high as u32)) as u32
    }

    /// Writes one half. An entry that is not level triggered waits for no EOI.
    pub(super) fn set_half(&mut self, high: bool, value: u32) {
        let shift = 32 * u32::from(high);
        let mask = Self::WRITABLE & (u64::from(u32::MAX) << shift);
        self.0 = self.0 & !mask | u64::from(value) << shift & mask;
        if !self.is_level() {
            self.set_remote_irr(false);
        }
    }
}
