//! Registers of the VGA by port and index, and what the BIOS leaves in them for text mode 3 (IBM VGA/XGA Technical
//! Reference, section 2, "VGA Function").

use bitflags::bitflags;

/// Ports, counted from 0x3C0.
pub(super) mod port {
    pub(in crate::vga) const ATTRIBUTE: u16 = 0x0;
    pub(in crate::vga) const ATTRIBUTE_READ: u16 = 0x1;
    /// Miscellaneous output when written, input status 0 when read.
    pub(in crate::vga) const MISCELLANEOUS_WRITE: u16 = 0x2;
    pub(in crate::vga) const SEQUENCER_INDEX: u16 = 0x4;
    pub(in crate::vga) const SEQUENCER_DATA: u16 = 0x5;
    pub(in crate::vga) const DAC_MASK: u16 = 0x6;
    /// The index to read from when written, the state when read.
    pub(in crate::vga) const DAC_READ_INDEX: u16 = 0x7;
    pub(in crate::vga) const DAC_WRITE_INDEX: u16 = 0x8;
    pub(in crate::vga) const DAC_DATA: u16 = 0x9;
    pub(in crate::vga) const MISCELLANEOUS_READ: u16 = 0xc;
    pub(in crate::vga) const GRAPHICS_INDEX: u16 = 0xe;
    pub(in crate::vga) const GRAPHICS_DATA: u16 = 0xf;
    pub(in crate::vga) const CRTC_INDEX: u16 = 0x14;
    pub(in crate::vga) const CRTC_DATA: u16 = 0x15;
    /// Input status 1 when read, feature control when written.
    pub(in crate::vga) const INPUT_STATUS_1: u16 = 0x1a;
}

/// Indices of the CRT controller.
pub(super) mod crtc {
    pub(in crate::vga) const HORIZONTAL_DISPLAY_END: usize = 0x01;
    pub(in crate::vga) const OVERFLOW: usize = 0x07;
    pub(in crate::vga) const MAXIMUM_SCAN_LINE: usize = 0x09;
    pub(in crate::vga) const START_ADDRESS_HIGH: usize = 0x0c;
    pub(in crate::vga) const START_ADDRESS_LOW: usize = 0x0d;
    pub(in crate::vga) const VERTICAL_RETRACE_END: usize = 0x11;
    pub(in crate::vga) const VERTICAL_DISPLAY_END: usize = 0x12;
    pub(in crate::vga) const OFFSET: usize = 0x13;

    /// In [`VERTICAL_RETRACE_END`]: registers 0 to 7 cannot be written.
    pub(in crate::vga) const PROTECT: u8 = 1 << 7;
    /// In [`OVERFLOW`]: the one bit that [`PROTECT`] spares, bit 8 of line compare.
    pub(in crate::vga) const LINE_COMPARE_8: u8 = 1 << 4;
    /// In [`OVERFLOW`]: bits 8 and 9 of the vertical display end.
    pub(in crate::vga) const VERTICAL_DISPLAY_END_8: u8 = 1 << 1;
    pub(in crate::vga) const VERTICAL_DISPLAY_END_9: u8 = 1 << 6;
    /// In [`MAXIMUM_SCAN_LINE`]: scan lines of a row, less one.
    pub(in crate::vga) const SCAN_LINES: u8 = 0x1f;
}

/// Graphics controller: miscellaneous.
pub(super) const GRAPHICS_MISCELLANEOUS: usize = 6;
/// In [`GRAPHICS_MISCELLANEOUS`]: no text.
pub(super) const GRAPHICS_MODE: u8 = 1 << 0;
/// In [`GRAPHICS_MISCELLANEOUS`]: where display memory answers, and the value that means 0xB8000.
pub(super) const MEMORY_MAP: u8 = 3 << 2;
pub(super) const MEMORY_MAP_COLOR_TEXT: u8 = 3 << 2;

/// In the attribute index: the palette is shown rather than accessed.
pub(super) const ATTRIBUTE_INDEX: u8 = 0x1f;

bitflags! {
    /// Input status 1.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) struct InputStatus1: u8 {
        /// The beam is where nothing is displayed.
        const DISPLAY_DISABLED = 1 << 0;
        const VERTICAL_RETRACE = 1 << 3;
    }
}

pub(super) const CRTC_MODE_3: [u8; 25] = [
    0x5f, 0x4f, 0x50, 0x82, 0x55, 0x81, 0xbf, 0x1f, 0x00, 0x4f, 0x0d, 0x0e, 0x00, 0x00, 0x00, 0x00, 0x9c,
    0x8e, 0x8f, 0x28, 0x1f, 0x96, 0xb9, 0xa3, 0xff,
];
pub(super) const SEQUENCER_MODE_3: [u8; 5] = [0x03, 0x00, 0x03, 0x00, 0x02];
pub(super) const GRAPHICS_MODE_3: [u8; 9] = [0x00, 0x00, 0x00, 0x00, 0x00, 0x10, 0x0e, 0x00, 0xff];
pub(super) const ATTRIBUTE_MODE_3: [u8; 21] = [
    0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x14, 0x07, 0x38, 0x39, 0x3a, 0x3b, 0x3c, 0x3d, 0x3e, 0x3f, 0x0c,
    0x00, 0x0f, 0x08, 0x00,
];
pub(super) const MISCELLANEOUS_MODE_3: u8 = 0x67;

/// A frame of 400 lines at 70 Hz, and the part of it in which lines are shown, in nanoseconds.
pub(super) const FRAME: u64 = 14_268_000;
pub(super) const FRAME_SHOWN: u64 = FRAME * 400 / 449;
/// A line, and the part of it that is shown.
pub(super) const LINE: u64 = FRAME / 449;
pub(super) const LINE_SHOWN: u64 = LINE * 80 / 100;
