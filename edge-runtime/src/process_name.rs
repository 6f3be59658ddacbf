//! Names of processes that no other process will ever have.
//!
//! An id alone is given away again once its process is gone. With the time of the start it stays unique, so that nobody
//! who reads a record of it later takes a stranger for it. That time is from `/proc`, so there are names on Linux only.

use serde::{Deserialize, Serialize};
use std::{fmt, fs};

/// One process for ever: its id and when it started, in ticks since boot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ProcessName {
    pid: u32,
    start: String,
}

impl ProcessName {
    /// The name of a running process; none where the system doesn't say when it started.
    pub fn of(pid: u32) -> Option<Self> {
        Some(Self {
            pid,
            start: start_time(pid)?,
        })
    }

    /// A name that was told.
    pub fn new(pid: u32, start: &str) -> Self {
        let start = start.to_owned();
        Self { pid, start }
    }

    /// When it started, in ticks since boot.
    pub fn start_ticks(&self) -> u64 {
        self.start.parse().unwrap_or(0)
    }

    /// Its id.
    pub fn pid(&self) -> u32 {
        self.pid
    }
}

impl fmt::Display for ProcessName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.pid, self.start)
    }
}

/// When a process started.
fn start_time(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // proc(5): the second field is the name in parentheses, which may hold anything; the third is the state, where Z
    // is a process that has ended and waits for its parent to ask; the 22nd is the start time.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let state = fields.next()?;
    fields.nth(18).filter(|_| state != "Z").map(str::to_owned)
}

/// Whether a process is still there.
pub fn is_running(process: &ProcessName) -> bool {
    start_time(process.pid).is_some_and(|now| now == process.start)
}
