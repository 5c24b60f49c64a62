//! Every I/O port, with every width, in both directions.

use crate::random::Random;
use runtime::guest_test;
use runtime::hw::port::{inb, inl, inw, outb, outl, outw};

/// Bytes whose write ends the virtual machine, which `resets` does: port, and the bits that say so.
const PORT_92: u16 = 0x92;
const FAST_RESET: u8 = 1 << 0;
const I8042_COMMAND: u16 = 0x64;
/// Pulses the output lines that are clear in its low bits: bit 0 is the CPU's reset line.
const PULSE_OUTPUT: u8 = 0xf0;
/// The byte that follows sets the lines, among them the reset line.
const WRITE_OUTPUT_PORT: u8 = 0xd1;
const RESET_CONTROL: u16 = 0xcf9;
const RESET_CPU: u8 = 1 << 2;
/// High byte of the PM1 control register, and SLP_EN in it.
const PM1_CONTROL_HIGH: u16 = 0x605;
const SLP_EN: u8 = 1 << 5;

fn ends(port: u16, byte: u8) -> bool {
    match port {
        PORT_92 => byte & FAST_RESET != 0,
        I8042_COMMAND => byte >= PULSE_OUTPUT && byte & 1 == 0 || byte == WRITE_OUTPUT_PORT,
        RESET_CONTROL => byte & RESET_CPU != 0,
        PM1_CONTROL_HIGH => byte & SLP_EN != 0,
        _ => false,
    }
}

fn survivable(port: u16, width: usize, value: u32) -> bool {
    let bytes = value.to_le_bytes();
    !bytes[..width].iter().zip(0..).any(|(byte, n)| ends(port.wrapping_add(n), *byte))
}

fn write(port: u16, width: usize, value: u32) {
    match width {
        1 => outb(port, value as u8),
        2 => outw(port, value as u16),
        _ => outl(port, value),
    }
}

guest_test!(reads);
fn reads() {
    for port in 0..=u16::MAX {
        let _ = (inb(port), inw(port), inl(port));
    }
}

guest_test!(writes);
fn writes() {
    let mut random = Random::new(1);
    for port in 0..=u16::MAX {
        for width in [1, 2, 4] {
            for value in [random.odd() as u32, random.next() as u32] {
                if survivable(port, width, value) {
                    write(port, width, value);
                }
            }
        }
    }
}

guest_test!(devices_at_random);
/// The devices, with many values each and their reads in between.
fn devices_at_random() {
    const DEVICES: u64 = 0x1000;
    let mut random = Random::new(2);
    for _ in 0..50_000 {
        let port = random.below(DEVICES) as u16;
        // Most devices lie low.
        let port = if random.below(2) == 0 { port & 0xff } else { port };
        let (width, value) = ([1, 2, 4][random.below(3) as usize], random.odd() as u32);
        if survivable(port, width, value) {
            write(port, width, value);
        }
        let _ = inb(random.below(DEVICES) as u16);
    }
}
