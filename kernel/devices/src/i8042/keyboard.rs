//! An AT keyboard with scan code sets 1 and 2.

use super::layout::{Key, Modifiers};
use super::spec::{
    ACKNOWLEDGE, BREAK_BIT, BREAK_PREFIX, EXTENDED_PREFIX, IDENTITY, RESEND, SCAN_CODE_SET_1,
    SCAN_CODE_SET_2, SELF_TEST_COMPLETE, keyboard_command as command,
};
use super::translation::to_set_1;
use crate::fifo::{FIFO_SIZE, Fifo};

/// The longest sequence: a key with prefix, and three others held, pressed and released in set 2.
const LONGEST: usize = 3 * (1 + 2) + 2 + 3;
const _: () = assert!(LONGEST <= FIFO_SIZE);

/// The keyboard's end of the cable.
#[derive(Clone, Debug)]
pub(super) struct Keyboard {
    /// Answers to commands go before keys, but not into the middle of a scan code.
    answers: Fifo,
    keys: Fifo,
    in_scan_code: bool,
    scan_code_set: u8,
    /// The command whose parameter comes next.
    parameter_of: Option<u8>,
    scanning: bool,
    last_sent: u8,
}

impl Keyboard {
    pub(super) fn new() -> Keyboard {
        Keyboard {
            answers: Fifo::default(),
            keys: Fifo::default(),
            in_scan_code: false,
            scan_code_set: SCAN_CODE_SET_2,
            parameter_of: None,
            scanning: true,
            last_sent: ACKNOWLEDGE,
        }
    }

    pub(super) fn has_output(&self) -> bool {
        self.answers.len() + self.keys.len() > 0
    }

    /// Whether somebody may press a key. Whoever types faster than the guest reads waits, so that the keyboard's
    /// buffer never runs over.
    pub(super) fn can_press(&self) -> bool {
        self.scanning && self.keys.len() == 0
    }

    /// The next byte on its way to the controller.
    pub(super) fn send(&mut self) -> Option<u8> {
        let answer = if self.in_scan_code { None } else { self.answers.pop() };
        let byte = match answer {
            Some(byte) => byte,
            None => {
                let byte = self.keys.pop()?;
                self.in_scan_code = matches!(byte, EXTENDED_PREFIX | BREAK_PREFIX);
                byte
            }
        };
        self.last_sent = byte;
        Some(byte)
    }

    /// A key is pressed and released while others are held; it is lost unless [`Keyboard::can_press`].
    pub(super) fn press(&mut self, key: Key) {
        if !self.can_press() {
            return;
        }
        let held = Modifiers::KEYS.into_iter().filter(|(modifier, _)| key.modifiers.contains(*modifier));
        for (_, code) in held.clone() {
            self.scan_code(code, false, false);
        }
        self.scan_code(key.code, key.extended, false);
        self.scan_code(key.code, key.extended, true);
        for (_, code) in held.rev() {
            self.scan_code(code, false, true);
        }
    }

    fn scan_code(&mut self, code: u8, extended: bool, released: bool) {
        if extended {
            self.keys.push(EXTENDED_PREFIX);
        }
        if self.scan_code_set == SCAN_CODE_SET_1 {
            return self.keys.push(to_set_1(code) | if released { BREAK_BIT } else { 0 });
        }
        if released {
            self.keys.push(BREAK_PREFIX);
        }
        self.keys.push(code);
    }

    /// A byte from the controller. An answer that has not been sent is dropped for the new one.
    pub(super) fn receive(&mut self, byte: u8) {
        self.answers.clear();
        let parameter_of = self.parameter_of.take();
        // A byte from here on is a command even where a parameter was expected.
        if byte < command::SET_LEDS
            && let Some(command) = parameter_of
        {
            return self.parameter(command, byte);
        }
        match byte {
            command::SET_LEDS | command::SCAN_CODE_SET | command::SET_TYPEMATIC => {
                self.parameter_of = Some(byte);
                self.answer(&[ACKNOWLEDGE]);
            }
            command::ECHO => self.answer(&[command::ECHO]),
            command::IDENTIFY => self.answer(&[ACKNOWLEDGE, IDENTITY[0], IDENTITY[1]]),
            command::ENABLE => self.start_anew(true, self.scan_code_set, &[ACKNOWLEDGE]),
            command::DEFAULTS_AND_DISABLE => self.start_anew(false, SCAN_CODE_SET_2, &[ACKNOWLEDGE]),
            command::DEFAULTS => self.start_anew(self.scanning, SCAN_CODE_SET_2, &[ACKNOWLEDGE]),
            command::RESEND => self.answer(&[self.last_sent]),
            command::RESET => self.start_anew(true, SCAN_CODE_SET_2, &[ACKNOWLEDGE, SELF_TEST_COMPLETE]),
            _ => self.answer(&[RESEND]),
        }
    }

    fn parameter(&mut self, command: u8, value: u8) {
        match (command, value) {
            (command::SCAN_CODE_SET, 0) => self.answer(&[ACKNOWLEDGE, self.scan_code_set]),
            (command::SCAN_CODE_SET, SCAN_CODE_SET_1 | SCAN_CODE_SET_2) => {
                self.start_anew(self.scanning, value, &[ACKNOWLEDGE]);
            }
            (command::SCAN_CODE_SET, _) => self.answer(&[RESEND]),
            // Lights and repetition are the terminal's.
            _ => self.answer(&[ACKNOWLEDGE]),
        }
    }

    /// Forgets the keys that have not been sent.
    fn start_anew(&mut self, scanning: bool, scan_code_set: u8, answer: &[u8]) {
        self.keys.clear();
        self.in_scan_code = false;
        (self.scanning, self.scan_code_set) = (scanning, scan_code_set);
        self.answer(answer);
    }

    fn answer(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.answers.push(byte);
        }
    }
}
