//! The person's terminal while a machine runs: every key goes to the machine, except what follows Ctrl-A.

use crate::cleanup::TerminalMode;
use anyhow::{Context, Result};
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
use std::io::IsTerminal;

/// Ctrl-A.
const ESCAPE: u8 = 0x01;

/// Switches a terminal at standard input to raw mode until the guard is dropped; a pipe has no modes.
pub fn raw_mode() -> Result<Option<TerminalMode>> {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        return Ok(None);
    }
    let saved = tcgetattr(&stdin).context("cannot read the terminal's mode")?;
    let mut raw = saved.clone();
    raw.make_raw();
    let guard = TerminalMode::new(saved);
    tcsetattr(&stdin, OptionalActions::Flush, &raw).context("cannot switch the terminal to raw mode")?;
    Ok(Some(guard))
}

/// Takes xtask's own keys out of what is typed.
#[derive(Debug, Default)]
pub struct Keys {
    escaped: bool,
}

/// What became of a few keystrokes.
#[derive(Debug, PartialEq, Eq)]
pub struct Typed {
    /// What the machine gets.
    pub forward: Vec<u8>,
    /// Whether to end.
    pub quit: bool,
}

impl Keys {
    /// Ctrl-A x ends; Ctrl-A a and Ctrl-A Ctrl-A are Ctrl-A; anything else after Ctrl-A goes on together with it.
    pub fn translate(&mut self, typed: &[u8]) -> Typed {
        let mut forward = Vec::with_capacity(typed.len());
        for &key in typed {
            match (std::mem::take(&mut self.escaped), key) {
                (false, ESCAPE) => self.escaped = true,
                (false, _) => forward.push(key),
                (true, b'x' | b'X') => return Typed { forward, quit: true },
                (true, b'a' | ESCAPE) => forward.push(ESCAPE),
                (true, _) => forward.extend([ESCAPE, key]),
            }
        }
        Typed { forward, quit: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_escape_sequence_ends() {
        let mut keys = Keys::default();
        assert_eq!(keys.translate(b"x\x03\x04"), Typed { forward: b"x\x03\x04".into(), quit: false });
        assert_eq!(keys.translate(b"ls\x01"), Typed { forward: b"ls".into(), quit: false });
        assert_eq!(keys.translate(b"x"), Typed { forward: vec![], quit: true });
    }

    #[test]
    fn escape_can_be_typed() {
        let mut keys = Keys::default();
        assert_eq!(keys.translate(b"\x01a\x01\x01\x01b").forward, b"\x01\x01\x01b");
        assert_eq!(keys.translate(b"x").forward, b"x");
    }
}
