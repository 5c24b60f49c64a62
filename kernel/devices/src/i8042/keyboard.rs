//! An AT keyboard with scan code set 2.

use super::spec::{
    ACKNOWLEDGE, IDENTITY, RESEND, SCAN_CODE_SET_2, SELF_TEST_COMPLETE, keyboard_command as command,
};
use crate::fifo::{FIFO_SIZE, Fifo};

/// The keyboard's end of the cable.
#[derive(Clone, Debug)]
pub(super) struct Keyboard {
    output: Fifo,
    /// The command whose parameter comes next.
    parameter_of: Option<u8>,
    scanning: bool,
    last_sent: u8,
}

impl Keyboard {
    pub(super) fn new() -> Keyboard {
        Keyboard { output: Fifo::default(), parameter_of: None, scanning: true, last_sent: ACKNOWLEDGE }
    }

    pub(super) fn has_output(&self) -> bool {
        self.output.len() > 0
    }

    /// The next byte on its way to the controller.
    pub(super) fn send(&mut self) -> Option<u8> {
        let byte = self.output.pop()?;
        self.last_sent = byte;
        Some(byte)
    }

    /// The scan code of a key in set 2 with its prefixes; a sequence for which there is no room is lost.
    pub(super) fn key(&mut self, scan_code: &[u8]) {
        if !self.scanning || self.output.len() + scan_code.len() > FIFO_SIZE {
            return;
        }
        for &byte in scan_code {
            self.output.push(byte);
        }
    }

    /// A byte from the controller. What the keyboard was about to send is dropped for the answer.
    pub(super) fn receive(&mut self, byte: u8) {
        self.output.clear();
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
            command::ENABLE => self.set_scanning(true),
            command::DEFAULTS_AND_DISABLE => self.set_scanning(false),
            command::DEFAULTS => self.answer(&[ACKNOWLEDGE]),
            command::RESEND => self.answer(&[self.last_sent]),
            command::RESET => {
                self.scanning = true;
                self.answer(&[ACKNOWLEDGE, SELF_TEST_COMPLETE]);
            }
            _ => self.answer(&[RESEND]),
        }
    }

    fn parameter(&mut self, command: u8, value: u8) {
        match (command, value) {
            (command::SCAN_CODE_SET, 0) => self.answer(&[ACKNOWLEDGE, SCAN_CODE_SET_2]),
            (command::SCAN_CODE_SET, other) if other != SCAN_CODE_SET_2 => self.answer(&[RESEND]),
            // Lights and repetition are the terminal's.
            _ => self.answer(&[ACKNOWLEDGE]),
        }
    }

    fn set_scanning(&mut self, scanning: bool) {
        self.scanning = scanning;
        self.answer(&[ACKNOWLEDGE]);
    }

    fn answer(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.output.push(byte);
        }
    }
}
