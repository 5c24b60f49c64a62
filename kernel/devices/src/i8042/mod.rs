//! Keyboard controller with an AT keyboard, at which a terminal types. Port 0x60 is mapped at [`DATA`], port 0x64 at [`COMMAND`].
//!
//! There is no auxiliary (mouse) port: its test fails, and bytes for it go nowhere. Address line 20 is always
//! open; its bit is only remembered. `Effects::line` is IRQ 1.

mod keyboard;
mod layout;
mod spec;
#[cfg(test)]
mod tests;
mod translation;
mod typist;

use crate::FLOATING;
use crate::effects::{Deadline, Device, Effects, Nanos, PowerEvent};
use keyboard::Keyboard;
use spec::{
    AUXILIARY_TEST_CLOCK_HIGH, CommandByte, INPUT_PORT, KEYBOARD_TEST_PASSED, MEMORY, MEMORY_MASK,
    OutputPort, SELF_TEST_PASSED, Status, command,
};
use translation::Translator;
use typist::Typist;

/// Offset of the data port.
pub const DATA: u16 = 0;
/// Offset of the command and status port.
pub const COMMAND: u16 = 1;
/// Number of ports.
pub const PORTS: u16 = 2;
/// Registers are bytes.
pub const MAX_WIDTH: u8 = 1;

/// Eleven bits at 16.7 kHz: bytes of the keyboard do not come closer together, so that each is an edge of
/// the interrupt line.
const BYTE_TIME: u64 = 660_000;

/// The controller and its keyboard.
#[derive(Clone, Debug)]
pub struct I8042 {
    /// Byte 0 is the command byte.
    memory: [u8; MEMORY],
    output_port: OutputPort,
    /// The output buffer; it keeps its byte after it was read.
    output: u8,
    output_full: bool,
    /// The last write went to the command port.
    last_was_command: bool,
    /// The command whose parameter the data port expects.
    parameter_of: Option<u8>,
    keyboard: Keyboard,
    translator: Translator,
    typist: Typist,
    /// The earliest time of the keyboard's next byte.
    ready_at: Nanos,
    /// Level of IRQ 1 as last reported.
    irq: bool,
}

impl I8042 {
    /// As firmware leaves it: tested, the keyboard enabled and translated, with interrupts.
    pub fn new() -> I8042 {
        let mut memory = [0; MEMORY];
        memory[0] = (CommandByte::KEYBOARD_INTERRUPT | CommandByte::SYSTEM | CommandByte::TRANSLATE).bits();
        I8042 {
            memory,
            output_port: OutputPort::NOT_RESET | OutputPort::A20,
            output: 0,
            output_full: false,
            last_was_command: false,
            parameter_of: None,
            keyboard: Keyboard::new(),
            translator: Translator::default(),
            typist: Typist::default(),
            ready_at: Nanos(0),
            irq: false,
        }
    }

    /// Whether [`I8042::type_byte`] has room.
    pub fn can_type(&self) -> bool {
        self.keyboard.can_press()
    }

    /// A byte from a terminal: the keys that type it are pressed and released. Without room they are lost.
    pub fn type_byte(&mut self, byte: u8, now: Nanos) -> Effects {
        if let Some(key) = self.typist.take(byte, now) {
            self.keyboard.press(key);
        }
        self.effects(now)
    }

    fn command_byte(&self) -> CommandByte {
        CommandByte::from_bits_retain(self.memory[0])
    }

    fn change_command_byte(&mut self, bits: CommandByte, set: bool) {
        let mut command_byte = self.command_byte();
        command_byte.set(bits, set);
        self.memory[0] = command_byte.bits();
    }

    fn keyboard_enabled(&self) -> bool {
        !self.command_byte().contains(CommandByte::DISABLE_KEYBOARD)
    }

    /// Takes bytes of the keyboard until the output buffer is full.
    fn pump(&mut self, now: Nanos) {
        while !self.output_full && self.keyboard_enabled() && now >= self.ready_at {
            let Some(byte) = self.keyboard.send() else { return };
            if !self.command_byte().contains(CommandByte::TRANSLATE) {
                self.reply(byte);
            } else if let Some(byte) = self.translator.translate(byte) {
                self.reply(byte);
            }
        }
    }

    fn reply(&mut self, byte: u8) {
        self.output = byte;
        self.output_full = true;
    }

    /// Reports the level of IRQ 1 and when the keyboard's next byte is due.
    fn effects(&mut self, now: Nanos) -> Effects {
        if self.typist.deadline().is_some_and(|deadline| now >= deadline)
            && let Some(key) = self.typist.give_up()
        {
            self.keyboard.press(key);
        }
        self.pump(now);
        let irq = self.output_full && self.command_byte().contains(CommandByte::KEYBOARD_INTERRUPT);
        let changed = core::mem::replace(&mut self.irq, irq) != irq;
        let waits = !self.output_full && self.keyboard_enabled() && self.keyboard.has_output();
        let ready = waits.then_some(self.ready_at);
        let deadline = ready.into_iter().chain(self.typist.deadline()).min();
        let deadline = deadline.map_or(Deadline::Never, Deadline::At);
        Effects { line: changed.then_some(irq), deadline, ..Effects::NONE }
    }

    fn status(&self) -> Status {
        let mut status = Status::NOT_INHIBITED;
        status.set(Status::OUTPUT_FULL, self.output_full);
        status.set(Status::SYSTEM, self.command_byte().contains(CommandByte::SYSTEM));
        status.set(Status::COMMAND, self.last_was_command);
        status
    }

    fn read_data(&mut self, now: Nanos) -> u8 {
        if self.output_full {
            self.output_full = false;
            self.ready_at = Nanos(now.0.saturating_add(BYTE_TIME));
        }
        self.output
    }

    /// A write to the command port. Returns true for a reset.
    fn write_command(&mut self, value: u8) -> bool {
        self.parameter_of = None;
        match value {
            command::READ_MEMORY..=command::READ_MEMORY_LAST => {
                self.reply(self.memory[usize::from(value & MEMORY_MASK)]);
            }
            command::WRITE_MEMORY..=command::WRITE_MEMORY_LAST
            | command::WRITE_OUTPUT_PORT
            | command::WRITE_KEYBOARD_BUFFER
            | command::WRITE_AUXILIARY_BUFFER
            | command::WRITE_AUXILIARY => self.parameter_of = Some(value),
            command::DISABLE_AUXILIARY => self.change_command_byte(CommandByte::DISABLE_AUXILIARY, true),
            command::ENABLE_AUXILIARY => self.change_command_byte(CommandByte::DISABLE_AUXILIARY, false),
            command::TEST_AUXILIARY => self.reply(AUXILIARY_TEST_CLOCK_HIGH),
            command::SELF_TEST => {
                self.change_command_byte(CommandByte::SYSTEM, true);
                self.reply(SELF_TEST_PASSED);
            }
            command::TEST_KEYBOARD => self.reply(KEYBOARD_TEST_PASSED),
            command::DISABLE_KEYBOARD => self.change_command_byte(CommandByte::DISABLE_KEYBOARD, true),
            command::ENABLE_KEYBOARD => self.change_command_byte(CommandByte::DISABLE_KEYBOARD, false),
            command::READ_INPUT_PORT => self.reply(INPUT_PORT),
            command::READ_OUTPUT_PORT => {
                let mut port = self.output_port;
                port.set(OutputPort::OUTPUT_FULL, self.output_full);
                self.reply(port.bits());
            }
            command::DISABLE_A20 => self.output_port.remove(OutputPort::A20),
            command::ENABLE_A20 => self.output_port.insert(OutputPort::A20),
            command::PULSE_OUTPUT_PORT.. => return value & OutputPort::NOT_RESET.bits() == 0,
            _ => {}
        }
        false
    }

    /// A write to the data port: a parameter, or a byte for the keyboard. Returns true for a reset.
    fn write_data(&mut self, value: u8) -> bool {
        match self.parameter_of.take() {
            None => {
                self.change_command_byte(CommandByte::DISABLE_KEYBOARD, false);
                self.keyboard.receive(value);
            }
            Some(command::WRITE_OUTPUT_PORT) => {
                self.output_port = OutputPort::from_bits_truncate(value);
                return !self.output_port.contains(OutputPort::NOT_RESET);
            }
            // Without an auxiliary port the status register does not call the byte an auxiliary one.
            Some(command::WRITE_KEYBOARD_BUFFER | command::WRITE_AUXILIARY_BUFFER) => self.reply(value),
            Some(command::WRITE_AUXILIARY) => {}
            Some(write_memory) => self.memory[usize::from(write_memory & MEMORY_MASK)] = value,
        }
        false
    }
}

impl Default for I8042 {
    fn default() -> Self {
        Self::new()
    }
}

impl Device for I8042 {
    fn read(&mut self, offset: u16, _width: u8, now: Nanos) -> (u32, Effects) {
        match offset {
            DATA => {
                let value = self.read_data(now);
                (value.into(), self.effects(now))
            }
            COMMAND => {
                let effects = self.effects(now);
                (self.status().bits().into(), effects)
            }
            _ => (FLOATING, Effects::NONE),
        }
    }

    fn write(&mut self, offset: u16, _width: u8, value: u32, now: Nanos) -> Effects {
        let resets = match offset {
            DATA => self.write_data(value as u8),
            COMMAND => self.write_command(value as u8),
            _ => return Effects::NONE,
        };
        self.last_was_command = offset == COMMAND;
        Effects { power: resets.then_some(PowerEvent::Reset("keyboard controller")), ..self.effects(now) }
    }

    fn tick(&mut self, now: Nanos) -> Effects {
        self.effects(now)
    }
}
