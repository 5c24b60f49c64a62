use super::*;
use crate::testing::{assert_nothing_beyond, hammer};
use alloc::string::{String, ToString};
use alloc::vec::Vec;

const CRTC: u16 = port::CRTC_INDEX;

fn get(vga: &mut Vga, offset: u16) -> u8 {
    vga.read(offset, 1, Nanos(0)).0 as u8
}

fn put(vga: &mut Vga, offset: u16, value: u8) -> Effects {
    vga.write(offset, 1, value.into(), Nanos(0))
}

fn put_indexed(vga: &mut Vga, offset: u16, index: u8, value: u8) -> Effects {
    put(vga, offset, index);
    put(vga, offset + 1, value)
}

fn get_indexed(vga: &mut Vga, offset: u16, index: u8) -> u8 {
    put(vga, offset, index);
    get(vga, offset + 1)
}

#[test]
fn starts_in_text_mode_3() {
    let view = View { start: 0, pitch: 160, columns: 80, rows: 25 };
    assert_eq!(Vga::new().view(), Some(view));
}

#[test]
fn registers_read_back() {
    let mut vga = Vga::new();
    for (offset, index) in [(CRTC, 0x0e), (CRTC, 0x0f), (CRTC, 0x18), (port::SEQUENCER_INDEX, 2), (0xe, 8)] {
        for value in [0x5a, 0xa5] {
            put_indexed(&mut vga, offset, index, value);
            assert_eq!(get_indexed(&mut vga, offset, index), value, "{offset:#x}, {index:#x}");
        }
    }
    put(&mut vga, port::MISCELLANEOUS_WRITE, 0xe3);
    assert_eq!(get(&mut vga, port::MISCELLANEOUS_READ), 0xe3);
    assert_eq!(get_indexed(&mut vga, CRTC, 0x19), 0, "there is no such register");
    put_indexed(&mut vga, CRTC, 0xff, 1);
}

#[test]
fn protected_registers_keep_their_values() {
    let mut vga = Vga::new();
    put_indexed(&mut vga, CRTC, 0x01, 0x27);
    put_indexed(&mut vga, CRTC, 0x07, 0x00);
    assert_eq!((get_indexed(&mut vga, CRTC, 0x01), get_indexed(&mut vga, CRTC, 0x07)), (0x4f, 0x0f));
    put_indexed(&mut vga, CRTC, 0x11, 0x0e);
    put_indexed(&mut vga, CRTC, 0x01, 0x27);
    assert_eq!(get_indexed(&mut vga, CRTC, 0x01), 0x27);
    assert_eq!(vga.view().map(|view| view.columns), Some(40));
}

#[test]
fn the_attribute_port_takes_index_and_data_in_turn() {
    let mut vga = Vga::new();
    get(&mut vga, port::INPUT_STATUS_1);
    put(&mut vga, port::ATTRIBUTE, 0x30);
    put(&mut vga, port::ATTRIBUTE, 0x04);
    assert_eq!((get(&mut vga, port::ATTRIBUTE), get(&mut vga, port::ATTRIBUTE_READ)), (0x30, 0x04));
    put(&mut vga, port::ATTRIBUTE, 0x31);
    get(&mut vga, port::INPUT_STATUS_1);
    put(&mut vga, port::ATTRIBUTE, 0x32);
    assert_eq!(get(&mut vga, port::ATTRIBUTE), 0x32, "the status register makes the next write an index");
}

#[test]
fn the_palette_goes_on_by_itself() {
    let mut vga = Vga::new();
    put(&mut vga, port::DAC_WRITE_INDEX, 0xff);
    for value in [1, 2, 0xff, 4] {
        put(&mut vga, port::DAC_DATA, value);
    }
    put(&mut vga, port::DAC_READ_INDEX, 0xff);
    let read: Vec<u8> = (0..4).map(|_| get(&mut vga, port::DAC_DATA)).collect();
    assert_eq!((read, get(&mut vga, port::DAC_READ_INDEX)), (alloc::vec![1, 2, 0x3f, 4], 3));
    put(&mut vga, port::DAC_READ_INDEX, 0x14);
    let brown: Vec<u8> = (0..3).map(|_| get(&mut vga, port::DAC_DATA)).collect();
    assert_eq!(brown, [0x2a, 0x15, 0], "what the BIOS makes of attribute 6");
}

#[test]
fn the_retrace_comes_and_goes() {
    let mut vga = Vga::new();
    let mut at = |time| vga.read(port::INPUT_STATUS_1, 1, Nanos(time)).0;
    assert_eq!((at(0), at(spec::LINE - 1)), (0, 1));
    assert_eq!((at(spec::FRAME - 1), at(spec::FRAME)), (9, 0));
}

#[test]
fn the_start_address_moves_the_view_and_asks_for_a_look() {
    let mut vga = Vga::new();
    let effects = put_indexed(&mut vga, CRTC, 0x0c, 0x07);
    assert_eq!(effects.deadline, Deadline::At(Nanos(SETTLING)));
    put_indexed(&mut vga, CRTC, 0x0d, 0xd0);
    assert_eq!(vga.view().map(|view| view.start), Some(4000));
    assert_eq!(put(&mut vga, port::CRTC_DATA, 0xd0), Effects::NONE);
}

#[test]
fn graphics_modes_are_not_shown() {
    let mut vga = Vga::new();
    put_indexed(&mut vga, port::GRAPHICS_INDEX, 6, 0x05);
    assert_eq!(vga.view(), None);
}

#[test]
fn survives_anything() {
    let mut vga = Vga::new();
    assert_nothing_beyond(&mut vga, PORTS);
    hammer(&mut vga, PORTS, |vga, _, _| {
        if let Some(view) = vga.view() {
            assert!(view.start < PAGE_BYTES && view.rows * view.pitch <= PAGE_BYTES, "{view:?}");
            assert!(view.columns <= MAX_COLUMNS && view.rows <= MAX_ROWS, "{view:?}");
        }
    });
}

/// A text page and what has been printed of it.
struct Console {
    page: Vec<u8>,
    view: View,
    printer: Printer,
    now: u64,
    lines: Vec<String>,
}

impl Console {
    fn new() -> Console {
        let view = View { start: 0, pitch: 160, columns: 80, rows: 25 };
        Console {
            page: alloc::vec![0; PAGE_BYTES],
            view,
            printer: Printer::default(),
            now: 0,
            lines: Vec::new(),
        }
    }

    fn write(&mut self, row: usize, text: &str) {
        let at = (self.view.start + row * self.view.pitch) % PAGE_BYTES;
        let cells = self.page[at..at + self.view.columns * CELL].chunks_exact_mut(CELL);
        for (cell, byte) in cells.zip(text.bytes().chain(core::iter::repeat(b' '))) {
            cell.copy_from_slice(&[byte, 0x07]);
        }
    }

    fn scroll(&mut self) {
        self.page.copy_within(160..160 * 25, 0);
        self.write(24, "");
    }

    /// The lines printed when the page is looked at after another `milliseconds`.
    fn look_after(&mut self, milliseconds: u64) -> (Vec<String>, Progress) {
        self.now += milliseconds * 1_000_000;
        let Console { page, view, printer, now, lines } = self;
        let read = |at: usize, into: &mut [u8]| into.copy_from_slice(&page[at..at + into.len()]);
        let progress = printer.look(*view, Nanos(*now), read, |line| lines.push(line.to_string()));
        (core::mem::take(lines), progress)
    }

    fn look(&mut self) -> Vec<String> {
        self.look_after(50).0
    }

    fn finish(&mut self) -> Vec<String> {
        let Console { page, view, printer, now, lines } = self;
        let read = |at: usize, into: &mut [u8]| into.copy_from_slice(&page[at..at + into.len()]);
        printer.finish(*view, Nanos(*now), read, |line| lines.push(line.to_string()));
        core::mem::take(lines)
    }
}

#[test]
fn a_row_is_printed_once_it_stands_still() {
    let mut console = Console::new();
    console.write(0, "Hel");
    assert_eq!(console.look(), [""; 0]);
    console.write(0, "Hello, world   ");
    let (lines, progress) = console.look_after(50);
    assert_eq!((lines.len(), progress.changed), (0, true));
    let (lines, progress) = console.look_after(50);
    assert_eq!(
        (lines, progress),
        (alloc::vec!["Hello, world".to_string()], Progress { changed: false, next: None })
    );
    assert_eq!(console.look(), [""; 0]);
    assert_eq!(console.finish(), [""; 0]);
}

#[test]
fn a_log_that_scrolls_is_printed_line_by_line() {
    let mut console = Console::new();
    let mut printed = Vec::new();
    for number in 0..200 {
        if number >= 24 {
            console.scroll();
        }
        console.write(number.min(24), &alloc::format!("line {number}"));
        if number % 7 == 0 {
            printed.extend(console.look());
        }
    }
    printed.extend(console.finish());
    let all: Vec<String> = (0..200).map(|number| alloc::format!("line {number}")).collect();
    assert_eq!(printed, all);
}

#[test]
fn a_counter_is_printed_once_a_second() {
    let mut console = Console::new();
    let mut printed = Vec::new();
    for number in 0..100 {
        console.write(3, &alloc::format!("pass {number}"));
        printed.extend(console.look());
    }
    assert!((4..=6).contains(&printed.len()), "in five seconds: {printed:?}");
    assert_eq!(console.finish(), ["pass 99"]);
}

#[test]
fn a_frame_stays_while_its_middle_scrolls() {
    let mut console = Console::new();
    console.write(0, "title");
    console.write(24, "help");
    for row in 1..24 {
        console.write(row, &alloc::format!("line {row}"));
    }
    assert_eq!((console.look().len(), console.look().len()), (0, 25));
    console.page.copy_within(160 * 2..160 * 24, 160);
    console.write(23, "line 24");
    assert_eq!((console.look(), console.look()), (alloc::vec![], alloc::vec!["line 24".to_string()]));
}

#[test]
fn what_is_cleared_before_it_stood_still_is_printed() {
    let mut console = Console::new();
    console.write(5, "gone soon");
    assert_eq!(console.look(), [""; 0]);
    console.write(5, "");
    assert_eq!(console.look(), ["gone soon"]);
    console.write(5, "gone soon");
    assert_eq!((console.look().len(), console.look_after(1000).0), (0, alloc::vec!["gone soon".to_string()]));
}

#[test]
fn what_waits_says_until_when() {
    let mut console = Console::new();
    console.write(0, "a");
    console.look();
    assert_eq!(console.look(), ["a"]);
    console.write(0, "b");
    console.look();
    let (lines, progress) = console.look_after(50);
    assert_eq!((lines.len(), progress.changed), (0, false));
    assert_eq!(progress.next, Some(Nanos(1_100_000_000)));
}

#[test]
fn the_page_goes_on_at_its_beginning() {
    let mut console = Console::new();
    console.view.start = PAGE_BYTES - 80;
    for (cell, byte) in [(PAGE_BYTES - 2, b'A'), (0, b'B')] {
        console.page[cell] = byte;
    }
    assert_eq!(console.finish(), [alloc::format!("{}AB", " ".repeat(39))]);
}

#[test]
fn characters_are_those_of_the_font() {
    let mut console = Console::new();
    console.write(0, "~\x01");
    for (cell, byte) in [(4, 0x7f), (6, 0xc9), (8, 0xdb), (10, 0xfe), (12, 0xff)] {
        console.page[cell] = byte;
    }
    assert_eq!(console.finish(), ["~☺⌂╔█■"]);
}
