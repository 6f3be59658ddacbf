//! Supervision of real processes.
//!
//! The proxy is this test program itself: started again through a small script, one test ([`stand_in`]) plays a proxy
//! that answers on its admin port. What it does is told by files beside the script.

use super::*;
use crate::{
    certs::{Existing, TlsFiles, ensure},
    http,
    state::{Availability, FleetState},
    task::Task,
};
use edge_ir::ProxySettings;
use rustls_pki_types::{CertificateDer, pem::PemObject as _};
use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    sync::atomic::{AtomicBool, Ordering},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};
use x509_parser::{
    extensions::GeneralName,
    prelude::{FromDer as _, X509Certificate},
};

/// Infrastructure of a fleet.
pub(super) fn infra(key: &str, proxy: ProxySettings) -> Infra {
    Infra {
        key: key.into(),
        name: format!("edge-{}", key.replace('/', "-")).into(),
        namespace: "edge-gateway-system".into(),
        placement: edge_ir::Placement::Controller,
        owner: None,
        extra_labels: edge_ir::StringMap::default(),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        ports: Vec::new(),
        addresses: Vec::new(),
        proxy: Arc::new(proxy),
        origins: [].into(),
    }
}

const ADMIN_VARIABLE: &str = "EDGE_TEST_ADMIN_PORT";

/// Not a test but the process that the others supervise. It is ready at once, unless a file `unready` lies in the
/// folder it was started in, and busy as long as a file `busy` does.
#[tokio::test]
async fn stand_in() {
    let Ok(port) = std::env::var(ADMIN_VARIABLE) else {
        return;
    };
    let listener = TcpListener::bind(("127.0.0.1", port.parse().unwrap())).await.unwrap();
    let is_there = |name: &str| Path::new(name).exists();
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        let head = String::from_utf8(head).unwrap();
        let path = head.split([' ', '?']).nth(1).unwrap();
        let (status, body) = match path {
            "/ready" if is_there("unready") => (503, ""),
            "/stats" if is_there("busy") => (200, "http.x.downstream_rq_active: 1\n"),
            _ => (200, ""),
        };
        if path == "/drain_listeners" {
            fs::write(format!("draining-{port}"), "").unwrap();
        }
        let answer = format!(
            "HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(answer.as_bytes()).await.unwrap();
    }
}

/// A folder, and a controller's part that runs proxies in it.
struct Rig {
    folder: Folder,
    settings: watch::Sender<Arc<HostSettings>>,
    published: watch::Sender<Option<Arc<Published>>>,
    reports: watch::Receiver<Option<Reports>>,
    metrics: Arc<Metrics>,
    task: Task,
}

/// A folder that takes the proxies that run in it along.
struct Folder(tempfile::TempDir);

impl Folder {
    fn path(&self) -> &Path {
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
fn render_admin(input: &BootstrapInput<'_>) -> Result<Rendered, String> {
    Ok(Rendered {
        admin: Some(([127, 0, 0, 1], input.admin_port).into()),
        bootstrap: input.admin_port.to_string(),
    })
}

/// A proxy that is this program; `$2` is the bootstrap.
fn good_proxy() -> String {
    let program = std::env::current_exe().unwrap();
    format!(
        "#!/bin/sh\ncd \"$(dirname \"$0\")\"\n{ADMIN_VARIABLE}=$(cat \"$2\") exec {} --exact infra::host::tests::stand_in --nocapture\n",
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

fn settings(folder: &Path, at_stop: AtStop) -> HostSettings {
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
        at_stop,
    }
}

impl Rig {
    fn start(proxy: Option<&str>) -> Self {
        let folder = Folder(tempfile::tempdir().unwrap());
        if let Some(text) = proxy {
            write_proxy(folder.path(), text);
        }
        Self::start_in(folder, AtStop::End)
    }

    fn start_in(folder: Folder, at_stop: AtStop) -> Self {
        ensure(&folder.path().join("certs"), "system", "cluster.local", Existing::Keep).unwrap();
        let settings = HostSettings {
            // A machine that tests is a busy one.
            ready_patience: Duration::from_secs(20),
            ..settings(folder.path(), at_stop)
        };
        let runtime = RuntimeFolder::open(&settings.folders.runtime_dir).unwrap();
        let (settings, followed) = watch::channel(Arc::new(settings));
        let (published, receiver) = watch::channel(None);
        let sender = Arc::new(watch::Sender::new(None));
        let reports = sender.subscribe();
        let metrics = Arc::new(Metrics::default());
        let measured = Arc::clone(&metrics);
        let task = Task::spawn("host", |stop| run(followed, runtime, receiver, sender, measured, stop));
        Self {
            folder,
            settings,
            published,
            reports,
            metrics,
            task,
        }
    }

    /// The controller goes without a word, and another one begins in the same folder.
    async fn succeed(self) -> Self {
        let settings = settings(self.folder.path(), AtStop::Keep);
        self.settings.send_replace(Arc::new(settings));
        self.task.stop(Duration::from_secs(20)).await;
        Self::start_in(self.folder, AtStop::End)
    }

    fn publish(&self, fleets: &[(&str, ProxySettings)]) {
        self.publish_of(Coverage::Whole, fleets);
    }

    fn publish_of(&self, coverage: Coverage, fleets: &[(&str, ProxySettings)]) {
        let state = |(key, proxy): &(&str, ProxySettings)| {
            let infra = Arc::new(infra(key, proxy.clone()));
            (
                (*key).into(),
                FleetState {
                    snapshot: Arc::default(),
                    infra: Some(infra),
                    last_infra: None,
                },
            )
        };
        let published = Published {
            fleets: fleets.iter().map(state).collect(),
            coverage,
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

/// The URIs in the certificate that a file of a running process leads to.
fn shown_by(record: &record::Record) -> String {
    let text = fs::read_to_string(&record.facts().start.files[1]).unwrap();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let chain = &value["resources"][0]["tls_certificate"]["certificate_chain"]["filename"];
    let der = CertificateDer::from_pem_file(chain.as_str().unwrap()).unwrap();
    let (_, leaf) = X509Certificate::from_der(&der).unwrap();
    let names = leaf.subject_alternative_name().unwrap().unwrap().value;
    let uris = names.general_names.iter().filter_map(|name| match name {
        GeneralName::URI(uri) => Some(*uri),
        _ => None,
    });
    uris.collect()
}

#[tokio::test]
async fn each_fleet_has_a_certificate_of_its_own_as_long_as_it_is_there() {
    let mut rig = Rig::start(Some(&good_proxy()));
    let run = rig.folder.path().join("run");
    rig.publish(&[("ns/a", ProxySettings::default()), ("ns/b", ProxySettings::default())]);
    rig.until("both run", |r| is_available(r, "ns/a") && is_available(r, "ns/b"))
        .await;
    for record in record::Record::read_all(&run) {
        assert_eq!(
            shown_by(&record),
            format!("edge-gateway:fleet/{}", record.facts().fleet)
        );
    }
    let key = |name: &str| run.join("fleets").join(name).join("tls.key");
    assert!(key("edge-ns-a").exists() && key("edge-ns-b").exists());
    rig.publish(&[("ns/b", ProxySettings::default())]);
    rig.until("one is gone", |reports| !reports.contains_key("ns/a")).await;
    assert!(!key("edge-ns-a").exists(), "its key goes with it");
    assert!(key("edge-ns-b").exists());
}

#[tokio::test]
async fn a_proxy_with_the_certificate_of_an_earlier_version_gets_its_own_and_isnt_replaced() {
    let mut rig = Rig::start(Some(&good_proxy()));
    let run = rig.folder.path().join("run");
    rig.publish(&[("ns/a", ProxySettings::default())]);
    let before = rig.until("it runs", |r| is_available(r, "ns/a")).await["ns/a"].admin;
    let record = record::Record::read_all(&run).pop().unwrap();
    let shared = TlsFiles::below(&rig.folder.path().join("certs"), "edge").certificate;
    let text = serde_json::json!({"resources": [{"tls_certificate": {"certificate_chain": {"filename": shared}}}]});
    fs::write(&record.facts().start.files[1], text.to_string()).unwrap();
    assert_eq!(shown_by(&record), "");
    let mut rig = rig.succeed().await;
    rig.publish(&[("ns/a", ProxySettings::default())]);
    let after = rig.until("it is taken over", |r| is_available(r, "ns/a")).await["ns/a"].admin;
    assert_eq!(before, after, "the same process");
    let led = async {
        while shown_by(&record) != "edge-gateway:fleet/ns/a" {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), led).await.unwrap();
    assert_eq!(rig.metrics.counted(crate::metrics::Counter::ProxiesStarted), 0);
}

/// Waits until nobody answers on an address.
async fn gone(admin: Option<SocketAddr>) {
    let gone = async { while http::fetch(::http::Method::GET, admin.unwrap(), "/").await.is_ok() {} };
    tokio::time::timeout(Duration::from_secs(20), gone)
        .await
        .expect("it ends");
}

async fn answers(admin: Option<SocketAddr>) -> bool {
    http::fetch(::http::Method::GET, admin.unwrap(), "/").await.is_ok()
}

#[tokio::test]
async fn the_next_controller_adopts_what_a_killed_one_has_left() {
    let mut rig = Rig::start(Some(&good_proxy()));
    let default = ProxySettings::default();
    let changed = ProxySettings {
        concurrency: Some(1),
        ..ProxySettings::default()
    };
    let names = ["ns/kept", "ns/changed", "ns/gone"];
    rig.publish(&names.map(|name| (name, default.clone())));
    let before = rig
        .until("all run", |r| names.iter().all(|name| is_available(r, name)))
        .await;
    let mut rig = rig.succeed().await;
    for name in names {
        assert!(answers(before[name].admin).await, "{name} outlives its controller");
    }
    rig.publish(&[("ns/kept", default.clone()), ("ns/changed", changed)]);
    let after = rig
        .until("both run", |r| {
            is_available(r, "ns/kept")
                && is_available(r, "ns/changed")
                && r["ns/changed"].admin != before["ns/changed"].admin
        })
        .await;
    assert_eq!(
        after["ns/kept"].admin, before["ns/kept"].admin,
        "nothing is different for it"
    );
    gone(before["ns/changed"].admin).await;
    gone(before["ns/gone"].admin).await;
    assert_eq!(rig.metrics.counted(crate::metrics::Counter::ProxiesStarted), 1);

    // An adopted process is supervised like any other.
    let pid = record::Record::read_all(&rig.folder.path().join("run"))
        .iter()
        .find(|record| record.facts().admin == before["ns/kept"].admin)
        .map(|record| i32::try_from(record.facts().process.pid()).unwrap());
    let pid = rustix::process::Pid::from_raw(pid.unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    rig.until("another runs", |r| {
        is_available(r, "ns/kept") && r["ns/kept"].admin != before["ns/kept"].admin
    })
    .await;
    rig.task.stop(Duration::from_secs(20)).await;
    assert_eq!(fs::read_dir(rig.folder.path().join("run")).unwrap().count(), 1);
}

#[tokio::test]
async fn a_proxy_whose_gateway_may_be_unreadable_goes_on() {
    let mut rig = Rig::start(Some(&good_proxy()));
    let of = |name| (name, ProxySettings::default());
    rig.publish(&[of("ns/unread")]);
    let before = rig.until("it runs", |r| is_available(r, "ns/unread")).await["ns/unread"].admin;
    let mut rig = rig.succeed().await;
    rig.publish_of(Coverage::Partial, &[of("ns/read")]);
    rig.until("the other runs", |r| is_available(r, "ns/read")).await;
    rig.publish_of(Coverage::Partial, &[]);
    rig.until("it is gone: its Gateway was read", |r| r.is_empty()).await;
    assert!(answers(before).await);
    rig.publish(&[of("ns/unread")]);
    let after = rig.until("it is taken over", |r| is_available(r, "ns/unread")).await["ns/unread"].admin;
    assert_eq!(before, after);
    let rig = rig.succeed().await;
    rig.publish_of(Coverage::Partial, &[]);
    rig.publish(&[]);
    gone(before).await;
}

#[tokio::test]
async fn proxies_may_stay_when_the_controller_stops() {
    let mut rig = Rig::start(Some(&good_proxy()));
    rig.publish(&[("ns/a", ProxySettings::default())]);
    let admin = rig.until("it runs", |reports| is_available(reports, "ns/a")).await["ns/a"].admin;
    let settings = settings(rig.folder.path(), AtStop::Keep);
    rig.settings.send_replace(Arc::new(settings));
    rig.task.stop(Duration::from_secs(20)).await;
    assert!(answers(admin).await);
}

#[tokio::test]
async fn what_is_in_flight_is_waited_for_before_a_proxy_ends() {
    let mut rig = Rig::start(Some(&good_proxy()));
    let busy = rig.folder.path().join("busy");
    fs::write(&busy, "").unwrap();
    rig.publish(&[("ns/a", ProxySettings::default())]);
    let admin = rig.until("it runs", |reports| is_available(reports, "ns/a")).await["ns/a"].admin;
    rig.publish(&[]);
    let told = rig.folder.path().join(format!("draining-{}", admin.unwrap().port()));
    let draining = async {
        while !told.exists() {
            tokio::task::yield_now().await
        }
    };
    tokio::time::timeout(Duration::from_secs(20), draining).await.unwrap();
    assert!(answers(admin).await, "a request is in flight");
    fs::remove_file(busy).unwrap();
    rig.until("it is gone", |reports| reports.is_empty()).await;
    assert!(!answers(admin).await);
}

#[tokio::test]
async fn a_proxy_that_never_becomes_ready_is_told_and_started_again() {
    let mut rig = Rig::start(Some(&good_proxy()));
    let unready = rig.folder.path().join("unready");
    fs::write(&unready, "").unwrap();
    let settings = settings(rig.folder.path(), AtStop::End);
    rig.settings.send_replace(Arc::new(settings));
    rig.publish(&[("ns/a", ProxySettings::default())]);
    let is_told = |reports: &Reports| match reports.get("ns/a").map(|report| &report.availability) {
        Some(Availability::Unavailable(reason)) => reason.contains("isn't ready"),
        _ => false,
    };
    rig.until("it is told", is_told).await;
    fs::remove_file(unready).unwrap();
    rig.until("it runs", |reports| is_available(reports, "ns/a")).await;
}

#[tokio::test]
async fn another_binary_takes_over_only_if_it_can() {
    let mut rig = Rig::start(Some(&good_proxy()));
    rig.publish(&[("ns/a", ProxySettings::default())]);
    let first = rig.until("it runs", |reports| is_available(reports, "ns/a")).await["ns/a"].admin;
    let with = |path: &str| {
        let binary = Some(rig.folder.path().join(path));
        let settings = settings(rig.folder.path(), AtStop::End);
        Arc::new(HostSettings {
            proxy_binary: binary,
            ready_patience: Duration::from_secs(20),
            ..settings
        })
    };
    let failures = rig.metrics.counted(crate::metrics::Counter::ProxiesFailed);
    rig.settings.send_replace(with("absent"));
    let tried = async {
        while rig.metrics.counted(crate::metrics::Counter::ProxiesFailed) == failures {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), tried).await.unwrap();
    assert!(answers(first).await, "what serves goes on");
    assert!(is_available(rig.reports.borrow().as_ref().unwrap(), "ns/a"));
    fs::copy(rig.folder.path().join("proxy"), rig.folder.path().join("other")).unwrap();
    rig.settings.send_replace(with("other"));
    rig.until("another runs", |r| is_available(r, "ns/a") && r["ns/a"].admin != first)
        .await;
    gone(first).await;
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
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    rig.until("another runs", |reports| {
        is_available(reports, "ns/a") && reports["ns/a"].admin != first
    })
    .await;
}
