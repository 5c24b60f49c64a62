//! The registers as MSRs in x2APIC mode (SDM 3, 11.12.1).

use super::lvt::Entry;
use super::registers::ICR_LOW_WRITABLE;
use super::timer::DIVIDE_BITS;
use super::{ApicMode, Lapic, LapicEffect};
use crate::msr::{FaultReason, MsrFault};
use x86defs::apic::{Esr, FIRST_LEGAL_VECTOR, Lvt, Svr, X2APIC_FIRST, X2APIC_LAST, reg};

/// What x2APIC mode allows to be done with a register.
enum Rule {
    Absent,
    ReadOnly,
    WriteOnly,
    /// Bits outside are reserved.
    Writable(u32),
}

impl Rule {
    /// SDM 3, table 11-6.
    fn of(register: u16) -> Rule {
        match register {
            reg::ID | reg::VERSION | reg::PPR | reg::LDR | reg::CURRENT_COUNT => Rule::ReadOnly,
            reg::ISR..reg::ESR => Rule::ReadOnly,
            reg::EOI | reg::SELF_IPI => Rule::WriteOnly,
            reg::TPR => Rule::Writable(0xff),
            reg::SVR => Rule::Writable(Svr::all().bits()),
            reg::ESR => Rule::Writable(0),
            reg::ICR_LOW => Rule::Writable(ICR_LOW_WRITABLE),
            reg::INITIAL_COUNT => Rule::Writable(u32::MAX),
            reg::DIVIDE => Rule::Writable(DIVIDE_BITS),
            _ => match Entry::at(register) {
                Some(entry) => {
                    let read_only = Lvt::DELIVERY_STATUS | Lvt::REMOTE_IRR;
                    Rule::Writable((entry.writable() | read_only).bits())
                }
                None => Rule::Absent,
            },
        }
    }
}

impl Lapic {
    /// RDMSR of a number from 0x800 to 0x83f.
    pub fn read_msr(&self, number: u32, now: u64) -> Result<u64, MsrFault> {
        let fault = |reason| Err(MsrFault::read(number, reason));
        let Some(register) = self.x2apic_register(number) else { return fault(FaultReason::Unknown) };
        match Rule::of(register) {
            Rule::Absent => fault(FaultReason::Unknown),
            Rule::WriteOnly => fault(FaultReason::WriteOnly),
            Rule::ReadOnly | Rule::Writable(_) => {
                let low = self.read_register(register, now).unwrap_or_default().into();
                match register {
                    reg::ICR_LOW => Ok(u64::from(self.icr_destination) << 32 | low),
                    _ => Ok(low),
                }
            }
        }
    }

    /// WRMSR of a number from 0x800 to 0x83f. EOI, TPR and ICR come first: they are hot.
    pub fn write_msr(&mut self, number: u32, value: u64, now: u64) -> Result<LapicEffect, MsrFault> {
        let reserved = MsrFault::write(number, value, FaultReason::ReservedBits);
        let Some(register) = self.x2apic_register(number) else {
            return Err(MsrFault::write(number, value, FaultReason::Unknown));
        };
        match register {
            reg::EOI if value == 0 => return Ok(self.eoi()),
            reg::TPR if value <= 0xff => return Ok(self.set_tpr(value as u8)),
            reg::ICR_LOW if value as u32 & !ICR_LOW_WRITABLE == 0 => {
                self.icr_destination = (value >> 32) as u32;
                return Ok(self.send(value as u32));
            }
            reg::SELF_IPI if value <= 0xff => return Ok(self.self_ipi(value as u8)),
            _ => {}
        }
        let low = u32::try_from(value).map_err(|_| reserved)?;
        match Rule::of(register) {
            Rule::Writable(bits) if low & !bits == 0 => Ok(self.write_register(register, low, now)),
            Rule::Writable(_) | Rule::WriteOnly => Err(reserved),
            Rule::ReadOnly => Err(MsrFault::write(number, value, FaultReason::ReadOnly)),
            Rule::Absent => Err(MsrFault::write(number, value, FaultReason::Unknown)),
        }
    }

    /// SELF IPI is ICR with the shorthand "self" (SDM 3, 11.12.11).
    fn self_ipi(&mut self, vector: u8) -> LapicEffect {
        if vector < FIRST_LEGAL_VECTOR {
            self.error(Esr::SEND_ILLEGAL_VECTOR);
        } else {
            self.accept(vector, false);
        }
        LapicEffect::Nothing
    }

    fn x2apic_register(&self, number: u32) -> Option<u16> {
        let in_range = (X2APIC_FIRST..=X2APIC_LAST).contains(&number);
        (in_range && self.mode == ApicMode::X2Apic).then(|| ((number - X2APIC_FIRST) << 4) as u16)
    }
}
