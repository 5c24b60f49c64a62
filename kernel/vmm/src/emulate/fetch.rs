//! Fetching and decoding the instruction at CS:RIP.

use super::{InstructionBytes, Machine, Stop};
use crate::vcpu::{Mode, Vcpu};
use crate::walk::Intent;
use iced_x86::{Decoder, DecoderError, DecoderOptions, Instruction};
use x86defs::addr::{Gva, PAGE_SIZE};
use x86defs::event::Event;
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

impl<V: Vcpu> Machine<'_, V> {
    /// Appends the bytes that follow, up to the end of their page, of the segment, or of the longest
    /// instruction.
    pub(super) fn fetch(&self, code: &mut Code) -> Result<(), Stop> {
        let (at, in_segment) = self.code_address(self.vcpu.rip().wrapping_add(code.len as u64));
        let in_page = PAGE_SIZE - at.page_offset();
        let room = in_page.min(in_segment).min((MAX_LEN - code.len) as u64) as usize;
        if room == 0 {
            return Err(self.general_protection());
        }
        let from = self.paging.translate(self.memory, at, Intent::Fetch)?;
        let end = code.len + room;
        // Policy: where there is no RAM there are no instructions.
        self.memory.read(from, &mut code.bytes[code.len..end]).map_err(|_| Stop::Fault(Event::UD))?;
        code.len = end;
        Ok(())
    }

    /// The linear address of an offset in the code segment, and how many bytes the segment has from there on.
    fn code_address(&self, offset: u64) -> (Gva, u64) {
        if self.mode == Mode::Long {
            return (Gva(offset), u64::MAX);
        }
        let cs = self.vcpu.segment(SegmentName::Cs);
        let in_segment = (u64::from(cs.limit) + 1).saturating_sub(offset);
        (Gva(cs.base.wrapping_add(offset) & 0xffff_ffff), in_segment)
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
                _ => return Err(Stop::Unsupported),
            }
        }
    }
}
