//! Names of processes that no other process will ever have, and signals to them.
//!
//! An id alone is given away again once its process is gone. With the time of the start it stays unique, so that a
//! record or a message that comes late ends no stranger. That time is from `/proc`, so there are names on Linux only.

use rustix::process::{Pid, Signal, kill_process};
use std::{fmt, fs, str::FromStr};

/// One process for ever: its id and when it started, in ticks since boot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
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

impl FromStr for ProcessName {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (pid, start) = text.trim().split_once(' ').ok_or(())?;
        Ok(Self {
            pid: pid.parse().map_err(|_| ())?,
            start: start.to_owned(),
        })
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

/// Sends a signal to a process that is not a child, unless it is gone.
pub fn signal_process(process: &ProcessName, signal: Signal) {
    if is_running(process) {
        self::signal(process.pid, signal);
    }
}

/// Sends a signal to a process that is known to exist.
pub(crate) fn signal(pid: u32, signal: Signal) {
    let sent = i32::try_from(pid)
        .ok()
        .and_then(Pid::from_raw)
        .map(|pid| kill_process(pid, signal));
    if let Some(Err(error)) = sent {
        tracing::debug!(pid, %error, "can't signal a proxy");
    }
}
