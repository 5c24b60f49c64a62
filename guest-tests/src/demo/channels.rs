//! Where the demonstrations write: COM1, port 0xE9 and the VGA text page, each with a mark of its own, since a
//! console may show them together.

use crate::hw::port::{outb, outw};
use crate::memory::{read16, write16};
use crate::single::Single;
use arrayvec::ArrayString;
use core::fmt;

/// Debug console of emulators.
pub const DEBUG_CONSOLE: u16 = 0xe9;
/// Text page of VGA in mode 3.
pub const TEXT_PAGE: u64 = 0xb_8000;

const COLUMNS: usize = 80;
const ROWS: usize = 25;
/// Attribute of a character: light grey on black.
const ATTRIBUTE: u16 = 0x07 << 8;
/// CRTC of VGA: index port, data port behind it, and the registers with the cursor's place.
const CRTC: u16 = 0x3d4;
const CURSOR_HIGH: u8 = 0x0e;
const CURSOR_LOW: u8 = 0x0f;

/// Longest line.
const LINE: usize = COLUMNS - 6;

static ROW: Single<usize> = Single::new(0);
/// What the last line on the text page has to be.
static LAST: Single<[u16; COLUMNS]> = Single::new([0; COLUMNS]);

/// Clears the text page.
pub(super) fn init() {
    for row in 0..ROWS {
        put_row(row, &blank());
    }
    set_cursor(0);
}

/// Writes a line to all channels. What is longer is cut.
pub fn line(text: fmt::Arguments<'_>) {
    let mut line = ArrayString::<LINE>::new();
    let _ = fmt::write(&mut line, text);
    println!("demo: {line}");
    b"e9: ".iter().chain(line.as_bytes()).chain(b"\n").for_each(|&byte| outb(DEBUG_CONSOLE, byte));
    show(&line);
}

/// Leaves rows of the text page to somebody who writes there himself; gives the first of them.
pub fn reserve(rows: usize) -> usize {
    while ROW.load() + rows > ROWS {
        scroll();
    }
    let first = ROW.load();
    ROW.store(first + rows);
    first
}

/// Whether the text page holds the line that was written last.
pub(super) fn holds() -> bool {
    let row = ROW.load() - 1;
    (0..COLUMNS).all(|column| read16(cell(row, column)) == LAST.load()[column])
}

fn show(line: &str) {
    let mut cells = blank();
    for (cell, byte) in cells.iter_mut().zip("vga: ".bytes().chain(line.bytes())) {
        *cell = ATTRIBUTE | u16::from(byte);
    }
    if ROW.load() == ROWS {
        scroll();
    }
    let row = ROW.load();
    put_row(row, &cells);
    LAST.store(cells);
    ROW.store(row + 1);
    set_cursor((row + 1).min(ROWS - 1) * COLUMNS);
}

fn blank() -> [u16; COLUMNS] {
    [ATTRIBUTE | u16::from(b' '); COLUMNS]
}

fn cell(row: usize, column: usize) -> u64 {
    TEXT_PAGE + ((row * COLUMNS + column) * 2) as u64
}

fn put_row(row: usize, cells: &[u16; COLUMNS]) {
    for (column, &value) in cells.iter().enumerate() {
        write16(cell(row, column), value);
    }
}

fn scroll() {
    for row in 1..ROWS {
        let cells = core::array::from_fn(|column| read16(cell(row, column)));
        put_row(row - 1, &cells);
    }
    put_row(ROWS - 1, &blank());
    ROW.store(ROW.load() - 1);
}

fn set_cursor(place: usize) {
    let [low, high, ..] = place.to_le_bytes();
    for (register, value) in [(CURSOR_HIGH, high), (CURSOR_LOW, low)] {
        // Index and data in one access.
        outw(CRTC, u16::from_le_bytes([register, value]));
    }
}
