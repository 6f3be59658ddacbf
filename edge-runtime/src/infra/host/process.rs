//! One proxy process: started, asked whether it is ready, drained, ended.

use super::{STOP_GRACE, launch::Launch, log_file, record::Record};
use crate::{
    error::describe,
    guard::GuardMessage,
    http::fetch,
    process_name::{ProcessName, signal},
};
use http::{Method, StatusCode};
use rustix::process::Signal;
use std::{
    fs,
    future::Future,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};
use tokio::{
    process::{Child, Command},
    sync::mpsc,
    time::{self, Instant, MissedTickBehavior},
};

/// How often a starting proxy is asked whether it is ready, and a draining one whether it is idle.
const ASK_EVERY: Duration = Duration::from_millis(50);

/// A running process. Dropping it kills it.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    pub(super) admin: Option<SocketAddr>,
    pub(super) started: Instant,
    log_path: PathBuf,
    /// Length of the log when the process started: what it wrote lies behind.
    log_start: u64,
    files: Vec<PathBuf>,
    _guarded: Option<Guarded>,
}

/// A process that somebody ends if the controller can't any more.
#[derive(Debug)]
struct Guarded {
    name: ProcessName,
    guard: mpsc::Sender<GuardMessage>,
    _record: Record,
}

impl Guarded {
    fn new(name: ProcessName, folder: &Path, guard: &mpsc::Sender<GuardMessage>) -> Self {
        let record = Record::write(folder, &name);
        // Full or closed: the record alone has to do.
        let _ = guard.try_send(GuardMessage::Add(name.clone()));
        Self {
            name,
            guard: guard.clone(),
            _record: record,
        }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = self.guard.try_send(GuardMessage::Remove(self.name.clone()));
    }
}

/// What became of a process.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It answers that it is ready.
    Ready,
    /// It ended, and how, for people.
    Ended(String),
}

impl Process {
    /// Starts a process in a group of its own, so that a Ctrl-C at the terminal reaches only the controller, which
    /// ends the proxy in order.
    pub(super) fn start(launch: Launch, guard: &mpsc::Sender<GuardMessage>) -> Result<Self, String> {
        let shown = launch.program.display().to_string();
        let errors = launch
            .log
            .try_clone()
            .map_err(|error| format!("{}: {error}", launch.log_path.display()))?;
        let log_start = launch.log.metadata().map_or(0, |meta| meta.len());
        let child = Command::new(&launch.program)
            .args(&launch.args)
            .stdin(Stdio::null())
            .stdout(launch.log)
            .stderr(errors)
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("proxy binary {shown} can't be started: {}", describe(&error)))?;
        let name = child.id().and_then(ProcessName::of);
        let guarded = name.map(|name| Guarded::new(name, &launch.runtime_dir, guard));
        Ok(Self {
            child,
            admin: launch.admin,
            started: Instant::now(),
            log_path: launch.log_path,
            log_start,
            files: launch.files,
            _guarded: guarded,
        })
    }

    /// The process's id, while it runs.
    pub(super) fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Resolves when the process has ended, with how.
    pub(super) async fn ended(&mut self) -> String {
        let status = self.child.wait().await;
        let how = match status {
            Ok(status) => self::ending(status),
            Err(error) => format!("was lost: {error}"),
        };
        let after = self.started.elapsed().as_secs_f64();
        let last = log_file::last_words(&self.log_path, self.log_start).map_or_else(
            || "it wrote nothing".to_owned(),
            |line| format!("it wrote last: {line}"),
        );
        format!(
            "the proxy {how} after {after:.1} s; {last} (log: {})",
            self.log_path.display()
        )
    }

    /// Resolves when a starting process is ready or has ended.
    pub(super) async fn starting(&mut self) -> Fate {
        let admin = self.admin;
        tokio::select! {
            how = self.ended() => Fate::Ended(how),
            () = ready(admin) => Fate::Ready,
        }
    }

    /// Asks the process to end and waits; kills it after a while, or at once when `impatient` resolves.
    pub(super) async fn stop(mut self, impatient: impl Future<Output = ()>) {
        if let Some(pid) = self.child.id() {
            signal(pid, Signal::TERM);
        }
        let ended = tokio::select! {
            _ = self.child.wait() => true,
            () = time::sleep(STOP_GRACE) => false,
            () = impatient => false,
        };
        if !ended && let Err(error) = self.child.kill().await {
            tracing::warn!(%error, "can't end a proxy");
        }
    }

    /// Lets connections finish, at most for `patience`, then stops: the way out for a process that was replaced.
    pub(super) async fn drain(self, patience: Duration) {
        if let Some(admin) = self.admin {
            let drain = fetch(Method::POST, admin, "/drain_listeners?graceful&skip_exit").await;
            if matches!(&drain, Ok((StatusCode::OK, _))) {
                // Out of patience is as good as idle: what is left is cut.
                let _ = time::timeout(patience, idle(admin)).await;
            }
        }
        self.stop(std::future::pending()).await;
    }

    /// Keeps the log at a sensible size.
    pub(super) fn trim_log(&self) {
        let path = self.log_path.clone();
        tokio::task::spawn_blocking(move || {
            if let Err(error) = log_file::trim(&path, log_file::LIMIT) {
                tracing::debug!(path = %path.display(), %error, "can't cut a log");
            }
        });
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        for file in &self.files {
            // Gone already is as good.
            let _ = fs::remove_file(file);
        }
    }
}

fn ending(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with status {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

/// Resolves when the admin interface says that the proxy is ready; without one it is taken for ready at once.
async fn ready(admin: Option<SocketAddr>) {
    let Some(admin) = admin else { return };
    let mut clock = ask_clock();
    loop {
        clock.tick().await;
        if let Ok((StatusCode::OK, _)) = fetch(Method::GET, admin, "/ready").await {
            return;
        }
    }
}

/// Resolves when no listener has a connection left, or nobody answers any more.
async fn idle(admin: SocketAddr) {
    let mut clock = ask_clock();
    loop {
        clock.tick().await;
        match fetch(Method::GET, admin, "/stats?filter=downstream_cx_active").await {
            Ok((_, page)) if open_connections(&String::from_utf8_lossy(&page)) > 0 => {}
            _ => return,
        }
    }
}

fn ask_clock() -> time::Interval {
    let mut clock = time::interval(ASK_EVERY);
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    clock
}

/// The sum over the listeners of a statistics page; those of the proxy itself and the per-worker shares don't count.
fn open_connections(page: &str) -> u64 {
    page.lines()
        .filter_map(|line| line.split_once(": "))
        .filter(|(name, _)| name.starts_with("listener.") && name.ends_with(".downstream_cx_active"))
        .filter(|(name, _)| {
            !["admin", "worker", "_19001.", "_19003."]
                .iter()
                .any(|own| name.contains(own))
        })
        .filter_map(|(_, count)| count.trim().parse::<u64>().ok())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_connections_of_clients_count() {
        let page = "listener.0.0.0.0_8888.downstream_cx_active: 2\n\
                    listener.0.0.0.0_8888.worker_0.downstream_cx_active: 2\n\
                    listener.admin.downstream_cx_active: 1\n\
                    listener.[__]_8443.downstream_cx_active: 3\n\
                    http.x.downstream_cx_active: 7\n";
        assert_eq!(open_connections(page), 5);
    }
}
