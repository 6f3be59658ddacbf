//! Names in certificates: who is served by conditions on each type of them, as a client and as a backend.

use crate::{
    bench::{Bench, Socket, backend, cluster, data_planes, endpoint},
    certificates::{Clients, Pair, TLS, secured},
};
use e2e::http::{self, Request};
use rcgen::{CertificateParams, SanType};
use rustls::{ServerConfig, pki_types::PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use std::{net::SocketAddr, sync::Arc};

/// The principal's name in certificates of Active Directory.
const UPN: &str = "1.3.6.1.4.1.311.20.2.3";

/// Certificates by what they are called.
fn holders(clients: &Clients) -> Vec<(&'static str, Pair)> {
    let upn = UPN.split('.').map(|arc| arc.parse().unwrap()).collect();
    let names = [
        ("wild", SanType::DnsName("*.wild.example".try_into().unwrap())),
        ("part", SanType::DnsName("f*o.part.example".try_into().unwrap())),
        ("label", SanType::DnsName("xn--*.part.example".try_into().unwrap())),
        ("uri", SanType::URI("spiffe://edge/one".try_into().unwrap())),
        ("mail", SanType::Rfc822Name("ann@example.com".try_into().unwrap())),
        ("four", SanType::IpAddress("10.0.0.7".parse().unwrap())),
        ("six", SanType::IpAddress("2001:db8::7".parse().unwrap())),
        ("upn", SanType::OtherName((upn, "ann@example.com".into()))),
        ("other", SanType::OtherName((vec![1, 2, 3], "ann@example.com".into()))),
    ];
    let signed = names.into_iter().zip(20..).map(|((holder, name), serial)| {
        let change = |params: &mut CertificateParams| params.subject_alt_names.push(name);
        (holder, clients.authority.sign("localhost", serial, change))
    });
    signed.collect()
}

/// A type of names, a condition, an object identifier, and whose names meet it.
type Row = (&'static str, Value, &'static str, &'static [&'static str]);

fn rows() -> Vec<Row> {
    let exact = |text: &str| json!({"exact": text});
    vec![
        ("DNS", exact("a.wild.example"), "", &["wild"]),
        (
            "DNS",
            json!({"exact": "A.Wild.example", "ignore_case": true}),
            "",
            &["wild"],
        ),
        ("DNS", exact("a.b.wild.example"), "", &[]),
        ("DNS", exact("wild.example"), "", &[]),
        ("DNS", json!({"prefix": "*.wild"}), "", &["wild"]),
        ("DNS", json!({"suffix": ".part.example"}), "", &["part", "label"]),
        ("DNS", exact("fo.part.example"), "", &["part"]),
        ("DNS", exact("fuoo.part.example"), "", &["part"]),
        ("DNS", exact("xn--a.part.example"), "", &[]),
        ("DNS", exact("ann@example.com"), "", &[]),
        ("URI", json!({"prefix": "spiffe://edge/"}), "", &["uri"]),
        ("URI", exact("SPIFFE://edge/one"), "", &[]),
        ("EMAIL", exact("ann@example.com"), "", &["mail"]),
        ("IP_ADDRESS", exact("10.0.0.7"), "", &["four"]),
        ("IP_ADDRESS", json!({"prefix": "10.0."}), "", &["four"]),
        ("IP_ADDRESS", exact("2001:db8::7"), "", &["six"]),
        ("IP_ADDRESS", exact("2001:DB8::7"), "", &[]),
        ("OTHER_NAME", exact("ann@example.com"), UPN, &["upn"]),
        ("OTHER_NAME", json!({"suffix": "@example.com"}), UPN, &["upn"]),
        (
            "OTHER_NAME",
            json!({"safe_regex": {"regex": "a.*m"}}),
            "1.2.3",
            &["other"],
        ),
        ("OTHER_NAME", exact("ann"), "1.2.3", &[]),
        ("OTHER_NAME", exact("ann@example.com"), "1.2.4", &[]),
    ]
}

fn validation(clients: &Clients, (kind, matcher, oid, _): &Row) -> Value {
    let mut condition = json!({"san_type": kind, "matcher": matcher});
    if !oid.is_empty() {
        condition["oid"] = (*oid).into();
    }
    json!({
        "trusted_ca": {"inline_string": clients.authority.pair.certificate.pem()},
        "match_typed_subject_alt_names": [condition],
    })
}

#[test]
fn clients_are_known_by_names_of_every_type() {
    let clients = Clients::new();
    let holders = holders(&clients);
    let rows = rows();
    let listeners: Vec<&'static str> = (0..rows.len()).map(|row| &*format!("row-{row}").leak()).collect();
    let chains: Vec<_> = rows
        .iter()
        .zip(&listeners)
        .map(|(row, listener)| (*listener, json!({}), clients.chain(true, &validation(&clients, row))))
        .collect();
    let (address, _seen) = backend("ok");
    let clusters = [cluster("backend", &[endpoint(address)])];
    for (plane, data_plane) in data_planes() {
        let bench = Bench::with_chains(&clusters, &data_plane, "x-envoy", &chains);
        for (row, listener) in rows.iter().zip(&listeners) {
            let served = holders
                .iter()
                .filter(|(_, pair)| clients.is_served(&bench, listener, Some(pair)));
            let served: Vec<_> = served.map(|(name, _)| *name).collect();
            assert_eq!(served, row.3, "{plane}: {row:?}");
        }
    }
}

/// A backend with this certificate.
fn backend_with(pair: &Pair) -> SocketAddr {
    let key = PrivatePkcs8KeyDer::from(pair.key.serialize_der());
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![pair.certificate.der().clone()], key.into())
        .unwrap();
    secured(config)
}

#[test]
fn backends_must_have_the_name_of_the_host_that_is_asked_for() {
    let clients = Clients::new();
    let backends: Vec<_> = holders(&clients)
        .into_iter()
        .map(|(name, pair)| (name, backend_with(&pair)))
        .collect();
    let protocols = "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
    let clusters = backends.iter().map(|(name, address)| {
        let mut cluster = cluster(name, &[endpoint(*address)]);
        cluster["transport_socket"] = json!({"name": "tls", "typed_config": {
            "@type": format!("{TLS}.UpstreamTlsContext"),
            "common_tls_context": {"validation_context": {
                "trusted_ca": {"inline_string": clients.authority.pair.certificate.pem()},
            }},
        }});
        cluster["typed_extension_protocol_options"] = json!({"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
            "@type": protocols,
            "upstream_http_protocol_options": {"auto_sni": true, "auto_san_validation": true},
            "explicit_http_config": {"http_protocol_options": {}},
        }});
        cluster
    });
    let clusters: Vec<_> = clusters.collect();
    let routes = backends
        .iter()
        .map(|(name, _)| json!({"match": {"path": format!("/{name}")}, "route": {"cluster": name}}));
    let hosts = json!([{"name": "all", "domains": ["*"], "routes": routes.collect::<Vec<_>>()}]);
    let socket = Socket {
        manager: json!({"route_config": {"name": "all", "virtual_hosts": hosts}}),
        ..Socket::of("all")
    };
    let rows: [(&str, &[&str]); 6] = [
        ("a.wild.example", &["wild"]),
        ("a.wild.example:80", &["wild"]),
        ("a.b.wild.example", &[]),
        ("wild.example", &[]),
        ("10.0.0.7", &["four"]),
        ("other.example", &[]),
    ];
    for (plane, data_plane) in data_planes() {
        let bench = Bench::with_sockets(&clusters, &data_plane, "x-envoy", std::slice::from_ref(&socket));
        // A connection that is open for one host serves no other.
        for (host, wanted) in rows.iter().chain(rows.iter().rev()) {
            let trusted = backends.iter().filter(|(name, _)| {
                let path = format!("/{name}");
                let answer = http::exchange(bench.connect("all"), &Request::get(host, &path)).unwrap();
                answer.status == 200
            });
            let trusted: Vec<_> = trusted.map(|(name, _)| *name).collect();
            assert_eq!(trusted, *wanted, "{plane}: {host}");
        }
    }
}

#[test]
fn backends_are_known_by_names_of_every_type() {
    let clients = Clients::new();
    // Of each type of names one condition, by which each backend is asked for a request.
    let rows: Vec<_> = rows()
        .into_iter()
        .filter(|(kind, matcher, _, holders)| match holders {
            ["mail" | "uri" | "six" | "other"] => true,
            ["part"] => *matcher == json!({"exact": "fo.part.example"}),
            _ => *kind == "OTHER_NAME" && *matcher == json!({"exact": "ann"}),
        })
        .collect();
    let backends = holders(&clients)
        .into_iter()
        .map(|(name, pair)| (name, backend_with(&pair)));
    let backends: Vec<_> = backends.collect();
    let mut clusters = Vec::new();
    let mut routes = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        for (name, address) in &backends {
            let cluster_name = format!("{index}-{name}");
            let mut cluster = cluster(&cluster_name, &[endpoint(*address)]);
            cluster["transport_socket"] = json!({"name": "tls", "typed_config": {
                "@type": format!("{TLS}.UpstreamTlsContext"),
                "common_tls_context": {"validation_context": validation(&clients, row)},
                "sni": "localhost",
            }});
            clusters.push(cluster);
            routes.push(json!({"match": {"path": format!("/{cluster_name}")}, "route": {"cluster": cluster_name}}));
        }
    }
    let hosts = json!([{"name": "all", "domains": ["*"], "routes": routes}]);
    let socket = Socket {
        manager: json!({"route_config": {"name": "all", "virtual_hosts": hosts}}),
        ..Socket::of("all")
    };
    for (plane, data_plane) in data_planes() {
        let bench = Bench::with_sockets(&clusters, &data_plane, "x-envoy", std::slice::from_ref(&socket));
        for (index, row) in rows.iter().enumerate() {
            let trusted = backends.iter().filter(|(name, _)| {
                let path = format!("/{index}-{name}");
                let answer = http::exchange(bench.connect("all"), &Request::get("h", &path)).unwrap();
                answer.status == 200
            });
            let trusted: Vec<_> = trusted.map(|(name, _)| *name).collect();
            assert_eq!(trusted, row.3, "{plane}: {row:?}");
        }
    }
}
