//! Access logs of streams and datagrams: both data planes are talked to alike and must write down the same.

use crate::{
    access_logs::{lines, log, without_numbers},
    bench::{Bench, cluster, data_planes, endpoint, listen},
};
use e2e::{process::wait_for, stack::PATIENCE, tls::Authority};
use serde_json::{Map, Value, json};
use std::{
    io::{Read as _, Write as _},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket},
    path::Path,
    sync::Arc,
    thread,
    time::Duration,
};

const TCP: &str = "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy";
const UDP: &str = "type.googleapis.com/envoy.extensions.filters.udp.udp_proxy.v3";
const INSPECTOR: &str = "type.googleapis.com/envoy.extensions.filters.listener.tls_inspector.v3.TlsInspector";

const NAMED: &str = "type.googleapis.com/envoy.extensions.filters.network.sni_dynamic_forward_proxy.v3.FilterConfig";
const NAMES: &str = "type.googleapis.com/envoy.extensions.clusters.dynamic_forward_proxy.v3.ClusterConfig";

/// Everything that a stream can be asked for; what differs in its numbers is compared without them.
fn format() -> Value {
    json!({"json_format": {
        "method": "%REQ(:METHOD)%", "protocol": "%PROTOCOL%", "code": "%RESPONSE_CODE%",
        "details": "%RESPONSE_CODE_DETAILS%", "flags": "%RESPONSE_FLAGS%", "long flags": "%RESPONSE_FLAGS_LONG%",
        "received": "%BYTES_RECEIVED%", "sent": "%BYTES_SENT%", "route": "%ROUTE_NAME%",
        "cluster": "%UPSTREAM_CLUSTER%", "host": "%UPSTREAM_HOST%", "upstream protocol": "%UPSTREAM_PROTOCOL%",
        "to": "%UPSTREAM_REMOTE_ADDRESS%", "from": "%UPSTREAM_LOCAL_ADDRESS%", "to port": "%UPSTREAM_REMOTE_PORT%",
        "attempts": "%UPSTREAM_REQUEST_ATTEMPT_COUNT%", "termination": "%CONNECTION_TERMINATION_DETAILS%",
        "failure": "%UPSTREAM_TRANSPORT_FAILURE_REASON%", "server name": "%REQUESTED_SERVER_NAME%",
        "client": "%DOWNSTREAM_REMOTE_ADDRESS%", "peer": "%DOWNSTREAM_DIRECT_REMOTE_ADDRESS%",
        "local": "%DOWNSTREAM_LOCAL_ADDRESS%", "type": "%ACCESS_LOG_TYPE%", "start": "%START_TIME%",
        "duration": "%DURATION%", "to response": "%RESPONSE_DURATION%", "text": "%RESPONSE_CODE% %PROTOCOL%",
        "session": "%DYNAMIC_METADATA(udp.proxy.session:bytes_received)%",
        "datagrams": "%DYNAMIC_METADATA(udp.proxy.session:datagrams_sent)%",
        "session cluster": "%DYNAMIC_METADATA(udp.proxy.session:cluster_name)%",
    }})
}

/// Keys whose numbers are the same too.
const EXACT: [&str; 6] = ["code", "received", "sent", "attempts", "session", "datagrams"];

/// A proxy of connections to a cluster.
fn tcp(folder: &Path, name: &str, to: &str, settings: &Value) -> Value {
    let mut proxy = json!({
        "@type": TCP, "stat_prefix": name, "cluster": to, "access_log": [log(folder, name, None, Some(format()))],
    });
    proxy
        .as_object_mut()
        .unwrap()
        .extend(settings.as_object().unwrap().clone());
    json!([{"name": "tcp", "typed_config": proxy}])
}

/// A listener that passes TLS on by its server name, and logs what it has no chain for.
fn passthrough(folder: &Path) -> Value {
    let unmatched = json!({"response_flag_filter": {"flags": ["NR"]}});
    json!({
        "access_log": [log(folder, "unmatched", Some(unmatched), Some(format()))],
        "listener_filters": [{"name": "inspector", "typed_config": {"@type": INSPECTOR}}],
        "filter_chains": [{
            "name": "chain",
            "filter_chain_match": {"server_names": ["known.example.com"]},
            "filters": tcp(folder, "passed", "backend", &json!({})),
        }],
    })
}

fn listeners(folder: &Path) -> Vec<(&'static str, Value)> {
    let tcp = |name, to, settings| {
        let filters = tcp(folder, name, to, &settings);
        (name, json!({"filter_chains": [{"name": "chain", "filters": filters}]}))
    };
    let udp = json!({
        "@type": format!("{UDP}.UdpProxyConfig"), "stat_prefix": "udp", "idle_timeout": "0.3s",
        "access_log": [log(folder, "udp", None, Some(format()))],
        "matcher": {"on_no_match": {"action": {"name": "route", "typed_config": {
            "@type": format!("{UDP}.Route"), "cluster": "datagrams"}}}},
    });
    vec![
        tcp("plain", "backend", json!({})),
        tcp("refusing", "refusing", json!({"max_connect_attempts": 2})),
        tcp("empty", "empty", json!({})),
        tcp("nowhere", "nowhere", json!({})),
        tcp("idle", "backend", json!({"idle_timeout": "0.2s"})),
        tcp("old", "backend", json!({"max_downstream_connection_duration": "0.2s"})),
        ("passthrough", passthrough(folder)),
        (
            "udp",
            json!({"udp_listener_config": {}, "listener_filters": [{"name": "udp", "typed_config": udp}]}),
        ),
    ]
}

/// Logs, and how many lines each has in the end.
const LOGS: [&str; 9] = [
    "plain",
    "refusing",
    "empty",
    "nowhere",
    "idle",
    "old",
    "passed",
    "unmatched",
    "udp",
];

/// A backend that answers with what it is told, in capitals, to the end.
fn echo() -> SocketAddr {
    listen(|mut stream| {
        let mut buffer = [0; 1024];
        while let Ok(n @ 1..) = stream.read(&mut buffer) {
            let _ = stream.write_all(&buffer[..n].to_ascii_uppercase());
        }
    })
}

fn datagrams() -> SocketAddr {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = socket.local_addr().unwrap();
    thread::spawn(move || {
        let mut buffer = [0; 1024];
        while let Ok((n, client)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(&buffer[..n], client);
        }
    });
    address
}

/// Says something, takes the answer, and whatever comes to the end.
fn talk(mut stream: TcpStream, said: &[u8]) {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    if stream.write_all(said).is_ok() {
        let mut answer = vec![0; said.len()];
        let _ = stream.read_exact(&mut answer);
        let _ = stream.shutdown(Shutdown::Write);
    }
    let _ = stream.read_to_end(&mut Vec::new());
}

/// Talks to every listener, then waits for the lines.
fn visit(bench: &Bench, (authority, backend): (&Authority, SocketAddr), folder: &Path) {
    talk(bench.connect("plain"), b"hello, you");
    for name in ["refusing", "empty", "nowhere", "idle", "old"] {
        let mut stream = bench.connect(name);
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    }
    for name in ["known.example.com", "other.example.com"] {
        // The backend speaks no TLS; what counts is the client's hello.
        let mut hello = Vec::new();
        let mut client = authority.connect(backend, name).unwrap();
        client.conn.write_tls(&mut hello).unwrap();
        talk(bench.connect("passthrough"), &hello);
    }
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    for said in [&b"one"[..], b"three"] {
        socket.send_to(said, bench.address("udp")).unwrap();
        socket.recv_from(&mut [0; 64]).unwrap();
    }
    wait_for("all lines", PATIENCE, || {
        // Envoy writes what it has when it is told so.
        bench.order("/reopen_logs");
        let missing: Vec<_> = LOGS.iter().filter(|name| lines(folder, name).is_empty()).collect();
        Ok(missing.is_empty().then_some(()))
    })
    .unwrap_or_else(|error| {
        let missing: Vec<_> = LOGS.iter().filter(|name| lines(folder, name).is_empty()).collect();
        panic!("{error:#}: {missing:?}")
    });
}

#[test]
fn both_write_the_same_of_the_same_streams() {
    let (backend, authority) = (echo(), Authority::new().unwrap());
    let refusing = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .unwrap()
        .local_addr()
        .unwrap();
    let clusters = [
        cluster("backend", &[endpoint(backend)]),
        cluster("refusing", &[endpoint(refusing)]),
        cluster("empty", &[]),
        cluster("datagrams", &[endpoint(datagrams())]),
    ];
    let [ours, envoys] = data_planes().map(|(_, plane)| {
        let folder = tempfile::tempdir().unwrap();
        let bench = Bench::with_listeners(&clusters, &plane, "x-envoy", &listeners(folder.path()));
        visit(&bench, (&authority, backend), folder.path());
        LOGS.map(|name| -> Vec<Map<String, Value>> {
            let lines = lines(folder.path(), name).into_iter();
            lines.map(|line| serde_json::from_str(&line).unwrap()).collect()
        })
    });
    let mut differences = Vec::new();
    for ((name, ours), envoys) in LOGS.iter().zip(&ours).zip(&envoys) {
        if ours.len() != envoys.len() {
            differences.push(format!("{name}: {} lines for {}", ours.len(), envoys.len()));
        }
        for (own, envoys) in ours.iter().zip(envoys) {
            for (key, value) in own {
                let of = |value: &Value| match EXACT.contains(&key.as_str()) {
                    true => value.to_string(),
                    false => without_numbers(&value.to_string()),
                };
                if of(value) != of(&envoys[key]) {
                    differences.push(format!("{name}: {key}: {value} for {}", envoys[key]));
                }
            }
        }
    }
    assert_eq!(differences, Vec::<String>::new());
}

/// How server names are resolved.
fn cache() -> Value {
    json!({"name": "names", "dns_lookup_family": "V4_PREFERRED"})
}

/// A cluster whose hosts are those that clients ask for.
fn names() -> Value {
    json!({
        "name": "names", "connect_timeout": "1s", "lb_policy": "CLUSTER_PROVIDED",
        "cluster_type": {"name": "names", "typed_config": {"@type": NAMES, "dns_cache_config": cache()}},
    })
}

/// A listener that hands TLS on to whom it asks for at this port, and logs that.
fn by_name(folder: &Path, log: &str, port: u16) -> Value {
    let named = json!({"@type": NAMED, "dns_cache_config": cache(), "port_value": port});
    let mut filters = vec![json!({"name": "named", "typed_config": named})];
    filters.extend(tcp(folder, log, "names", &json!({})).as_array().unwrap().clone());
    json!({
        "listener_filters": [{"name": "inspector", "typed_config": {"@type": INSPECTOR}}],
        "filter_chains": [{"name": "chain", "filters": filters}],
    })
}

#[test]
fn server_names_say_where_streams_go() {
    let authority = Authority::new().unwrap();
    let server = authority.server("localhost").unwrap();
    let backend = listen(move |stream| {
        let connection = rustls::ServerConnection::new(Arc::clone(&server)).unwrap();
        let mut stream = rustls::StreamOwned::new(connection, stream);
        let _ = stream.write_all(b"hello").and_then(|()| stream.flush());
    });
    let refusing = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .unwrap()
        .local_addr()
        .unwrap();
    let [ours, envoys] = data_planes().map(|(name, plane)| {
        let folder = tempfile::tempdir().unwrap();
        let listeners = [
            ("found", by_name(folder.path(), "found", backend.port())),
            ("refused", by_name(folder.path(), "refused", refusing.port())),
            ("unknown", by_name(folder.path(), "unknown", backend.port())),
            ("unsaid", by_name(folder.path(), "unsaid", backend.port())),
        ];
        let bench = Bench::with_listeners(&[names()], &plane, "x-envoy", &listeners);
        let mut stream = authority.connect(bench.address("found"), "localhost").unwrap();
        let mut said = [0; 5];
        stream.read_exact(&mut said).unwrap();
        assert_eq!(&said, b"hello", "{name}");
        drop(stream);
        for (listener, host) in [("refused", "localhost"), ("unknown", "nobody.invalid")] {
            let mut stream = authority.connect(bench.address(listener), host).unwrap();
            assert!(stream.read_exact(&mut [0]).is_err(), "{name}: {listener}");
        }
        // No TLS at all, so no server name.
        talk(bench.connect("unsaid"), b"GET / HTTP/1.1\r\n\r\n");
        let logs = ["found", "refused", "unknown", "unsaid"];
        let lines = |log: &str| -> Option<Map<String, Value>> {
            let line = lines(folder.path(), log).into_iter().next()?;
            Some(serde_json::from_str(&line).unwrap())
        };
        wait_for("all lines", PATIENCE, || {
            bench.order("/reopen_logs");
            Ok(logs.iter().all(|log| lines(log).is_some()).then_some(()))
        })
        .unwrap_or_else(|error| panic!("{name}: {error:#}"));
        logs.map(|log| {
            let line = lines(log).unwrap();
            ["server name", "cluster", "flags", "host"].map(|key| without_numbers(&line[key].to_string()))
        })
    });
    assert_eq!(ours, envoys);
    assert_eq!(ours[0][0], "\"localhost\"");
}
