//! The VGA's text page and its registers.

#![allow(unsafe_code, reason = "code that lies on the text page")]

use runtime::hw::vga::{self, TEXT_PAGE, TEXT_PAGE_SIZE};
use runtime::memory::{self, PRESENT, Space, WRITABLE};
use runtime::time;
use runtime::{expect, expect_eq, guest_test, platform_wrong};

/// A part of the text page that is not shown.
const HIDDEN: u64 = TEXT_PAGE + 0x4000;

/// A bare machine may have no display; then memory lies where its text page would be.
fn need_registers() {
    /// What an index register without a device reads as.
    const NOBODY: u8 = 0xff;
    vga::set_crtc(vga::CURSOR_LOCATION, 0);
    if runtime::machine::get().reference && vga::crtc(vga::CURSOR_LOCATION) == NOBODY {
        runtime::skip!("no VGA");
    }
}

guest_test!(text_page_is_memory_at_every_width);
fn text_page_is_memory_at_every_width() {
    for at in [HIDDEN, HIDDEN + 1, HIDDEN + 0xffd, TEXT_PAGE + TEXT_PAGE_SIZE - 8] {
        memory::write64(at, 0x8877_6655_4433_2211);
        expect_eq!(memory::read64(at), 0x8877_6655_4433_2211, "64 bits at {at:#x}");
        memory::write32(at + 1, 0xccdd_eeff);
        expect_eq!(memory::read64(at), 0x8877_66cc_ddee_ff11, "after 32 bits at {:#x}", at + 1);
        memory::write16(at + 6, 0x1234);
        memory::write8(at, 0x99);
        expect_eq!(memory::read64(at), 0x1234_66cc_ddee_ff99, "after 16 and 8 bits at {at:#x}");
    }
}

guest_test!(text_page_stays_after_a_while);
fn text_page_stays_after_a_while() {
    /// The end of the first page, behind what is shown.
    const LAST: u64 = TEXT_PAGE + 0xff8;
    for round in 0..3u64 {
        for page in 0..8 {
            memory::write64(LAST + (page << 12), round << 8 | page);
        }
        time::spin_us(120_000);
        for page in 0..8 {
            let at = LAST + (page << 12);
            expect_eq!(memory::read64(at), round << 8 | page, "page {page}, round {round}");
        }
    }
}

guest_test!(text_page_is_copied_and_filled);
fn text_page_is_copied_and_filled() {
    const ROWS: usize = 0x1000;
    for offset in (0..ROWS as u64).step_by(8) {
        memory::write64(HIDDEN + offset, offset);
    }
    // SAFETY: the text page is nobody else's.
    unsafe {
        core::arch::asm!("rep movsb", inout("rsi") HIDDEN + 160 => _, inout("rdi") HIDDEN => _,
            inout("rcx") ROWS - 160 => _, options(nostack));
        core::arch::asm!("rep stosw", in("ax") 0x0720u16, inout("rdi") HIDDEN + ROWS as u64 - 160 => _,
            inout("rcx") 80 => _, options(nostack));
    }
    for offset in (0..ROWS as u64 - 160).step_by(8) {
        expect_eq!(memory::read64(HIDDEN + offset), offset + 160, "a scrolled row at {offset:#x}");
    }
    expect_eq!(memory::read64(HIDDEN + ROWS as u64 - 8), 0x0720_0720_0720_0720, "the cleared row");
}

guest_test!(text_page_holds_code);
fn text_page_holds_code() {
    platform_wrong!(Bochs, "it fetches no code from video memory");
    /// MOV EAX, 42; RET
    const CODE: u64 = u64::from_le_bytes([0xb8, 42, 0, 0, 0, 0xc3, 0, 0]);
    memory::write64(HIDDEN, CODE);
    // SAFETY: the function was just written, and the page is mapped where it lies.
    let function: extern "C" fn() -> u32 = unsafe { core::mem::transmute(HIDDEN) };
    expect_eq!(function(), 42, "what code on the text page returns");
}

guest_test!(text_page_holds_a_page_table);
fn text_page_holds_a_page_table() {
    let space = Space::new();
    let frame = memory::frame();
    memory::write64(frame, 0x1234_5678);
    // The walk sets the accessed bit in the table, which lies on the text page.
    for entry in 0..512 {
        memory::write64(HIDDEN + entry * 8, 0);
    }
    memory::write64(HIDDEN, frame | PRESENT | WRITABLE);
    time::spin_us(200_000);
    memory::write64(space.entry(memory::FREE, 2), HIDDEN | memory::TABLE_FLAGS);
    space.activate();
    expect_eq!(memory::read64(memory::FREE), 0x1234_5678, "through a table on the text page");
    expect!(memory::read64(HIDDEN) & memory::ACCESSED != 0, "entry {:#x}", memory::read64(HIDDEN));
}

guest_test!(cursor_registers_read_back);
fn cursor_registers_read_back() {
    need_registers();
    let before = [0, 1].map(|i| vga::crtc(vga::CURSOR_LOCATION + i));
    for position in [0u16, 0x07cf, 0x0150] {
        let bytes = position.to_be_bytes();
        vga::set_crtc(vga::CURSOR_LOCATION, bytes[0]);
        vga::set_crtc(vga::CURSOR_LOCATION + 1, bytes[1]);
        let read = [0, 1].map(|i| vga::crtc(vga::CURSOR_LOCATION + i));
        expect_eq!(u16::from_be_bytes(read), position, "cursor");
    }
    vga::set_crtc(vga::CURSOR_LOCATION, before[0]);
    vga::set_crtc(vga::CURSOR_LOCATION + 1, before[1]);
    let start = vga::crtc(vga::CURSOR_START);
    vga::set_crtc(vga::CURSOR_START, start ^ 0x20);
    expect_eq!(vga::crtc(vga::CURSOR_START), start ^ 0x20, "cursor start");
    vga::set_crtc(vga::CURSOR_START, start);
}

guest_test!(attribute_registers_read_back);
fn attribute_registers_read_back() {
    need_registers();
    /// Bright backgrounds instead of blinking.
    const BLINK: u8 = 1 << 3;
    let before = vga::attribute(vga::MODE_CONTROL);
    vga::set_attribute(vga::MODE_CONTROL, before ^ BLINK);
    expect_eq!(vga::attribute(vga::MODE_CONTROL), before ^ BLINK, "mode control");
    vga::set_attribute(vga::MODE_CONTROL, before);
}

guest_test!(retrace_comes_and_goes);
fn retrace_comes_and_goes() {
    need_registers();
    for _ in 0..2 {
        let comes = time::wait_us(200_000, || vga::status() & vga::VERTICAL_RETRACE != 0);
        expect!(comes, "no vertical retrace in 200 ms");
        let goes = time::wait_us(200_000, || vga::status() & vga::VERTICAL_RETRACE == 0);
        expect!(goes, "200 ms of vertical retrace");
    }
}
