//! What logs say of TLS, and of calls of gRPC: both data planes get the same and must write down the same.

use crate::{
    access_logs::{lines, log, without_numbers},
    bench::{Bench, Socket, backend, cluster, data_planes, endpoint},
    certificates::Clients,
};
use e2e::{process::wait_for, stack::PATIENCE};
use rcgen::{DnType, SanType};
use serde_json::{Value, json};
use std::{
    net::{Ipv4Addr, TcpListener},
    path::Path,
};

/// What logs say of a client's TLS.
const OF_TLS: &str = "%DOWNSTREAM_TLS_VERSION%|%DOWNSTREAM_PEER_SUBJECT%|%DOWNSTREAM_PEER_ISSUER%|\
    %DOWNSTREAM_PEER_SERIAL%|%DOWNSTREAM_PEER_FINGERPRINT_256%|%DOWNSTREAM_PEER_URI_SAN%|%DOWNSTREAM_PEER_DNS_SAN%|\
    %DOWNSTREAM_PEER_IP_SAN%|%DOWNSTREAM_PEER_EMAIL_SAN%|%DOWNSTREAM_PEER_CERT%|%DOWNSTREAM_PEER_CERT_V_START%|\
    %DOWNSTREAM_PEER_CERT_V_END(%Y-%m-%d)%\n";

fn text(text: &str) -> Option<Value> {
    Some(json!({"text_format_source": {"inline_string": text}}))
}

/// All lines of a log, once there are so many.
fn whole(bench: &Bench, folder: &Path, name: &str, count: usize) -> Vec<String> {
    let found = wait_for(&format!("{count} lines in {name}"), PATIENCE, || {
        bench.order("/reopen_logs");
        let lines = lines(folder, name);
        Ok((lines.len() >= count).then_some(lines))
    });
    found.unwrap().0
}

#[test]
fn both_say_the_same_of_tls() {
    let clients = Clients::new();
    let named = clients.authority.sign("good.example", 0x1f_00ff, |params| {
        params.distinguished_name.push(DnType::OrganizationName, "Acme, Inc.");
        let others = [
            SanType::URI("spiffe://edge/one".try_into().unwrap()),
            SanType::URI("spiffe://edge/two".try_into().unwrap()),
            SanType::DnsName("other.example".try_into().unwrap()),
            SanType::IpAddress([192, 0, 2, 1].into()),
            SanType::Rfc822Name("a@good.example".try_into().unwrap()),
        ];
        params.subject_alt_names.extend(others);
    });
    let authority = json!({"trusted_ca": {"inline_string": clients.authority.pair.certificate.pem()}});
    let (address, _seen) = backend("ok");
    let clusters = [cluster("backend", &[endpoint(address)])];
    let [ours, envoys] = data_planes().map(|(_, plane)| {
        let folder = tempfile::tempdir().unwrap();
        let logs = json!([
            log(folder.path(), "facts", None, text(OF_TLS)),
            log(folder.path(), "suite", None, text("%DOWNSTREAM_TLS_CIPHER%\n")),
        ]);
        let manager = json!({"access_log": logs});
        let chains = [
            ("tls", manager.clone(), clients.chain(false, &authority)),
            ("plain", manager, json!({})),
        ];
        let bench = Bench::with_chains(&clusters, &plane, "x-envoy", &chains);
        clients.ask(&bench, "tls", Some(&named), &[]).unwrap();
        clients.ask(&bench, "tls", None, &[]).unwrap();
        bench.send("plain", "GET / HTTP/1.1\r\nhost: h\r\n\r\n");
        let suites = whole(&bench, folder.path(), "suite", 3);
        // Which suite is taken is the business of their libraries.
        let suites: Vec<_> = suites.iter().map(|suite| without_numbers(suite)).collect();
        (whole(&bench, folder.path(), "facts", 3), suites)
    });
    assert_eq!(ours.0, envoys.0);
    assert!(ours.0[0].starts_with("TLSv1.3|O="), "{:?}", ours.0);
    assert_eq!(ours.1, envoys.1);
}

/// Which logs there are of calls, with the statuses that they tell of.
fn of_calls(folder: &Path) -> Value {
    let form = "%REQ(:PATH)% %GRPC_STATUS% %GRPC_STATUS(SNAKE_STRING)% %GRPC_STATUS(NUMBER)% %GRPC_STATUS_NUMBER%\n";
    let filter = |statuses: &[&str], exclude: bool| {
        Some(json!({"grpc_status_filter": {"statuses": statuses, "exclude": exclude}}))
    };
    let path = || text("%REQ(:PATH)%\n");
    let json_form = json!({"json_format": {"number": "%GRPC_STATUS_NUMBER%", "name": "%GRPC_STATUS%"}});
    json!([
        log(folder, "all", None, text(form)),
        log(folder, "json", None, Some(json_form)),
        log(folder, "absent", filter(&["NOT_FOUND", "UNAVAILABLE"], false), path()),
        log(folder, "others", filter(&["NOT_FOUND", "UNKNOWN"], true), path()),
    ])
}

#[test]
fn both_say_the_same_of_calls() {
    let refusing = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .unwrap()
        .local_addr()
        .unwrap();
    let (address, _seen) = backend("ok");
    let clusters = [
        cluster("backend", &[endpoint(address)]),
        cluster("refusing", &[endpoint(refusing)]),
    ];
    let call = |path: &str| {
        format!("POST {path} HTTP/1.1\r\nhost: h\r\ncontent-type: application/grpc\r\ncontent-length: 0\r\n\r\n")
    };
    let mut asked: Vec<String> = ["/said", "/odd", "/unsaid", "/direct", "/refusing", "/nowhere"]
        .map(call)
        .into();
    asked.push("GET /unsaid HTTP/1.1\r\nhost: h\r\n\r\n".to_owned());
    let says = |path: &str, status: &str| {
        json!({"match": {"prefix": path}, "route": {"cluster": "backend"}, "response_headers_to_add": [
            {"header": {"key": "grpc-status", "value": status}},
        ]})
    };
    let [ours, envoys] = data_planes().map(|(_, plane)| {
        let folder = tempfile::tempdir().unwrap();
        let manager = json!({
            "access_log": of_calls(folder.path()),
            "route_config": {"name": "r", "virtual_hosts": [{"name": "v", "domains": ["*"], "routes": [
                says("/said", "5"), says("/odd", "42"),
                {"match": {"prefix": "/unsaid"}, "route": {"cluster": "backend"}},
                {"match": {"prefix": "/direct"}, "direct_response": {"status": 429}},
                {"match": {"prefix": "/refusing"}, "route": {"cluster": "refusing"}},
            ]}]},
        });
        let socket = Socket {
            manager,
            ..Socket::of("in")
        };
        let bench = Bench::with_sockets(&clusters, &plane, "x-envoy", &[socket]);
        for request in &asked {
            bench.send("in", request);
        }
        let all = whole(&bench, folder.path(), "all", asked.len());
        let rest = [("json", asked.len()), ("absent", 3), ("others", 4)];
        (all, rest.map(|(name, count)| whole(&bench, folder.path(), name, count)))
    });
    assert_eq!(ours, envoys);
    assert_eq!(ours.0[0], "/said NotFound NOT_FOUND 5 5");
    assert!(!ours.1.iter().any(Vec::is_empty), "{:?}", ours.1);
}
