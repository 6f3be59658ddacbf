//! Who is compared, and how each is told what to do.

use super::{haproxy, nginx, xds};
use anyhow::{Context, Result, bail, ensure};
use std::{
    fmt, fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Core of the proxy.
const PROXY_CORE: &str = "0";
/// Core of the load generator and the backend.
pub(super) const LOAD_CORE: &str = "1";

/// What all measurements need.
#[derive(Debug)]
pub(super) struct Bench {
    /// The load generator.
    pub(super) load: PathBuf,
    /// Who is compared.
    pub(super) peers: Vec<Peer>,
    /// Runs of each.
    pub(super) runs: usize,
    /// Seconds of load in a run.
    pub(super) seconds: u64,
}

/// A proxy, by the path of its binary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Peer {
    /// Ours.
    Edge(PathBuf),
    /// Ours as it was.
    EdgeBefore(PathBuf),
    /// Stock Envoy.
    Envoy(PathBuf),
    /// nginx.
    Nginx(PathBuf),
    /// HAProxy.
    Haproxy(PathBuf),
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Edge(_) => "edge-proxy",
            Self::EdgeBefore(_) => "edge-proxy before",
            Self::Envoy(_) => "Envoy 1.40.0",
            Self::Nginx(_) => "nginx",
            Self::Haproxy(_) => "HAProxy",
        })
    }
}

/// What clients and backends speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Speech {
    /// HTTP/1.1 on both sides.
    Http1,
    /// HTTP/2 from clients, HTTP/1.1 to backends.
    Http2,
    /// gRPC on both sides.
    Grpc,
    /// HTTP/1.1 over TLS 1.3 from clients.
    Tls(Key),
}

/// Of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    /// ECDSA with P-256.
    P256,
    /// RSA of 2048 bits.
    Rsa,
}

/// How many routes there are; the last is the one that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    /// One, for everything.
    Any,
    /// In one host, by exact paths `/r0`, `/r1` and so on.
    Routes(usize),
    /// Hosts `h0.example.com` and so on, with one route each.
    Hosts(usize),
}

/// Who speaks what, and where.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) speech: Speech,
    pub(super) size: Size,
    /// Whether there is an access log.
    pub(super) logs: Logs,
    pub(super) front: u16,
    pub(super) back: u16,
    pub(super) admin: u16,
    /// For everything that is written.
    pub(super) folder: PathBuf,
}

/// Access logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Logs {
    /// None.
    No,
    /// In the default format, to a file.
    File,
}

impl Setup {
    /// The file of the access log.
    pub(super) fn log(&self) -> PathBuf {
        self.folder.join("access.log")
    }

    /// What clients trust, as PEM.
    pub(super) fn authority(&self) -> PathBuf {
        self.folder.join("authority.pem")
    }

    /// Certificate chain and key in one file, as PEM.
    pub(super) fn certificate(&self) -> PathBuf {
        self.folder.join("server.pem")
    }
}

impl Peer {
    /// Path of the binary.
    fn program(&self) -> &Path {
        match self {
            Self::Edge(path) | Self::EdgeBefore(path) | Self::Envoy(path) | Self::Nginx(path) | Self::Haproxy(path) => {
                path
            }
        }
    }

    /// Whether it is ours or Envoy, which take the same configuration.
    pub(super) fn speaks_xds(&self) -> bool {
        !matches!(self, Self::Nginx(_) | Self::Haproxy(_))
    }

    /// Writes its configuration, and gives the words that start it.
    pub(super) fn words(&self, setup: &Setup) -> Result<Vec<String>> {
        let path = setup.folder.join("config");
        let (text, arguments) = match self {
            Self::Edge(_) | Self::EdgeBefore(_) => (
                xds::bootstrap(setup),
                vec!["-c", "CONFIG", "--concurrency", "1", "--log-level", "error"],
            ),
            Self::Envoy(_) => (
                xds::bootstrap(setup),
                vec![
                    "-c",
                    "CONFIG",
                    "--concurrency",
                    "1",
                    "--log-level",
                    "error",
                    "--disable-hot-restart",
                ],
            ),
            Self::Nginx(_) => (nginx::configuration(setup), vec!["-p", "FOLDER", "-c", "CONFIG"]),
            Self::Haproxy(_) => (haproxy::configuration(setup), vec!["-db", "-f", "CONFIG"]),
        };
        // Envoy tells a configuration's language by its name.
        let path = path.with_extension("yaml");
        fs::write(&path, text)?;
        let word = |word: &str| match word {
            "CONFIG" => path.display().to_string(),
            "FOLDER" => setup.folder.display().to_string(),
            other => other.to_owned(),
        };
        let program = self.program().display().to_string();
        Ok(std::iter::once(program)
            .chain(arguments.into_iter().map(word))
            .collect())
    }
}

/// A program on the core of the proxy. `taskset` keeps the process id, so what is measured is the program.
pub(super) fn on_proxy_core(words: &[String]) -> Command {
    pinned(PROXY_CORE, words)
}

/// A program on the core of the two ends.
pub(super) fn on_load_core(words: &[String]) -> Command {
    pinned(LOAD_CORE, words)
}

fn pinned(core: &str, words: &[String]) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", core]).args(words);
    command
}

/// nginx and HAProxy of Debian, installed if need be.
pub(super) fn packaged() -> Result<[Peer; 2]> {
    Ok([
        Peer::Nginx(debian("nginx-light", "/usr/sbin/nginx")?),
        Peer::Haproxy(debian("haproxy", "/usr/sbin/haproxy")?),
    ])
}

fn debian(package: &str, path: &str) -> Result<PathBuf> {
    let path = PathBuf::from(path);
    if path.is_file() {
        return Ok(path);
    }
    let hint = format!("{package} of Debian is compared with: install it (apt-get install {package})");
    let output = Command::new("apt-get")
        .args(["install", "-y", "-q", "--no-install-recommends", package])
        .env("DEBIAN_FRONTEND", "noninteractive")
        .output()
        .with_context(|| hint.clone())?;
    if !output.status.success() {
        bail!("{hint}; it failed here: {}", String::from_utf8_lossy(&output.stderr));
    }
    ensure!(path.is_file(), "{hint}; it has no {}", path.display());
    Ok(path)
}
