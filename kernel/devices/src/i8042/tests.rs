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
        (&[0xf0, 0x03], &[0xfa, 0xfe]),
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

/// What the guest gets for what is typed.
fn typed(controller: &mut I8042, text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for byte in text {
        assert!(controller.can_type());
        controller.type_byte(*byte, NOW);
        if controller.keyboard.has_output() || controller.output_full {
            bytes.extend(drain(controller));
        }
    }
    bytes.extend(drain(controller));
    bytes
}

#[test]
fn keys_are_translated() {
    for (text, codes) in [
        (&b"a"[..], &[0x1e, 0x9e][..]),
        (b"A", &[0x2a, 0x1e, 0x9e, 0xaa]),
        (b"1!", &[0x02, 0x82, 0x2a, 0x02, 0x82, 0xaa]),
        (b"\r\n", &[0x1c, 0x9c]),
        (b"\n", &[0x1c, 0x9c]),
        (b"\t\x7f", &[0x0f, 0x8f, 0x0e, 0x8e]),
        (b"\x03", &[0x1d, 0x2e, 0xae, 0x9d]),
        (b"\x1b[A", &[0xe0, 0x48, 0xe0, 0xc8]),
        (b"\x1bOD", &[0xe0, 0x4b, 0xe0, 0xcb]),
        (b"\x1b[3~", &[0xe0, 0x53, 0xe0, 0xd3]),
        (b"\x1b[18~", &[0x41, 0xc1]),
        (b"\x1bOP\x1b[24~", &[0x3b, 0xbb, 0x58, 0xd8]),
        (b"\x1b[1;5C", &[0x1d, 0xe0, 0x4d, 0xe0, 0xcd, 0x9d]),
        (b"\x1bx", &[0x38, 0x2d, 0xad, 0xb8]),
        (b"\x1b", &[0x01, 0x81]),
        (b"\x1b[", &[0x38, 0x1a, 0x9a, 0xb8]),
        (b"\x1b[200~", &[]),
        (b"\xff\x00", &[]),
    ] {
        assert_eq!(typed(&mut I8042::new(), text), codes, "{text:x?}");
    }
}

#[test]
fn every_character_has_a_key() {
    for byte in b' '..=b'~' {
        assert!(!typed(&mut I8042::new(), &[byte]).is_empty(), "{:?}", char::from(byte));
    }
}

#[test]
fn scan_code_sets_can_be_chosen() {
    let mut controller = I8042::new();
    command(&mut controller, 0x60);
    data(&mut controller, 0x01);
    assert_eq!(typed(&mut controller, b"a\x1b[A"), [0x1c, 0xf0, 0x1c, 0xe0, 0x75, 0xe0, 0xf0, 0x75]);
    for byte in [0xf0, 0x01, 0xf0, 0x00] {
        data(&mut controller, byte);
        drain(&mut controller);
    }
    assert_eq!(typed(&mut controller, b"a\x1b[A"), [0x1e, 0x9e, 0xe0, 0x48, 0xe0, 0xc8]);
    data(&mut controller, 0xf6);
    assert_eq!(drain(&mut controller), [0xfa]);
    assert_eq!(typed(&mut controller, b"a"), [0x1c, 0xf0, 0x1c]);
}

#[test]
fn who_types_waits_for_the_guest() {
    let mut controller = I8042::new();
    controller.type_byte(b'a', NOW);
    assert!(!controller.can_type());
    assert_eq!(drain(&mut controller), [0x1e, 0x9e]);
    data(&mut controller, 0xf5);
    assert_eq!(drain(&mut controller), [0xfa]);
    assert!(!controller.can_type(), "scanning is off");
    data(&mut controller, 0xf4);
    assert_eq!(drain(&mut controller), [0xfa]);
    assert_eq!(typed(&mut controller, b"b"), [0x30, 0xb0]);
}

#[test]
fn answers_go_before_keys_but_not_into_them() {
    let mut controller = I8042::new();
    for byte in b"\x1b[A" {
        controller.type_byte(*byte, NOW);
    }
    assert_eq!(read(&mut controller), 0xe0);
    data(&mut controller, 0xed);
    data(&mut controller, 0x07);
    assert_eq!(drain(&mut controller), [0x48, 0xfa, 0xe0, 0xc8]);
}

#[test]
fn a_disabled_keyboard_waits() {
    let mut controller = I8042::new();
    command(&mut controller, 0xad);
    assert_eq!(controller.type_byte(b'a', NOW), Effects { deadline: Deadline::Never, ..Effects::NONE });
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
        controller.type_byte(random.next() as u8, now);
        let effects = controller.tick(now);
        assert!(!matches!(effects.deadline, Deadline::At(time) if time <= now), "the tick has done its work");
    });
}
