//! Who gets a fleet's configuration, and who doesn't, over real gRPC.

use super::{
    super::{
        accounts::Accounts,
        tokens::{
            Account,
            tests::{AUDIENCE, Reviewer, token},
        },
    },
    *,
};
use crate::certs::{FleetIdentity, ensure_fleet};
use edge_ir::Placement;
use edge_translate::Home;
use serde_json::json;
use std::sync::atomic::Ordering;

#[tokio::test]
async fn a_proxy_without_a_certificate_is_told_so() {
    let rig = Rig::start().await;
    rig.published.send_replace(Some(state(Vec::new())));
    let authority = fs::read(TlsFiles::below(rig.folder.path(), PROXY).authority).unwrap();
    let tls = ClientTlsConfig::new()
        .domain_name("edge-gateway")
        .ca_certificate(Certificate::from_pem(authority));
    let endpoint = Endpoint::from_shared(format!("https://{}", rig.address)).unwrap();
    let channel = endpoint.tls_config(tls).unwrap().connect().await.unwrap();
    let refused = Proxy::open(channel, "ns/gw", &[]).await.err().unwrap();
    assert_eq!(refused.code(), Code::Unauthenticated);
    assert!(refused.message().contains("client certificate"), "{refused}");
}

#[tokio::test]
async fn proxies_of_ours_get_what_their_certificate_names_and_nothing_else() {
    let namespace = "system".into();
    let rig = Rig::start_as(Authorizer::FleetCertificate { namespace }, Limits::default()).await;
    rig.published.send_replace(Some(state(vec![cluster("a", "1")])));
    let certificate_of = |fleet: &str| {
        let folder = rig.folder.path().join(fleet.replace('/', "-"));
        let identity = FleetIdentity {
            fleet: &fleet.into(),
            name: "edge-proxy",
            namespace: "system",
        };
        ensure_fleet(rig.folder.path(), &folder, &identity, jiff::Timestamp::now()).unwrap();
        TlsFiles {
            authority: TlsFiles::below(rig.folder.path(), PROXY).authority,
            ..TlsFiles::within(&folder)
        }
    };
    let open = async |files: TlsFiles| {
        let channel = connect_with(&files, rig.address).await.unwrap();
        Proxy::open(channel, "ns/gw", &[]).await
    };
    let mut own = open(certificate_of("ns/gw")).await.unwrap();
    assert_eq!(names(&own.next().await), ["a"]);
    let refused = open(certificate_of("ns/other")).await.err().unwrap();
    assert_eq!(refused.code(), Code::PermissionDenied);
    assert!(refused.message().contains("not for the fleet `ns/gw`"), "{refused}");
    let refused = open(TlsFiles::below(rig.folder.path(), PROXY)).await.err().unwrap();
    assert_eq!(refused.code(), Code::PermissionDenied);
    assert!(refused.message().contains("names no fleet"), "{refused}");
}

#[tokio::test]
async fn a_certificate_of_a_foreign_authority_doesnt_get_through_the_handshake() {
    let rig = Rig::start().await;
    rig.published.send_replace(Some(state(Vec::new())));
    let stranger = tempfile::tempdir().unwrap();
    ensure(stranger.path(), "system", "cluster.local", Existing::Keep).unwrap();
    let files = TlsFiles {
        authority: TlsFiles::below(rig.folder.path(), PROXY).authority,
        ..TlsFiles::below(stranger.path(), PROXY)
    };
    // With TLS 1.3 a client learns of it when it reads for the first time.
    let opened = async {
        Proxy::open(connect_with(&files, rig.address).await.ok()?, "ns/gw", &[])
            .await
            .ok()
    };
    assert!(opened.await.is_none());
}

/// A server in a cluster, and the API server that it asks.
async fn cluster_rig(certificates: ClientCertificates, limits: Limits) -> (Rig, Arc<Reviewer>) {
    let reviewer = Arc::new(Reviewer::default());
    let settings = Settings {
        controller_name: "us".into(),
        controller_namespace: "system".into(),
        ..Settings::default()
    };
    let authorizer = AccountAuthorizer::new(reviewer.client(), &settings, certificates);
    let rig = Rig::start_as(Authorizer::Account(authorizer), limits).await;
    rig.published.send_replace(Some(state(vec![cluster("a", "1")])));
    (rig, reviewer)
}

impl Rig {
    /// A stream of a proxy that shows a token, and a certificate if there is one to be shown.
    async fn open_with_token(&self, token: Option<&str>, certificate: Option<&str>) -> Result<Proxy, Status> {
        let trusted = TlsFiles::below(self.folder.path(), PROXY).authority;
        let mut tls = ClientTlsConfig::new()
            .domain_name("edge-gateway")
            .ca_certificate(Certificate::from_pem(fs::read(trusted).unwrap()));
        if let Some(secret) = certificate {
            let files = TlsFiles::below(self.folder.path(), secret);
            let read = |path| fs::read(path).unwrap();
            tls = tls.identity(Identity::from_pem(read(files.certificate), read(files.key)));
        }
        let endpoint = Endpoint::from_shared(format!("https://{}", self.address)).unwrap();
        let channel = endpoint.tls_config(tls).unwrap().connect().await.unwrap();
        Proxy::open_as(channel, "ns/gw", &[], token).await
    }
}

#[tokio::test]
async fn a_proxy_of_the_cluster_gets_what_its_account_stands_for() {
    let (rig, reviewer) = cluster_rig(ClientCertificates::Demanded, Limits::default()).await;
    let own = token("ns:edge-ns-gw", AUDIENCE, 3600);
    let mut proxy = rig.open_with_token(Some(&own), Some(PROXY)).await.unwrap();
    assert_eq!(names(&proxy.next().await), ["a"]);
    for (shown, certificate, code, words) in [
        (
            Some(token("ns:edge-ns-other", AUDIENCE, 3600)),
            Some(PROXY),
            Code::PermissionDenied,
            "not the one of the fleet",
        ),
        (
            Some(token("other:edge-ns-gw", AUDIENCE, 3600)),
            Some(PROXY),
            Code::PermissionDenied,
            "not the one of the fleet",
        ),
        (
            Some(token("ns:edge-ns-gw", "api", 3600)),
            Some(PROXY),
            Code::Unauthenticated,
            "audiences is invalid",
        ),
        (
            Some(token("ns:edge-ns-gw", AUDIENCE, -1)),
            Some(PROXY),
            Code::Unauthenticated,
            "has expired",
        ),
        (
            None,
            Some(PROXY),
            Code::Unauthenticated,
            "must show the token of its ServiceAccount",
        ),
        (
            Some(own.clone()),
            None,
            Code::Unauthenticated,
            "must show a client certificate",
        ),
        (
            Some(own.clone()),
            Some(CONTROLLER),
            Code::PermissionDenied,
            "no certificate of a proxy",
        ),
    ] {
        let refused = rig.open_with_token(shown.as_deref(), certificate).await.err().unwrap();
        assert_eq!(refused.code(), code, "{refused}");
        assert!(refused.message().contains(words), "{refused}");
    }
    // While the API server is away, those that are known come back, and others are told to.
    reviewer.is_away.store(true, Ordering::Relaxed);
    rig.open_with_token(Some(&own), Some(PROXY)).await.unwrap();
    let new = token("ns:edge-ns-gw", AUDIENCE, 3000);
    let refused = rig.open_with_token(Some(&new), Some(PROXY)).await.err().unwrap();
    assert_eq!(refused.code(), Code::Unavailable);
}

#[tokio::test]
async fn where_no_key_of_ours_lies_the_token_is_enough() {
    let (rig, _) = cluster_rig(ClientCertificates::Unasked, Limits::default()).await;
    let own = token("ns:edge-ns-gw", AUDIENCE, 3600);
    let mut proxy = rig.open_with_token(Some(&own), None).await.unwrap();
    assert_eq!(names(&proxy.next().await), ["a"]);
    let refused = rig.open_with_token(None, Some(PROXY)).await.err().unwrap();
    assert_eq!(refused.code(), Code::Unauthenticated);
}

/// The EdgeProxy can't be used, and couldn't when the controller began.
#[tokio::test]
async fn proxies_of_a_fleet_that_nobody_knows_how_to_make_are_known_by_their_account() {
    let (rig, reviewer) = cluster_rig(ClientCertificates::Unasked, Limits::default()).await;
    let mut published = Published::clone(&state(vec![cluster("a", "1")]));
    for fleet in published.fleets.values_mut() {
        fleet.last_infra = None;
        fleet.home = Some(Home {
            namespace: "ns".into(),
            name: "edge-ns-gw".into(),
            placement: Placement::Gateway,
        });
    }
    rig.published.send_replace(Some(Arc::new(published)));
    let workload = |controller: &str, fleet: &str, account: &str| {
        let marks = json!({edge_infra::CONTROLLER: controller, edge_infra::FLEET: fleet});
        let pod = json!({"spec": {"serviceAccountName": account, "containers": []}});
        json!({"metadata": {"name": account, "annotations": marks}, "spec": {"selector": {}, "template": pod}})
    };
    let daemons = vec![
        workload("us", "ns/gw", "named"),
        workload("us", "ns/other", "of-another"),
        workload("them", "ns/gw", "of-theirs"),
    ];
    reviewer.workloads.lock().await.insert("daemonsets".to_owned(), daemons);
    for own in ["ns:edge-ns-gw", "ns:named"] {
        let token = token(own, AUDIENCE, 3600);
        let mut proxy = rig.open_with_token(Some(&token), None).await.unwrap();
        assert_eq!(names(&proxy.next().await), ["a"], "{own}");
    }
    for other in [
        "ns:of-another",
        "ns:of-theirs",
        "ns:default",
        "other:edge-ns-gw",
        "other:named",
    ] {
        let token = token(other, AUDIENCE, 3600);
        let refused = rig.open_with_token(Some(&token), None).await.err().unwrap();
        assert_eq!(refused.code(), Code::PermissionDenied, "{other}: {refused}");
    }
}

#[tokio::test]
async fn who_cannot_be_known_at_the_moment_is_asked_to_come_back() {
    let reviewer = Arc::new(Reviewer::default());
    let accounts = Accounts::new(reviewer.client(), "us".into());
    let home = Home {
        namespace: "ns".into(),
        name: "edge-ns-gw".into(),
        placement: Placement::Gateway,
    };
    reviewer.is_away.store(true, Ordering::Relaxed);
    let ask = async |name: &str| {
        let (namespace, name) = ("ns".into(), name.into());
        accounts
            .are_of(&"ns/gw".into(), &home, &Account { namespace, name })
            .await
    };
    assert_eq!(ask("named").await.unwrap_err().code(), Code::Unavailable);
    assert!(ask("edge-ns-gw").await.unwrap(), "that is known without a question");
}

#[tokio::test]
async fn a_stream_ends_without_an_error_when_its_token_expires() {
    let (rig, _) = cluster_rig(ClientCertificates::Unasked, Limits::default()).await;
    let mut proxy = rig
        .open_with_token(Some(&token("ns:edge-ns-gw", AUDIENCE, 2)), None)
        .await
        .unwrap();
    let first = proxy.next().await;
    proxy.answer(&first, None).await;
    let ended = time::timeout(Duration::from_secs(10), proxy.responses.message()).await;
    assert_eq!(ended.expect("it ends in time").unwrap(), None);
}

#[tokio::test]
async fn a_rotation_of_leaf_and_authority_drops_no_stream_and_turns_nobody_away() {
    let rig = Rig::start().await;
    rig.published.send_replace(Some(state(vec![cluster("a", "1")])));
    let mut proxy = rig.open().await.unwrap();
    let first = proxy.next().await;
    proxy.answer(&first, None).await;
    // What a proxy has that hasn't been told of the rotation yet.
    let before = rig.folder.path().join("before");
    fs::create_dir(&before).unwrap();
    for file in ["tls.crt", "tls.key", "ca.crt"] {
        fs::copy(rig.folder.path().join(PROXY).join(file), before.join(file)).unwrap();
    }
    ensure(rig.folder.path(), "system", "cluster.local", Existing::Overwrite).unwrap();
    for files in [TlsFiles::within(&before), TlsFiles::below(rig.folder.path(), PROXY)] {
        let channel = connect_with(&files, rig.address).await.unwrap();
        let mut other = Proxy::open(channel, "ns/gw", &[]).await.unwrap();
        assert_eq!(names(&other.next().await), ["a"]);
    }
    rig.published.send_replace(Some(state(vec![cluster("a", "2")])));
    assert_eq!(names(&proxy.next().await), ["a"], "the stream is the same");
}
