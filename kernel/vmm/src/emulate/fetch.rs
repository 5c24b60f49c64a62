//! Fetching and decoding the instruction at CS:RIP.

use super::{InstructionBytes, Machine, Stop};
use crate::memory::GuestMemory;
use crate::vcpu::{Mode, Vcpu};
use crate::walk::{Intent, PageFault, Paging};
use iced_x86::{Decoder, DecoderError, DecoderOptions, Instruction};
use x86defs::addr::{Gva, PAGE_SIZE};
use x86defs::event::{Event, Exception};
use x86defs::segment::SegmentName;

/// The longest instruction (SDM 2, 2.3.11).
pub(super) const MAX_LEN: usize = 15;

/// Makes the decoder build its tables, which allocates: call it once before the first exit, and no exit
/// allocates.
pub fn prepare() {
    let _ = Decoder::new(64, &[], DecoderOptions::NONE);
}

/// Bytes from CS:RIP on.
pub(super) struct Code {
    bytes: [u8; MAX_LEN],
    len: usize,
}

impl Code {
    /// No bytes yet.
    pub(super) const EMPTY: Code = Code { bytes: [0; MAX_LEN], len: 0 };

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    pub(super) fn for_message(&self) -> InstructionBytes {
        InstructionBytes { bytes: self.bytes, len: self.len as u8 }
    }
}

/// Copies the bytes from CS:RIP on, as many as can be fetched without a fault, and returns how many.
pub fn fetch(vcpu: &(impl Vcpu + ?Sized), memory: &dyn GuestMemory, into: &mut [u8; MAX_LEN]) -> usize {
    let (mode, paging) = (Mode::of(vcpu), Paging::of(vcpu));
    let mut code = Code::EMPTY;
    while code.len < MAX_LEN && fetch_in_page(vcpu, memory, mode, &paging, &mut code).is_ok() {}
    *into = code.bytes;
    code.len
}

/// The page fault that the fetch of the instruction at CS:RIP raises, if it raises one.
pub fn fetch_fault(vcpu: &(impl Vcpu + ?Sized), memory: &dyn GuestMemory) -> Option<PageFault> {
    let (mode, paging) = (Mode::of(vcpu), Paging::of(vcpu));
    let mut code = Code::EMPTY;
    while code.len < MAX_LEN {
        match fetch_in_page(vcpu, memory, mode, &paging, &mut code) {
            Ok(()) => {}
            Err(Stop::PageFault(fault)) => return Some(fault),
            Err(_) => return None,
        }
    }
    None
}

/// Appends the bytes that follow, up to the end of their page, of the segment, or of the longest instruction.
fn fetch_in_page(
    vcpu: &(impl Vcpu + ?Sized),
    memory: &dyn GuestMemory,
    mode: Mode,
    paging: &Paging,
    code: &mut Code,
) -> Result<(), Stop> {
    let (at, in_segment) = code_address(vcpu, mode, vcpu.rip().wrapping_add(code.len as u64));
    let in_page = PAGE_SIZE - at.page_offset();
    let room = in_page.min(in_segment).min((MAX_LEN - code.len) as u64) as usize;
    if room == 0 {
        return Err(Stop::exception(mode, Exception::GeneralProtection));
    }
    let from = paging.translate(memory, at, Intent::Fetch)?;
    let end = code.len + room;
    // Policy: where there is no RAM there are no instructions.
    memory.read(from, &mut code.bytes[code.len..end]).map_err(|_| Stop::Fault(Event::UD))?;
    code.len = end;
    Ok(())
}

/// The linear address of an offset in the code segment, and how many bytes the segment has from there on.
fn code_address(vcpu: &(impl Vcpu + ?Sized), mode: Mode, offset: u64) -> (Gva, u64) {
    if mode == Mode::Long {
        return (Gva(offset), u64::MAX);
    }
    let cs = vcpu.segment(SegmentName::Cs);
    let in_segment = (u64::from(cs.limit) + 1).saturating_sub(offset);
    (Gva(cs.base.wrapping_add(offset) & 0xffff_ffff), in_segment)
}

impl<V: Vcpu + ?Sized> Machine<'_, V> {
    /// Fetches what follows.
    pub(super) fn fetch(&self, code: &mut Code) -> Result<(), Stop> {
        fetch_in_page(self.vcpu, self.memory, self.mode, &self.paging, code)
    }

    /// Decodes what was fetched, and fetches from the next page what is missing.
    pub(super) fn decode(&self, code: &mut Code) -> Result<Instruction, Stop> {
        let mut instruction = Instruction::default();
        loop {
            let mut decoder =
                Decoder::with_ip(self.mode.bitness(), code.bytes(), self.vcpu.rip(), DecoderOptions::NONE);
            decoder.decode_out(&mut instruction);
            match decoder.last_error() {
                DecoderError::None => return Ok(instruction),
                DecoderError::NoMoreBytes => self.fetch(code)?,
                // All bytes are taken: it would be longer.
                _ if decoder.position() == MAX_LEN => return Err(self.general_protection()),
                _ if is_vector_encoded(code.bytes()) => return Err(Stop::Unsupported),
                _ => return Err(Stop::Fault(Event::UD)),
            }
        }
    }
}

/// Whether the opcode is an escape to VEX, EVEX or XOP (SDM 2, 2.3 and 2.7), which the decoder is built without:
/// what it calls invalid may be an instruction then.
fn is_vector_encoded(bytes: &[u8]) -> bool {
    const LEGACY_PREFIXES: [u8; 11] = [0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65, 0x66, 0x67, 0xf0, 0xf2, 0xf3];
    const VEX_3_BYTES: u8 = 0xc4;
    const VEX_2_BYTES: u8 = 0xc5;
    const EVEX: u8 = 0x62;
    const XOP: u8 = 0x8f;
    let opcode = bytes.iter().find(|byte| !LEGACY_PREFIXES.contains(byte));
    opcode.is_some_and(|opcode| [VEX_3_BYTES, VEX_2_BYTES, EVEX, XOP].contains(opcode))
}
