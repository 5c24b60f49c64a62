//! The person's terminal while a machine runs: every key goes to the machine, except what follows Ctrl-A.

use crate::cleanup::TerminalMode;
use crate::machine::{Ending, Running};
use anyhow::{Context, Result};
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
use std::io::{IsTerminal, Read, Write};
use std::sync::mpsc::channel;
use std::time::Duration;

/// Ctrl-A.
const ESCAPE: u8 = 0x01;
/// An emulator may take this long to end by itself.
const END: Duration = Duration::from_secs(10);

/// Switches a terminal at standard input to raw mode until the guard is dropped; a pipe has no modes.
fn raw_mode() -> Result<Option<TerminalMode>> {
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

/// Connects standard input and output with a machine until one of them ends. What comes from a pipe waits until
/// the machine shows `ready`.
pub fn converse(running: &mut Running, ready: Option<&str>) -> Result<Ending> {
    let keyboard = running.take_keyboard().context("the machine has no keyboard")?;
    let _mode = raw_mode()?;
    let ender = running.ender();
    let (say_ready, wait_ready) = channel();
    let mut awaited = ready.filter(|_| !std::io::stdin().is_terminal());
    if awaited.is_none() {
        // Nobody is late to hear it: the channel keeps it.
        let _ = say_ready.send(());
    }
    // The thread stays in its read when the machine ends first, and goes with the process.
    std::thread::spawn(move || {
        if wait_ready.recv().is_ok() && type_keys(keyboard) {
            ender.end();
        }
    });
    let mut screen = std::io::stdout();
    while let Some(chunk) = running.read()? {
        screen.write_all(&chunk).and_then(|()| screen.flush()).context("cannot write to the terminal")?;
        if awaited.is_some_and(|text| running.has_shown(text)) {
            awaited = None;
            let _ = say_ready.send(());
        }
    }
    running.wait(END)
}

/// Passes on what is typed. True when the person ends the machine; at the end of input it goes on alone.
fn type_keys(mut keyboard: Box<dyn Write + Send>) -> bool {
    let mut stdin = std::io::stdin();
    // Ctrl-A is nothing special in a pipe.
    let mut keys = stdin.is_terminal().then(Keys::default);
    let mut buffer = [0; 256];
    while let Ok(count @ 1..) = stdin.read(&mut buffer) {
        let typed = match &mut keys {
            Some(keys) => keys.translate(&buffer[..count]),
            None => Typed { forward: buffer[..count].to_vec(), quit: false },
        };
        if typed.quit {
            return true;
        }
        if keyboard.write_all(&typed.forward).and_then(|()| keyboard.flush()).is_err() {
            break;
        }
    }
    false
}

/// Takes xtask's own keys out of what is typed.
#[derive(Debug, Default)]
struct Keys {
    escaped: bool,
}

/// What became of a few keystrokes.
#[derive(Debug, PartialEq, Eq)]
struct Typed {
    /// What the machine gets.
    forward: Vec<u8>,
    /// Whether to end.
    quit: bool,
}

impl Keys {
    /// Ctrl-A x ends; Ctrl-A a and Ctrl-A Ctrl-A are Ctrl-A; anything else after Ctrl-A goes on together with it.
    fn translate(&mut self, typed: &[u8]) -> Typed {
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
