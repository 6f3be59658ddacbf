//! Records of running processes, by which the next controller knows them again.
//!
//! Proxies outlive their controller. Each has a file `<pid>.process` in the runtime folder that says who it is (its id
//! and the time at which it started, so that a stranger who got the number later isn't taken for it), which fleet it
//! serves, how far it has come, and what it was started with. Start times come from `/proc`, so on other systems than
//! Linux there are no records, and a controller that was killed leaves proxies that nobody adopts.

use super::launch::Start;
use crate::{
    error::describe,
    files::replace,
    process_name::{ProcessName, is_running},
};
use edge_ir::FleetKey;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeSet,
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
};

const SUFFIX: &str = "process";

/// How far a process has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Phase {
    /// It hasn't been ready yet.
    Starting,
    /// It serves.
    Serving,
    /// It is on its way out.
    Leaving,
}

/// What the next controller must know of a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Facts {
    /// Which process.
    pub(super) process: ProcessName,
    /// The fleet it serves.
    pub(super) fleet: FleetKey,
    /// How far it has come.
    pub(super) phase: Phase,
    /// What it was started with.
    pub(super) start: Start,
    /// Its admin interface.
    pub(super) admin: Option<SocketAddr>,
    /// Where it writes to.
    pub(super) log: PathBuf,
    /// Length of the log when it started: what it wrote lies behind.
    pub(super) log_start: u64,
}

/// The record of one process.
#[derive(Debug)]
pub(super) struct Record {
    path: PathBuf,
    facts: Facts,
}

impl Record {
    /// Notes a process that was started.
    pub(super) fn write(folder: &Path, facts: Facts) -> Self {
        let path = folder.join(format!("{}.{SUFFIX}", facts.process.pid()));
        let record = Self { path, facts };
        record.save();
        record
    }

    /// Records of processes that are still running. Those of others, and what can't be read, are removed.
    pub(super) fn read_all(folder: &Path) -> Vec<Self> {
        let mut running = Vec::new();
        for path in paths(folder) {
            match read(&path) {
                Ok(facts) if is_running(&facts.process) => running.push(Self { path, facts }),
                Ok(facts) => Self { path, facts }.remove(),
                Err(problem) => {
                    tracing::warn!(path = %path.display(), problem, "a process record can't be read and is left alone");
                }
            }
        }
        // The latest first.
        running.sort_by_key(|record| std::cmp::Reverse(record.facts.process.start_ticks()));
        running
    }

    /// The ids of the processes that have a record in a folder and run. Changes nothing there.
    pub(super) fn running(folder: &Path) -> BTreeSet<u32> {
        let records = paths(folder).filter_map(|path| read(&path).ok());
        let running = records.filter(|facts| is_running(&facts.process));
        running.map(|facts| facts.process.pid()).collect()
    }

    /// What it says.
    pub(super) fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Notes how far the process has come.
    pub(super) fn set_phase(&mut self, phase: Phase) {
        if self.facts.phase != phase {
            self.facts.phase = phase;
            self.save();
        }
    }

    /// The process has ended: its record goes, and with it what only it has read.
    pub(super) fn remove(self) {
        for path in self.facts.start.files.iter().chain([&self.path]) {
            if let Err(error) = fs::remove_file(path) {
                tracing::debug!(path = %path.display(), %error, "can't remove a file of a process that has ended");
            }
        }
    }

    fn save(&self) {
        let facts = serde_json::to_vec(&self.facts).map_err(io::Error::from);
        let written = facts.and_then(|facts| replace(&self.path, &facts, 0o600));
        if let Err(error) = written {
            let reason = describe(&error);
            tracing::warn!(path = %self.path.display(), reason, "can't note a proxy; the next controller won't know it");
        }
    }
}

fn paths(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    paths.filter(|path| path.extension().is_some_and(|e| e == SUFFIX))
}

fn read(path: &Path) -> Result<Facts, String> {
    let text = fs::read_to_string(path).map_err(|error| describe(&error))?;
    serde_json::from_str(&text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    fn facts(process: ProcessName, folder: &Path) -> Facts {
        let file = |name: &str| {
            let path = folder.join(name);
            fs::write(&path, "{}").unwrap();
            path
        };
        Facts {
            fleet: "ns/a".into(),
            phase: Phase::Starting,
            start: Start {
                files: ["1", "2", "3"].map(|n| file(&format!("{}.{n}.json", process.pid()))),
                ..Start::default()
            },
            process,
            admin: None,
            log: folder.join("log"),
            log_start: 7,
        }
    }

    #[test]
    fn a_process_is_known_again_but_not_a_stranger_with_its_number() {
        let folder = tempfile::tempdir().unwrap();
        let mut child = Command::new("sleep").arg("600").stdout(Stdio::null()).spawn().unwrap();
        let known = facts(ProcessName::of(child.id()).unwrap(), folder.path());
        let mut record = Record::write(folder.path(), known.clone());
        record.set_phase(Phase::Serving);
        let stranger = ProcessName::new(1, "1");
        Record::write(folder.path(), facts(stranger, folder.path()));

        let found = Record::read_all(folder.path());
        let serving = Facts {
            phase: Phase::Serving,
            ..known
        };
        assert_eq!(found.iter().map(Record::facts).collect::<Vec<_>>(), [&serving]);
        assert_eq!(Record::running(folder.path()), [child.id()].into());
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            4,
            "of the other nothing is left"
        );
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(Record::read_all(folder.path()).len(), 0);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
