//! Access logs that services take: both data planes are asked the same and must report the same.

use crate::bench::{Bench, Socket, backend, cluster, data_planes, endpoint};
use e2e::{
    collector::Collector,
    process::wait_for,
    stack::{DataPlane, PATIENCE},
};
use envoy_types::pb::{
    envoy::{
        data::accesslog::v3::{AccessLogCommon, HttpAccessLogEntry, TcpAccessLogEntry},
        service::accesslog::v3::{StreamAccessLogsMessage, stream_access_logs_message::LogEntries},
    },
    google::protobuf::Duration,
    opentelemetry::proto::common::v1::{AnyValue, InstrumentationScope, KeyValue, KeyValueList},
};
use prost::Message;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr, TcpListener},
};

const GRPC: &str = "type.googleapis.com/envoy.extensions.access_loggers.grpc.v3";
const OTLP: &str = "type.googleapis.com/envoy.extensions.access_loggers.open_telemetry.v3.OpenTelemetryAccessLogConfig";
const OPTIONS: &str = "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
const STREAM: &str = "/envoy.service.accesslog.v3.AccessLogService/StreamAccessLogs";
const EXPORT: &str = "/opentelemetry.proto.collector.logs.v1.LogsService/Export";

/// `opentelemetry.proto.collector.logs.v1.ExportLogsServiceRequest` and what is in it.
#[derive(Clone, PartialEq, Message)]
struct Export {
    #[prost(message, repeated, tag = "1")]
    resource_logs: Vec<ResourceLogs>,
}

#[derive(Clone, PartialEq, Message)]
struct ResourceLogs {
    /// A resource looks like a list of pairs.
    #[prost(message, optional, tag = "1")]
    resource: Option<KeyValueList>,
    #[prost(message, repeated, tag = "2")]
    scope_logs: Vec<ScopeLogs>,
}

#[derive(Clone, PartialEq, Message)]
struct ScopeLogs {
    #[prost(message, optional, tag = "1")]
    scope: Option<InstrumentationScope>,
    #[prost(message, repeated, tag = "2")]
    log_records: Vec<LogRecord>,
}

#[derive(Clone, PartialEq, Message)]
struct LogRecord {
    #[prost(fixed64, tag = "1")]
    time_unix_nano: u64,
    #[prost(fixed64, tag = "11")]
    observed_time_unix_nano: u64,
    #[prost(int32, tag = "2")]
    severity_number: i32,
    #[prost(string, tag = "3")]
    severity_text: String,
    #[prost(message, optional, tag = "5")]
    body: Option<AnyValue>,
    #[prost(message, repeated, tag = "6")]
    attributes: Vec<KeyValue>,
    #[prost(bytes, tag = "9")]
    trace_id: Vec<u8>,
}

fn service() -> Value {
    json!({
        "envoy_grpc": {"cluster_name": "collector", "authority": "logs.example.com"},
        "initial_metadata": [{"key": "x-token", "value": "t"}],
    })
}

fn logs() -> Value {
    let common = |name| json!({"log_name": name, "grpc_service": service(), "transport_api_version": "V3"});
    let text = |key: &str, value: &str| json!({"key": key, "value": {"string_value": value}});
    json!([
        {"name": "http", "typed_config": {
            "@type": format!("{GRPC}.HttpGrpcAccessLogConfig"), "common_config": common("exchanges"),
            "additional_request_headers_to_log": ["X-User", "x-none"],
            "additional_response_headers_to_log": ["server"],
            "additional_response_trailers_to_log": ["x-trailer"],
        }},
        {"name": "tcp", "typed_config": {
            "@type": format!("{GRPC}.TcpGrpcAccessLogConfig"), "common_config": common("connections"),
        }},
        {"name": "otlp", "typed_config": {
            "@type": OTLP, "log_name": "lines", "grpc_service": service(),
            "resource_attributes": {"values": [text("a", "b")]},
            "body": {"string_value": "%REQ(:METHOD)% %REQ(:PATH)% %REQ(X-NONE)%"},
            "attributes": {"values": [
                text("code", "%RESPONSE_CODE%"), text("flags", "%RESPONSE_FLAGS%"),
                {"key": "more", "value": {"kvlist_value": {"values": [text("protocol", "%PROTOCOL%")]}}},
                {"key": "list", "value": {"array_value": {"values": [{"string_value": "%BYTES_SENT%"}]}}},
            ]},
        }},
    ])
}

fn socket() -> Socket {
    let route = |path: &str, action: Value| {
        let mut route = json!({"name": path, "match": {"prefix": path}});
        let fields = action.as_object().unwrap().clone();
        route.as_object_mut().unwrap().extend(fields);
        route
    };
    Socket {
        manager: json!({
            "access_log": logs(), "generate_request_id": false, "server_name": "proxy",
            "route_config": {"name": "r", "virtual_hosts": [{"name": "v", "domains": ["*"], "routes": [
                route("/plain", json!({"route": {"cluster": "backend", "prefix_rewrite": "/there"}})),
                route("/direct", json!({"direct_response": {"status": 418, "body": {"inline_string": "short"}}})),
                route("/refusing", json!({"route": {"cluster": "refusing"}})),
            ]}]},
        }),
        ..Socket::of("in")
    }
}

/// Ends of what is asked, and how many requests that is.
const REQUESTS: [&str; 4] = [
    "GET /plain?a=b HTTP/1.1\r\nhost: h\r\nuser-agent: agent\r\nreferer: r\r\nx-user: u\r\nx-request-id: i\r\n\r\n",
    "POST /direct HTTP/1.1\r\nhost: h:80\r\ncontent-length: 5\r\n\r\n12345",
    "GET /refusing HTTP/1.1\r\nhost: h\r\n\r\n",
    "GET /nowhere HTTP/1.1\r\nhost: h\r\n\r\n",
];

/// What a service was told of all requests.
struct Told {
    exchanges: Vec<HttpAccessLogEntry>,
    connections: Vec<TcpAccessLogEntry>,
    lines: Vec<LogRecord>,
    resources: Vec<ResourceLogs>,
    /// Who has sent it, by the names of logs.
    senders: BTreeMap<String, String>,
}

impl Told {
    fn by(collector: &Collector) -> Self {
        let mut told = Self {
            exchanges: Vec::new(),
            connections: Vec::new(),
            lines: Vec::new(),
            resources: Vec::new(),
            senders: BTreeMap::new(),
        };
        for heard in collector.heard(STREAM) {
            assert_eq!(heard.fields.get("x-token").unwrap(), "t");
            let message = StreamAccessLogsMessage::decode(&heard.message[..]).unwrap();
            if let Some(identifier) = message.identifier {
                let node = identifier.node.unwrap();
                told.senders
                    .insert(identifier.log_name, format!("{} {}", node.id, node.cluster));
            }
            match message.log_entries {
                Some(LogEntries::HttpLogs(logs)) => told.exchanges.extend(logs.log_entry),
                Some(LogEntries::TcpLogs(logs)) => told.connections.extend(logs.log_entry),
                None => {}
            }
        }
        for heard in collector.heard(EXPORT) {
            assert_eq!(heard.fields.get("x-token").unwrap(), "t");
            for mut logs in Export::decode(&heard.message[..]).unwrap().resource_logs {
                for scope in &mut logs.scope_logs {
                    told.lines.append(&mut scope.log_records);
                }
                told.resources.push(logs);
            }
        }
        told
    }

    fn is_whole(&self) -> bool {
        let counts = [self.exchanges.len(), self.connections.len(), self.lines.len()];
        counts.iter().all(|count| *count >= REQUESTS.len())
    }
}

/// A cluster that speaks HTTP/2.
fn collecting(address: SocketAddr) -> Value {
    let mut cluster = cluster("collector", &[endpoint(address)]);
    cluster["typed_extension_protocol_options"] = json!({"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
        "@type": OPTIONS, "explicit_http_config": {"http2_protocol_options": {}}}});
    cluster
}

/// A data plane that reports to a service there, and has been asked everything.
fn asked(plane: &DataPlane, collector: SocketAddr) -> Bench {
    let (backend, seen) = backend("ok");
    let refusing = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .unwrap()
        .local_addr()
        .unwrap();
    let clusters = [
        cluster("backend", &[endpoint(backend)]),
        cluster("refusing", &[endpoint(refusing)]),
        collecting(collector),
    ];
    let bench = Bench::with_sockets(&clusters, plane, "x-envoy", &[socket()]).reporting(seen);
    for request in REQUESTS {
        bench.send("in", request);
    }
    bench
}

/// Takes out what edge-proxy doesn't tell, and how long things have taken; what they were stays.
fn comparable(common: &mut Option<AccessLogCommon>) {
    let common = common.as_mut().unwrap();
    let some = |time: &mut Option<Duration>| *time = time.map(|_| Duration::default());
    for time in [
        &mut common.time_to_first_upstream_tx_byte,
        &mut common.time_to_first_upstream_rx_byte,
        &mut common.time_to_last_downstream_tx_byte,
        &mut common.duration,
    ] {
        some(time);
    }
    common.start_time = None;
    // Envoy doesn't wait for content that nobody wants.
    common.time_to_last_rx_byte = None;
    common.time_to_last_upstream_tx_byte = None;
    common.time_to_last_upstream_rx_byte = None;
    common.time_to_first_downstream_tx_byte = None;
    common.downstream_wire_bytes_sent = 0;
    common.downstream_wire_bytes_received = 0;
    common.upstream_wire_bytes_sent = 0;
    common.upstream_wire_bytes_received = 0;
    common.stream_id = String::new();
    common.metadata = None;
}

fn exchange(mut entry: HttpAccessLogEntry) -> String {
    comparable(&mut entry.common_properties);
    let mut headers = BTreeMap::new();
    if let Some(request) = &mut entry.request {
        headers.extend(request.request_headers.drain());
        // Envoy's own address, where its client is a neighbour.
        assert!(!request.forwarded_for.is_empty());
        request.forwarded_for = String::new();
        request.request_headers_bytes = 0;
        request.upstream_header_bytes_sent = 0;
        request.downstream_header_bytes_received = 0;
    }
    if let Some(response) = &mut entry.response {
        headers.extend(response.response_headers.drain());
        response.response_headers_bytes = 0;
        response.upstream_header_bytes_received = 0;
        response.downstream_header_bytes_sent = 0;
    }
    without_ports(&format!("{entry:#?} {headers:?}"))
}

fn connection(mut entry: TcpAccessLogEntry) -> String {
    comparable(&mut entry.common_properties);
    without_ports(&format!("{entry:#?}"))
}

fn without_ports(text: &str) -> String {
    let lines = text.lines();
    let is_long = |line: &str| line.chars().filter(char::is_ascii_digit).count() == 5;
    let lines = lines.map(|line| if is_long(line) { "port" } else { line.trim() });
    lines.collect::<Vec<_>>().join("\n")
}

fn line(mut record: LogRecord) -> String {
    assert!(record.time_unix_nano > 0);
    record.time_unix_nano = 0;
    format!("{record:#?}")
}

#[test]
fn both_report_the_same_of_the_same_requests() {
    let [ours, envoys] = data_planes().map(|(name, plane)| {
        let collector = Collector::start().unwrap();
        let bench = asked(&plane, collector.address);
        let whole = wait_for("all entries", PATIENCE, || {
            Ok(Some(Told::by(&collector)).filter(Told::is_whole))
        });
        drop(bench);
        whole.unwrap_or_else(|error| panic!("{name}: {error:#}")).0
    });
    let senders = BTreeMap::from(["exchanges", "connections"].map(|log| (log.to_owned(), "bench benches".to_owned())));
    assert_eq!(ours.senders, senders);
    assert_eq!(envoys.senders, senders);
    for (ours, envoys) in ours.lines.into_iter().zip(envoys.lines) {
        assert_eq!(line(ours), line(envoys));
    }
    assert_eq!(ours.resources.first(), envoys.resources.first());
    for (ours, envoys) in ours.exchanges.into_iter().zip(envoys.exchanges) {
        let path = envoys.request.as_ref().map(|request| request.path.clone());
        assert_eq!(exchange(ours), exchange(envoys), "{path:?}");
    }
    for (ours, envoys) in ours.connections.into_iter().zip(envoys.connections) {
        assert_eq!(connection(ours), connection(envoys));
    }
}

#[test]
fn a_service_that_comes_later_is_told_what_has_waited() {
    let away = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = away.local_addr().unwrap();
    drop(away);
    let bench = asked(&DataPlane::EdgeProxy, address);
    // Longer than entries are gathered: they have been tried.
    let counted = || -> Result<Option<()>, anyhow::Error> {
        let text = bench.stats();
        let failed = text
            .lines()
            .find(|line| line.starts_with("cluster.collector.upstream_cx_connect_fail: "));
        Ok(failed.filter(|line| !line.ends_with(": 0")).map(drop))
    };
    wait_for("an attempt", PATIENCE, counted).unwrap();
    let collector = Collector::at(address).unwrap();
    wait_for("all entries", PATIENCE, || {
        Ok(Some(Told::by(&collector)).filter(Told::is_whole).map(drop))
    })
    .unwrap();
    for name in [
        "access_logs.grpc_access_log.logs_dropped: 0",
        "access_logs.grpc_access_log.logs_written: 8",
        "access_logs.open_telemetry_access_log.logs_dropped: 0",
        "access_logs.open_telemetry_access_log.logs_written: 4",
    ] {
        let says = || Ok(bench.stats().lines().any(|line| line == name).then_some(()));
        wait_for(name, PATIENCE, says).unwrap();
    }
}

#[test]
fn what_waits_for_a_service_is_bounded() {
    let away = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = away.local_addr().unwrap();
    drop(away);
    let bench = asked(&DataPlane::EdgeProxy, address);
    // More than a mebibyte, while what went before is tried again.
    let long = "a".repeat(16 << 10);
    for _ in 0..80 {
        let request = format!("GET /direct HTTP/1.1\r\nhost: h\r\nuser-agent: {long}\r\n\r\n");
        assert_eq!(bench.send("in", &request).status, 418);
    }
    let stats = bench.stats();
    let dropped = stats
        .lines()
        .find_map(|line| line.strip_prefix("access_logs.grpc_access_log.logs_dropped: "));
    assert!(dropped.is_some_and(|count| count != "0"), "{dropped:?}");
}
