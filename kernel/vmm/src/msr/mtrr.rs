//! Memory-type range registers (SDM 3, 12.11): stored with their rules, since guests check them. What memory
//! really is, the nested page tables say.

use super::fault::{FaultReason, MsrFault};
use x86defs::memory_type::MemoryType;
use x86defs::msr::{self, MtrrCap, MtrrDefType};

/// Number of variable ranges.
const VARIABLE: usize = 8;
const FIXED: usize = 11;

/// The registers of one CPU.
#[derive(Clone, Debug)]
pub(super) struct Mtrrs {
    default: u64,
    fixed: [u64; FIXED],
    /// PHYSBASE and PHYSMASK in turn.
    variable: [u64; 2 * VARIABLE],
    address_mask: u64,
}

impl Mtrrs {
    /// As a PC's firmware leaves them: everything write-back.
    pub(super) fn new(physical_bits: u8) -> Self {
        let write_back = MemoryType::WriteBack as u64;
        Self {
            default: MtrrDefType::E.bits() | write_back,
            fixed: [u64::from_le_bytes([MemoryType::WriteBack as u8; 8]); FIXED],
            variable: [0; 2 * VARIABLE],
            address_mask: (1 << physical_bits) - 1,
        }
    }

    /// IA32_MTRRCAP.
    pub(super) const CAPABILITIES: u64 = VARIABLE as u64 | MtrrCap::FIX.union(MtrrCap::WC).bits();

    pub(super) fn read(&self, number: u32) -> Option<u64> {
        match number {
            msr::IA32_MTRR_DEF_TYPE => Some(self.default),
            msr::IA32_MTRR_PHYSBASE0..=msr::IA32_MTRR_PHYSMASK7 => {
                Some(self.variable[(number - msr::IA32_MTRR_PHYSBASE0) as usize])
            }
            _ => Some(self.fixed[fixed_index(number)?]),
        }
    }

    pub(super) fn write(&mut self, number: u32, value: u64) -> Result<(), MsrFault> {
        let types = |valid: bool, slot: &mut u64| match valid {
            true => {
                *slot = value;
                Ok(())
            }
            false => Err(MsrFault::write(number, value, FaultReason::ReservedBits)),
        };
        match number {
            msr::IA32_MTRR_DEF_TYPE => {
                let known = value & !MtrrDefType::all().bits() == 0;
                types(known && is_type(value as u8), &mut self.default)
            }
            msr::IA32_MTRR_PHYSBASE0..=msr::IA32_MTRR_PHYSMASK7 => {
                let index = (number - msr::IA32_MTRR_PHYSBASE0) as usize;
                let page = self.address_mask & !0xfff;
                let valid = match index % 2 {
                    0 => value & !(page | 0xff) == 0 && is_type(value as u8),
                    _ => value & !(page | msr::MTRR_PHYSMASK_VALID) == 0,
                };
                types(valid, &mut self.variable[index])
            }
            _ => match fixed_index(number) {
                Some(index) => types(value.to_le_bytes().into_iter().all(is_type), &mut self.fixed[index]),
                None => Err(MsrFault::write(number, value, FaultReason::Unknown)),
            },
        }
    }
}

fn is_type(encoding: u8) -> bool {
    MemoryType::from_encoding(encoding).is_some()
}

/// The fixed ranges have three groups of numbers: one of 64 KiB, two of 16 KiB, eight of 4 KiB ranges.
fn fixed_index(number: u32) -> Option<usize> {
    match number {
        msr::IA32_MTRR_FIX64K_00000 => Some(0),
        msr::IA32_MTRR_FIX16K_80000 | msr::IA32_MTRR_FIX16K_A0000 => {
            Some((number - msr::IA32_MTRR_FIX16K_80000) as usize + 1)
        }
        msr::IA32_MTRR_FIX4K_C0000..=msr::IA32_MTRR_FIX4K_F8000 => {
            Some((number - msr::IA32_MTRR_FIX4K_C0000) as usize + 3)
        }
        _ => None,
    }
}
