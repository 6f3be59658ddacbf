//! Certificates of clients: who is served, by what the listener asks of them, and what backends are told and shown.

use crate::bench::{Bench, backend, cluster, data_planes, endpoint, listen};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use e2e::http::{self, Request, Response};
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertificateRevocationListParams, DnType, IsCa, Issuer,
    KeyIdMethod, KeyPair, KeyUsagePurpose, PublicKeyData, RevokedCertParams, SanType, SerialNumber, date_time_ymd,
};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned,
    pki_types::{PrivatePkcs8KeyDer, ServerName},
    server::WebPkiClientVerifier,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::{
    io::{BufRead, BufReader, Write},
    net::{SocketAddr, TcpStream},
    sync::Arc,
};

pub(crate) const TLS: &str = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3";

/// A certificate with its key.
pub(crate) struct Pair {
    pub(crate) certificate: Certificate,
    pub(crate) key: KeyPair,
}

impl Pair {
    /// The certificate and its key, as a configuration holds them.
    pub(crate) fn as_message(&self) -> Value {
        json!({
            "certificate_chain": {"inline_string": self.certificate.pem()},
            "private_key": {"inline_string": self.key.serialize_pem()},
        })
    }
}

/// An authority, or none that anybody trusts.
pub(crate) struct Signer {
    pub(crate) pair: Pair,
    issuer: Issuer<'static, KeyPair>,
}

impl Signer {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let again = KeyPair::try_from(key.serialize_der()).unwrap();
        let issuer = Issuer::new(params, again);
        Self {
            pair: Pair { certificate, key },
            issuer,
        }
    }

    /// A certificate with a key of the usual kind.
    pub(crate) fn sign(&self, name: &str, serial: u64, change: impl FnOnce(&mut CertificateParams)) -> Pair {
        self.sign_key(KeyPair::generate().unwrap(), name, serial, change)
    }

    /// A certificate of this key.
    pub(crate) fn sign_key(
        &self,
        key: KeyPair,
        name: &str,
        serial: u64,
        change: impl FnOnce(&mut CertificateParams),
    ) -> Pair {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.serial_number = Some(SerialNumber::from(serial));
        change(&mut params);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Pair { certificate, key }
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.pair.certificate.der().clone()).unwrap();
        roots
    }

    /// A list with this one revoked.
    fn revoke(&self, serial: u64) -> String {
        let revoked = RevokedCertParams {
            serial_number: SerialNumber::from(serial),
            revocation_time: date_time_ymd(2024, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2024, 1, 1),
            next_update: date_time_ymd(2200, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: vec![revoked],
            key_identifier_method: KeyIdMethod::Sha256,
        };
        list.signed_by(&self.issuer).unwrap().pem().unwrap()
    }
}

/// Who comes.
pub(crate) struct Clients {
    pub(crate) server: Pair,
    pub(crate) authority: Signer,
    /// By name, each with what it presents.
    list: Vec<(&'static str, Option<Pair>)>,
    revoked: String,
}

impl Clients {
    /// New ones, with an authority of their own.
    pub(crate) fn new() -> Self {
        let (authority, stranger) = (Signer::new("authority"), Signer::new("stranger"));
        let old = |params: &mut CertificateParams| {
            params.not_before = date_time_ymd(2020, 1, 1);
            params.not_after = date_time_ymd(2021, 1, 1);
        };
        let list = vec![
            ("none", None),
            ("good", Some(authority.sign("good.example", 2, |_| {}))),
            ("other", Some(authority.sign("other.example", 3, |_| {}))),
            ("strange", Some(stranger.sign("good.example", 4, |_| {}))),
            ("old", Some(authority.sign("good.example", 5, old))),
        ];
        Self {
            server: authority.sign("localhost", 1, |_| {}),
            revoked: authority.revoke(3),
            authority,
            list,
        }
    }

    fn good(&self) -> &Pair {
        self.list
            .iter()
            .find_map(|(name, pair)| pair.as_ref().filter(|_| *name == "good"))
            .unwrap()
    }

    /// The names of those that are served.
    fn served(&self, bench: &Bench, listener: &str) -> Vec<&'static str> {
        let served = self
            .list
            .iter()
            .filter(|(_, pair)| self.is_served(bench, listener, pair.as_ref()));
        served.map(|(name, _)| *name).collect()
    }

    /// Whether a client with this certificate gets an answer.
    pub(crate) fn is_served(&self, bench: &Bench, listener: &str, pair: Option<&Pair>) -> bool {
        let answer = self.ask(bench, listener, pair, &[]);
        answer.is_ok_and(|answer| answer.status == 200)
    }

    /// What a client with this certificate gets.
    pub(crate) fn ask(
        &self,
        bench: &Bench,
        listener: &str,
        pair: Option<&Pair>,
        headers: &[(&str, &str)],
    ) -> anyhow::Result<Response> {
        let roots = self.authority.roots();
        let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = match pair {
            None => config.with_no_client_auth(),
            Some(pair) => {
                let key = PrivatePkcs8KeyDer::from(pair.key.serialize_der());
                config
                    .with_client_auth_cert(vec![pair.certificate.der().clone()], key.into())
                    .unwrap()
            }
        };
        let name = ServerName::try_from("localhost").unwrap();
        let connection = ClientConnection::new(Arc::new(config), name).unwrap();
        let stream = StreamOwned::new(connection, bench.connect(listener));
        let request = Request {
            headers,
            ..Request::get("h", "/")
        };
        http::exchange(stream, &request)
    }

    /// A filter chain that asks this of clients.
    pub(crate) fn chain(&self, required: bool, validation: &Value) -> Value {
        let server = self.server.as_message();
        json!({"transport_socket": {"name": "tls", "typed_config": {
            "@type": format!("{TLS}.DownstreamTlsContext"),
            "common_tls_context": {"tls_certificates": [server], "validation_context": validation},
            "require_client_certificate": required,
        }}})
    }
}

fn with(mut a: Value, b: &Value) -> Value {
    a.as_object_mut().unwrap().extend(b.as_object().unwrap().clone());
    a
}

#[test]
fn clients_are_served_by_what_their_certificates_are() {
    let clients = Clients::new();
    let authority = json!({"trusted_ca": {"inline_string": clients.authority.pair.certificate.pem()}});
    let untrusted = json!({"trust_chain_verification": "ACCEPT_UNTRUSTED"});
    let named = json!({"match_typed_subject_alt_names": [{"san_type": "DNS", "matcher": {"exact": "good.example"}}]});
    let spki = STANDARD.encode(Sha256::digest(clients.good().key.subject_public_key_info()));
    let pinned = json!({"verify_certificate_spki": [spki]});
    let listed = json!({"crl": {"inline_string": clients.revoked}});
    let trusted = |more: &Value| with(authority.clone(), more);
    let all = ["none", "good", "other", "strange", "old"];
    // The listener, whether a certificate is required, what it must be, and who is served.
    let rows = [
        ("verified", false, authority.clone(), &all[..3]),
        ("required", true, authority.clone(), &["good", "other"]),
        ("asked", false, trusted(&untrusted), &all),
        ("any", true, trusted(&untrusted), &all[1..]),
        ("anybody", false, untrusted.clone(), &all),
        ("pinned", false, pinned.clone(), &["good"]),
        ("pinned-ca", false, trusted(&pinned), &["good"]),
        ("named", false, trusted(&named), &["good"]),
        ("named-asked", false, with(trusted(&untrusted), &named), &all),
        ("revoked", false, trusted(&listed), &["none", "good"]),
        (
            "late",
            false,
            trusted(&json!({"allow_expired_certificate": true})),
            &["none", "good", "other", "old"],
        ),
    ];
    let chains: Vec<_> = rows
        .iter()
        .map(|(name, required, validation, _)| (*name, json!({}), clients.chain(*required, validation)))
        .collect();
    let (address, _seen) = backend("ok");
    let clusters = [cluster("backend", &[endpoint(address)])];
    for (plane, data_plane) in data_planes() {
        let bench = Bench::with_chains(&clusters, &data_plane, "x-envoy", &chains);
        for (name, _, _, wanted) in &rows {
            assert_eq!(clients.served(&bench, name), *wanted, "{plane} {name}");
        }
    }
}

#[test]
fn backends_are_told_of_certificates_in_the_same_words() {
    let clients = Clients::new();
    let named = clients.authority.sign("good.example", 9, |params| {
        let name = &mut params.distinguished_name;
        name.push(DnType::OrganizationName, "Acme, Inc. <a+b>; \"c\"");
        name.push(DnType::LocalityName, " M\u{fc}nchen #");
        let uri = "spiffe://edge/one".try_into().unwrap();
        params.subject_alt_names.push(SanType::URI(uri));
    });
    let authority = json!({"trusted_ca": {"inline_string": clients.authority.pair.certificate.pem()}});
    let all = json!({"subject": true, "cert": true, "chain": true, "dns": true, "uri": true});
    let rows = [
        ("set", "SANITIZE_SET", &all),
        ("append", "APPEND_FORWARD", &all),
        ("digest", "SANITIZE_SET", &json!({})),
        ("subject", "APPEND_FORWARD", &json!({"subject": true, "dns": true})),
        ("forward", "FORWARD_ONLY", &all),
        ("always", "ALWAYS_FORWARD_ONLY", &all),
        ("none", "SANITIZE", &all),
    ];
    let chains = rows.map(|(name, mode, details)| {
        let settings = json!({"forward_client_cert_details": mode, "set_current_client_cert_details": details});
        (name, settings, clients.chain(false, &authority))
    });
    let (address, seen) = backend("ok");
    let clusters = [cluster("backend", &[endpoint(address)])];
    let told = data_planes().map(|(_, plane)| {
        let bench = Bench::with_chains(&clusters, &plane, "x-envoy", &chains);
        let mut told = Vec::new();
        for (listener, ..) in &rows {
            for pair in [None, Some(clients.good()), Some(&named)] {
                for headers in [&[][..], &[("x-forwarded-client-cert", "By=a;URI=b")]] {
                    clients.ask(&bench, listener, pair, headers).unwrap();
                    let head = seen.recv().unwrap();
                    let lines = head
                        .into_iter()
                        .filter(|line| line.starts_with("x-forwarded-client-cert: "));
                    told.push((*listener, lines.collect::<Vec<_>>()));
                }
            }
        }
        told
    });
    let [ours, envoys] = told;
    assert_eq!(ours, envoys);
    assert!(
        ours.iter()
            .any(|(_, lines)| lines.iter().any(|line| line.contains("Subject=")))
    );
}

/// One of ours with these URIs in it.
fn known_as(clients: &Clients, name: &str, uris: &[&str]) -> Pair {
    clients.authority.sign(name, 20, |params| {
        let uris = uris.iter().map(|uri| SanType::URI((*uri).try_into().unwrap()));
        params.subject_alt_names.extend(uris);
    })
}

#[test]
fn backends_are_told_whom_a_client_has_spoken_to() {
    let mut clients = Clients::new();
    let authority = json!({"trusted_ca": {"inline_string": clients.authority.pair.certificate.pem()}});
    clients.server = known_as(&clients, "localhost", &["spiffe://edge/a", "https://edge.example/a;b"]);
    let mut several = clients.chain(false, &authority);
    let one = several.clone();
    // Clients ask for localhost.
    let other = known_as(&clients, "other.example", &["spiffe://edge/other"]);
    let list = &mut several["transport_socket"]["typed_config"]["common_tls_context"]["tls_certificates"];
    list.as_array_mut().unwrap().insert(0, other.as_message());
    let mut without = several.clone();
    let list = &mut without["transport_socket"]["typed_config"]["common_tls_context"]["tls_certificates"];
    list[1] = known_as(&clients, "localhost", &[]).as_message();
    let settings =
        |mode: &str| json!({"forward_client_cert_details": mode, "set_current_client_cert_details": {"subject": true}});
    let chains = [
        ("one", settings("SANITIZE_SET"), one),
        ("several", settings("APPEND_FORWARD"), several),
        ("without", settings("APPEND_FORWARD"), without),
    ];
    let (address, seen) = backend("ok");
    let clusters = [cluster("backend", &[endpoint(address)])];
    let [ours, envoys] = data_planes().map(|(_, plane)| {
        let bench = Bench::with_chains(&clusters, &plane, "x-envoy", &chains);
        let mut told = Vec::new();
        for (listener, ..) in &chains {
            for headers in [&[][..], &[("x-forwarded-client-cert", "By=a;URI=b")]] {
                clients.ask(&bench, listener, Some(clients.good()), headers).unwrap();
                let head = seen.recv().unwrap();
                let line = head
                    .iter()
                    .find_map(|line| line.strip_prefix("x-forwarded-client-cert: "));
                told.push(line.unwrap().to_owned());
            }
        }
        told
    });
    assert_eq!(ours, envoys);
    for told in &ours[..4] {
        assert!(
            told.contains("By=spiffe://edge/a;By=https://edge.example/a;b;Hash="),
            "{told}"
        );
    }
    assert!(ours[4].starts_with("Hash="), "{}", ours[4]);
}

#[test]
fn whoever_speaks_tls_is_authenticated() {
    const RBAC: &str = "type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC";
    let clients = Clients::new();
    let authority = json!({"trusted_ca": {"inline_string": clients.authority.pair.certificate.pem()}});
    let named = |matcher: Value| json!({"authenticated": {"principal_name": matcher}});
    let good = named(json!({"exact": "good.example"}));
    let principals = [
        ("anybody", json!({"authenticated": {}})),
        ("any", named(json!({"safe_regex": {"regex": ".*"}}))),
        ("some", named(json!({"safe_regex": {"regex": ".+"}}))),
        ("empty", named(json!({"exact": ""}))),
        ("good", good.clone()),
        ("not", json!({"not_id": good})),
    ];
    let mut chains = Vec::new();
    for (action, names) in [
        ("ALLOW", ["anybody", "any", "some", "empty", "good", "not"]),
        (
            "DENY",
            ["no-anybody", "no-any", "no-some", "no-empty", "no-good", "no-not"],
        ),
    ] {
        for ((_, principal), name) in principals.iter().zip(names) {
            let policy = json!({"permissions": [{"any": true}], "principals": [principal]});
            let filter = json!({"@type": RBAC, "rules": {"action": action, "policies": {"p": policy}}});
            let router = json!({"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"});
            let settings = json!({"http_filters": [
                {"name": "rbac", "typed_config": filter}, {"name": "router", "typed_config": router},
            ]});
            chains.push((name, settings, clients.chain(false, &authority)));
        }
    }
    let (address, _seen) = backend("ok");
    let clusters = [cluster("backend", &[endpoint(address)])];
    let [ours, envoys] = data_planes().map(|(_, plane)| {
        let bench = Bench::with_chains(&clusters, &plane, "x-envoy", &chains);
        let served = chains.iter().map(|(name, ..)| (*name, clients.served(&bench, name)));
        served.collect::<Vec<_>>()
    });
    assert_eq!(ours, envoys);
    assert_eq!(ours[0], ("anybody", vec!["none", "good", "other"]));
    assert_eq!(ours[6], ("no-anybody", vec![]));
    assert_eq!(ours[2], ("some", vec!["good", "other"]));
}

/// A backend that answers those alone whose certificates the authority has signed.
pub(crate) fn guarded(clients: &Clients) -> SocketAddr {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let roots = Arc::new(clients.authority.roots());
    let verifier = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider))
        .build()
        .unwrap();
    let key = PrivatePkcs8KeyDer::from(clients.server.key.serialize_der());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![clients.server.certificate.der().clone()], key.into())
        .unwrap();
    secured(config)
}

/// A backend that answers each connection once.
pub(crate) fn secured(config: ServerConfig) -> SocketAddr {
    let config = Arc::new(config);
    listen(move |stream| answer_once(&config, stream))
}

/// Whoever isn't trusted gets no answer.
fn answer_once(config: &Arc<ServerConfig>, stream: TcpStream) {
    let connection = ServerConnection::new(Arc::clone(config)).unwrap();
    let mut reader = BufReader::new(StreamOwned::new(connection, stream));
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        if !matches!(reader.read_line(&mut line), Ok(1..)) {
            return;
        }
    }
    let mut stream = reader.into_inner();
    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    if stream.write_all(answer).is_ok() && stream.flush().is_ok() {
        stream.conn.send_close_notify();
        let _ = stream.flush();
    }
}

#[test]
fn a_backend_is_shown_the_certificate_that_it_asks_for() {
    let clients = Clients::new();
    let address = guarded(&clients);
    let authority = json!({"trusted_ca": {"inline_string": clients.authority.pair.certificate.pem()}});
    for (presented, wanted) in [("none", 503), ("good", 200), ("strange", 503)] {
        let pair = clients.list.iter().find(|(name, _)| *name == presented).unwrap();
        let certificates: Vec<_> = pair.1.iter().map(Pair::as_message).collect();
        let mut cluster = cluster("backend", &[endpoint(address)]);
        cluster["transport_socket"] = json!({"name": "tls", "typed_config": {
            "@type": format!("{TLS}.UpstreamTlsContext"),
            "common_tls_context": {"tls_certificates": certificates, "validation_context": authority},
            "sni": "localhost",
        }});
        for (plane, data_plane) in data_planes() {
            let clusters = [cluster.clone()];
            let bench = Bench::with_clusters(&clusters, &data_plane, "x-envoy", &[("plain", json!({}))]);
            let answer = http::exchange(bench.connect("plain"), &Request::get("h", "/")).unwrap();
            assert_eq!(answer.status, wanted, "{plane} with {presented}");
        }
    }
}
