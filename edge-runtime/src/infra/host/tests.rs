//! Supervision of real processes.
//!
//! The proxy is this test program itself: started again through a small script, one test ([`stand_in`]) plays a proxy
//! that answers on its admin port. What it does is told by files beside the script.

use super::*;
use crate::{
    http,
    state::{Availability, FleetState},
    task::StopSource,
};
use ::http::StatusCode;
use edge_ir::ProxySettings;
use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    sync::atomic::{AtomicBool, Ordering},
};

/// Infrastructure of a fleet.
pub(super) fn infra(key: &str, proxy: ProxySettings) -> Infra {
    Infra {
        key: key.into(),
        name: format!("edge-{}", key.replace('/', "-")).into(),
        namespace: "edge-gateway-system".into(),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        ports: Vec::new(),
        addresses: Vec::new(),
        proxy: Arc::new(proxy),
        origins: [].into(),
    }
}

const ADMIN_VARIABLE: &str = "EDGE_TEST_ADMIN_PORT";

/// Not a test but the process that the others supervise: ready at once, until it is told to stop or drained.
#[tokio::test]
async fn stand_in() {
    let Ok(port) = std::env::var(ADMIN_VARIABLE) else {
        return;
    };
    let address = SocketAddr::from(([127, 0, 0, 1], port.parse().unwrap()));
    let (_source, stop) = StopSource::new();
    let drained = Arc::new(AtomicBool::new(false));
    let page = move |query: http::Query| {
        let drained = Arc::clone(&drained);
        async move {
            if query.path == "/drain_listeners" {
                drained.store(true, Ordering::Relaxed);
            }
            http::text(StatusCode::OK, "")
        }
    };
    http::serve(http::listen(address, "the test", "").await.unwrap(), page, stop).await;
}

struct Rig {
    folder: tempfile::TempDir,
    published: watch::Sender<Option<Arc<Published>>>,
    reports: watch::Receiver<Option<Reports>>,
    metrics: Arc<Metrics>,
    task: Task,
}

/// A bootstrap that says no more than where the admin interface is.
fn render_admin(input: &BootstrapInput<'_>) -> Result<StartFiles, String> {
    Ok(StartFiles {
        admin: Some(([127, 0, 0, 1], input.admin_port).into()),
        bootstrap: input.admin_port.to_string(),
        sds_certificate: String::new(),
        sds_authority: String::new(),
    })
}

/// A proxy that is this program; `$2` is the bootstrap.
fn good_proxy() -> String {
    let program = std::env::current_exe().unwrap();
    format!(
        "#!/bin/sh\n{ADMIN_VARIABLE}=$(cat \"$2\") exec {} --exact infra::host::tests::stand_in --nocapture\n",
        program.display()
    )
}

fn write_proxy(folder: &Path, text: &str) {
    // Replaced as a whole: a program that is being written can't be started.
    let partial = folder.join("proxy.partial");
    fs::write(&partial, text).unwrap();
    fs::set_permissions(&partial, fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(partial, folder.join("proxy")).unwrap();
}

impl Rig {
    fn start(proxy: Option<&str>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        if let Some(text) = proxy {
            write_proxy(folder.path(), text);
        }
        let settings = HostSettings {
            proxy_binary: Some(folder.path().join("proxy")),
            folders: HostFolders {
                config_home: folder.path().join("config"),
                state_home: folder.path().join("state"),
                runtime_dir: folder.path().join("run"),
            },
            xds: ([127, 0, 0, 1], 1).into(),
            client: TlsFiles::below(folder.path(), "edge"),
            bootstrap: render_admin,
            guard: None,
        };
        let (published, receiver) = watch::channel(None);
        let sender = Arc::new(watch::Sender::new(None));
        let reports = sender.subscribe();
        let metrics = Arc::new(Metrics::default());
        let measured = Arc::clone(&metrics);
        let runtime = RuntimeFolder::open(&settings.folders.runtime_dir).unwrap();
        let task = Task::spawn("host", |stop| {
            run(Arc::new(settings), runtime, receiver, sender, measured, stop)
        });
        Self {
            folder,
            published,
            reports,
            metrics,
            task,
        }
    }

    fn publish(&self, fleets: &[(&str, ProxySettings)]) {
        let state = |(key, proxy): &(&str, ProxySettings)| {
            let infra = Arc::new(infra(key, proxy.clone()));
            (
                (*key).into(),
                FleetState {
                    snapshot: Arc::default(),
                    infra: Some(infra),
                },
            )
        };
        let published = Published {
            fleets: fleets.iter().map(state).collect(),
            since: None,
        };
        self.published.send_replace(Some(Arc::new(published)));
    }

    async fn until(&mut self, what: &str, is_so: impl Fn(&Reports) -> bool) -> Reports {
        let waited = tokio::time::timeout(
            Duration::from_secs(20),
            self.reports.wait_for(|reports| reports.as_ref().is_some_and(&is_so)),
        );
        let reports = waited
            .await
            .unwrap_or_else(|_| panic!("waited in vain until {what}"))
            .unwrap();
        reports.clone().unwrap()
    }

    fn processes(&self) -> usize {
        let entries = fs::read_dir(self.folder.path().join("run")).unwrap().flatten();
        entries
            .filter(|entry| entry.path().extension().is_some_and(|e| e == "process"))
            .count()
    }
}

fn is_available(reports: &Reports, key: &str) -> bool {
    reports
        .get(key)
        .is_some_and(|report| report.availability == Availability::Available(1))
}

#[tokio::test]
async fn each_fleet_has_a_process_as_long_as_it_is_there() {
    let mut rig = Rig::start(Some(&good_proxy()));
    rig.publish(&[("ns/a", ProxySettings::default()), ("ns/b", ProxySettings::default())]);
    let reports = rig
        .until("both run", |r| is_available(r, "ns/a") && is_available(r, "ns/b"))
        .await;
    assert_ne!(reports["ns/a"].admin, reports["ns/b"].admin);
    assert_eq!(rig.processes(), 2);
    rig.publish(&[("ns/b", ProxySettings::default())]);
    rig.until("one is gone", |reports| !reports.contains_key("ns/a")).await;
    assert_eq!(rig.processes(), 1);
    let admin = reports["ns/b"].admin.unwrap();
    rig.task.stop(Duration::from_secs(10)).await;
    assert!(
        http::fetch(::http::Method::GET, admin, "/").await.is_err(),
        "nobody is left behind"
    );
    assert_eq!(
        fs::read_dir(rig.folder.path().join("run")).unwrap().count(),
        1,
        "only the lock stays"
    );
}

#[tokio::test]
async fn a_changed_start_replaces_the_process_after_the_new_one_is_ready() {
    let mut rig = Rig::start(Some(&good_proxy()));
    rig.publish(&[("ns/a", ProxySettings::default())]);
    let first = rig.until("it runs", |reports| is_available(reports, "ns/a")).await["ns/a"].admin;
    let changed = ProxySettings {
        concurrency: Some(1),
        ..ProxySettings::default()
    };
    rig.publish(&[("ns/a", changed)]);
    let always_there = AtomicBool::new(true);
    rig.until("another runs", |reports| {
        if !is_available(reports, "ns/a") {
            always_there.store(false, Ordering::Relaxed);
        }
        reports["ns/a"].admin != first
    })
    .await;
    assert!(
        always_there.into_inner(),
        "the old one serves until the new one is ready"
    );
    let gone = async { while http::fetch(::http::Method::GET, first.unwrap(), "/").await.is_ok() {} };
    tokio::time::timeout(Duration::from_secs(20), gone)
        .await
        .expect("the old one drains and goes");
}

#[tokio::test]
async fn a_proxy_that_dies_is_started_again_and_told_about() {
    let mut rig = Rig::start(Some("#!/bin/sh\necho 'no such flag' >&2\nexit 3\n"));
    rig.publish(&[("ns/a", ProxySettings::default())]);
    let is_told = |reports: &Reports| matches!(&reports["ns/a"].availability, Availability::Unavailable(_));
    let reports = rig
        .until("its end is told", |r| r.contains_key("ns/a") && is_told(r))
        .await;
    let Availability::Unavailable(reason) = &reports["ns/a"].availability else {
        unreachable!()
    };
    assert!(
        reason.contains("exited with status 3") && reason.contains("it wrote last: no such flag"),
        "{reason}"
    );
    write_proxy(rig.folder.path(), &good_proxy());
    rig.until("it runs", |reports| is_available(reports, "ns/a")).await;
    assert!(rig.metrics.counted(crate::metrics::Counter::ProxiesFailed) >= 1);
}

#[tokio::test]
async fn a_missing_binary_is_told_and_found_later() {
    let mut rig = Rig::start(None);
    rig.publish(&[("ns/a", ProxySettings::default())]);
    let is_told = |reports: &Reports| match reports.get("ns/a").map(|report| &report.availability) {
        Some(Availability::Unavailable(reason)) => reason.contains("proxy: it doesn't exist; correct provider.custom"),
        _ => false,
    };
    rig.until("it is told", is_told).await;
    write_proxy(rig.folder.path(), &good_proxy());
    rig.until("it runs", |reports| is_available(reports, "ns/a")).await;
}

#[tokio::test]
async fn a_proxy_that_is_killed_comes_back() {
    let mut rig = Rig::start(Some(&good_proxy()));
    rig.publish(&[("ns/a", ProxySettings::default())]);
    let first = rig.until("it runs", |reports| is_available(reports, "ns/a")).await["ns/a"].admin;
    let records = fs::read_dir(rig.folder.path().join("run")).unwrap().flatten();
    let record = records
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|e| e == "process"))
        .unwrap();
    let pid = record.file_stem().unwrap().to_str().unwrap().parse().unwrap();
    crate::process_name::signal(pid, rustix::process::Signal::KILL);
    rig.until("another runs", |reports| {
        is_available(reports, "ns/a") && reports["ns/a"].admin != first
    })
    .await;
}
