//! What a fleet's process is started with: binary, arguments, files, log.

use super::{BootstrapInput, HostSettings, StartFiles, binary, log_file, ports};
use crate::error::describe;
use edge_ir::Infra;
use std::{
    ffi::OsString,
    fs::{self, File},
    io::Write as _,
    net::SocketAddr,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

/// Longest node name; it becomes part of metric names.
const MAX_NODE: usize = 64;
/// Seconds that a proxy drains when nothing else is said.
pub(super) const DEFAULT_DRAIN_SECONDS: u32 = 60;

/// A process that is ready to be started.
#[derive(Debug)]
pub(super) struct Launch {
    pub(super) program: PathBuf,
    pub(super) args: Vec<OsString>,
    pub(super) log: File,
    pub(super) log_path: PathBuf,
    pub(super) admin: Option<SocketAddr>,
    /// Files that are of no use once the process has ended.
    pub(super) files: Vec<PathBuf>,
    pub(super) runtime_dir: PathBuf,
}

/// Gathers what a process needs, or says what is missing and how to mend it.
pub(super) fn prepare(settings: &HostSettings, infra: &Infra) -> Result<Launch, String> {
    let program = binary::find(settings.proxy_binary.as_deref())?;
    let port = || ports::free().map_err(|error| format!("no free port on loopback: {error}"));
    let (admin_port, stats_port) = (port()?, port()?);
    let file = |name: &str| {
        settings
            .folders
            .runtime_dir
            .join(format!("{}-{admin_port}.{name}.json", infra.name))
    };
    let paths = [file("bootstrap"), file("sds-certificate"), file("sds-authority")];
    let rendered = (settings.bootstrap)(&BootstrapInput {
        infra,
        xds: settings.xds,
        client: &settings.client,
        sds_certificate: &paths[1],
        sds_authority: &paths[2],
        admin_port,
        stats_port,
    })?;
    write_all(&paths, &rendered)?;
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
        program,
        args: arguments(infra, &paths[0]),
        log,
        log_path,
        admin: rendered.admin,
        files: paths.to_vec(),
        runtime_dir: settings.folders.runtime_dir.clone(),
    })
}

fn write_all(paths: &[PathBuf; 3], rendered: &StartFiles) -> Result<(), String> {
    let texts = [&rendered.bootstrap, &rendered.sds_certificate, &rendered.sds_authority];
    for (path, text) in paths.iter().zip(texts) {
        let file = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(path);
        file.and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(|error| format!("can't write {}: {}", path.display(), describe(&error)))?;
    }
    Ok(())
}

/// The arguments of Envoy, which our own proxy takes too.
fn arguments(infra: &Infra, bootstrap: &Path) -> Vec<OsString> {
    let mut node = infra.name.to_string();
    node.truncate(node.floor_char_boundary(MAX_NODE));
    let proxy = &infra.proxy;
    let levels = &proxy.log_levels;
    let default_level = levels.get("default").map_or("warn", |level| level);
    let components = levels.iter().filter(|(name, _)| &***name != "default");
    let mut components: Vec<String> = components.map(|(name, level)| format!("{name}:{level}")).collect();
    if components.is_empty() {
        components.push("misc:error".into());
    }
    let drain = proxy.drain_timeout_seconds.unwrap_or(DEFAULT_DRAIN_SECONDS);

    let mut args: Vec<OsString> = vec!["--config-path".into(), bootstrap.into()];
    let mut add = |name: &str, value: String| args.extend([name.into(), value.into()]);
    add("--service-cluster", infra.key.to_string());
    add("--service-node", node);
    add("--log-level", default_level.to_owned());
    add("--component-log-level", components.join(","));
    add("--drain-strategy", "immediate".into());
    add("--drain-time-s", drain.to_string());
    if let Some(threads) = proxy.concurrency {
        add("--concurrency", threads.to_string());
    }
    // Several Envoys share a machine only without their shared memory region.
    args.push("--disable-hot-restart".into());
    args.extend(proxy.extra_args.iter().map(|arg| arg.to_string().into()));
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
        let infra = super::super::tests::infra("ns/gw", proxy);
        let args: Vec<String> = arguments(&infra, Path::new("b.json"))
            .into_iter()
            .map(|a| a.into_string().unwrap())
            .collect();
        let joined = args.join(" ");
        assert_eq!(
            joined,
            "--config-path b.json --service-cluster ns/gw --service-node edge-ns-gw --log-level info \
             --component-log-level http:debug --drain-strategy immediate --drain-time-s 7 --concurrency 2 \
             --disable-hot-restart --disable-extensions x"
        );
        let long = Infra {
            name: "n".repeat(80).into(),
            proxy: Arc::default(),
            ..Infra::clone(&infra)
        };
        assert!(arguments(&long, Path::new("b")).contains(&OsString::from("n".repeat(64))));
    }
}
