//! Supervision of real processes.

mod rig;

use super::*;
use crate::{certs::TlsFiles, http, state::Availability};
use edge_ir::ProxySettings;
use rig::{Rig, Sights, answers, eventually, gone, good_proxy, is_available, kill, settings, told, write_proxy};
use rustls_pki_types::{CertificateDer, pem::PemObject as _};
use std::{
    fs,
    sync::atomic::{AtomicBool, Ordering},
};
use x509_parser::{
    extensions::GeneralName,
    prelude::{FromDer as _, X509Certificate},
};

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
    eventually("it is led to its own", async || {
        shown_by(&record) == "edge-gateway:fleet/ns/a"
    })
    .await;
    assert_eq!(rig.metrics.counted(crate::metrics::Counter::ProxiesStarted), 0);
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
    kill(&rig, before["ns/kept"].admin);
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
    told(&rig, admin).await;
    assert!(answers(admin).await, "a request is in flight");
    // One that is too busy to answer isn't idle.
    let mute = rig.folder.path().join("mute");
    fs::write(&mute, "").unwrap();
    let unanswered = rig.folder.path().join("unanswered");
    eventually("it was asked again", async || {
        fs::read(&unanswered).is_ok_and(|noted| noted.len() > 2)
    })
    .await;
    assert!(answers(admin).await, "nobody knows what is in flight");
    fs::remove_file(mute).unwrap();
    fs::remove_file(busy).unwrap();
    rig.until("it is gone", |reports| reports.is_empty()).await;
    assert!(!answers(admin).await);
}

#[tokio::test]
async fn a_proxy_may_serve_before_it_is_known_to_be_ready() {
    let mut rig = Rig::start(Some(&good_proxy()));
    for name in ["busy", "unready"] {
        fs::write(rig.folder.path().join(name), "").unwrap();
    }
    rig.publish(&[("ns/a", ProxySettings::default())]);
    rig.until("it starts", |reports| reports.contains_key("ns/a")).await;
    let run = rig.folder.path().join("run");
    let admin = || {
        record::Record::read_all(&run)
            .first()
            .and_then(|record| record.facts().admin)
    };
    eventually("it answers", async || admin().is_some() && answers(admin()).await).await;
    let admin = admin();
    rig.publish(&[]);
    told(&rig, admin).await;
    assert!(answers(admin).await, "a request is in flight");
    fs::remove_file(rig.folder.path().join("busy")).unwrap();
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
    let is_told = |reports: &Sights| match reports.get("ns/a").map(|report| &report.availability) {
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
    let folder = rig.folder.path().to_owned();
    let with = |path: &str| {
        let binary = Some(folder.join(path));
        let settings = settings(&folder, AtStop::End);
        Arc::new(HostSettings {
            proxy_binary: binary,
            ready_patience: Duration::from_secs(20),
            ..settings
        })
    };
    let is_told = |reports: &Sights| match &reports["ns/a"].availability {
        Availability::Failed(why) => {
            why.contains("goes on as it was before") && why.contains("absent: it doesn't exist")
        }
        _ => false,
    };
    rig.settings.send_replace(with("absent"));
    rig.until("it is told", is_told).await;
    assert!(answers(first).await, "what serves goes on");
    rig.settings.send_replace(with("proxy"));
    rig.until("it is wanted as it is", |r| is_available(r, "ns/a")).await;
    rig.settings.send_replace(with("absent"));
    rig.until("it is told again", is_told).await;
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
    gone(first).await;
}

/// Nobody can be asked whether it is ready, but it can be seen where it listens.
#[tokio::test]
async fn a_proxy_without_an_admin_interface_takes_over_when_it_listens_too() {
    let mut rig = Rig::start(Some(&good_proxy()));
    let folder = rig.folder.path().to_owned();
    let file = |name: &str| folder.join(name);
    let port = ports::free().unwrap();
    fs::write(file("listen"), port.to_string()).unwrap();
    let silent = HostSettings {
        bootstrap: rig::render_silent,
        ready_patience: Duration::from_secs(20),
        ..settings(rig.folder.path(), AtStop::End)
    };
    rig.settings.send_replace(Arc::new(silent));
    rig.publish(&[("ns/a", ProxySettings::default())]);
    rig.until("it runs", |reports| is_available(reports, "ns/a")).await;
    let connects = async || tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_ok();
    eventually("it listens", connects).await;

    let (late, waits, run) = (file("late"), file("waits"), file("run"));
    fs::write(&late, "").unwrap();
    let changed = ProxySettings {
        concurrency: Some(1),
        ..ProxySettings::default()
    };
    rig.publish(&[("ns/a", changed)]);
    eventually("another has started", async || waits.exists()).await;
    let phases = || -> BTreeSet<String> {
        let records = record::Record::read_all(&run);
        records
            .iter()
            .map(|record| format!("{:?}", record.facts().phase))
            .collect()
    };
    assert_eq!(phases(), ["Serving", "Starting"].map(str::to_owned).into());
    assert!(connects().await, "the old one serves");
    fs::remove_file(&late).unwrap();
    eventually("the new one serves alone", async || {
        phases() == ["Serving".to_owned()].into()
    })
    .await;
    assert!(connects().await);
}

#[tokio::test]
async fn a_proxy_that_dies_is_started_again_and_told_about() {
    let mut rig = Rig::start(Some("#!/bin/sh\necho 'no such flag' >&2\nexit 3\n"));
    rig.publish(&[("ns/a", ProxySettings::default())]);
    let is_told = |reports: &Sights| matches!(&reports["ns/a"].availability, Availability::Unavailable(_));
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
    let is_told = |reports: &Sights| match reports.get("ns/a").map(|report| &report.availability) {
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
    kill(&rig, first);
    rig.until("another runs", |reports| {
        is_available(reports, "ns/a") && reports["ns/a"].admin != first
    })
    .await;
}

#[tokio::test]
async fn a_proxy_that_somebody_else_ends_is_replaced_at_once() {
    let mut rig = Rig::start(Some(&good_proxy()));
    fs::write(rig.folder.path().join("busy"), "").unwrap();
    rig.publish(&[("ns/a", ProxySettings::default())]);
    let first = rig.until("it runs", |r| is_available(r, "ns/a")).await["ns/a"].admin;
    rig.note("leaves", first);
    let is_told = |reports: &Sights| match &reports["ns/a"].availability {
        Availability::Unavailable(why) => why.contains("somebody else has told the proxy to end"),
        _ => false,
    };
    rig.until("it is told", is_told).await;
    rig.until("another runs", |r| is_available(r, "ns/a") && r["ns/a"].admin != first)
        .await;
    assert!(answers(first).await, "it finishes what it has");
    fs::remove_file(rig.folder.path().join("busy")).unwrap();
    gone(first).await;
}

#[tokio::test]
async fn a_proxy_whose_health_somebody_makes_fail_serves_on() {
    let mut rig = Rig::start(Some(&good_proxy()));
    let port = ports::free().unwrap();
    fs::write(rig.folder.path().join("listen"), port.to_string()).unwrap();
    rig.publish(&[("ns/a", ProxySettings::default())]);
    let first = rig.until("it runs", |r| is_available(r, "ns/a")).await["ns/a"].admin;
    let said = rig
        .note("leaves", first)
        .with_file_name(format!("said-{}", first.unwrap().port()));
    for _ in 0..2 {
        eventually("it is asked", async || said.exists()).await;
        fs::remove_file(&said).unwrap();
    }
    assert!(rig.look().is_some_and(|reports| is_available(&reports, "ns/a")));
    assert_eq!(rig.processes(), 1);
}

#[tokio::test]
async fn a_proxy_that_hangs_is_told_and_replaced() {
    let mut rig = Rig::start(Some(&good_proxy()));
    rig.publish(&[("ns/a", ProxySettings::default())]);
    let first = rig.until("it runs", |r| is_available(r, "ns/a")).await["ns/a"].admin;
    rig.note("hangs", first);
    let is_told = |reports: &Sights| match &reports["ns/a"].availability {
        Availability::Unavailable(why) => why.contains("hasn't answered for"),
        _ => false,
    };
    rig.until("it is told", is_told).await;
    rig.until("another runs", |r| is_available(r, "ns/a") && r["ns/a"].admin != first)
        .await;
    eventually("it is killed", async || rig.processes() == 1).await;
}

/// It would begin to drain if it were asked to end by a signal.
#[tokio::test]
async fn a_proxy_that_is_busy_for_too_long_ends_at_once() {
    let mut rig = Rig::start(Some(&good_proxy()));
    fs::write(rig.folder.path().join("busy"), "").unwrap();
    let impatient = ProxySettings {
        drain_timeout_seconds: Some(0),
        ..ProxySettings::default()
    };
    rig.publish(&[("ns/a", impatient)]);
    let admin = rig.until("it runs", |r| is_available(r, "ns/a")).await["ns/a"].admin;
    rig.publish(&[]);
    rig.until("it is gone", |reports| reports.is_empty()).await;
    let quits = format!("quits-{}", admin.unwrap().port());
    assert!(rig.folder.path().join(quits).exists());
}
