extern crate std;

use super::*;
use crate::testing::{assert_nothing_beyond, hammer};
use std::vec::Vec;

const NOW: Nanos = Nanos(0);

fn command(controller: &mut I8042, value: u8) -> Effects {
    controller.write(COMMAND, 1, value.into(), NOW)
}

fn data(controller: &mut I8042, value: u8) -> Effects {
    controller.write(DATA, 1, value.into(), NOW)
}

fn read(controller: &mut I8042) -> u8 {
    controller.read(DATA, 1, NOW).0 as u8
}

fn status(controller: &mut I8042) -> u8 {
    controller.read(COMMAND, 1, NOW).0 as u8
}

/// Everything the guest gets when it reads as soon as there is something.
fn drain(controller: &mut I8042) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut now = NOW;
    loop {
        match controller.tick(now).deadline {
            Deadline::At(next) => now = next,
            _ if controller.output_full => bytes.push(controller.read(DATA, 1, now).0 as u8),
            _ => return bytes,
        }
    }
}

#[test]
fn tests_itself() {
    let mut controller = I8042::new();
    assert_eq!(status(&mut controller), 0x14, "not locked, firmware has tested it");
    command(&mut controller, 0xaa);
    assert_eq!(status(&mut controller), 0x1d);
    assert_eq!(read(&mut controller), 0x55);
    assert_eq!(status(&mut controller) & 1, 0);
    command(&mut controller, 0xab);
    assert_eq!(read(&mut controller), 0);
}

#[test]
fn the_command_byte_is_memory() {
    let mut controller = I8042::new();
    command(&mut controller, 0x20);
    assert_eq!(read(&mut controller), 0x45);
    command(&mut controller, 0x60);
    data(&mut controller, 0x74);
    command(&mut controller, 0x20);
    assert_eq!(read(&mut controller), 0x74);
    command(&mut controller, 0xae);
    command(&mut controller, 0x20);
    assert_eq!(read(&mut controller), 0x64, "the keyboard is enabled again");
}

/// Linux's probe: the loop answers, but not as an auxiliary byte, and the test fails.
#[test]
fn there_is_no_auxiliary_port() {
    let mut controller = I8042::new();
    command(&mut controller, 0xd3);
    data(&mut controller, 0x5a);
    assert_eq!(status(&mut controller) & 0x21, 0x01);
    command(&mut controller, 0xa9);
    assert_ne!(read(&mut controller), 0);
    command(&mut controller, 0xd4);
    data(&mut controller, 0xff);
    assert_eq!(drain(&mut controller), []);
}

#[test]
fn the_keyboard_answers() {
    let mut controller = I8042::new();
    command(&mut controller, 0x60);
    data(&mut controller, 0x05);
    for (bytes, answers) in [
        (&[0xff][..], &[0xfa, 0xaa][..]),
        (&[0xf2], &[0xfa, 0xab, 0x83]),
        (&[0xed, 0x02], &[0xfa, 0xfa]),
        (&[0xf0, 0x02], &[0xfa, 0xfa]),
        (&[0xf0, 0x00], &[0xfa, 0xfa, 0x02]),
        (&[0xf0, 0x01], &[0xfa, 0xfe]),
        (&[0xed, 0xf2], &[0xfa, 0xfa, 0xab, 0x83]),
        (&[0xee], &[0xee]),
        (&[0xfe], &[0xee]),
        (&[0x00], &[0xfe]),
    ] {
        let mut received = Vec::new();
        for &byte in bytes {
            data(&mut controller, byte);
            received.extend(drain(&mut controller));
        }
        assert_eq!(received, answers, "{bytes:x?}");
    }
}

#[test]
fn each_byte_is_an_edge() {
    let mut controller = I8042::new();
    assert_eq!(data(&mut controller, 0xff).line, Some(true));
    let (byte, effects) = controller.read(DATA, 1, NOW);
    assert_eq!((byte, effects.line, effects.deadline), (0xfa, Some(false), Deadline::At(Nanos(BYTE_TIME))));
    assert_eq!(controller.tick(Nanos(BYTE_TIME - 1)).line, None);
    assert_eq!(controller.tick(Nanos(BYTE_TIME)).line, Some(true));
    assert_eq!(read(&mut controller), 0xaa);
}

#[test]
fn keys_are_translated() {
    let mut controller = I8042::new();
    controller.key(&[0x1c], NOW);
    assert_eq!(drain(&mut controller), [0x1e], "A");
    controller.key(&[0xe0, 0xf0, 0x75], NOW);
    assert_eq!(drain(&mut controller), [0xe0, 0xc8], "cursor up, released");
    controller.key(&[0x83], NOW);
    assert_eq!(drain(&mut controller), [0x41], "F7");
    data(&mut controller, 0xf5);
    drain(&mut controller);
    controller.key(&[0x1c], NOW);
    assert_eq!(drain(&mut controller), [], "scanning is off");
}

#[test]
fn a_disabled_keyboard_waits() {
    let mut controller = I8042::new();
    command(&mut controller, 0xad);
    assert_eq!(controller.key(&[0x1c], NOW), Effects { deadline: Deadline::Never, ..Effects::NONE });
    assert_eq!(command(&mut controller, 0xae).line, Some(true));
}

#[test]
fn resets_and_a20() {
    const RESET: Option<PowerEvent> = Some(PowerEvent::Reset("keyboard controller"));
    let mut controller = I8042::new();
    assert_eq!(command(&mut controller, 0xfe).power, RESET);
    assert_eq!(command(&mut controller, 0xff).power, None);
    command(&mut controller, 0xdd);
    command(&mut controller, 0xd0);
    assert_eq!(read(&mut controller), 0x01);
    command(&mut controller, 0xd1);
    assert_eq!(data(&mut controller, 0x03).power, None);
    command(&mut controller, 0xd1);
    assert_eq!(data(&mut controller, 0x02).power, RESET);
}

#[test]
fn survives_anything() {
    let mut controller = I8042::new();
    assert_nothing_beyond(&mut controller, PORTS);
    hammer(&mut controller, PORTS, |controller, random, now| {
        controller.key(&random.next().to_le_bytes()[..random.below(9) as usize], now);
        let effects = controller.tick(now);
        assert!(!matches!(effects.deadline, Deadline::At(time) if time <= now), "the tick has done its work");
    });
}
