//! What a terminal sends, as keys: characters, and the control sequences of function keys (ECMA-48, 5.4).

use super::layout::{Key, Modifiers};
use crate::effects::Nanos;

const ESC: u8 = 0x1b;
/// How long an ESC waits for the rest of a sequence before it is a key of its own.
const PATIENCE: u64 = 50_000_000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Plain,
    Escape,
    /// SS3: one more byte.
    Single,
    /// CSI: parameters so far, and which of them is next.
    Control {
        parameters: [u16; 2],
        next: usize,
    },
}

/// Remembers the beginning of a sequence.
#[derive(Clone, Debug, Default)]
pub(super) struct Typist {
    state: State,
    since: Nanos,
    last: u8,
}

impl Typist {
    /// Takes a byte, and returns the key that it completes.
    pub(super) fn take(&mut self, byte: u8, now: Nanos) -> Option<Key> {
        let before = core::mem::replace(&mut self.last, byte);
        self.since = now;
        match core::mem::take(&mut self.state) {
            State::Plain if byte == ESC => self.wait(State::Escape),
            // CR LF is one key.
            State::Plain if byte == b'\n' && before == b'\r' => None,
            State::Plain => Key::of(byte),
            State::Escape => match byte {
                ESC => {
                    self.state = State::Escape;
                    Some(Key::ESCAPE)
                }
                b'[' => self.wait(State::Control { parameters: [0; 2], next: 0 }),
                b'O' => self.wait(State::Single),
                _ => Key::of(byte).map(|key| key.with(Modifiers::ALT)),
            },
            State::Single => named(byte),
            State::Control { parameters, next } => self.control(byte, parameters, next),
        }
    }

    fn wait(&mut self, state: State) -> Option<Key> {
        self.state = state;
        None
    }

    /// A byte of a control sequence. One whose meaning is unknown types nothing.
    fn control(&mut self, byte: u8, mut parameters: [u16; 2], next: usize) -> Option<Key> {
        match byte {
            b'0'..=b'9' => {
                if let Some(parameter) = parameters.get_mut(next) {
                    *parameter = parameter.saturating_mul(10).saturating_add(u16::from(byte - b'0'));
                }
                self.wait(State::Control { parameters, next })
            }
            b';' => self.wait(State::Control { parameters, next: (next + 1).min(parameters.len()) }),
            b' '..=b'?' => self.wait(State::Control { parameters, next: parameters.len() }),
            b'Z' => Some(Key::TAB.with(Modifiers::SHIFT)),
            b'~' => numbered(parameters[0]).map(|key| key.with(held(parameters[1]))),
            _ => named(byte).map(|key| key.with(held(parameters[1]))),
        }
    }

    /// When to call [`Typist::give_up`].
    pub(super) fn deadline(&self) -> Option<Nanos> {
        (self.state != State::Plain).then_some(Nanos(self.since.0.saturating_add(PATIENCE)))
    }

    /// The sequence does not go on: what was typed was a key, perhaps with Alt.
    pub(super) fn give_up(&mut self) -> Option<Key> {
        let alt = |byte| Key::of(byte).map(|key| key.with(Modifiers::ALT));
        match core::mem::take(&mut self.state) {
            State::Escape => Some(Key::ESCAPE),
            State::Single => alt(b'O'),
            State::Control { parameters: [0, 0], next: 0 } => alt(b'['),
            State::Plain | State::Control { .. } => None,
        }
    }
}

/// Keys by the final byte of their sequence.
fn named(byte: u8) -> Option<Key> {
    match byte {
        b'A' => Some(Key::UP),
        b'B' => Some(Key::DOWN),
        b'C' => Some(Key::RIGHT),
        b'D' => Some(Key::LEFT),
        b'F' => Some(Key::END),
        b'H' => Some(Key::HOME),
        b'P'..=b'S' => Some(Key::FUNCTION[usize::from(byte - b'P')]),
        _ => None,
    }
}

/// Keys by the number before a tilde.
fn numbered(number: u16) -> Option<Key> {
    let function = |number: u16| Some(Key::FUNCTION[usize::from(number - 1)]);
    match number {
        1 | 7 => Some(Key::HOME),
        2 => Some(Key::INSERT),
        3 => Some(Key::DELETE),
        4 | 8 => Some(Key::END),
        5 => Some(Key::PAGE_UP),
        6 => Some(Key::PAGE_DOWN),
        // The VT220 left gaps between its groups of keys.
        11..=15 => function(number - 10),
        17..=21 => function(number - 11),
        23..=24 => function(number - 12),
        _ => None,
    }
}

/// Modifiers as xterm counts them: from one on.
fn held(parameter: u16) -> Modifiers {
    Modifiers::from_bits_truncate(parameter.saturating_sub(1) as u8)
}
