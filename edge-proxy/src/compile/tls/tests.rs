use std::io;
use std::path::Path;

use rustls::client::Resumption as Remembered;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConnection, HandshakeKind, RootCertStore, ServerConnection, SupportedProtocolVersion};

use super::*;
use crate::compile::files::Files;
use crate::compile::prefixed_headers;

/// A machine without a file.
#[derive(Debug)]
struct Bare;

impl Files for Bare {
    fn read(&self, _: &Path) -> io::Result<Vec<u8>> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn variable(&self, _: &str) -> Option<String> {
        None
    }
}

fn context() -> Context {
    Context::new(Box::new(Bare), prefixed_headers("x-edge").unwrap(), 1)
}

fn socket(kind: &str, fields: serde_json::Value) -> TransportSocket {
    let mut config = fields;
    config["@type"] = format!("type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.{kind}").into();
    let socket = serde_json::json!({"name": "envoy.transport_sockets.tls", "typed_config": config});
    edge_xds::json::from_json(socket).unwrap()
}

/// A listener's side with a certificate of its own, and what clients trust.
fn listener(fields: serde_json::Value) -> (Arc<ServerConfig>, CertificateDer<'static>) {
    let made = rcgen::generate_simple_self_signed(vec!["h.example".to_owned()]).unwrap();
    let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let mut fields = fields;
    fields["common_tls_context"] = serde_json::json!({"tls_certificates": [
        {"certificate_chain": {"inline_string": chain}, "private_key": {"inline_string": key}},
    ]});
    let spec = downstream(&context(), &At::root(), &socket("DownstreamTlsContext", fields));
    let tls = spec.unwrap().unwrap().finish(&At::root(), &Secrets::new()).unwrap();
    (Arc::clone(tls.config()), made.cert.der().clone())
}

/// A client that remembers one session.
fn client(trusted: &CertificateDer<'static>, version: &'static SupportedProtocolVersion) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.resumption = Remembered::in_memory_sessions(8);
    Arc::new(config)
}

fn shake(client: &Arc<ClientConfig>, server: &Arc<ServerConfig>) -> HandshakeKind {
    let mut client = ClientConnection::new(Arc::clone(client), "h.example".try_into().unwrap()).unwrap();
    let mut server = ServerConnection::new(Arc::clone(server)).unwrap();
    while client.wants_write() || server.wants_write() {
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes).unwrap();
        server.read_tls(&mut &*bytes).unwrap();
        server.process_new_packets().unwrap();
        bytes.clear();
        server.write_tls(&mut bytes).unwrap();
        client.read_tls(&mut &*bytes).unwrap();
        client.process_new_packets().unwrap();
    }
    client.handshake_kind().unwrap()
}

#[test]
fn every_one_of_many_clients_resumes_what_it_agreed() {
    let (server, trusted) = listener(serde_json::json!({}));
    for version in [&rustls::version::TLS13, &rustls::version::TLS12] {
        let clients: Vec<_> = (0..300).map(|_| client(&trusted, version)).collect();
        for client in &clients {
            assert_ne!(shake(client, &server), HandshakeKind::Resumed);
        }
        for (number, client) in clients.iter().enumerate() {
            let again = shake(client, &server);
            assert_eq!(again, HandshakeKind::Resumed, "{:?}: client {number}", version.version);
        }
    }
}

#[test]
fn resumption_is_for_those_to_whom_it_is_offered() {
    for (tickets, sessions) in [(true, false), (false, true), (false, false)] {
        let (server, trusted) = listener(serde_json::json!({
            "disable_stateless_session_resumption": !tickets,
            "disable_stateful_session_resumption": !sessions,
        }));
        for version in [&rustls::version::TLS13, &rustls::version::TLS12] {
            let client = client(&trusted, version);
            shake(&client, &server);
            let resumed = shake(&client, &server) == HandshakeKind::Resumed;
            assert_eq!(
                resumed,
                tickets || sessions,
                "{:?}: {tickets}, {sessions}",
                version.version
            );
        }
    }
}

#[test]
fn tickets_are_worth_nothing_to_other_settings() {
    let (server, trusted) = listener(serde_json::json!({}));
    let client = client(&trusted, &rustls::version::TLS13);
    shake(&client, &server);
    assert_eq!(shake(&client, &server), HandshakeKind::Resumed);
    let mut same_certificate = (*server).clone();
    let resumption = Resumption {
        tickets: true,
        sessions: true,
    };
    resumption.apply(&mut same_certificate).unwrap();
    assert_ne!(shake(&client, &Arc::new(same_certificate)), HandshakeKind::Resumed);
}

#[test]
fn a_life_of_sessions_that_would_not_be_kept_is_refused() {
    let fields = serde_json::json!({"session_timeout": "60s"});
    let refused = downstream(&context(), &At::root(), &socket("DownstreamTlsContext", fields)).unwrap_err();
    assert_eq!(refused.field, "typed_config.session_timeout");
}

/// The secret brings the authority: a machine needs none of its own for that.
#[test]
fn names_beside_a_secret_need_no_authority_of_the_system() {
    let fields = serde_json::json!({"common_tls_context": {"combined_validation_context": {
        "default_validation_context": {"match_typed_subject_alt_names": [
            {"san_type": "DNS", "matcher": {"exact": "h.example"}},
        ]},
        "validation_context_sds_secret_config": {"name": "ca", "sds_config": {"ads": {}}},
    }}});
    let spec = upstream(
        &context(),
        &At::root(),
        &socket("UpstreamTlsContext", fields),
        HostUse::None,
    );
    assert_eq!(spec.unwrap().unwrap().secrets().count(), 1);
    let alone = serde_json::json!({"common_tls_context": {"validation_context": {
        "match_typed_subject_alt_names": [{"san_type": "DNS", "matcher": {"exact": "h.example"}}],
    }}});
    let refused = upstream(
        &context(),
        &At::root(),
        &socket("UpstreamTlsContext", alone),
        HostUse::None,
    )
    .unwrap_err();
    assert!(refused.field.ends_with("validation_context.trusted_ca"), "{refused}");
}

#[test]
fn algorithms_and_names_that_nobody_knows_are_refused() {
    let refused = |common: serde_json::Value| {
        let fields = serde_json::json!({"common_tls_context": common});
        let socket = socket("UpstreamTlsContext", fields);
        upstream(&context(), &At::root(), &socket, HostUse::None)
            .map(drop)
            .map_err(|error| error.field)
    };
    let algorithms = |list: &[&str]| refused(serde_json::json!({"tls_params": {"signature_algorithms": list}}));
    assert_eq!(algorithms(&["ecdsa_secp256r1_sha256", "rsa_pkcs1_sha1"]), Ok(()));
    let at = "typed_config.common_tls_context.tls_params.signature_algorithms";
    assert_eq!(algorithms(&["ed25519", "rsa"]), Err(format!("{at}[1]")));
    assert_eq!(algorithms(&["rsa_pkcs1_sha1"]), Err(at.to_owned()));
    let named = |name: serde_json::Value| {
        refused(serde_json::json!({"combined_validation_context": {
            "default_validation_context": {"match_typed_subject_alt_names": [name]},
            "validation_context_sds_secret_config": {"name": "ca", "sds_config": {"ads": {}}},
        }}))
    };
    let other = |oid: &str| named(serde_json::json!({"san_type": "OTHER_NAME", "oid": oid, "matcher": {"exact": "a"}}));
    assert_eq!(other("1.2.3"), Ok(()));
    for oid in ["", "UPN", "1.2.", "9.1"] {
        assert!(other(oid).is_err_and(|field| field.ends_with("[0].oid")), "{oid:?}");
    }
    let untyped = named(serde_json::json!({"matcher": {"exact": "a"}}));
    assert!(untyped.is_err_and(|field| field.ends_with("[0].san_type")));
}
