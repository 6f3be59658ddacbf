//! What a fleet's process is started with: binary, arguments, files, log.

use super::{BootstrapInput, HostSettings, Rendered, binary, identity, log_file, ports};
use crate::error::describe;
use edge_ir::Infra;
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File, Metadata},
    io::Write as _,
    net::SocketAddr,
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

/// Longest node name; it becomes part of metric names.
const MAX_NODE: usize = 64;
/// Seconds that a proxy drains when nothing else is said.
pub(super) const DEFAULT_DRAIN_SECONDS: u32 = 60;

/// What tells one way of starting a process from another: as long as a running one was started like this, it may go on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Start {
    pub(super) program: PathBuf,
    /// The version of the program's file: an upgrade in place is another program.
    pub(super) version: Version,
    pub(super) args: Vec<String>,
    /// Ports of the admin interface and the statistics listener.
    pub(super) ports: [u16; 2],
    /// The [bootstrap](Self::bootstrap), and the two files that lead to the certificates.
    pub(super) files: [PathBuf; 3],
}

/// Which of the files is the bootstrap; records of processes tell them by their places.
const BOOTSTRAP: usize = 0;

impl Start {
    fn bootstrap(&self) -> &Path {
        &self.files[BOOTSTRAP]
    }
}

/// What tells one version of a file from the next, replaced ones included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Version {
    device: u64,
    inode: u64,
    length: u64,
    modified: (i64, i64),
}

/// How a fleet's process is to be started.
#[derive(Debug)]
pub(super) struct Plan {
    start: Start,
    rendered: Rendered,
}

/// A process that is ready to be started.
#[derive(Debug)]
pub(super) struct Launch {
    pub(super) start: Start,
    pub(super) log: File,
    pub(super) log_path: PathBuf,
    pub(super) admin: Option<SocketAddr>,
    pub(super) runtime_dir: PathBuf,
}

/// Gathers what a process needs, or says what is missing and how to mend it.
pub(super) fn prepare(settings: &HostSettings, infra: &Infra) -> Result<Launch, String> {
    let port = || ports::free().map_err(|error| format!("no free port on loopback: {error}"));
    let Plan { start, rendered } = plan(settings, infra, [port()?, port()?])?;
    identity::ensure(settings, infra)?;
    write(start.bootstrap(), &rendered.bootstrap)?;
    identity::lead(settings, infra, &start)?;
    let folders = [
        settings.folders.state_home.join("proxies"),
        settings.folders.runtime_dir.join("proxies"),
    ];
    let (log, log_path) = log_file::open(&[&folders[0], &folders[1]], &infra.name).map_err(|error| {
        let folder = settings.folders.state_home.display();
        format!(
            "the log of a proxy can't be written below {folder}: {}; make it writable",
            describe(&error)
        )
    })?;
    if !log_path.starts_with(&settings.folders.state_home) {
        let (wanted, used) = (settings.folders.state_home.display(), log_path.display());
        tracing::warn!(%used, "state folder {wanted} can't be written; the proxy's log goes elsewhere");
    }
    Ok(Launch {
        start,
        log,
        log_path,
        admin: rendered.admin,
        runtime_dir: settings.folders.runtime_dir.clone(),
    })
}

/// Whether a running process was started as one would be started now, the text of its bootstrap included.
pub(super) fn is_current(settings: &HostSettings, infra: &Infra, known: &Start) -> Result<bool, String> {
    let Plan { start, rendered } = plan(settings, infra, known.ports)?;
    // A file that can't be read is none that we could vouch for.
    Ok(start == *known && fs::read_to_string(start.bootstrap()).is_ok_and(|on_disk| on_disk == rendered.bootstrap))
}

/// Sees to it that a running process can prove whose it is: its certificate is renewed before it expires, and one that
/// was started with another is led to its own.
pub(super) fn identify(settings: &HostSettings, infra: &Infra, known: &Start) -> Result<(), String> {
    identity::ensure(settings, infra)?;
    identity::lead(settings, infra, known)
}

fn plan(settings: &HostSettings, infra: &Infra, ports: [u16; 2]) -> Result<Plan, String> {
    let program = binary::find(settings.proxy_binary.as_deref())?;
    let version = fs::metadata(&program)
        .map(|meta| Version::of(&meta))
        .map_err(|error| format!("proxy binary {}: {}", program.display(), describe(&error)))?;
    let [admin_port, stats_port] = ports;
    let file = |name: &str| {
        settings
            .folders
            .runtime_dir
            .join(format!("{}-{admin_port}.{name}.json", infra.name))
    };
    let files = [file("bootstrap"), file("sds-certificate"), file("sds-authority")];
    let rendered = (settings.bootstrap)(&BootstrapInput {
        infra,
        xds: settings.xds,
        sds_certificate: &files[1],
        sds_authority: &files[2],
        admin_port,
        stats_port,
    })?;
    let start = Start {
        args: arguments(infra, &files[BOOTSTRAP]),
        program,
        version,
        ports,
        files,
    };
    Ok(Plan { start, rendered })
}

impl Version {
    fn of(meta: &Metadata) -> Self {
        Self {
            device: meta.dev(),
            inode: meta.ino(),
            length: meta.len(),
            modified: (meta.mtime(), meta.mtime_nsec()),
        }
    }
}

/// How long what is open on a fleet's proxy may go on when the proxy leaves.
pub(super) fn patience(infra: &Infra) -> Duration {
    let seconds = infra.proxy.drain_timeout_seconds.unwrap_or(DEFAULT_DRAIN_SECONDS);
    Duration::from_secs(seconds.into())
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    let file = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| format!("can't write {}: {}", path.display(), describe(&error)))
}

/// The arguments of Envoy, which our own proxy takes too.
fn arguments(infra: &Infra, bootstrap: &Path) -> Vec<String> {
    let mut node = infra.name.to_string();
    node.truncate(node.floor_char_boundary(MAX_NODE));
    let proxy = &infra.proxy;
    let drain = proxy.drain_timeout_seconds.unwrap_or(DEFAULT_DRAIN_SECONDS);

    let mut args: Vec<String> = vec!["--config-path".into(), bootstrap.display().to_string()];
    let mut add = |name: &str, value: String| args.extend([name.into(), value]);
    add("--service-cluster", infra.key.to_string());
    add("--service-node", node);
    add("--log-level", proxy.default_level().to_owned());
    add("--component-log-level", proxy.component_levels());
    add("--drain-strategy", "immediate".into());
    add("--drain-time-s", drain.to_string());
    if let Some(threads) = proxy.concurrency {
        add("--concurrency", threads.to_string());
    }
    // Several Envoys share a machine only without their shared memory region.
    args.push("--disable-hot-restart".into());
    args.extend(proxy.extra_args.iter().map(ToString::to_string));
    args
}

#[cfg(test)]
mod tests {
    use super::*;
    use edge_ir::ProxySettings;
    use std::sync::Arc;

    #[test]
    fn arguments_follow_the_settings() {
        let proxy = ProxySettings {
            concurrency: Some(2),
            drain_timeout_seconds: Some(7),
            log_levels: [("default".into(), "info".into()), ("http".into(), "debug".into())].into(),
            extra_args: vec!["--disable-extensions".into(), "x".into()],
            ..ProxySettings::default()
        };
        let infra = crate::state::sample::infra("ns/gw", proxy);
        let joined = arguments(&infra, Path::new("b.json")).join(" ");
        assert_eq!(
            joined,
            "--config-path b.json --service-cluster ns/gw --service-node edge-ns-gw --log-level info \
             --component-log-level misc:error,http:debug --drain-strategy immediate --drain-time-s 7 --concurrency 2 \
             --disable-hot-restart --disable-extensions x"
        );
        let long = Infra {
            name: "n".repeat(80).into(),
            proxy: Arc::default(),
            ..Infra::clone(&infra)
        };
        assert!(arguments(&long, Path::new("b")).contains(&"n".repeat(64)));
    }
}
