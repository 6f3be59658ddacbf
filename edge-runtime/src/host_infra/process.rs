//! One proxy process: started or adopted, asked whether it is ready, told to leave, ended.
//!
//! A proxy isn't bound to the controller's life: it has a process group of its own, so that a Ctrl-C at the terminal
//! doesn't reach it, it writes to its log itself, and dropping a [`Process`] leaves it running for the next controller,
//! unless it was told to leave already. A process that another controller has started isn't our child: a descriptor
//! (pidfd_open(2)) makes sure that signals reach it and no other, and its end is looked for.

use super::{
    PROCESS_GRACE,
    launch::{Launch, Start},
    log_file,
    proxy_admin::{self, Lost, WaitFor},
    proxy_ports::Listener,
    record::{Facts, Phase, Record},
};
use crate::{
    error::describe,
    process_name::{ProcessName, is_running},
};
use edge_ir::FleetKey;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};
use std::{
    fmt, future,
    net::SocketAddr,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};
use tokio::{
    process::{Child, Command},
    sync::watch,
    time::{self, Instant},
};

/// How often the end of a process is looked for that isn't our child.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A running process.
#[derive(Debug)]
pub(super) struct Process {
    handle: Handle,
    fleet: FleetKey,
    start: Start,
    pub(super) admin: Option<SocketAddr>,
    pub(super) started: Instant,
    log: PathBuf,
    /// Length of the log when the process started: what it wrote lies behind.
    log_start: u64,
    /// None where the system doesn't say what is needed to know a process again.
    record: Option<Record>,
    on_drop: OnDrop,
}

/// How we hold a process.
#[derive(Debug)]
enum Handle {
    /// We have started it.
    Child(Child),
    /// An earlier controller has.
    Adopted(ProcessName, OwnedFd),
}

/// What becomes of a process that nobody holds any more.
#[derive(Debug)]
enum OnDrop {
    /// It goes on, and the next controller adopts it.
    Leave,
    /// It was told to leave. If that was because another serves, the next controller waits for its end; if everything
    /// is to end, there is no time left.
    Follow(watch::Receiver<WaitFor>),
    /// It was told to end; there is no time left.
    Kill,
}

/// What became of a process.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It answers that it is ready.
    Ready,
    /// It ended, and how.
    Ended(Problem),
    /// It isn't ready after a time in which it should be.
    Late(Problem),
}

/// Why a process isn't as it is wanted, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    /// What is wrong, without what differs at every attempt.
    what: String,
    /// When, and what the process has written: times and ports, among others.
    circumstances: String,
}

impl Problem {
    /// Whether it is worth telling beside another that was told: not where all that differs are numbers in what the
    /// process has written.
    pub(super) fn is_news_beside(&self, told: &Self) -> bool {
        let words = |text: &str| -> String { text.chars().filter(|c| !c.is_ascii_digit()).collect() };
        self.what != told.what || words(&self.circumstances) != words(&told.circumstances)
    }
}

impl From<String> for Problem {
    fn from(what: String) -> Self {
        Self {
            what,
            circumstances: String::new(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.what, self.circumstances)
    }
}

impl Process {
    /// Starts a process for a fleet, and notes it in the runtime folder.
    pub(super) fn start(launch: Launch, fleet: &FleetKey) -> Result<Self, String> {
        let shown = launch.start.program.display().to_string();
        let errors = launch
            .log
            .try_clone()
            .map_err(|error| format!("{}: {error}", launch.log_path.display()))?;
        let log_start = launch.log.metadata().map_or(0, |meta| meta.len());
        let child = Command::new(&launch.start.program)
            .args(&launch.start.args)
            .stdin(Stdio::null())
            .stdout(launch.log)
            .stderr(errors)
            .process_group(0)
            .spawn()
            .map_err(|error| format!("proxy binary {shown} can't be started: {}", describe(&error)))?;
        let facts = |process| Facts {
            process,
            fleet: fleet.clone(),
            phase: Phase::Starting,
            start: launch.start.clone(),
            admin: launch.admin,
            log: launch.log_path.clone(),
            log_start,
        };
        let name = child.id().and_then(ProcessName::of);
        let record = name.map(|name| Record::write(&launch.runtime_dir, facts(name)));
        Ok(Self {
            handle: Handle::Child(child),
            fleet: fleet.clone(),
            start: launch.start,
            admin: launch.admin,
            started: Instant::now(),
            log: launch.log_path,
            log_start,
            record,
            on_drop: OnDrop::Leave,
        })
    }

    /// Takes over the processes of an earlier controller, as its records in a folder tell; the latest first.
    pub(super) fn adopt_all(folder: &Path) -> Vec<Self> {
        Record::read_all(folder).into_iter().filter_map(Self::adopt).collect()
    }

    fn adopt(record: Record) -> Option<Self> {
        let facts = record.facts();
        let pid = facts.process.pid();
        let fd = match open(pid) {
            Ok(fd) => fd,
            Err(error) => {
                tracing::warn!(fleet = %facts.fleet, pid, %error, "can't take over a proxy that runs already; end it yourself");
                return None;
            }
        };
        // Looked at only now: what the descriptor stands for can't become another process any more.
        if !is_running(&facts.process) {
            record.remove();
            return None;
        }
        Some(Self {
            handle: Handle::Adopted(facts.process.clone(), fd),
            fleet: facts.fleet.clone(),
            start: facts.start.clone(),
            admin: facts.admin,
            started: Instant::now(),
            log: facts.log.clone(),
            log_start: facts.log_start,
            record: Some(record),
            on_drop: OnDrop::Leave,
        })
    }

    /// The fleet it serves.
    pub(super) fn fleet(&self) -> &FleetKey {
        &self.fleet
    }

    /// What it was started with.
    pub(super) fn start_settings(&self) -> &Start {
        &self.start
    }

    /// How far it has come.
    pub(super) fn phase(&self) -> Phase {
        self.record
            .as_ref()
            .map_or(Phase::Starting, |record| record.facts().phase)
    }

    /// Notes how far it has come.
    pub(super) fn set_phase(&mut self, phase: Phase) {
        if let Some(record) = &mut self.record {
            record.set_phase(phase);
        }
    }

    /// The process's id, while it runs.
    pub(super) fn id(&self) -> Option<u32> {
        match &self.handle {
            Handle::Child(child) => child.id(),
            Handle::Adopted(name, _) => Some(name.pid()),
        }
    }

    /// Resolves when the process has ended, with how.
    pub(super) async fn ended(&mut self) -> Problem {
        let how = self.handle.ended().await;
        let after = self.started.elapsed().as_secs_f64();
        Problem {
            what: format!("the proxy {how}"),
            circumstances: format!(" after {after:.1} s; {}", self.last_words()),
        }
    }

    fn last_words(&self) -> String {
        let last = log_file::last_words(&self.log, self.log_start).map_or_else(
            || "it wrote nothing".to_owned(),
            |line| format!("it wrote last: {line}"),
        );
        format!("{last} (log: {})", self.log.display())
    }

    /// Resolves when a starting process is ready, has ended, or should have been ready long ago. `before`: whose place
    /// it is to take.
    pub(super) async fn starting(&mut self, before: Option<Listener>, patience: Duration) -> Fate {
        let until = self.started + patience;
        let ready = proxy_admin::ready(self.admin, self.listener(), before);
        tokio::select! {
            how = self.ended() => Fate::Ended(how),
            () = ready => Fate::Ready,
            () = time::sleep_until(until) => {
                let seconds = patience.as_secs();
                Fate::Late(Problem {
                    what: format!("the proxy isn't ready {seconds} s after its start"),
                    circumstances: format!("; {}", self.last_words()),
                })
            }
        }
    }

    /// Resolves when the process, which runs and was ready, doesn't serve any more. Needs no hold on it.
    pub(super) fn lost(&self, patience: Duration) -> impl Future<Output = Lost> + Send + use<> {
        let (admin, listener) = (self.admin, self.listener());
        async move {
            match admin {
                Some(admin) => proxy_admin::lost(admin, listener, patience).await,
                None => future::pending().await,
            }
        }
    }

    /// Why it is given up, for people.
    pub(super) fn tell(&self, lost: Lost) -> Problem {
        let (what, when) = match lost {
            Lost::Leaving => (
                "somebody else has told the proxy to end, and it takes no connections any more",
                String::new(),
            ),
            Lost::Silent(time) => ("the proxy hasn't answered for", format!(" {} s", time.as_secs())),
        };
        Problem {
            what: what.to_owned(),
            circumstances: format!("{when}; {}", self.last_words()),
        }
    }

    /// Ends the process in order. Clients are told, no new ones are taken, and what is open may finish within
    /// `patience`; only then it is asked to end, and killed if it doesn't.
    pub(super) async fn leave(mut self, what: watch::Receiver<WaitFor>, patience: Duration) {
        self.on_drop = OnDrop::Follow(what.clone());
        self.set_phase(Phase::Leaving);
        if let Some(admin) = self.admin {
            let drained = async {
                if proxy_admin::leave(admin).await {
                    proxy_admin::idle(admin, &what, &self.start.ports).await;
                }
            };
            let is_over = tokio::select! {
                drained = time::timeout(patience, drained) => drained.is_ok(),
                _ = self.handle.ended() => true,
            };
            // SIGTERM would begin another drain; what is left is cut.
            if !is_over && proxy_admin::quit(admin).await {
                return self.wait_or_kill().await;
            }
        }
        self.end().await;
    }

    /// Ends a process that didn't answer for long. It still has its part of the connections that come, so it is killed,
    /// unless it answers again.
    pub(super) async fn give_up(mut self, what: watch::Receiver<WaitFor>, patience: Duration) {
        match self.admin {
            Some(admin) if proxy_admin::answers(admin).await => self.leave(what, patience).await,
            _ => {
                self.on_drop = OnDrop::Kill;
                self.signal(Signal::KILL);
                self.handle.ended().await;
            }
        }
    }

    /// Asks the process to end, and kills it if it doesn't: for one that never served.
    pub(super) async fn end(self) {
        self.signal(Signal::TERM);
        self.wait_or_kill().await;
    }

    async fn wait_or_kill(mut self) {
        self.on_drop = OnDrop::Kill;
        if time::timeout(PROCESS_GRACE, self.handle.ended()).await.is_err() {
            self.signal(Signal::KILL);
            self.handle.ended().await;
        }
    }

    fn signal(&self, signal: Signal) {
        if let Err(error) = self.handle.signal(signal) {
            let (fleet, process) = (&self.fleet, self.id());
            tracing::debug!(%fleet, ?process, ?signal, %error, "can't signal a proxy");
        }
    }

    /// Who listens, as others see it.
    pub(super) fn listener(&self) -> Listener {
        Listener {
            process: self.id(),
            own: self.start.ports,
        }
    }

    /// Where its log is.
    pub(super) fn log(&self) -> &Path {
        &self.log
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let has_ended = match (&mut self.handle, &self.record) {
            (Handle::Child(child), _) => !matches!(child.try_wait(), Ok(None)),
            (Handle::Adopted(..), record) => record
                .as_ref()
                .is_none_or(|record| !is_running(&record.facts().process)),
        };
        let is_left = match &self.on_drop {
            OnDrop::Leave => true,
            OnDrop::Follow(what) => *what.borrow() == WaitFor::Connections,
            OnDrop::Kill => false,
        };
        match (has_ended, is_left) {
            (true, _) => {}
            (false, true) => return,
            (false, false) => self.signal(Signal::KILL),
        }
        if let Some(record) = self.record.take() {
            record.remove();
        }
    }
}

impl Handle {
    /// Resolves when the process has ended, with how; may be awaited again.
    async fn ended(&mut self) -> String {
        match self {
            Self::Child(child) => match child.wait().await {
                Ok(status) => ending(status),
                Err(error) => format!("was lost: {error}"),
            },
            Self::Adopted(name, _) => {
                let mut clock = time::interval(LOOK_EVERY);
                while is_running(name) {
                    clock.tick().await;
                }
                // The status of a process is for its parent alone.
                "ended".into()
            }
        }
    }

    fn signal(&self, signal: Signal) -> rustix::io::Result<()> {
        match self {
            // A child that wasn't waited for keeps its number.
            Self::Child(child) => match child.id().and_then(pid) {
                Some(pid) => kill_process(pid, signal),
                None => Ok(()),
            },
            Self::Adopted(_, fd) => pidfd_send_signal(fd, signal),
        }
    }
}

fn pid(number: u32) -> Option<Pid> {
    i32::try_from(number).ok().and_then(Pid::from_raw)
}

fn open(number: u32) -> std::io::Result<OwnedFd> {
    let pid = pid(number).ok_or_else(|| std::io::Error::other("no process has this number"))?;
    Ok(pidfd_open(pid, PidfdFlags::NONBLOCK)?)
}

fn ending(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with status {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::Problem;

    #[test]
    fn another_end_is_news_and_another_time_is_not() {
        let ended = |how: &str, circumstances: &str| Problem {
            what: format!("the proxy {how}"),
            circumstances: circumstances.to_owned(),
        };
        let told = ended(
            "exited with status 1",
            " after 0.3 s; it wrote last: 12:00:01 no memory",
        );
        assert!(
            !ended(
                "exited with status 1",
                " after 12.5 s; it wrote last: 12:00:13 no memory"
            )
            .is_news_beside(&told)
        );
        assert!(
            ended(
                "exited with status 2",
                " after 0.3 s; it wrote last: 12:00:01 no memory"
            )
            .is_news_beside(&told)
        );
        assert!(ended("was ended by signal 9", " after 0.3 s; it wrote nothing").is_news_beside(&told));
        assert!(ended("exited with status 1", " after 0.3 s; it wrote nothing").is_news_beside(&told));
    }
}
