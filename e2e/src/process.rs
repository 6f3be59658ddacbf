//! Programs under test: started with their output in a file, stopped as a user or a supervisor stops them.

use anyhow::{Context, Result, bail};
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

/// Pause between two looks at a condition whose delay a test may want to know.
const POLL: Duration = Duration::from_millis(2);

/// Waits until `look` finds something, and gives it with the time that took. The error says what was waited for.
pub fn wait_for<T>(what: &str, limit: Duration, look: impl FnMut() -> Result<Option<T>>) -> Result<(T, Duration)> {
    wait_with_pauses(POLL, what, limit, look)
}

/// The same with other pauses: what is waited for may need the machine itself.
pub fn wait_with_pauses<T>(
    pause: Duration,
    what: &str,
    limit: Duration,
    mut look: impl FnMut() -> Result<Option<T>>,
) -> Result<(T, Duration)> {
    let start = Instant::now();
    let mut last = None;
    loop {
        match look() {
            Ok(Some(found)) => return Ok((found, start.elapsed())),
            Ok(None) => {}
            Err(error) => last = Some(error),
        }
        if start.elapsed() > limit {
            let detail = last.map(|error| format!(": {error:#}")).unwrap_or_default();
            bail!("waited {limit:?} in vain for {what}{detail}");
        }
        std::thread::sleep(pause);
    }
}

/// A signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// What Ctrl-C sends.
    Interrupt,
    /// What a supervisor sends.
    Terminate,
    /// What can't be handled.
    Kill,
    /// It does nothing any more.
    Stop,
}

impl Signal {
    fn flag(self) -> &'static str {
        match self {
            Self::Interrupt => "-INT",
            Self::Terminate => "-TERM",
            Self::Kill => "-KILL",
            Self::Stop => "-STOP",
        }
    }
}

/// Sends a signal to a process.
pub fn signal(pid: u32, signal: Signal) -> Result<()> {
    // Through the program of that name: a system call of our own would need unsafe code.
    let status = Command::new("kill")
        .args([signal.flag(), &pid.to_string()])
        .stderr(Stdio::null())
        .status()?;
    if !status.success() {
        bail!("process {pid} can't be signalled; is it gone?");
    }
    Ok(())
}

/// A running program. Dropping it kills it.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a program; what it prints goes to `<folder>/<name>.log`.
    pub fn start(name: &str, folder: &Path, command: &mut Command) -> Result<Self> {
        let log = folder.join(format!("{name}.log"));
        let out = File::create(&log)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out)
            .spawn()
            .with_context(|| format!("{} can't be started", command.get_program().display()))?;
        Ok(Self {
            name: name.to_owned(),
            child,
            log,
        })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it printed so far.
    pub fn output(&self) -> String {
        fs::read(&self.log)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// Whether it has ended, and how.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Sends a signal.
    pub fn signal(&self, kind: Signal) -> Result<()> {
        signal(self.pid(), kind)
    }

    /// Waits for its end.
    pub fn wait(&mut self, limit: Duration) -> Result<ExitStatus> {
        let what = format!("{} to end", self.name);
        let child = &mut self.child;
        match wait_for(&what, limit, || Ok(child.try_wait()?)) {
            Ok((status, _)) => Ok(status),
            Err(error) => bail!("{error:#}; it printed:\n{}", self.output()),
        }
    }

    /// Waits until its output contains a text; fails at once if it ends before.
    pub fn wait_for_output(&mut self, text: &str, limit: Duration) -> Result<Duration> {
        self.wait_for_output_after(0, text, limit)
    }

    /// The same for what it prints after so many bytes, for a text that has been there before.
    pub fn wait_for_output_after(&mut self, printed: usize, text: &str, limit: Duration) -> Result<Duration> {
        let what = format!("{:?} in the output of {}", text, self.name);
        let start = Instant::now();
        loop {
            // In this order: what was printed before the end must count.
            let ended = self.ended()?;
            if self.output().get(printed..).is_some_and(|news| news.contains(text)) {
                return Ok(start.elapsed());
            }
            if let Some(status) = ended {
                bail!(
                    "{} ended ({status}) without {text:?}; it printed:\n{}",
                    self.name,
                    self.output()
                );
            }
            if start.elapsed() > limit {
                bail!("waited {limit:?} in vain for {what}; it printed:\n{}", self.output());
            }
            std::thread::sleep(POLL);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Processes with a text in their command line, by id. Used to see that nobody is left behind.
pub fn processes_with(text: &str) -> Result<Vec<(u32, String)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let path = entry?.path();
        let Some(pid) = path.file_name().and_then(|n| n.to_str()).and_then(|n| n.parse().ok()) else {
            continue;
        };
        // A process may end between the two looks.
        let Ok(line) = fs::read(path.join("cmdline")) else {
            continue;
        };
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if pid != std::process::id() && line.contains(text) {
            found.push((pid, line));
        }
    }
    Ok(found)
}

/// Direct children of a process, by id.
pub fn children_of(parent: u32) -> Result<Vec<u32>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let path = entry?.path();
        let Some(pid) = path.file_name().and_then(|n| n.to_str()).and_then(|n| n.parse().ok()) else {
            continue;
        };
        let Ok(stat) = fs::read_to_string(path.join("stat")) else {
            continue;
        };
        // After the name, which may hold anything, in parentheses: state, parent, …
        let mut fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        let state = fields.next();
        let is_child = fields.next().and_then(|p| p.parse().ok()) == Some(parent);
        if is_child && state != Some("Z") {
            found.push(pid);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_waited_for_and_the_end_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo ready; exec sleep 100"]);
        let mut process = Process::start("sh", folder.path(), &mut command).unwrap();
        process.wait_for_output("ready", Duration::from_secs(5)).unwrap();
        let printed = process.output().len();
        process.signal(Signal::Terminate).unwrap();
        assert!(!process.wait(Duration::from_secs(5)).unwrap().success());
        assert!(process.wait_for_output("never", Duration::from_secs(5)).is_err());
        assert!(
            process
                .wait_for_output_after(printed, "ready", Duration::from_secs(5))
                .is_err()
        );
    }

    #[test]
    fn children_are_found_and_die_with_the_handle() {
        let folder = tempfile::tempdir().unwrap();
        let process = Process::start("sleep", folder.path(), Command::new("sleep").arg("4711.25")).unwrap();
        assert!(children_of(std::process::id()).unwrap().contains(&process.pid()));
        drop(process);
        assert_eq!(processes_with("4711.25").unwrap(), []);
    }
}
