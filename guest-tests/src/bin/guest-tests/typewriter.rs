//! A guest that speaks through its text page alone and tells which scan codes arrive from its keyboard.

use arrayvec::ArrayString;
use core::fmt::Write;
use core::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use runtime::hw::port::inb;
use runtime::hw::{lapic, pic, vga};
use runtime::interrupt::{self, Frame};
use runtime::memory::{read16, write16};
use runtime::{machine, power, time};

const KEYBOARD_DATA: u16 = 0x60;
const KEYBOARD_IRQ: u8 = 1;
/// Set 1: these keys are released.
const ENTER_RELEASED: u8 = 0x9c;
const ESCAPE_RELEASED: u8 = 0x81;

/// Lines that it shows at first, in bursts that fit the screen.
const LINES: u32 = 120;
const BURST: u32 = 10;
/// Between two bursts: longer than it takes until somebody looks.
const PAUSE_US: u64 = 120_000;

/// How many scan codes of a line it shows: the last ones.
const SHOWN: usize = 16;

static CODES: [AtomicU8; SHOWN] = [const { AtomicU8::new(0) }; SHOWN];
static COUNT: AtomicU32 = AtomicU32::new(0);

/// Shows lines, then those of scan codes up to each Enter; Esc ends it.
pub(crate) fn run() -> ! {
    machine::restore();
    lapic::virtual_wire();
    interrupt::handle(pic::vector(KEYBOARD_IRQ), take);
    pic::unmask_only(KEYBOARD_IRQ);
    // Bochs's SVM lets no interrupt of the host through while the guest has them off.
    interrupt::enable();
    for number in 1..=LINES {
        show(format_args!("line {number} of {LINES}"));
        if number % BURST == 0 {
            time::spin_us(PAUSE_US);
        }
    }
    show(format_args!("type"));
    let mut told = 0;
    loop {
        let count = COUNT.load(Ordering::Relaxed);
        let last = CODES[count.wrapping_sub(1) as usize % SHOWN].load(Ordering::Relaxed);
        match last {
            ENTER_RELEASED if count != told => {
                tell(told, count);
                told = count;
            }
            ESCAPE_RELEASED => {
                show(format_args!("bye"));
                power::off()
            }
            _ => core::hint::spin_loop(),
        }
    }
}

/// The keyboard's interrupt.
fn take(_: &mut Frame) {
    let count = COUNT.load(Ordering::Relaxed);
    CODES[count as usize % SHOWN].store(inb(KEYBOARD_DATA), Ordering::Relaxed);
    COUNT.store(count.wrapping_add(1), Ordering::Relaxed);
    pic::eoi();
}

fn tell(from: u32, to: u32) {
    let mut text = ArrayString::<64>::new();
    for index in to.saturating_sub(SHOWN as u32).max(from)..to {
        // Sixteen times three characters fit.
        let _ = write!(text, " {:02x}", CODES[index as usize % SHOWN].load(Ordering::Relaxed));
    }
    show(format_args!("{} codes:{text}", to - from));
}

/// Moves everything up and shows a line at the bottom.
fn show(line: core::fmt::Arguments<'_>) {
    let mut text = ArrayString::<80>::new();
    let _ = text.write_fmt(line);
    let row = vga::COLUMNS * vga::CELL;
    for at in (0..(vga::ROWS - 1) * row).step_by(vga::CELL as usize) {
        write16(vga::TEXT_PAGE + at, read16(vga::TEXT_PAGE + at + row));
    }
    let characters = text.bytes().chain(core::iter::repeat(b' '));
    for (column, character) in (0..vga::COLUMNS).zip(characters) {
        let at = vga::TEXT_PAGE + (vga::ROWS - 1) * row + column * vga::CELL;
        write16(at, u16::from_le_bytes([character, vga::NORMAL]));
    }
}
