//! What a process has used, by `/proc`.

use anyhow::{Context, Result};
use std::fs;

/// Clock ticks of `/proc/<pid>/stat` in a second; fixed for user space on Linux.
const TICKS: f64 = 100.0;

/// CPU time of a process with all its threads, in seconds.
#[derive(Clone, Copy, Debug)]
pub struct Cpu {
    /// Its own code.
    pub user: f64,
    /// The kernel's, on its behalf.
    pub system: f64,
}

impl Cpu {
    /// So far.
    pub fn of(pid: u32) -> Result<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).context("the proxy is gone")?;
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        // utime and stime: fields 14 and 15 of proc(5), counted from the state, which is 3.
        let seconds = |i: usize| {
            let ticks = fields.get(i).and_then(|f| f.parse::<f64>().ok());
            ticks.map(|ticks| ticks / TICKS).context("unreadable /proc/<pid>/stat")
        };
        Ok(Self {
            user: seconds(11)?,
            system: seconds(12)?,
        })
    }

    /// Since then.
    pub fn since(self, before: Self) -> Self {
        Self {
            user: self.user - before.user,
            system: self.system - before.system,
        }
    }
}

/// Memory of a process in KiB, by a name of `/proc/<pid>/status`.
pub fn memory_kib(pid: u32, name: &str) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let text = line.with_context(|| format!("no {name}"))?;
    Ok(text.trim_start_matches(':').trim().trim_end_matches(" kB").parse()?)
}
