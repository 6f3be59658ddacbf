//! What happens, told on standard error: one line that moves on a terminal, plain lines elsewhere.

use indicatif::ProgressBar;
use std::{
    io::{self, IsTerminal, Write},
    time::Duration,
};

/// What is told.
#[derive(Debug)]
pub struct Progress {
    /// On a terminal.
    spinner: Option<ProgressBar>,
}

impl Progress {
    /// Begins.
    pub fn start() -> Self {
        let spinner = io::stderr().is_terminal().then(ProgressBar::new_spinner);
        if let Some(spinner) = &spinner {
            spinner.enable_steady_tick(Duration::from_millis(100));
        }
        Self { spinner }
    }

    /// Begins, with a line for each step wherever it goes.
    pub fn of_lines() -> Self {
        Self { spinner: None }
    }

    /// Something begins.
    pub fn step(&mut self, what: &str) {
        match &self.spinner {
            Some(spinner) => spinner.set_message(what.to_owned()),
            None => line(what),
        }
    }

    /// Something to know, which stays.
    pub fn warn(&mut self, what: &str) {
        self.line(&format!("warning: {what}"));
    }

    /// All is done.
    pub fn done(&mut self, what: &str) {
        self.line(what);
    }

    fn line(&self, text: &str) {
        match &self.spinner {
            Some(spinner) => spinner.suspend(|| line(text)),
            None => line(text),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(spinner) = &self.spinner {
            spinner.finish_and_clear();
        }
    }
}

fn line(text: &str) {
    // Standard error may be closed; there is nobody left to tell then.
    let _ = writeln!(io::stderr(), "{text}");
}
