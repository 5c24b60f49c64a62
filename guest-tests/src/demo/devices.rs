//! The devices that a kernel begins with: exceptions and interrupts through an IDT, the timer, the clock and the
//! keyboard.

use crate::hw::port::{inb, outb};
use crate::hw::{pic, pit, rtc};
use crate::{interrupt, say, time};
use core::arch::asm;
use x86defs::event::Exception;

/// The i8042: data, and status or command.
const KEYBOARD_DATA: u16 = 0x60;
const KEYBOARD_COMMAND: u16 = 0x64;
const KEYBOARD_IRQ: u8 = 1;
const STATUS_OUTPUT_FULL: u8 = 1 << 0;
const STATUS_INPUT_FULL: u8 = 1 << 1;
const COMMAND_READ_CONFIGURATION: u8 = 0x20;
const COMMAND_WRITE_CONFIGURATION: u8 = 0x60;
/// The next byte comes back as if the keyboard had sent it.
const COMMAND_WRITE_OUTPUT: u8 = 0xd2;
const CONFIGURATION_INTERRUPT: u8 = 1 << 0;
/// Scan code of the key A, as the controller translates it.
const SCAN_CODE_A: u8 = 0x1e;

/// The timer's rate, and how many interrupts are waited for.
const TIMER_HZ: u64 = 100;
const TIMER_INTERRUPTS: u64 = 5;
/// Longest wait for an interrupt or a device, in microseconds.
const PATIENCE: u64 = 2_000_000;

/// Uses all of them.
pub(super) fn report() {
    interrupt::reset();
    pic::init();
    breakpoint();
    timer();
    clock();
    keyboard();
    interrupt::disable();
    pic::set_mask(u16::MAX);
}

#[allow(unsafe_code, reason = "INT3")]
fn breakpoint() {
    interrupt::handle(Exception::Breakpoint as u8, |_| {});
    // SAFETY: the handler returns to the next instruction.
    unsafe { asm!("int3") };
    say!("IDT: {} breakpoint", interrupt::count(Exception::Breakpoint as u8));
}

fn timer() {
    let vector = pic::vector(pit::IRQ);
    interrupt::handle(vector, pic::acknowledge);
    pit::program(0, pit::Mode::RateGenerator, (pit::FREQUENCY / TIMER_HZ) as u16);
    pic::unmask_only(pit::IRQ);
    interrupt::enable();
    let came = time::wait_us(PATIENCE, || interrupt::count(vector) >= TIMER_INTERRUPTS);
    interrupt::disable();
    say!("timer: {}", if came { "interrupts on IRQ 0" } else { "no interrupts" });
}

fn clock() {
    let value = |register| {
        let byte = rtc::read(register);
        if rtc::read(rtc::REGISTER_B) & rtc::B_BINARY != 0 { byte } else { (byte >> 4) * 10 + (byte & 0xf) }
    };
    let stable = time::wait_us(PATIENCE, || rtc::read(rtc::REGISTER_A) & rtc::UIP == 0);
    let valid = rtc::read(rtc::REGISTER_D) & rtc::VALID != 0;
    let date = (1..=31).contains(&value(rtc::DAY)) && (1..=12).contains(&value(rtc::MONTH));
    let time = value(rtc::HOURS) < 24 && value(rtc::MINUTES) < 60 && value(rtc::SECONDS) < 60;
    let sane = stable && valid && date && time && (24..=99).contains(&value(rtc::YEAR));
    say!("clock: {}", if sane { "date and time are sane" } else { "WRONG" });
}

/// A key that nobody presses: the controller itself can play the keyboard.
fn keyboard() {
    let vector = pic::vector(KEYBOARD_IRQ);
    interrupt::handle(vector, pic::acknowledge);
    while inb(KEYBOARD_COMMAND) & STATUS_OUTPUT_FULL != 0 {
        inb(KEYBOARD_DATA);
    }
    command(COMMAND_READ_CONFIGURATION);
    time::wait_us(PATIENCE, || inb(KEYBOARD_COMMAND) & STATUS_OUTPUT_FULL != 0);
    let configuration = inb(KEYBOARD_DATA);
    command(COMMAND_WRITE_CONFIGURATION);
    command_data(configuration | CONFIGURATION_INTERRUPT);
    pic::unmask_only(KEYBOARD_IRQ);
    interrupt::enable();
    command(COMMAND_WRITE_OUTPUT);
    command_data(SCAN_CODE_A);
    let came = time::wait_us(PATIENCE, || interrupt::count(vector) != 0);
    interrupt::disable();
    let code = inb(KEYBOARD_DATA);
    say!("keyboard: scan code {code:#x}{}", if came { " on IRQ 1" } else { ", no interrupt" });
}

fn command(command: u8) {
    ready();
    outb(KEYBOARD_COMMAND, command);
}

fn command_data(value: u8) {
    ready();
    outb(KEYBOARD_DATA, value);
}

fn ready() {
    time::wait_us(PATIENCE, || inb(KEYBOARD_COMMAND) & STATUS_INPUT_FULL == 0);
}
