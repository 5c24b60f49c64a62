//! VGA in text mode (IBM VGA/XGA Technical Reference, section 2).

use super::port::{inb, outb};

/// Physical address of the text page.
pub const TEXT_PAGE: u64 = 0xb_8000;
/// Its size.
pub const TEXT_PAGE_SIZE: u64 = 0x8000;
/// Bytes of a character and its attribute.
pub const CELL: u64 = 2;
/// Characters in a row.
pub const COLUMNS: u64 = 80;
/// Rows.
pub const ROWS: u64 = 25;
/// Light grey on black.
pub const NORMAL: u8 = 0x07;

const ATTRIBUTE: u16 = 0x3c0;
const ATTRIBUTE_READ: u16 = 0x3c1;
const CRTC_INDEX: u16 = 0x3d4;
const CRTC_DATA: u16 = 0x3d5;
const INPUT_STATUS_1: u16 = 0x3da;

/// CRT controller: cursor start.
pub const CURSOR_START: u8 = 0x0a;
/// CRT controller: high half of the cursor's position, followed by the low half.
pub const CURSOR_LOCATION: u8 = 0x0e;
/// Attribute controller: mode control.
pub const MODE_CONTROL: u8 = 0x10;
/// In the attribute index: the palette is shown.
const PALETTE_SHOWN: u8 = 1 << 5;
/// In input status 1: the vertical retrace.
pub const VERTICAL_RETRACE: u8 = 1 << 3;

/// Reads a register of the CRT controller.
pub fn crtc(index: u8) -> u8 {
    outb(CRTC_INDEX, index);
    inb(CRTC_DATA)
}

/// Writes a register of the CRT controller.
pub fn set_crtc(index: u8, value: u8) {
    outb(CRTC_INDEX, index);
    outb(CRTC_DATA, value);
}

/// Reads a register of the attribute controller.
pub fn attribute(index: u8) -> u8 {
    let _ = status();
    outb(ATTRIBUTE, index | PALETTE_SHOWN);
    inb(ATTRIBUTE_READ)
}

/// Writes a register of the attribute controller.
pub fn set_attribute(index: u8, value: u8) {
    let _ = status();
    outb(ATTRIBUTE, index | PALETTE_SHOWN);
    outb(ATTRIBUTE, value);
}

/// Input status 1.
pub fn status() -> u8 {
    inb(INPUT_STATUS_1)
}
