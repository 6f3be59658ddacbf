//! What keeps the controller from starting, in words that name the place and say what to do.

pub(crate) use edge_files::describe;
use std::{io, net::SocketAddr, path::PathBuf};
use thiserror::Error;

/// A fault that ends a command.
#[derive(Debug, Error)]
pub enum Error {
    /// The configuration can't be used: file, place, what is wrong and what to do.
    #[error("{0}")]
    Config(String),
    /// The cluster can't be used: what is wrong and what to do.
    #[error("{0}")]
    Cluster(String),
    /// A socket can't be opened.
    #[error("can't listen on {address} for {purpose}: {cause}; {remedy}", cause = describe(source))]
    Listen {
        /// The address that was tried.
        address: SocketAddr,
        /// What the socket is for.
        purpose: &'static str,
        /// The field or flag that changes it.
        remedy: String,
        /// The system's reason.
        source: io::Error,
    },
    /// A file or folder can't be used.
    #[error("{purpose} {path}: {cause}; {remedy}", path = path.display(), cause = describe(source))]
    File {
        /// What it is for.
        purpose: &'static str,
        /// Which one.
        path: PathBuf,
        /// What to do.
        remedy: String,
        /// The system's reason.
        source: io::Error,
    },
    /// Certificates can't be made or used.
    #[error("{path}: {problem}", path = path.display())]
    Certificate {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong and what to do.
        problem: String,
    },
    /// A task has failed without which the controller can't go on.
    #[error("the task `{task}` {how}; start the controller again, and report this if it comes back")]
    Task {
        /// Its name.
        task: &'static str,
        /// How it ended.
        how: String,
    },
    /// A fault of the machine that no field changes.
    #[error("{purpose}: {cause}", cause = describe(source))]
    System {
        /// What was tried.
        purpose: &'static str,
        /// The system's reason.
        source: io::Error,
    },
}
