//! Port I/O.

#![allow(unsafe_code, reason = "INS and OUTS")]

use core::arch::asm;
use runtime::hw::port::{inb, inl, inw, outb};
use runtime::hw::rtc;
use runtime::hw::uart::{COM1, Lcr, Mcr};
use runtime::memory;
use runtime::{expect, expect_eq, guest_test, serial};

/// Ports that nothing on any of the machines answers.
const UNCLAIMED: u16 = 0x5b0;
/// COM1's scratch register and divisor latch.
const SCRATCH: u16 = 0x3f8 + 7;
const DIVISOR: u16 = 0x3f8;
/// Debug console of Bochs and QEMU.
const DEBUG_CONSOLE: u16 = 0xe9;
/// POST code port: writes go nowhere.
const POST: u16 = 0x80;

guest_test!(unclaimed_ports_read_as_ones);
fn unclaimed_ports_read_as_ones() {
    expect_eq!(inb(UNCLAIMED), u8::MAX, "IN AL");
    expect_eq!(inw(UNCLAIMED), u16::MAX, "IN AX");
    expect_eq!(inl(UNCLAIMED), u32::MAX, "IN EAX");
    outb(UNCLAIMED, 0);
    runtime::hw::port::outw(UNCLAIMED, 0);
    runtime::hw::port::outl(UNCLAIMED, 0);
    expect_eq!(inl(UNCLAIMED), u32::MAX, "IN EAX after OUT");
}

guest_test!(narrow_reads_keep_the_rest);
fn narrow_reads_keep_the_rest() {
    const MARK: u64 = 0x0123_4567_89ab_cdef;
    let (byte, word, dword): (u64, u64, u64);
    // SAFETY: nothing answers the port.
    unsafe {
        asm!("in al, dx", in("dx") UNCLAIMED, inout("rax") MARK => byte);
        asm!("in ax, dx", in("dx") UNCLAIMED, inout("rax") MARK => word);
        asm!("in eax, dx", in("dx") UNCLAIMED, inout("rax") MARK => dword);
    }
    expect_eq!(byte, MARK | 0xff, "RAX after IN AL");
    expect_eq!(word, MARK | 0xffff, "RAX after IN AX");
    expect_eq!(dword, 0xffff_ffff, "RAX after IN EAX");
}

guest_test!(immediate_ports);
fn immediate_ports() {
    let by_dx = inb(0x61) & 0xf;
    let by_immediate: u8;
    // SAFETY: reading port 0x61 has no effect.
    unsafe { asm!("in al, 0x61", out("al") by_immediate) };
    expect_eq!(by_immediate & 0xf, by_dx, "port 0x61 by immediate");
    // SAFETY: a POST code.
    unsafe { asm!("out 0x80, al", "out 0x80, ax", "out 0x80, eax", in("eax") 0) };
}

guest_test!(wide_access_covers_byte_registers);
fn wide_access_covers_byte_registers() {
    // A 16-bit access to 8-bit registers is two of them: the divisor latch shows it.
    serial::drain();
    COM1.set_lcr(Lcr::EIGHT_BITS | Lcr::DLAB);
    let before = inw(DIVISOR);
    runtime::hw::port::outw(DIVISOR, 0x1234);
    let (low, high, both) = (inb(DIVISOR), inb(DIVISOR + 1), inw(DIVISOR));
    runtime::hw::port::outw(DIVISOR, before);
    COM1.set_lcr(Lcr::EIGHT_BITS);
    expect_eq!([low, high], [0x34, 0x12], "bytes after a 16-bit write of 0x1234");
    expect_eq!(both, 0x1234, "16-bit read");
}

guest_test!(insb_and_outsb);
fn insb_and_outsb() {
    let buffer = memory::frame();
    memory::write8(buffer, 0xa5);
    let (source, target): (u64, u64);
    // SAFETY: the buffer is a frame of the test's own.
    unsafe {
        asm!("outsb", in("dx") SCRATCH, inout("rsi") buffer => source);
        asm!("insb", in("dx") SCRATCH, inout("rdi") buffer + 1 => target);
    }
    expect_eq!([source, target], [buffer + 1, buffer + 2], "RSI and RDI afterwards");
    expect_eq!(COM1.scr(), 0xa5, "scratch register after OUTSB");
    expect_eq!(memory::read8(buffer + 1), 0xa5, "byte from INSB");
}

guest_test!(string_with_direction_flag);
fn string_with_direction_flag() {
    let buffer = memory::frame();
    COM1.set_scr(0x77);
    let (count, target): (u64, u64);
    // SAFETY: as above; the direction flag is cleared again.
    unsafe {
        asm!("std", "rep insb", "cld", in("dx") SCRATCH, inout("rcx") 3u64 => count, inout("rdi") buffer + 5 => target)
    };
    expect_eq!([count, target], [0, buffer + 2], "RCX and RDI afterwards");
    let bytes: [u8; 5] = core::array::from_fn(|i| memory::read8(buffer + 2 + i as u64));
    expect_eq!(bytes, [0, 0x77, 0x77, 0x77, 0], "bytes");
}

guest_test!(rep_ins_of_all_widths);
fn rep_ins_of_all_widths() {
    let buffer = memory::frame();
    // SAFETY: as above.
    unsafe {
        asm!("rep insb", in("dx") UNCLAIMED, inout("rcx") 3u64 => _, inout("rdi") buffer => _);
        asm!("rep insw", in("dx") UNCLAIMED, inout("rcx") 3u64 => _, inout("rdi") buffer + 0x100 => _);
        asm!("rep insd", in("dx") UNCLAIMED, inout("rcx") 3u64 => _, inout("rdi") buffer + 0x200 => _);
    }
    for (offset, bytes) in [(0, 3), (0x100, 6), (0x200, 12)] {
        let ones = (buffer + offset..).map(memory::read8).take_while(|&b| b == u8::MAX).count();
        expect_eq!(ones, bytes, "bytes of ones at {offset:#x}");
    }
}

guest_test!(rep_outs_of_all_widths);
fn rep_outs_of_all_widths() {
    let buffer = memory::frame();
    for (i, value) in (0..16).zip(1u8..) {
        memory::write8(buffer + i, value);
    }
    let mut end = [0u64; 3];
    // SAFETY: as above; the port is that of POST codes.
    unsafe {
        asm!("rep outsw", in("dx") POST, inout("rcx") 4u64 => _, inout("rsi") buffer => end[0]);
        asm!("rep outsd", in("dx") POST, inout("rcx") 4u64 => _, inout("rsi") buffer => end[1]);
        asm!("rep outsb", in("dx") SCRATCH, inout("rcx") 5u64 => _, inout("rsi") buffer => end[2]);
    }
    expect_eq!(end, [buffer + 8, buffer + 16, buffer + 5], "RSI afterwards");
    expect_eq!(COM1.scr(), 5, "scratch register: the last byte");
}

guest_test!(rep_with_count_0);
fn rep_with_count_0() {
    let buffer = memory::frame();
    COM1.set_scr(9);
    let (source, target): (u64, u64);
    // SAFETY: as above.
    unsafe {
        asm!("rep outsb", in("dx") SCRATCH, inout("rcx") 0u64 => _, inout("rsi") buffer => source);
        asm!("rep insb", in("dx") SCRATCH, inout("rcx") 0u64 => _, inout("rdi") buffer => target);
    }
    expect_eq!([source, target], [buffer; 2], "RSI and RDI");
    expect_eq!(COM1.scr(), 9, "scratch register");
}

guest_test!(string_with_32_bit_addresses);
fn string_with_32_bit_addresses() {
    let buffer = memory::frame();
    COM1.set_scr(0x3c);
    let (count, target): (u64, u64);
    // Address size 32: EDI and ECX, whose upper halves become zero.
    // SAFETY: as above.
    unsafe {
        asm!(".byte 0x67, 0xf3, 0x6c", in("dx") SCRATCH, inout("rcx") 1u64 << 32 | 2 => count,
            inout("rdi") 1u64 << 32 | buffer => target)
    };
    expect_eq!(target, buffer + 2, "RDI afterwards");
    expect_eq!(count, 0, "RCX afterwards");
    expect_eq!(memory::read16(buffer), 0x3c3c, "bytes");
}

guest_test!(string_across_pages);
fn string_across_pages() {
    // Two linear pages that are far apart in physical memory, in reverse order.
    use memory::{FREE, PAGE, PRESENT, Space, WRITABLE};
    let (second, _, first) = (memory::frame(), memory::frame(), memory::frame());
    let space = Space::new();
    space.map(FREE, first, PRESENT | WRITABLE);
    space.map(FREE + PAGE, second, PRESENT | WRITABLE);
    space.activate();
    // SAFETY: both pages are the test's own.
    unsafe {
        asm!("rep insw", in("dx") UNCLAIMED, inout("rcx") 3u64 => _, inout("rdi") FREE + PAGE - 3 => _)
    };
    expect_eq!(memory::read32(first + PAGE - 4), 0xffff_ff00, "end of the first page");
    expect_eq!(memory::read32(second), 0x00ff_ffff, "start of the second page");
}

guest_test!(ins_into_unmapped_page);
fn ins_into_unmapped_page() {
    use runtime::fault::catch;
    // SAFETY: the fault is caught.
    let result = catch(|| unsafe { asm!("insb", in("dx") UNCLAIMED, inout("rdi") memory::FREE => _) });
    let fault = runtime::harness::expect_fault("INSB", result, x86defs::event::Exception::PageFault, 2);
    expect_eq!(fault.cr2, memory::FREE, "CR2");
}

guest_test!(debug_console);
fn debug_console() {
    expect_eq!(inb(DEBUG_CONSOLE), DEBUG_CONSOLE as u8, "IN from the debug console");
    outb(DEBUG_CONSOLE, b'\n');
    expect_eq!(inb(DEBUG_CONSOLE), DEBUG_CONSOLE as u8, "IN after OUT");
}

guest_test!(cmos_index_and_data);
fn cmos_index_and_data() {
    let status = rtc::read(rtc::REGISTER_D);
    expect!(status & rtc::VALID != 0, "register D is {status:#x}");
    // Modem control of COM1 keeps five bits.
    COM1.set_mcr(Mcr::from_bits_retain(0xe3));
    expect_eq!(COM1.mcr(), 3, "MCR after writing 0xe3");
}
