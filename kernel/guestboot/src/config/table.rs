//! A TOML table that is read key by key; a key that nobody has asked for is unknown.

use super::error::{ConfigError, Position, Problem, VmLabel};
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::ops::Range;
use toml::de::{DeTable, DeValue};

/// The file's text, and all errors found in it.
pub(super) struct Errors<'a> {
    file: &'a str,
    text: &'a str,
    found: RefCell<Vec<ConfigError>>,
}

impl<'a> Errors<'a> {
    pub(super) fn new(file: &'a str, text: &'a str) -> Self {
        Self { file, text, found: RefCell::default() }
    }

    pub(super) fn into_sorted(self) -> Vec<ConfigError> {
        let mut errors = self.found.into_inner();
        errors.sort_by_key(|error| error.position);
        errors
    }
}

/// A table, the virtual machine that it describes if any, and where its errors go.
pub(super) struct Table<'a> {
    entries: &'a DeTable<'a>,
    asked: Vec<&'static str>,
    span: Range<usize>,
    vm: Option<VmLabel>,
    errors: &'a Errors<'a>,
}

impl<'a> Table<'a> {
    /// The table of a whole file.
    pub(super) fn root(entries: &'a DeTable<'a>, errors: &'a Errors<'a>) -> Self {
        Self { entries, asked: Vec::new(), span: 0..0, vm: None, errors }
    }

    /// Reads a value, if it is there. Nothing means that the reader has complained.
    pub(super) fn optional<T>(
        &mut self,
        key: &'static str,
        default: T,
        read: impl FnOnce(&Entry<'_, 'a>) -> Option<T>,
    ) -> Option<T> {
        self.asked.push(key);
        let Some(value) = self.entries.get(key) else {
            return Some(default);
        };
        read(&Entry { table: self, key, span: value.span(), value: value.get_ref() })
    }

    /// Reads a value that has to be there.
    pub(super) fn required<T>(
        &mut self,
        key: &'static str,
        expected: &'static str,
        read: impl FnOnce(&Entry<'_, 'a>) -> Option<T>,
    ) -> Option<T> {
        if !self.entries.contains_key(key) {
            self.error(self.span.clone(), key, Problem::Missing { expected });
        }
        self.optional(key, None, |entry| read(entry).map(Some)).flatten()
    }

    /// Complains about every key that nobody has asked for. Nothing means that there was one.
    pub(super) fn finish(&self, known: &'static [&'static str]) -> Option<()> {
        let unknown = self.entries.keys().filter(|key| !self.asked.contains(&key.get_ref().as_ref()));
        let complaints =
            unknown.map(|key| self.error(key.span(), key.get_ref(), Problem::UnknownKey { known }));
        (complaints.count() == 0).then_some(())
    }

    fn position(&self, span: Range<usize>) -> Position {
        Position::of(self.errors.text.as_bytes(), span.start)
    }

    fn error(&self, span: Range<usize>, key: &str, problem: Problem) {
        self.errors.found.borrow_mut().push(ConfigError {
            file: self.errors.file.into(),
            position: self.position(span),
            vm: self.vm.clone(),
            key: Some(key.into()),
            problem,
        });
    }
}

/// A value with its key and place. Readers that fail leave an error behind and return nothing.
pub(super) struct Entry<'t, 'a> {
    table: &'t Table<'a>,
    key: &'static str,
    pub(super) span: Range<usize>,
    pub(super) value: &'t DeValue<'a>,
}

impl<'a> Entry<'_, 'a> {
    /// A table inside the value.
    pub(super) fn table_in<'e>(
        &'e self,
        entries: &'e DeTable<'e>,
        span: Range<usize>,
        vm: VmLabel,
    ) -> Table<'e> {
        Table { entries, asked: Vec::new(), span, vm: Some(vm), errors: self.table.errors }
    }

    /// Where a part of the file begins.
    pub(super) fn position(&self, span: Range<usize>) -> Position {
        self.table.position(span)
    }

    /// What stands in the file, shortened to something that fits in a line.
    pub(super) fn excerpt(&self, span: Range<usize>) -> String {
        const LONGEST: usize = 40;
        let text = self.table.errors.text.get(span).unwrap_or("");
        let shortened: String = text.lines().next().unwrap_or("").chars().take(LONGEST).collect();
        if shortened.len() == text.len() { shortened } else { shortened + "..." }
    }

    /// Leaves an error behind.
    pub(super) fn error<T>(&self, problem: Problem) -> Option<T> {
        self.error_at(self.span.clone(), problem)
    }

    /// Leaves an error behind for a part of the value.
    pub(super) fn error_at<T>(&self, span: Range<usize>, problem: Problem) -> Option<T> {
        self.table.error(span, self.key, problem);
        None
    }

    /// Says that the value is something else.
    pub(super) fn unexpected<T>(&self, expected: &'static str) -> Option<T> {
        let found = self.excerpt(self.span.clone());
        self.error(Problem::Unexpected { expected, found })
    }

    /// A boolean.
    pub(super) fn boolean(&self) -> Option<bool> {
        self.value.as_bool().or_else(|| self.unexpected("true or false"))
    }

    /// One of a few words.
    pub(super) fn word<T: Copy>(&self, words: &[(&str, T)], expected: &'static str) -> Option<T> {
        let meaning = |text: &str| words.iter().find(|(word, _)| *word == text).map(|(_, meaning)| *meaning);
        self.value.as_str().and_then(meaning).or_else(|| self.unexpected(expected))
    }
}

/// A TOML integer, if it is not negative and fits.
pub(super) fn unsigned(value: &DeValue<'_>) -> Option<u64> {
    let integer = value.as_integer()?;
    u64::from_str_radix(integer.as_str(), integer.radix()).ok()
}

/// An I/O port: an integer, or a string that begins with "0x". Its range is the reader's business.
pub(super) fn port(value: &DeValue<'_>) -> Option<u64> {
    match value {
        DeValue::String(text) => u64::from_str_radix(text.strip_prefix("0x")?, 16).ok(),
        value => unsigned(value),
    }
}
