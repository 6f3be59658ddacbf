//! Algorithms of signatures in handshakes: who is served where only some are allowed.

use crate::{
    bench::{Bench, backend, cluster, data_planes, endpoint},
    certificates::{Clients, TLS, guarded},
};
use e2e::http::{self, Request};
use rcgen::{KeyPair, PKCS_ECDSA_P384_SHA384};
use serde_json::{Value, json};

const TLS_12: &str = "TLSv1_2";
const TLS_13: &str = "TLSv1_3";
const P256: &str = "ecdsa_secp256r1_sha256";
const P384: &str = "ecdsa_secp384r1_sha384";
const RSA: &str = "rsa_pss_rsae_sha256";

#[test]
fn clients_are_served_with_signatures_that_are_allowed() {
    let clients = Clients::new();
    let key = KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384).unwrap();
    let large = clients.authority.sign_key(key, "large.example", 20, |_| {});
    let small = clients.authority.sign("small.example", 21, |_| {});
    let authority = json!({"trusted_ca": {"inline_string": clients.authority.pair.certificate.pem()}});
    // The key of the listener is of P-256. Who is served with a key of P-256, and with one of P-384.
    let rows = [
        ("all", json!([]), [true, true]),
        ("own", json!([P256]), [true, false]),
        ("both", json!([P384, P256]), [true, true]),
        ("behind", json!([RSA, P256]), [true, false]),
        ("other", json!([RSA]), [false, false]),
    ];
    let (address, _seen) = backend("ok");
    let clusters = [cluster("backend", &[endpoint(address)])];
    for version in [TLS_12, TLS_13] {
        let chains: Vec<_> = rows
            .iter()
            .map(|(name, algorithms, _)| {
                let mut chain = clients.chain(true, &authority);
                chain["transport_socket"]["typed_config"]["common_tls_context"]["tls_params"] =
                    parameters(version, algorithms);
                (*name, json!({}), chain)
            })
            .collect();
        for (plane, data_plane) in data_planes() {
            let bench = Bench::with_chains(&clusters, &data_plane, "x-envoy", &chains);
            for (name, _, wanted) in &rows {
                let served = [&small, &large].map(|pair| clients.is_served(&bench, name, Some(pair)));
                assert_eq!(served, *wanted, "{plane} {version} {name}");
            }
        }
    }
}

fn parameters(version: &str, algorithms: &Value) -> Value {
    json!({
        "tls_minimum_protocol_version": version,
        "tls_maximum_protocol_version": version,
        "signature_algorithms": algorithms,
    })
}

#[test]
fn backends_are_talked_to_with_signatures_that_are_allowed() {
    let clients = Clients::new();
    let address = guarded(&clients);
    let key = KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384).unwrap();
    let large = clients.authority.sign_key(key, "large.example", 20, |_| {});
    let small = clients.authority.sign("small.example", 21, |_| {});
    let authority = json!({"trusted_ca": {"inline_string": clients.authority.pair.certificate.pem()}});
    // The key of the backend is of P-256. In TLS 1.2 a key of any curve may sign with any hash (RFC 8422 §5.10), which
    // BoringSSL does and edge-proxy doesn't.
    let rows = [
        (TLS_12, json!([]), &large, 200),
        (TLS_12, json!([P256]), &small, 200),
        (TLS_12, json!([P384, P256]), &large, 200),
        (TLS_12, json!([RSA]), &small, 503),
        (TLS_13, json!([]), &large, 200),
        (TLS_13, json!([P256]), &small, 200),
        (TLS_13, json!([P256]), &large, 503),
        (TLS_13, json!([P384, P256]), &large, 200),
        (TLS_13, json!([RSA]), &small, 503),
        (TLS_13, json!([P384]), &large, 503),
    ];
    for (version, algorithms, shown, wanted) in &rows {
        let mut cluster = cluster("backend", &[endpoint(address)]);
        cluster["transport_socket"] = json!({"name": "tls", "typed_config": {
            "@type": format!("{TLS}.UpstreamTlsContext"),
            "common_tls_context": {
                "tls_certificates": [shown.as_message()],
                "validation_context": authority,
                "tls_params": parameters(version, algorithms),
            },
            "sni": "localhost",
        }});
        for (plane, data_plane) in data_planes() {
            let clusters = [cluster.clone()];
            let bench = Bench::with_clusters(&clusters, &data_plane, "x-envoy", &[("plain", json!({}))]);
            let answer = http::exchange(bench.connect("plain"), &Request::get("h", "/")).unwrap();
            assert_eq!(answer.status, *wanted, "{plane} {version} {algorithms}");
        }
    }
}
