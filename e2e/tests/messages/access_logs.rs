//! Access logs: both data planes get the same requests and must write down the same.

use crate::bench::{Bench, backend, cluster, data_planes, endpoint};
use e2e::{process::wait_for, stack::PATIENCE};
use serde_json::{Map, Value, json};
use std::{
    fs,
    io::Write,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::Path,
    sync::mpsc::Receiver,
};
use tempfile::TempDir;

const FILE: &str = "type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog";
const FAULT: &str = "type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault";
const ROUTER: &str = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router";
const WITHOUT_QUERY: &str = "type.googleapis.com/envoy.extensions.formatter.req_without_query.v3.ReqWithoutQuery";

/// What is the same with both.
fn same() -> Value {
    json!({
        "method": "%REQ(:METHOD)%", "original": "%REQ(X-ENVOY-ORIGINAL-PATH?:PATH)%", "path": "%REQ(:PATH)%",
        "authority": "%REQUEST_HEADER(:AUTHORITY)%", "scheme": "%REQ(:SCHEME)%", "cut": "%REQ(USER-AGENT):5%",
        "without query": "%REQ_WITHOUT_QUERY(:PATH)%", "quoted": "%REQ(X-QUOTED)%", "none": "%REQ(X-NONE?X-NEITHER)%",
        "protocol": "%PROTOCOL%", "code": "%RESPONSE_CODE%", "details": "%RESPONSE_CODE_DETAILS%",
        "flags": "%RESPONSE_FLAGS%", "long flags": "%RESPONSE_FLAGS_LONG%",
        "received": "%BYTES_RECEIVED%", "sent": "%BYTES_SENT%",
        "route": "%ROUTE_NAME%", "cluster": "%UPSTREAM_CLUSTER%", "upstream protocol": "%UPSTREAM_PROTOCOL%",
        "attempts": "%UPSTREAM_REQUEST_ATTEMPT_COUNT%", "termination": "%CONNECTION_TERMINATION_DETAILS%",
        "failure": "%UPSTREAM_TRANSPORT_FAILURE_REASON%", "server name": "%REQUESTED_SERVER_NAME%",
        "server": "%RESP(SERVER)%", "location": "%RESPONSE_HEADER(LOCATION)%", "status": "%RESP(:STATUS)%",
        "trailer": "%TRAILER(X-T)%", "type": "%ACCESS_LOG_TYPE%", "metadata": "%DYNAMIC_METADATA(a:b)%",
        "text": "%PROTOCOL% \"%RESPONSE_CODE%\" %REQ(X-NONE)% 100%%",
        "number": 5, "truth": true, "nested": {"list": ["%RESPONSE_CODE%", "x"], "nothing": null},
    })
}

/// What differs in its numbers.
fn alike() -> Value {
    json!({
        "start": "%START_TIME%", "started": "%START_TIME(%Y/%m/%d %H:%M:%S %3f %6f %s)%",
        "duration": "%DURATION%", "to response": "%RESPONSE_DURATION%", "of request": "%REQUEST_DURATION%",
        "of response": "%RESPONSE_TX_DURATION%", "micros": "%COMMON_DURATION(DS_RX_BEG:US_RX_BEG:us)%",
        "host": "%UPSTREAM_HOST%", "to": "%UPSTREAM_REMOTE_ADDRESS%", "from": "%UPSTREAM_LOCAL_ADDRESS%",
        "from address": "%UPSTREAM_LOCAL_ADDRESS_WITHOUT_PORT%", "to port": "%UPSTREAM_REMOTE_PORT%",
        "client": "%DOWNSTREAM_REMOTE_ADDRESS%", "peer": "%DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT%",
        "local": "%DOWNSTREAM_LOCAL_ADDRESS%", "local port": "%DOWNSTREAM_LOCAL_PORT%",
        "forwarded": "%REQ(X-FORWARDED-FOR)%",
    })
}

pub(crate) fn log(folder: &Path, name: &str, filter: Option<Value>, format: Option<Value>) -> Value {
    let mut log = json!({"name": name, "typed_config": {"@type": FILE, "path": folder.join(name)}});
    if let Some(filter) = filter {
        log["filter"] = filter;
    }
    if let Some(format) = format {
        log["typed_config"]["log_format"] = format;
    }
    log
}

fn json_format(document: Value) -> Option<Value> {
    let formatters = json!([{"name": "envoy.formatter.req_without_query", "typed_config": {"@type": WITHOUT_QUERY}}]);
    Some(json!({"json_format": document, "formatters": formatters}))
}

/// A log for each filter, of paths and statuses, with how many of the requests it tells of.
fn filters() -> Vec<(&'static str, usize, Value)> {
    let compare = |op, value| json!({"comparison": {"op": op, "value": {"default_value": value, "runtime_key": "k"}}});
    let named = |name, exact| json!({"header_filter": {"header": {"name": name, "string_match": {"exact": exact}}}});
    let share = |of| json!({"runtime_filter": {"runtime_key": "k", "percent_sampled": {"numerator": of}}});
    let both = |one: &Value, other: Value| json!({"and_filter": {"filters": [one, other]}});
    let failed = json!({"status_code_filter": compare("GE", 400)});
    let long = json!({"duration_filter": compare("GE", 150)});
    vec![
        ("redirected", 1, json!({"status_code_filter": compare("EQ", 301)})),
        ("long", 1, both(&long, named(":path", "/silent"))),
        (
            "not long",
            0,
            both(
                &json!({"duration_filter": compare("LE", 150)}),
                named(":path", "/silent"),
            ),
        ),
        ("flagged", 6, json!({"response_flag_filter": {}})),
        ("unreached", 2, json!({"response_flag_filter": {"flags": ["UF", "UH"]}})),
        ("agent", 10, named("user-agent", "agent")),
        ("get and failed", 7, both(&failed, named(":method", "GET"))),
        (
            "post or failed",
            8,
            json!({"or_filter": {"filters": [failed, named(":method", "POST")]}}),
        ),
        ("failed", 7, failed),
        ("all", 11, share(100)),
        ("none", 0, share(0)),
        ("no health checks", 11, json!({"not_health_check_filter": {}})),
        ("of ends", 11, json!({"log_type_filter": {"types": ["DownstreamEnd"]}})),
        (
            "not of ends",
            0,
            json!({"log_type_filter": {"types": ["DownstreamEnd"], "exclude": true}}),
        ),
    ]
}

/// The logs of all requests.
const WHOLE: [&str; 4] = ["same", "alike", "default", "sparse"];

fn manager(folder: &Path) -> Value {
    let mut logs = vec![
        log(folder, "same", None, json_format(same())),
        log(folder, "alike", None, json_format(alike())),
        log(folder, "default", None, None),
        log(
            folder,
            "sparse",
            None,
            Some(json!({
                "json_format": {"a": {"b": "%REQ(X-NONE)%"}, "c": "%RESPONSE_CODE%", "d": ["%REQ(X-NONE)%"]},
                "omit_empty_values": true,
            })),
        ),
    ];
    for (name, _, filter) in filters() {
        let format = json!({"text_format_source": {"inline_string": "%REQ(:PATH)% %RESPONSE_CODE%\n"}});
        logs.push(log(folder, name, Some(filter), Some(format)));
    }
    let route = |name: &str, action: Value| {
        let mut route = json!({"name": name, "match": {"prefix": format!("/{name}")}});
        route
            .as_object_mut()
            .unwrap()
            .extend(action.as_object().unwrap().clone());
        route
    };
    let to = |name: &str, mut settings: Value| {
        settings["cluster"] = json!(name);
        json!({"route": settings})
    };
    json!({
        "access_log": logs,
        "server_name": "proxy",
        "generate_request_id": false,
        "http_filters": [
            {"name": "fault", "typed_config": {"@type": FAULT}},
            {"name": "router", "typed_config": {"@type": ROUTER}},
        ],
        "route_config": {"name": "r", "validate_clusters": false, "virtual_hosts": [{"name": "v", "domains": ["*"], "routes": [
            route("plain", to("backend", json!({}))),
            route("rewritten", to("backend", json!({"prefix_rewrite": "/there"}))),
            route("redirect", json!({"redirect": {"path_redirect": "/elsewhere"}})),
            route("direct", json!({"direct_response": {"status": 418, "body": {"inline_string": "short"}}})),
            route("nowhere", to("nowhere", json!({}))),
            route("empty", to("empty", json!({}))),
            route("refusing", to("refusing", json!({}))),
            route("silent", to("silent", json!({"timeout": "0.2s"}))),
            route("refused", json!({
                "route": {"cluster": "backend"},
                "typed_per_filter_config": {"fault": {
                    "@type": FAULT, "abort": {"http_status": 403, "percentage": {"numerator": 100}},
                }},
            })),
        ]}]},
    })
}

fn requests() -> Vec<String> {
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nhost: h\r\nuser-agent: agent\r\n\r\n");
    let mut requests: Vec<String> = [
        "/plain?a=b",
        "/rewritten/x?y",
        "/redirect",
        "/direct",
        "/unknown",
        "/nowhere",
        "/empty",
        "/refusing",
        "/silent",
        "/refused",
    ]
    .map(get)
    .into();
    requests
        .push("POST /plain HTTP/1.1\r\nhost: h:80\r\nx-quoted: \"a\\b\"\r\ncontent-length: 5\r\n\r\n12345".to_owned());
    requests
}

/// Nobody accepts what connects here.
fn silence() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

pub(crate) fn lines(folder: &Path, name: &str) -> Vec<String> {
    let text = fs::read_to_string(folder.join(name)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Every run of digits becomes one 0.
pub(crate) fn without_numbers(text: &str) -> String {
    let mut shape = String::new();
    for char in text.chars() {
        match char {
            digit if digit.is_ascii_digit() => {
                if !shape.ends_with('0') {
                    shape.push('0');
                }
            }
            other => shape.push(other),
        }
    }
    shape
}

/// Clusters of each kind, with what is behind them as long as they are used.
pub(crate) struct Backends {
    pub(crate) clusters: [Value; 4],
    _seen: Receiver<Vec<String>>,
    _open: TcpListener,
}

impl Backends {
    /// One that answers, one without a host, one that refuses connections, and one that never answers.
    pub(crate) fn start() -> Self {
        let (answering, seen) = backend("ok");
        let (refusing, (open, silent)) = (silence().1, silence());
        Self {
            clusters: [
                cluster("backend", &[endpoint(answering)]),
                cluster("empty", &[]),
                cluster("refusing", &[endpoint(refusing)]),
                cluster("silent", &[endpoint(silent)]),
            ],
            _seen: seen,
            _open: open,
        }
    }
}

/// What both data planes have written: by file, a line for each request.
fn logs_of_all_requests() -> Vec<(&'static str, TempDir)> {
    let backends = Backends::start();
    let planes = data_planes().map(|(name, plane)| {
        let folder = tempfile::tempdir().unwrap();
        let settings = [("in", manager(folder.path()))];
        let bench = Bench::with_clusters(&backends.clusters, &plane, "x-envoy", &settings);
        let requests = requests();
        for request in &requests {
            bench.send("in", request);
        }
        wait_for("all lines", PATIENCE, || {
            // Envoy writes what it has when it is told so.
            bench.order("/reopen_logs");
            let has = |name, count| lines(folder.path(), name).len() >= count;
            let whole = WHOLE.iter().all(|name| has(name, requests.len()));
            Ok((whole && filters().iter().all(|(name, count, _)| has(name, *count))).then_some(()))
        })
        .unwrap();
        (name, folder)
    });
    planes.into()
}

#[test]
fn both_write_the_same_of_the_same_requests() {
    let planes = logs_of_all_requests();
    let [(_, ours), (_, envoys)] = &planes[..] else {
        panic!()
    };
    let (ours, envoys) = (ours.path(), envoys.path());
    let parsed = |folder, name| -> Vec<Map<String, Value>> {
        let lines = lines(folder, name).into_iter();
        lines.map(|line| serde_json::from_str(&line).unwrap()).collect()
    };
    assert_eq!(lines(ours, "same").len(), requests().len());
    let mut differences = Vec::new();
    for ((own, envoys), request) in parsed(ours, "same").iter().zip(parsed(envoys, "same")).zip(requests()) {
        let path = request.split(' ').nth(1).unwrap();
        for (key, value) in own {
            if *value != envoys[key] {
                differences.push(format!("{path}: {key}: {value} for {}", envoys[key]));
            }
        }
    }
    for ((own, envoys), request) in parsed(ours, "alike")
        .iter()
        .zip(parsed(envoys, "alike"))
        .zip(requests())
    {
        let path = request.split(' ').nth(1).unwrap();
        for (key, value) in own {
            let (own, envoys) = (
                without_numbers(&value.to_string()),
                without_numbers(&envoys[key].to_string()),
            );
            if own != envoys {
                differences.push(format!("{path}: {key}: {own} for {envoys}"));
            }
        }
    }
    let filters = filters();
    for name in ["default", "sparse"]
        .into_iter()
        .chain(filters.iter().map(|(name, ..)| *name))
    {
        let shapes = |folder| -> Vec<_> { lines(folder, name).iter().map(|line| without_numbers(line)).collect() };
        let (own, envoys) = (shapes(ours), shapes(envoys));
        if own != envoys {
            differences.push(format!("{name}: {own:#?} for {envoys:#?}"));
        }
    }
    for (name, count, _) in &filters {
        assert_eq!(lines(ours, name).len(), *count, "{name}");
    }
    // The order of members too.
    let members = |folder| lines(folder, "same").first().map(|line| without_numbers(line));
    assert_eq!(differences, Vec::<String>::new());
    assert_eq!(members(ours), members(envoys));
}

#[test]
fn a_file_that_was_moved_away_is_opened_anew() {
    for (name, plane) in data_planes() {
        let folder = tempfile::tempdir().unwrap();
        let (file, moved) = (folder.path().join("log"), folder.path().join("moved"));
        let format = json!({"text_format_source": {"inline_string": "%REQ(:PATH)%\n"}});
        let settings = [(
            "in",
            json!({"access_log": [log(folder.path(), "log", None, Some(format))]}),
        )];
        let bench = Bench::start(&plane, "x-envoy", &settings);
        let holds = |name: &str, text: &str| {
            wait_for(&format!("{text:?} in {name}"), PATIENCE, || {
                bench.order("/reopen_logs");
                Ok((lines(folder.path(), name) == [text]).then_some(()))
            })
        };
        bench.send("in", "GET /before HTTP/1.1\r\nhost: h\r\n\r\n");
        holds("log", "/before").unwrap();
        fs::rename(&file, &moved).unwrap();
        bench.order("/reopen_logs");
        bench.send("in", "GET /after HTTP/1.1\r\nhost: h\r\n\r\n");
        holds("log", "/after").unwrap_or_else(|error| panic!("{name}: {error:#}"));
        assert_eq!(lines(folder.path(), "moved"), ["/before"], "{name}");
    }
}

#[test]
fn a_client_that_leaves_is_told_of() {
    for (name, plane) in data_planes() {
        let folder = tempfile::tempdir().unwrap();
        let (_open, silent) = silence();
        let text = "%REQ(:PATH)% %RESPONSE_CODE% %RESPONSE_FLAGS% %RESPONSE_CODE_DETAILS%\n";
        let format = json!({"text_format_source": {"inline_string": text}});
        let settings = [(
            "in",
            json!({"access_log": [log(folder.path(), "log", None, Some(format))]}),
        )];
        let bench = Bench::in_front_of(silent, &plane, "x-envoy", &settings);
        let mut client = bench.connect("in");
        client.write_all(b"GET /gone HTTP/1.1\r\nhost: h\r\n\r\n").unwrap();
        drop(client);
        let line = wait_for("a line", PATIENCE, || {
            bench.order("/reopen_logs");
            Ok(lines(folder.path(), "log").pop())
        });
        let (line, _) = line.unwrap_or_else(|error| panic!("{name}: {error:#}"));
        assert_eq!(line, "/gone 0 DC downstream_remote_disconnect", "{name}");
    }
}
