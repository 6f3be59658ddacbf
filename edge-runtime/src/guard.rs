//! The guard: a small process that outlives the controller by a moment.
//!
//! The controller ends its proxies itself whenever it can. When it is killed it can't; but then its end of a pipe
//! closes, and the guard on the other end asks every process that is still named to stop. A parent-death signal would
//! need unsafe code and is lost with the thread that asked for it.

use crate::process_name::{ProcessName, is_running, signal_process};
use rustix::process::Signal;
use std::{
    collections::BTreeSet,
    io::{self, BufRead, Write as _},
    path::Path,
    process::{Child, ChildStdin, Command, ExitCode, Stdio},
    thread,
    time::{Duration, Instant},
};

/// How long processes may take to stop before they are killed.
const GRACE: Duration = Duration::from_secs(5);

/// What the guard is told.
#[derive(Clone, Debug)]
pub(crate) enum GuardMessage {
    /// A process was started.
    Add(ProcessName),
    /// A process has ended.
    Remove(ProcessName),
}

/// The guard as the controller sees it.
#[derive(Debug)]
pub(crate) struct Guard {
    child: Child,
    pipe: Option<ChildStdin>,
}

impl Guard {
    /// Starts a guard: `edgegateway` under its own command for that.
    pub(crate) fn start(edgegateway: &Path) -> io::Result<Self> {
        use std::os::unix::process::CommandExt as _;
        let mut child = Command::new(edgegateway)
            .arg("guard")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // A Ctrl-C at the terminal is the controller's business.
            .process_group(0)
            .spawn()?;
        let pipe = child.stdin.take();
        Ok(Self { child, pipe })
    }

    /// Tells the guard. Names are short and the guard does nothing but read, so this doesn't block.
    pub(crate) fn tell(&mut self, message: &GuardMessage) {
        let (sign, process) = match message {
            GuardMessage::Add(process) => ('+', process),
            GuardMessage::Remove(process) => ('-', process),
        };
        if let Some(pipe) = &mut self.pipe
            && let Err(error) = writeln!(pipe, "{sign}{process}")
        {
            tracing::warn!(%error, "the guard is gone; proxies would outlive a killed controller");
            self.pipe = None;
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.pipe = None;
        // It ends at once when no process is left.
        let _ = self.child.wait();
    }
}

/// The guard's own side: reads names until the pipe closes, then ends what is still there.
pub(crate) fn watch_over(input: impl BufRead) -> ExitCode {
    let mut processes: BTreeSet<ProcessName> = BTreeSet::new();
    for line in input.lines().map_while(Result::ok) {
        let (sign, name) = line.split_at_checked(1).unwrap_or_default();
        match (sign, name.parse()) {
            ("+", Ok(process)) => drop(processes.insert(process)),
            ("-", Ok(process)) => drop(processes.remove(&process)),
            _ => {}
        }
    }
    end(&processes);
    ExitCode::SUCCESS
}

fn end(processes: &BTreeSet<ProcessName>) {
    let left = || {
        processes
            .iter()
            .filter(|process| is_running(process))
            .collect::<Vec<_>>()
    };
    left()
        .into_iter()
        .for_each(|process| signal_process(process, Signal::TERM));
    let begun = Instant::now();
    while !left().is_empty() && begun.elapsed() < GRACE {
        // Not our children: their end can only be looked for.
        thread::sleep(Duration::from_millis(20));
    }
    left()
        .into_iter()
        .for_each(|process| signal_process(process, Signal::KILL));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_still_named_when_the_pipe_closes_is_ended() {
        let sleeper = || Command::new("sleep").arg("600").spawn().unwrap();
        let (mut named, mut unnamed) = (sleeper(), sleeper());
        let name = |child: &Child| ProcessName::of(child.id()).unwrap();
        let text = format!(
            "+{}\n+{}\nnonsense\n-{}\n",
            name(&named),
            name(&unnamed),
            name(&unnamed)
        );
        let ended = thread::spawn(move || named.wait().unwrap());
        watch_over(text.as_bytes());
        assert!(!ended.join().unwrap().success());
        assert!(unnamed.try_wait().unwrap().is_none());
        unnamed.kill().unwrap();
        unnamed.wait().unwrap();
    }
}
