//! The short way for what nearly every driver uses: a MOV of 32 or 64 bits between a general register, or an
//! immediate to memory, in 64-bit mode. Everything else goes through the full decoder.

use super::fetch::Code;
use super::operand::RegisterPart;
use super::{Machine, alu};
use crate::memory::Width;
use crate::vcpu::{Mode, Vcpu};
use x86defs::addr::{Gpa, Gva, PAGE_SIZE};
use x86defs::gpr::Gpr;

/// What a MOV moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transfer {
    Load(Gpr),
    Store(Gpr),
    StoreImmediate(u64),
}

/// A decoded MOV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PlainMov {
    pub(super) len: u8,
    pub(super) width: Width,
    pub(super) transfer: Transfer,
    /// Effective address; the segment base is zero.
    pub(super) offset: u64,
}

/// Opcodes (SDM 2, MOV).
const MOV_TO_MEMORY: u8 = 0x89;
const MOV_FROM_MEMORY: u8 = 0x8b;
const MOV_IMMEDIATE: u8 = 0xc7;

/// Fields of the REX prefix (SDM 2, 2.2.1.2).
const REX: u8 = 0x40;
const REX_W: u8 = 1 << 3;
const REX_R: u8 = 1 << 2;
const REX_X: u8 = 1 << 1;
const REX_B: u8 = 1 << 0;

/// The bytes of an instruction, taken one after the other.
struct Cursor<'a> {
    bytes: &'a [u8],
    taken: usize,
}

impl Cursor<'_> {
    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.taken)?;
        self.taken += 1;
        Some(byte)
    }

    fn signed_byte(&mut self) -> Option<u64> {
        Some(alu::sign_extend(u64::from(self.byte()?), Width::Byte))
    }

    fn signed_dword(&mut self) -> Option<u64> {
        let bytes = self.bytes.get(self.taken..)?.first_chunk::<4>()?;
        self.taken += 4;
        Some(i32::from_le_bytes(*bytes) as u64)
    }
}

/// Decodes a MOV in 64-bit mode, or nothing if it is not one of the plain forms. `gpr` gives the registers.
pub(super) fn decode(bytes: &[u8], rip: u64, gpr: impl Fn(Gpr) -> u64) -> Option<PlainMov> {
    let mut code = Cursor { bytes, taken: 0 };
    let mut opcode = code.byte()?;
    let mut rex = 0;
    if opcode & 0xf0 == REX {
        rex = opcode;
        opcode = code.byte()?;
    }
    if !matches!(opcode, MOV_TO_MEMORY | MOV_FROM_MEMORY | MOV_IMMEDIATE) {
        return None;
    }
    let modrm = code.byte()?;
    let register = modrm >> 3 & 7 | if rex & REX_R != 0 { 8 } else { 0 };
    let address = address(&mut code, modrm, rex, gpr)?;
    let transfer = match opcode {
        MOV_TO_MEMORY => Transfer::Store(Gpr::from_number(register)),
        MOV_FROM_MEMORY => Transfer::Load(Gpr::from_number(register)),
        // The register field extends the opcode: only zero is MOV.
        _ if modrm >> 3 & 7 == 0 => Transfer::StoreImmediate(code.signed_dword()?),
        _ => return None,
    };
    let len = code.taken as u8;
    let offset = match address {
        Address::Absolute(offset) => offset,
        Address::FromNextInstruction(offset) => rip.wrapping_add(u64::from(len)).wrapping_add(offset),
    };
    let width = if rex & REX_W != 0 { Width::Qword } else { Width::Dword };
    Some(PlainMov { len, width, transfer, offset })
}

enum Address {
    Absolute(u64),
    FromNextInstruction(u64),
}

/// The memory operand that ModRM, SIB and displacement give (SDM 2, tables 2-2 and 2-3).
fn address(code: &mut Cursor<'_>, modrm: u8, rex: u8, gpr: impl Fn(Gpr) -> u64) -> Option<Address> {
    let (mode, rm) = (modrm >> 6, modrm & 7);
    let extend = |bit| if rex & bit != 0 { 8 } else { 0 };
    let value = |number, bit| gpr(Gpr::from_number(number | extend(bit)));
    let base = match (mode, rm) {
        (3, _) => return None,
        (0, 5) => return code.signed_dword().map(Address::FromNextInstruction),
        (_, 4) => {
            let sib = code.byte()?;
            let index = sib >> 3 & 7;
            let scaled = if index | extend(REX_X) == 4 { 0 } else { value(index, REX_X) << (sib >> 6) };
            let base = if mode == 0 && sib & 7 == 5 { code.signed_dword()? } else { value(sib & 7, REX_B) };
            base.wrapping_add(scaled)
        }
        _ => value(rm, REX_B),
    };
    let displacement = match mode {
        1 => code.signed_byte()?,
        2 => code.signed_dword()?,
        _ => 0,
    };
    Some(Address::Absolute(base.wrapping_add(displacement)))
}

impl<V: Vcpu + ?Sized> Machine<'_, V> {
    /// Executes a plain MOV of which the access at `fault` was refused, without translating its address again.
    /// Returns its length, or nothing if it must go the long way.
    pub(super) fn plain_mov(&mut self, code: &Code, fault: Gpa) -> Option<u8> {
        if self.mode != Mode::Long {
            return None;
        }
        let mov = decode(code.bytes(), self.vcpu.rip(), |register| self.vcpu.gpr(register))?;
        let in_page = Gva(mov.offset).page_offset();
        // Else the operand lies in two pages, and the access that was refused may be to the second.
        if in_page != fault.page_offset() || in_page + mov.width.bytes() as u64 > PAGE_SIZE {
            return None;
        }
        match mov.transfer {
            Transfer::Load(gpr) => {
                let value = self.load_at(fault, mov.width);
                self.set_register(RegisterPart::low(gpr, mov.width), value);
            }
            Transfer::Store(gpr) => self.store_at(fault, mov.width, self.vcpu.gpr(gpr)),
            Transfer::StoreImmediate(value) => self.store_at(fault, mov.width, value),
        }
        Some(mov.len)
    }
}
