//! Makes lines of text of what changes on a text page that is looked at now and then.
//!
//! A row is printed when it has not changed between two looks, at the latest [`INTERVAL`] after it began to, and not
//! again before [`INTERVAL`] is over: a log comes out line by line, a counter once a second. What has moved up since
//! the last look has been printed; what goes away is printed first.

use super::{CELL, MAX_COLUMNS, MAX_ROWS, PAGE_BYTES, SETTLING, View, cp437};
use crate::effects::Nanos;
use alloc::string::String;
use alloc::vec::Vec;

/// How long a row that goes on changing waits for its next line.
const INTERVAL: u64 = 1_000_000_000;

/// The characters of a row.
type Text = [u8; MAX_COLUMNS];

const BLANK: Text = [b' '; MAX_COLUMNS];

#[derive(Clone, Debug)]
struct Row {
    /// As it was when last looked at.
    seen: Text,
    /// As it was printed last, or blank.
    printed: Text,
    printed_at: Option<Nanos>,
    /// Since when it differs from what was printed.
    pending_since: Option<Nanos>,
}

impl Row {
    const NEW: Row = Row { seen: BLANK, printed: BLANK, printed_at: None, pending_since: None };

    /// Prints it as it was seen.
    fn print(&mut self, now: Nanos, print: &mut impl FnMut(&str)) {
        self.printed = self.seen;
        self.pending_since = None;
        if !is_blank(&self.seen) {
            self.printed_at = Some(now);
            print(&line(&self.seen));
        }
    }

    /// Whether it is on its way to be printed.
    fn is_pending(&self) -> bool {
        self.pending_since.is_some()
    }

    /// When it is to be printed if nothing changes any more.
    fn due(&self) -> Option<Nanos> {
        self.pending_since?;
        Some(self.printed_at.map_or(Nanos(0), |at| Nanos(at.0.saturating_add(INTERVAL))))
    }

    /// Takes in what it is now. What goes away before it was printed is printed.
    fn take_in(&mut self, text: &Text, now: Nanos, print: &mut impl FnMut(&str)) {
        if self.seen != *text && is_blank(text) && self.is_pending() {
            self.print(now, print);
        }
        self.seen = *text;
    }

    /// Takes in what it is now, and prints it if it differs from what has been printed.
    fn look_last(&mut self, text: &Text, now: Nanos, print: &mut impl FnMut(&str)) {
        self.take_in(text, now, print);
        if self.seen != self.printed {
            self.print(now, print);
        }
    }

    /// Takes in what it is now, and prints it if it is due.
    fn look(&mut self, text: &Text, now: Nanos, print: &mut impl FnMut(&str)) {
        let changed = self.seen != *text;
        self.take_in(text, now, print);
        if self.seen == self.printed {
            self.pending_since = None;
        } else if is_blank(text) {
            // Nothing to print, but what comes back is new.
            self.printed = BLANK;
            self.pending_since = None;
        } else {
            let since = *self.pending_since.get_or_insert(now);
            let waited = now.0.saturating_sub(since.0) >= INTERVAL;
            let may = self.due().is_none_or(|due| now >= due);
            if may && (!changed || waited) {
                self.print(now, print);
            }
        }
    }
}

/// What a look has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The page has changed since the last look.
    pub changed: bool,
    /// When to look again for what waits to be printed.
    pub next: Option<Nanos>,
}

/// Remembers what has been printed of a text page.
#[derive(Clone, Debug, Default)]
pub struct Printer {
    /// Empty until it looks for the first time.
    rows: Vec<Row>,
}

impl Printer {
    /// Looks at the page, and gives `print` a line of text for each row that is due. `read` copies from a position in
    /// the page's bytes.
    pub fn look(
        &mut self,
        view: View,
        now: Nanos,
        read: impl FnMut(usize, &mut [u8]),
        mut print: impl FnMut(&str),
    ) -> Progress {
        let page = read_rows(view, read);
        let changed = self.take_in(&page, now, &mut print);
        for (row, text) in self.rows.iter_mut().zip(&page) {
            row.look(text, now, &mut print);
        }
        let next = self.rows.iter().filter_map(Row::due).min();
        let settled = Nanos(now.0.saturating_add(SETTLING));
        Progress { changed, next: next.map(|due| due.max(settled)) }
    }

    /// The last look: prints all that differs from what has been printed.
    pub fn finish(
        &mut self,
        view: View,
        now: Nanos,
        read: impl FnMut(usize, &mut [u8]),
        mut print: impl FnMut(&str),
    ) {
        let page = read_rows(view, read);
        self.take_in(&page, now, &mut print);
        for (row, text) in self.rows.iter_mut().zip(&page) {
            row.look_last(text, now, &mut print);
        }
    }

    /// Finds out whether anything has changed, and what has moved.
    fn take_in(&mut self, page: &[Text], now: Nanos, print: &mut impl FnMut(&str)) -> bool {
        self.rows.resize(page.len(), Row::NEW);
        let changed = self.rows.iter().zip(page).any(|(row, text)| row.seen != *text);
        if changed {
            self.scroll(page, now, print);
        }
        changed
    }

    /// If rows have moved up, what is known of them moves with them; those that went over the edge are printed.
    fn scroll(&mut self, page: &[Text], now: Nanos, print: &mut impl FnMut(&str)) {
        let same = |by: usize| {
            let moved = self.rows.iter().skip(by).zip(page);
            moved.filter(|(row, text)| row.seen == **text && !is_blank(text)).count()
        };
        // The shortest way that explains most.
        let best = (1..page.len()).map(|by| (same(by), by)).rev().max_by_key(|(count, _)| *count);
        let Some((_, by)) = best.filter(|(count, _)| *count > same(0)) else { return };
        for (row, text) in self.rows[..by].iter_mut().zip(page) {
            if row.is_pending() && row.seen != *text {
                row.print(now, print);
            }
        }
        for (index, text) in page.iter().enumerate() {
            let seen = &self.rows[index].seen;
            let has_left = index < by || page[index - by] == *seen;
            match self.rows.get(index + by) {
                Some(row) if row.seen == *text => self.rows[index] = row.clone(),
                // Part of a frame that stays where it is.
                _ if seen == text || !has_left => {}
                _ => self.rows[index] = Row::NEW,
            }
        }
    }
}

/// The characters of the rows shown. The page goes on at its beginning.
fn read_rows(view: View, mut read: impl FnMut(usize, &mut [u8])) -> Vec<Text> {
    let columns = view.columns.min(MAX_COLUMNS);
    let mut cells = [0; MAX_COLUMNS * CELL];
    let mut row = |number: usize| {
        let cells = &mut cells[..columns * CELL];
        let start = (view.start + number * view.pitch) % PAGE_BYTES;
        let (first, rest) = cells.split_at_mut(cells.len().min(PAGE_BYTES - start));
        read(start, first);
        read(0, rest);
        let mut text = BLANK;
        for (character, cell) in text.iter_mut().zip(cells.chunks_exact(CELL)) {
            *character = cell[0];
        }
        text
    };
    (0..view.rows.min(MAX_ROWS)).map(&mut row).collect()
}

fn is_blank(text: &Text) -> bool {
    text.iter().all(|byte| cp437::is_blank(*byte))
}

/// A row without the blanks at its end.
fn line(text: &Text) -> String {
    let end = text.iter().rposition(|byte| !cp437::is_blank(*byte)).map_or(0, |last| last + 1);
    text[..end].iter().map(|byte| cp437::to_char(*byte)).collect()
}
