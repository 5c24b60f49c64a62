//! Registers and commands of the PC/AT keyboard controller and of the AT keyboard (IBM PC/AT technical
//! reference, sections "Keyboard controller" and "Keyboard").

use bitflags::bitflags;

bitflags! {
    /// Status register, read at 0x64.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) struct Status: u8 {
        /// The output buffer has a byte for the guest.
        const OUTPUT_FULL = 1 << 0;
        /// The self test has passed.
        const SYSTEM = 1 << 2;
        /// The last write went to the command port.
        const COMMAND = 1 << 3;
        /// The keyboard is not locked.
        const NOT_INHIBITED = 1 << 4;
    }

    /// The command byte: byte 0 of the controller's memory.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) struct CommandByte: u8 {
        /// Interrupt when the output buffer is full.
        const KEYBOARD_INTERRUPT = 1 << 0;
        /// Copied to the status register.
        const SYSTEM = 1 << 2;
        const DISABLE_KEYBOARD = 1 << 4;
        const DISABLE_AUXILIARY = 1 << 5;
        /// Translate scan codes of set 2 to set 1.
        const TRANSLATE = 1 << 6;
    }

    /// The output port.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) struct OutputPort: u8 {
        /// Low resets the machine.
        const NOT_RESET = 1 << 0;
        const A20 = 1 << 1;
        const OUTPUT_FULL = 1 << 4;
    }
}

/// The input port: the keyboard is not locked, and the switches are as on a machine with a colour display.
pub(super) const INPUT_PORT: u8 = 0x80;
/// Size of the controller's memory.
pub(super) const MEMORY: usize = 32;
pub(super) const MEMORY_MASK: u8 = MEMORY as u8 - 1;

/// Commands at 0x64.
pub(super) mod command {
    pub(in crate::i8042) const READ_MEMORY: u8 = 0x20;
    pub(in crate::i8042) const READ_MEMORY_LAST: u8 = 0x3f;
    pub(in crate::i8042) const WRITE_MEMORY: u8 = 0x60;
    pub(in crate::i8042) const WRITE_MEMORY_LAST: u8 = 0x7f;
    pub(in crate::i8042) const DISABLE_AUXILIARY: u8 = 0xa7;
    pub(in crate::i8042) const ENABLE_AUXILIARY: u8 = 0xa8;
    pub(in crate::i8042) const TEST_AUXILIARY: u8 = 0xa9;
    pub(in crate::i8042) const SELF_TEST: u8 = 0xaa;
    pub(in crate::i8042) const TEST_KEYBOARD: u8 = 0xab;
    pub(in crate::i8042) const DISABLE_KEYBOARD: u8 = 0xad;
    pub(in crate::i8042) const ENABLE_KEYBOARD: u8 = 0xae;
    pub(in crate::i8042) const READ_INPUT_PORT: u8 = 0xc0;
    pub(in crate::i8042) const READ_OUTPUT_PORT: u8 = 0xd0;
    pub(in crate::i8042) const WRITE_OUTPUT_PORT: u8 = 0xd1;
    pub(in crate::i8042) const WRITE_KEYBOARD_BUFFER: u8 = 0xd2;
    pub(in crate::i8042) const WRITE_AUXILIARY_BUFFER: u8 = 0xd3;
    pub(in crate::i8042) const WRITE_AUXILIARY: u8 = 0xd4;
    pub(in crate::i8042) const DISABLE_A20: u8 = 0xdd;
    pub(in crate::i8042) const ENABLE_A20: u8 = 0xdf;
    /// From here on: pulse the low bits of the output port that are zero in the command.
    pub(in crate::i8042) const PULSE_OUTPUT_PORT: u8 = 0xf0;
}

pub(super) const SELF_TEST_PASSED: u8 = 0x55;
pub(super) const KEYBOARD_TEST_PASSED: u8 = 0x00;
/// The auxiliary port's clock line is stuck high: there is no port.
pub(super) const AUXILIARY_TEST_CLOCK_HIGH: u8 = 0x02;

/// Commands to the keyboard.
pub(super) mod keyboard_command {
    pub(in crate::i8042) const SET_LEDS: u8 = 0xed;
    pub(in crate::i8042) const ECHO: u8 = 0xee;
    pub(in crate::i8042) const SCAN_CODE_SET: u8 = 0xf0;
    pub(in crate::i8042) const IDENTIFY: u8 = 0xf2;
    pub(in crate::i8042) const SET_TYPEMATIC: u8 = 0xf3;
    pub(in crate::i8042) const ENABLE: u8 = 0xf4;
    pub(in crate::i8042) const DEFAULTS_AND_DISABLE: u8 = 0xf5;
    pub(in crate::i8042) const DEFAULTS: u8 = 0xf6;
    pub(in crate::i8042) const RESEND: u8 = 0xfe;
    pub(in crate::i8042) const RESET: u8 = 0xff;
}

/// Answers of the keyboard.
pub(super) const ACKNOWLEDGE: u8 = 0xfa;
pub(super) const RESEND: u8 = 0xfe;
pub(super) const SELF_TEST_COMPLETE: u8 = 0xaa;
/// The two bytes of the keyboard's identity: MF2.
pub(super) const IDENTITY: [u8; 2] = [0xab, 0x83];
/// Scan code prefix of a released key in sets 2 and 3.
pub(super) const BREAK_PREFIX: u8 = 0xf0;
/// The bit of a released key in set 1.
pub(super) const BREAK_BIT: u8 = 0x80;
/// Scan code prefix of the keys that the first PC did not have.
pub(super) const EXTENDED_PREFIX: u8 = 0xe0;
/// Scan code sets of this keyboard.
pub(super) const SCAN_CODE_SET_1: u8 = 1;
pub(super) const SCAN_CODE_SET_2: u8 = 2;
