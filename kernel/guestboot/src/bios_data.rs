//! The BIOS data area at segment 0x40: what kernels without a firmware to ask read there of the machine
//! (IBM PS/2 and PC BIOS Interface Technical Reference, section 3, "Data areas").

use crate::memory_map::EBDA;
use crate::plan::{Copy, Source};
use crate::platform::{COM1, VGA_CRTC};
use alloc::vec;
use x86defs::addr::Gpa;

/// Its address.
pub const BIOS_DATA: Gpa = Gpa(0x400);

// Offsets.
const COM1_PORT: usize = 0x00;
const EBDA_SEGMENT: usize = 0x0e;
const EQUIPMENT: usize = 0x10;
const MEMORY_KIB: usize = 0x13;
const VIDEO_MODE: usize = 0x49;
const VIDEO_COLUMNS: usize = 0x4a;
const VIDEO_PAGE_BYTES: usize = 0x4c;
const CURSOR_TYPE: usize = 0x60;
const CRTC_PORT: usize = 0x63;
const LAST_ROW: usize = 0x84;
const CHARACTER_HEIGHT: usize = 0x85;
const END: usize = 0x87;

/// Equipment: a floating-point unit, a display of 80 columns in colour, one serial port.
const EQUIPMENT_WORD: u16 = 1 << 1 | 2 << 4 | 1 << 9;
/// Text, 80 by 25, in colour.
const MODE_3: u8 = 3;
/// Scan lines of the cursor: the first in the high byte.
const CURSOR_LINES: u16 = 0x0d0e;

/// What is known of this machine; the rest is zero.
pub fn bios_data() -> Copy {
    let mut data = vec![0; END];
    let words = [
        (COM1_PORT, COM1.first),
        (EBDA_SEGMENT, (EBDA.0 >> 4) as u16),
        (EQUIPMENT, EQUIPMENT_WORD),
        (MEMORY_KIB, (EBDA.0 >> 10) as u16),
        (VIDEO_COLUMNS, 80),
        (VIDEO_PAGE_BYTES, 0x1000),
        (CURSOR_TYPE, CURSOR_LINES),
        (CRTC_PORT, VGA_CRTC.first),
        (CHARACTER_HEIGHT, 16),
    ];
    for (offset, value) in words {
        data[offset..offset + 2].copy_from_slice(&value.to_le_bytes());
    }
    data[VIDEO_MODE] = MODE_3;
    data[LAST_ROW] = 25 - 1;
    Copy { to: BIOS_DATA, source: Source::Bytes(data) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_kernels_read() {
        let Copy { to, source: Source::Bytes(data) } = bios_data() else { panic!("it is bytes") };
        let byte = |at: usize| data[at - to.0 as usize];
        let word = |at| u16::from_le_bytes([byte(at), byte(at + 1)]);
        assert_eq!((word(0x400), word(0x410) & 0x30, word(0x413)), (0x3f8, 0x20, 639));
        assert_eq!((byte(0x449), word(0x44a), word(0x463)), (3, 80, 0x3d4));
        assert_eq!((word(0x40e), byte(0x484), byte(0x485)), (0x9fc0, 24, 16));
    }
}
