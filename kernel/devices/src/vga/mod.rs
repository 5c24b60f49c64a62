//! The registers of a VGA in text mode 3, and what of the text page they show. Port 0x3C0 is mapped at offset 0.
//!
//! Registers are stored and read back; only those that say which part of the text page is shown have a meaning. What
//! is on the page is made into lines by [`Printer`].

mod cp437;
mod dac;
mod printer;
mod spec;
#[cfg(test)]
mod tests;

pub use printer::{Printer, Progress};

use crate::FLOATING;
use crate::effects::{Deadline, Device, Effects, Nanos};
use dac::Dac;
use spec::{InputStatus1, crtc, port};

/// Number of ports.
pub const PORTS: u16 = 0x1b;
/// Registers are bytes.
pub const MAX_WIDTH: u8 = 1;
/// Bytes of display memory in text mode.
pub const PAGE_BYTES: usize = 0x8000;
/// Bytes of a character and its attribute.
pub const CELL: usize = 2;
/// How long after a change the page is looked at: a burst of output is one look.
pub const SETTLING: u64 = 50_000_000;

/// Largest text modes of VGA BIOSes.
pub const MAX_COLUMNS: usize = 132;
/// See [`MAX_COLUMNS`].
pub const MAX_ROWS: usize = 60;

/// Which part of the text page is shown. Positions are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// Where it begins.
    pub start: usize,
    /// From one row to the next.
    pub pitch: usize,
    /// Characters in a row, at most [`MAX_COLUMNS`].
    pub columns: usize,
    /// Rows, at most [`MAX_ROWS`].
    pub rows: usize,
}

/// A VGA.
#[derive(Clone, Debug)]
pub struct Vga {
    crtc_index: u8,
    crtc: [u8; spec::CRTC_MODE_3.len()],
    sequencer_index: u8,
    sequencer: [u8; spec::SEQUENCER_MODE_3.len()],
    graphics_index: u8,
    graphics: [u8; spec::GRAPHICS_MODE_3.len()],
    attribute_index: u8,
    attribute: [u8; spec::ATTRIBUTE_MODE_3.len()],
    /// The next write to the attribute port is data.
    attribute_data_next: bool,
    miscellaneous: u8,
    dac: Dac,
}

impl Vga {
    /// As the BIOS leaves it: text mode 3.
    pub fn new() -> Vga {
        Vga {
            crtc_index: 0,
            crtc: spec::CRTC_MODE_3,
            sequencer_index: 0,
            sequencer: spec::SEQUENCER_MODE_3,
            graphics_index: 0,
            graphics: spec::GRAPHICS_MODE_3,
            // The palette is shown.
            attribute_index: 1 << 5,
            attribute: spec::ATTRIBUTE_MODE_3,
            attribute_data_next: false,
            miscellaneous: spec::MISCELLANEOUS_MODE_3,
            dac: Dac::new(),
        }
    }

    /// What is shown of the text page; `None` in a graphics mode.
    pub fn view(&self) -> Option<View> {
        let miscellaneous = self.graphics[spec::GRAPHICS_MISCELLANEOUS];
        let is_text = miscellaneous & spec::GRAPHICS_MODE == 0
            && miscellaneous & spec::MEMORY_MAP == spec::MEMORY_MAP_COLOR_TEXT;
        is_text.then(|| {
            let start =
                u16::from_be_bytes([self.crtc[crtc::START_ADDRESS_HIGH], self.crtc[crtc::START_ADDRESS_LOW]]);
            let (columns, pitch, rows) = self.geometry();
            View { start: usize::from(start) * CELL % PAGE_BYTES, pitch, columns, rows }
        })
    }

    /// Columns, bytes from row to row, rows; 80 by 25 where the registers make no sense.
    fn geometry(&self) -> (usize, usize, usize) {
        let columns = usize::from(self.crtc[crtc::HORIZONTAL_DISPLAY_END]) + 1;
        // The offset register counts in words of a word.
        let pitch = usize::from(self.crtc[crtc::OFFSET]) * 2 * CELL;
        let overflow = self.crtc[crtc::OVERFLOW];
        let bit = |mask: u8, weight: usize| if overflow & mask != 0 { weight } else { 0 };
        let lines = usize::from(self.crtc[crtc::VERTICAL_DISPLAY_END])
            + bit(crtc::VERTICAL_DISPLAY_END_8, 1 << 8)
            + bit(crtc::VERTICAL_DISPLAY_END_9, 1 << 9)
            + 1;
        let rows = lines / (usize::from(self.crtc[crtc::MAXIMUM_SCAN_LINE] & crtc::SCAN_LINES) + 1);
        let sane = (40..=MAX_COLUMNS).contains(&columns)
            && (1..=MAX_ROWS).contains(&rows)
            && pitch >= columns * CELL
            && pitch * rows <= PAGE_BYTES;
        if sane { (columns, pitch, rows) } else { (80, 80 * CELL, 25) }
    }

    fn write_crtc(&mut self, value: u8, now: Nanos) -> Effects {
        let index = usize::from(self.crtc_index);
        let is_protected = self.crtc[crtc::VERTICAL_RETRACE_END] & crtc::PROTECT != 0;
        let Some(register) = self.crtc.get_mut(index) else { return Effects::NONE };
        let writable = match index {
            crtc::OVERFLOW if is_protected => crtc::LINE_COMPARE_8,
            0..=crtc::OVERFLOW if is_protected => 0,
            _ => u8::MAX,
        };
        let before = *register;
        *register = before & !writable | value & writable;
        let moves =
            matches!(index, crtc::START_ADDRESS_HIGH | crtc::START_ADDRESS_LOW) && *register != before;
        let look = Nanos(now.0.saturating_add(SETTLING));
        Effects { deadline: if moves { Deadline::At(look) } else { Deadline::Keep }, ..Effects::NONE }
    }

    fn write_attribute(&mut self, value: u8) {
        if self.attribute_data_next {
            store(&mut self.attribute, self.attribute_index & spec::ATTRIBUTE_INDEX, value);
        } else {
            self.attribute_index = value;
        }
        self.attribute_data_next = !self.attribute_data_next;
    }

    /// Vertical retrace lasts as long as nothing is displayed, so that a guest that looks seldom sees it, too.
    fn read_input_status(&mut self, now: Nanos) -> InputStatus1 {
        self.attribute_data_next = false;
        let mut status = InputStatus1::empty();
        if now.0 % spec::FRAME >= spec::FRAME_SHOWN {
            status |= InputStatus1::VERTICAL_RETRACE | InputStatus1::DISPLAY_DISABLED;
        } else if now.0 % spec::FRAME % spec::LINE >= spec::LINE_SHOWN {
            status |= InputStatus1::DISPLAY_DISABLED;
        }
        status
    }
}

/// A register behind an index; one that does not exist reads as zero.
fn load(registers: &[u8], index: u8) -> u8 {
    registers.get(usize::from(index)).copied().unwrap_or(0)
}

fn store(registers: &mut [u8], index: u8, value: u8) {
    if let Some(register) = registers.get_mut(usize::from(index)) {
        *register = value;
    }
}

impl Default for Vga {
    fn default() -> Self {
        Self::new()
    }
}

impl Device for Vga {
    fn read(&mut self, offset: u16, _width: u8, now: Nanos) -> (u32, Effects) {
        let value = match offset {
            port::ATTRIBUTE => self.attribute_index,
            port::ATTRIBUTE_READ => load(&self.attribute, self.attribute_index & spec::ATTRIBUTE_INDEX),
            // No switch is sensed and no interrupt of the retrace pends.
            port::MISCELLANEOUS_WRITE => 0,
            port::SEQUENCER_INDEX => self.sequencer_index,
            port::SEQUENCER_DATA => load(&self.sequencer, self.sequencer_index),
            port::DAC_MASK => self.dac.mask,
            port::DAC_READ_INDEX => self.dac.state(),
            port::DAC_WRITE_INDEX => self.dac.index(),
            port::DAC_DATA => self.dac.read(),
            port::MISCELLANEOUS_READ => self.miscellaneous,
            port::GRAPHICS_INDEX => self.graphics_index,
            port::GRAPHICS_DATA => load(&self.graphics, self.graphics_index),
            port::CRTC_INDEX => self.crtc_index,
            port::CRTC_DATA => load(&self.crtc, self.crtc_index),
            port::INPUT_STATUS_1 => self.read_input_status(now).bits(),
            _ => return (FLOATING, Effects::NONE),
        };
        (value.into(), Effects::NONE)
    }

    fn write(&mut self, offset: u16, _width: u8, value: u32, now: Nanos) -> Effects {
        let value = value as u8;
        match offset {
            port::ATTRIBUTE => self.write_attribute(value),
            port::MISCELLANEOUS_WRITE => self.miscellaneous = value,
            port::SEQUENCER_INDEX => self.sequencer_index = value,
            port::SEQUENCER_DATA => store(&mut self.sequencer, self.sequencer_index, value),
            port::DAC_MASK => self.dac.mask = value,
            port::DAC_READ_INDEX => self.dac.read_from(value),
            port::DAC_WRITE_INDEX => self.dac.write_from(value),
            port::DAC_DATA => self.dac.write(value),
            port::GRAPHICS_INDEX => self.graphics_index = value,
            port::GRAPHICS_DATA => store(&mut self.graphics, self.graphics_index, value),
            port::CRTC_INDEX => self.crtc_index = value,
            port::CRTC_DATA => return self.write_crtc(value, now),
            _ => {}
        }
        Effects::NONE
    }
}
