//! What is wrong with a configuration, and where.

use crate::memory_map::BadMemorySize;
use crate::modules::ModuleError;
use alloc::string::String;
use core::fmt::{self, Write as _};

/// A place in a text, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Line.
    pub line: usize,
    /// Character in the line.
    pub column: usize,
}

impl Position {
    /// The very beginning.
    pub const START: Self = Self { line: 1, column: 1 };

    /// Where a byte lies. `text` need not be UTF-8 from there on.
    pub fn of(text: &[u8], offset: usize) -> Self {
        let before = &text[..offset.min(text.len())];
        let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let column = String::from_utf8_lossy(&before[line_start..]).chars().count() + 1;
        Self { line, column }
    }
}

/// A virtual machine in a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VmLabel {
    /// By name.
    Name(String),
    /// Where its name is what is wrong: the how manieth it is, from 1.
    Number(usize),
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// Not TOML; the parser's own words.
    Syntax(String),
    /// Not text.
    NotUtf8,
    /// Longer than [`MAX_BYTES`](super::MAX_BYTES).
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// More than [`MAX_TABLES`](super::MAX_TABLES) dots and opening brackets.
    TooManyTables,
    /// There is no such key.
    UnknownKey {
        /// The keys that there are.
        known: &'static [&'static str],
    },
    /// The key has to be there.
    Missing {
        /// What it should be.
        expected: &'static str,
    },
    /// The value is something else.
    Unexpected {
        /// What it should be.
        expected: &'static str,
        /// What it is, as it stands in the file.
        found: String,
    },
    /// The value was there before.
    Duplicate {
        /// The value.
        value: String,
        /// Where it was.
        first: Position,
    },
    /// The amount of memory is impossible.
    Memory(BadMemorySize),
    /// The module is not there.
    Module(ModuleError),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax(message) => f.write_str(message),
            Self::NotUtf8 => f.write_str("expected UTF-8 text"),
            Self::TooLong { bytes } => {
                write!(f, "expected a configuration of at most {} bytes, found {bytes}", super::MAX_BYTES)
            }
            Self::TooManyTables => {
                write!(f, "expected at most {} dots and opening brackets in all", super::MAX_TABLES)
            }
            Self::UnknownKey { known } => {
                f.write_str("unknown key, expected one of ")?;
                for (n, key) in known.iter().enumerate() {
                    write!(f, "{}{key}", if n == 0 { "" } else { ", " })?;
                }
                Ok(())
            }
            Self::Missing { expected } => write!(f, "missing, expected {expected}"),
            Self::Unexpected { expected, found } => write!(f, "expected {expected}, found {found}"),
            Self::Duplicate { value, first } => {
                write!(f, "expected no repetition, found {value} again (first in line {})", first.line)
            }
            Self::Memory(error) => error.fmt(f),
            Self::Module(error) => error.fmt(f),
        }
    }
}

/// An error in a configuration file. Displays as one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The file.
    pub file: String,
    /// Where in it.
    pub position: Position,
    /// The virtual machine that it belongs to, and that is not started for it.
    pub vm: Option<VmLabel>,
    /// The key.
    pub key: Option<String>,
    /// What is wrong.
    pub problem: Problem,
}

impl ConfigError {
    pub(super) fn too_long(file: &str, bytes: usize) -> Self {
        let problem = Problem::TooLong { bytes };
        Self { file: file.into(), position: Position::START, vm: None, key: None, problem }
    }

    pub(super) fn too_many_tables(file: &str, text: &[u8], offset: usize) -> Self {
        let position = Position::of(text, offset);
        Self { file: file.into(), position, vm: None, key: None, problem: Problem::TooManyTables }
    }

    pub(super) fn not_utf8(file: &str, text: &[u8], error: core::str::Utf8Error) -> Self {
        let position = Position::of(text, error.valid_up_to());
        Self { file: file.into(), position, vm: None, key: None, problem: Problem::NotUtf8 }
    }

    pub(super) fn syntax(file: &str, text: &str, error: &toml::de::Error) -> Self {
        let position = Position::of(text.as_bytes(), error.span().map_or(0, |span| span.start));
        let problem = Problem::Syntax(error.message().into());
        Self { file: file.into(), position, vm: None, key: None, problem }
    }
}

/// Writes text with its control characters escaped, so that nothing in a file reaches a terminal as a command.
struct Printable<'a, 'f>(&'a mut fmt::Formatter<'f>);

impl fmt::Write for Printable<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.chars().try_for_each(|character| match character.is_control() {
            true => write!(self.0, "{}", character.escape_default()),
            false => self.0.write_char(character),
        })
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let f = &mut Printable(f);
        let Position { line, column } = self.position;
        write!(f, "{}:{line}:{column}: ", self.file)?;
        match &self.vm {
            Some(VmLabel::Name(name)) => write!(f, "vm {name:?}: ")?,
            Some(VmLabel::Number(number)) => write!(f, "vm number {number}: ")?,
            None => {}
        }
        if let Some(key) = &self.key {
            write!(f, "{key}: ")?;
        }
        write!(f, "{}", self.problem)
    }
}

impl core::error::Error for ConfigError {}
