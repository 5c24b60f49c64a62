//! Says what is going on: a spinner on a terminal, plain lines otherwise.

use indicatif::{ProgressBar, ProgressDrawTarget};
use std::io::IsTerminal;
use std::time::Duration;

const TICK: Duration = Duration::from_millis(120);

/// A piece of work that takes a while.
#[derive(Debug)]
pub struct Step(ProgressBar);

impl Step {
    /// Announces the work.
    pub fn new(message: impl Into<String>) -> Self {
        let message = message.into();
        if !std::io::stderr().is_terminal() {
            eprintln!("{message}");
            return Self(ProgressBar::hidden());
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        bar.set_message(message);
        bar.enable_steady_tick(TICK);
        Self(bar)
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
