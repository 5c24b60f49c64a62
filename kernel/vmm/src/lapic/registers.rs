//! The registers as the guest sees them, common to xAPIC and x2APIC, and the xAPIC's page of memory
//! (SDM 3, 11.4.1).

use super::ipi::{Command, logical_x2apic_id};
use super::lvt::{ENTRIES, Entry};
use super::{ApicMode, Lapic, LapicEffect};
use crate::memory::Width;
use x86defs::apic::{self, Esr, Svr, reg};

/// Version register: an integrated APIC (0x14) without suppression of EOI broadcasts.
const VERSION: u32 = 0x14 | (ENTRIES as u32 - 1) << 16;
/// Distance of two registers.
const STRIDE: u16 = 16;
/// Registers of 8-bit ids hold them in bits 31:24.
const ID_SHIFT: u32 = 24;

impl Lapic {
    /// Reads from the register page. Registers are 32 bits wide at multiples of 16; a narrower read inside
    /// one gives those bytes, and everything else reads as zero: the manual leaves it undefined.
    pub fn read(&mut self, offset: u16, width: Width, now: u64) -> u32 {
        let byte = offset % STRIDE;
        if usize::from(byte) + width.bytes() > 4 {
            return 0;
        }
        match self.read_register(offset - byte, now) {
            Some(value) => (value >> (8 * byte)) & width.mask() as u32,
            None => {
                self.error(Esr::ILLEGAL_REGISTER);
                0
            }
        }
    }

    /// Writes to the register page. Only a 32-bit write at a multiple of 16 is one; others are dropped.
    pub fn write(&mut self, offset: u16, width: Width, value: u32, now: u64) -> LapicEffect {
        if !offset.is_multiple_of(STRIDE) || width != Width::Dword {
            return LapicEffect::Nothing;
        }
        match offset {
            reg::EOI => self.eoi(),
            reg::TPR => self.set_tpr(value as u8),
            reg::ICR_LOW => self.send(value),
            reg::ICR_HIGH => {
                self.icr_destination = value >> ID_SHIFT;
                LapicEffect::Nothing
            }
            reg::LDR => {
                self.ldr = (value >> ID_SHIFT) as u8;
                LapicEffect::Address
            }
            reg::DFR => {
                self.dfr = value | apic::DFR_FIXED;
                LapicEffect::Address
            }
            _ => self.write_register(offset, value, now),
        }
    }

    /// The value of a register; nothing where there is none.
    pub(super) fn read_register(&self, register: u16, now: u64) -> Option<u32> {
        Some(match register {
            reg::ID => self.in_mode(self.id << ID_SHIFT, self.id),
            reg::VERSION => VERSION,
            reg::TPR => self.tpr.into(),
            reg::APR => self.arbitration_priority().into(),
            reg::PPR => self.ppr.into(),
            reg::EOI | reg::RRD => 0,
            reg::LDR => self.in_mode(u32::from(self.ldr) << ID_SHIFT, logical_x2apic_id(self.id)),
            reg::DFR => self.dfr,
            reg::SVR => self.svr.bits(),
            reg::ISR..reg::TMR => self.isr.register((register - reg::ISR) / STRIDE),
            reg::TMR..reg::IRR => self.tmr.register((register - reg::TMR) / STRIDE),
            reg::IRR..reg::ESR => self.irr.register((register - reg::IRR) / STRIDE),
            reg::ESR => self.esr.bits(),
            reg::ICR_LOW => self.icr_low,
            reg::ICR_HIGH => self.in_mode(self.icr_destination << ID_SHIFT, self.icr_destination),
            reg::INITIAL_COUNT => self.timer.initial(),
            reg::CURRENT_COUNT => self.timer.current(now),
            reg::DIVIDE => self.timer.divide(),
            _ => self.lvt(Entry::at(register)?).bits(),
        })
    }

    /// Writes a register that both modes have and that needs no speed. A write to one that cannot be written
    /// is dropped, and an error if there is none.
    pub(super) fn write_register(&mut self, register: u16, value: u32, now: u64) -> LapicEffect {
        match register {
            reg::SVR => return self.set_svr(value),
            reg::ESR => self.latch_errors(),
            reg::INITIAL_COUNT => {
                self.timer.set_initial(value, now);
                return LapicEffect::Deadline;
            }
            reg::DIVIDE => {
                self.timer.set_divide(value, now);
                return LapicEffect::Deadline;
            }
            _ => match Entry::at(register) {
                Some(entry) => {
                    self.set_lvt(entry, value, now);
                    return LapicEffect::Deadline;
                }
                None if self.read_register(register, now).is_none() => {
                    self.error(Esr::ILLEGAL_REGISTER);
                }
                None => {}
            },
        }
        LapicEffect::Nothing
    }

    /// A write to ESR makes visible what was recorded since the last one (SDM 3, 11.5.3).
    fn latch_errors(&mut self) {
        self.esr = core::mem::take(&mut self.esr_pending);
    }

    /// Clearing the enable bit masks the whole local vector table (SDM 3, 11.4.7.2).
    fn set_svr(&mut self, value: u32) -> LapicEffect {
        self.svr = Svr::from_bits_truncate(value);
        if !self.software_enabled() {
            self.mask_all_lvts();
        }
        LapicEffect::Address
    }

    /// Writes the low half of ICR, which sends.
    pub(super) fn send(&mut self, low: u32) -> LapicEffect {
        self.icr_low = low & ICR_LOW_WRITABLE;
        let icr = u64::from(self.icr_destination) << 32 | u64::from(self.icr_low);
        match Command::decode(icr, self.mode, self.id) {
            Command::ToSelf(vector) => self.accept(vector, false),
            Command::Send(ipi) => return LapicEffect::Ipi(ipi),
            Command::IllegalVector => self.error(Esr::SEND_ILLEGAL_VECTOR),
            Command::Nothing => {}
        }
        LapicEffect::Nothing
    }

    fn in_mode(&self, xapic: u32, x2apic: u32) -> u32 {
        if self.mode == ApicMode::X2Apic { x2apic } else { xapic }
    }
}

/// All of the low half of ICR but the delivery status: an IPI has always left at once.
pub(super) const ICR_LOW_WRITABLE: u32 =
    (apic::Icr::all().bits() & !apic::Icr::DELIVERY_STATUS.bits()) as u32;
