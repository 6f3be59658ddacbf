//! What plays the proxy, and the controller's part that supervises it.
//!
//! The proxy is this test program itself: started again through a small script, one test ([`stand_in`]) plays a proxy
//! that answers on its admin port. What it does is told by files beside the script.

use super::super::{folder::once_free, *};
use crate::{
    certs::{Existing, ensure},
    http,
    state::{Availability, FleetState, sample::infra},
    task::Task,
};
use edge_ir::ProxySettings;
use std::{fs, os::unix::fs::PermissionsExt as _};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

const ADMIN_VARIABLE: &str = "EDGE_TEST_ADMIN_PORT";

/// Not a test but the process that the others supervise. It is ready at once, unless a file `unready` lies in the
/// folder it was started in, and busy as long as a file `busy` does. While a file `mute` does, nobody learns which. It
/// also listens on the port that a file `listen` names, once no file `late` is there. `leaves-PORT`, its admin port,
/// makes it say that it drains, and `hangs-PORT` say nothing at all. What it is told to do it notes as `draining-PORT`
/// and `quits-PORT`.
#[tokio::test]
async fn stand_in() {
    let Ok(port) = std::env::var(ADMIN_VARIABLE) else {
        return;
    };
    let listener = TcpListener::bind(("127.0.0.1", port.parse().unwrap())).await.unwrap();
    let is_there = |name: &str| Path::new(name).exists();
    let served = fs::read_to_string("listen").ok();
    let _serving = match served.map(|port| port.parse().unwrap()) {
        Some(port) => {
            while is_there("late") {
                fs::write("waits", "").unwrap();
                tokio::task::yield_now().await;
            }
            Some(listen(port))
        }
        None => None,
    };
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") && stream.read_buf(&mut head).await.is_ok_and(|n_read| n_read > 0) {}
        let head = String::from_utf8(head).unwrap();
        // Who asked may have thought better of it.
        if head.is_empty() {
            continue;
        }
        let path = head.split([' ', '?']).nth(1).unwrap();
        if is_there(&format!("hangs-{port}")) {
            continue;
        }
        let (status, body) = match path {
            "/ready" if is_there("unready") => (503, ""),
            "/ready" if is_there(&format!("leaves-{port}")) => {
                fs::write(format!("said-{port}"), "").unwrap();
                (503, "DRAINING\n")
            }
            "/stats" if is_there("mute") => {
                let n_unanswered = fs::read("unanswered").unwrap_or_default().len();
                fs::write("unanswered", "x".repeat(n_unanswered + 1)).unwrap();
                continue;
            }
            "/stats" if is_there("busy") => (
                200,
                "http.x.downstream_rq_active: 1\nhttp.x.downstream_cx_active: 1\nlistener.x.downstream_cx_active: 1\n",
            ),
            _ => (200, ""),
        };
        if path == "/drain_listeners" {
            fs::write(format!("draining-{port}"), "").unwrap();
        }
        if path == "/quitquitquit" {
            fs::write(format!("quits-{port}"), "").unwrap();
            return;
        }
        let answer = format!(
            "HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        let _ = stream.write_all(answer.as_bytes()).await;
    }
}

/// Listens as proxies do, one beside the other.
fn listen(port: u16) -> socket2::Socket {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.set_reuse_port(true).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], port)).into()).unwrap();
    socket.listen(16).unwrap();
    socket
}

/// A folder, and a controller's part that runs proxies in it.
pub(super) struct Rig {
    pub(super) folder: Folder,
    pub(super) settings: watch::Sender<Arc<HostSettings>>,
    pub(super) published: watch::Sender<Option<Arc<Published>>>,
    reports: watch::Receiver<Option<Reports>>,
    admins: watch::Receiver<AdminAddresses>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) task: Task,
}

/// A folder that takes the proxies that run in it along.
pub(super) struct Folder(tempfile::TempDir);

impl Folder {
    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        for record in record::Record::read_all(&self.path().join("run")) {
            let pid = i32::try_from(record.facts().process.pid()).unwrap();
            let _ = rustix::process::kill_process(
                rustix::process::Pid::from_raw(pid).unwrap(),
                rustix::process::Signal::KILL,
            );
        }
    }
}

/// A bootstrap that says no more than where the admin interface is.
pub(super) fn render_admin(input: &BootstrapInput<'_>) -> Result<Rendered, String> {
    Ok(Rendered {
        admin: Some(([127, 0, 0, 1], input.admin_port).into()),
        bootstrap: input.admin_port.to_string(),
    })
}

/// The same of a proxy that nobody is told how to ask.
pub(super) fn render_silent(input: &BootstrapInput<'_>) -> Result<Rendered, String> {
    let rendered = render_admin(input)?;
    Ok(Rendered {
        admin: None,
        ..rendered
    })
}

/// A proxy that is this program; `$2` is the bootstrap.
pub(super) fn good_proxy() -> String {
    let program = std::env::current_exe().unwrap();
    format!(
        "#!/bin/sh\ncd \"$(dirname \"$0\")\"\n{ADMIN_VARIABLE}=$(cat \"$2\") exec {} --exact host_infra::tests::rig::stand_in --nocapture\n",
        program.display()
    )
}

pub(super) fn write_proxy(folder: &Path, text: &str) {
    // Replaced as a whole: a program that is being written can't be started.
    let partial = folder.join("proxy.partial");
    fs::write(&partial, text).unwrap();
    fs::set_permissions(&partial, fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(partial, folder.join("proxy")).unwrap();
}

pub(super) fn settings(folder: &Path, at_stop: AtStop) -> HostSettings {
    HostSettings {
        proxy_binary: Some(folder.join("proxy")),
        folders: HostFolders {
            config_home: folder.join("config"),
            state_home: folder.join("state"),
            runtime_dir: folder.join("run"),
        },
        xds: ([127, 0, 0, 1], 1).into(),
        issuer: Issuer {
            certificates: folder.join("certs"),
            namespace: "system".into(),
        },
        bootstrap: render_admin,
        ready_patience: Duration::from_millis(300),
        answer_patience: Duration::ZERO,
        at_stop,
    }
}

impl Rig {
    pub(super) fn start(proxy: Option<&str>) -> Self {
        let folder = Folder(tempfile::tempdir().unwrap());
        if let Some(text) = proxy {
            write_proxy(folder.path(), text);
        }
        let runtime = RuntimeFolder::open(&folder.path().join("run")).unwrap();
        Self::start_in(folder, runtime, AtStop::End)
    }

    fn start_in(folder: Folder, runtime: RuntimeFolder, at_stop: AtStop) -> Self {
        ensure(&folder.path().join("certs"), "system", "cluster.local", Existing::Keep).unwrap();
        let settings = HostSettings {
            // A machine that tests is a busy one.
            ready_patience: Duration::from_secs(20),
            ..settings(folder.path(), at_stop)
        };
        let (settings, followed) = watch::channel(Arc::new(settings));
        let (published, receiver) = watch::channel(None);
        let outputs = Outputs {
            reports: Arc::new(watch::Sender::new(None)),
            admins: Arc::default(),
        };
        let (reports, admins) = (outputs.reports.subscribe(), outputs.admins.subscribe());
        let metrics = Arc::new(Metrics::default());
        let measured = Arc::clone(&metrics);
        let task = Task::spawn("host", |stop| run(followed, runtime, receiver, outputs, measured, stop));
        Self {
            folder,
            settings,
            published,
            reports,
            admins,
            metrics,
            task,
        }
    }

    /// The controller goes without a word, and another one begins in the same folder.
    pub(super) async fn succeed(self) -> Self {
        let settings = settings(self.folder.path(), AtStop::Keep);
        let runtime = settings.folders.runtime_dir.clone();
        self.settings.send_replace(Arc::new(settings));
        self.task.stop(Duration::from_secs(20)).await;
        let runtime = once_free(|| RuntimeFolder::open(&runtime));
        Self::start_in(self.folder, runtime, AtStop::End)
    }

    pub(super) fn publish(&self, fleets: &[(&str, ProxySettings)]) {
        self.publish_of(Coverage::Whole, fleets);
    }

    pub(super) fn publish_of(&self, coverage: Coverage, fleets: &[(&str, ProxySettings)]) {
        let state = |(key, proxy): &(&str, ProxySettings)| {
            let infra = Arc::new(infra(key, proxy.clone()));
            (
                (*key).into(),
                FleetState {
                    snapshot: Arc::default(),
                    infra: Some(infra),
                    last_infra: None,
                    home: None,
                    alternatives: Vec::new(),
                },
            )
        };
        let published = Published {
            fleets: fleets.iter().map(state).collect(),
            coverage,
            ..Published::default()
        };
        self.published.send_replace(Some(Arc::new(published)));
    }

    pub(super) async fn until(&mut self, what: &str, is_so: impl Fn(&Sights) -> bool) -> Sights {
        let looking = async {
            loop {
                if let Some(sights) = self.look().filter(&is_so) {
                    return sights;
                }
                tokio::select! {
                    changed = self.reports.changed() => changed.unwrap(),
                    changed = self.admins.changed() => changed.unwrap(),
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(20), looking)
            .await
            .unwrap_or_else(|_| panic!("waited in vain until {what}"))
    }

    /// What is told now.
    pub(super) fn look(&self) -> Option<Sights> {
        let admins = self.admins.borrow().clone();
        let reports = self.reports.borrow().clone()?;
        let sight = |(key, report): (FleetKey, Report)| {
            let admin = admins.get(&key).copied();
            let availability = report.availability;
            (key, Sight { availability, admin })
        };
        Some(reports.into_iter().map(sight).collect())
    }

    /// Leaves a note for the proxy with this admin interface.
    pub(super) fn note(&self, what: &str, admin: Option<SocketAddr>) -> PathBuf {
        let path = self.folder.path().join(format!("{what}-{}", admin.unwrap().port()));
        fs::write(&path, "").unwrap();
        path
    }

    pub(super) fn processes(&self) -> usize {
        let entries = fs::read_dir(self.folder.path().join("run")).unwrap().flatten();
        entries
            .filter(|entry| entry.path().extension().is_some_and(|e| e == "process"))
            .count()
    }
}

/// What is told of a fleet's process.
#[derive(Clone, Debug)]
pub(super) struct Sight {
    pub(super) availability: Availability,
    pub(super) admin: Option<SocketAddr>,
}

/// What is told of all of them.
pub(super) type Sights = BTreeMap<FleetKey, Sight>;

pub(super) fn is_available(sights: &Sights, key: &str) -> bool {
    sights
        .get(key)
        .is_some_and(|report| report.availability == Availability::Available(1))
}

/// Kills the proxy with this admin interface.
pub(super) fn kill(rig: &Rig, admin: Option<SocketAddr>) {
    let records = record::Record::read_all(&rig.folder.path().join("run"));
    let of_admin = records.iter().find(|record| record.facts().admin == admin).unwrap();
    let pid = i32::try_from(of_admin.facts().process.pid()).unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

/// Waits for a condition.
pub(super) async fn eventually(what: &str, is_so: impl AsyncFn() -> bool) {
    let waiting = async {
        while !is_so().await {
            tokio::task::yield_now().await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(20), waiting).await;
    waited.unwrap_or_else(|_| panic!("waited in vain: {what}"));
}

/// Waits until nobody answers on an address.
pub(super) async fn gone(admin: Option<SocketAddr>) {
    eventually("it ends", async || !answers(admin).await).await;
}

/// Waits until a proxy was told to leave.
pub(super) async fn told(rig: &Rig, admin: Option<SocketAddr>) {
    let path = rig.folder.path().join(format!("draining-{}", admin.unwrap().port()));
    eventually("it is told to leave", async || path.exists()).await;
}

pub(super) async fn answers(admin: Option<SocketAddr>) -> bool {
    http::fetch(::http::Method::GET, admin.unwrap(), "/").await.is_ok()
}
