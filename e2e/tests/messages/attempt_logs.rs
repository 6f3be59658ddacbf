//! Logs of attempts (the router's `upstream_log`): both data planes get the same requests and must write down the same
//! of what they asked of backends.

use crate::{
    access_logs::{Backends, lines, log, without_numbers},
    bench::{Bench, data_planes},
};
use e2e::{process::wait_for, stack::PATIENCE};
use serde_json::{Value, json};
use std::{io::Write, path::Path};
use tempfile::TempDir;

const ROUTER: &str = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router";

fn format() -> Value {
    let line = "%REQ(:METHOD)% %REQ(:PATH)% %PROTOCOL% %RESPONSE_CODE% %RESPONSE_CODE_DETAILS% %RESPONSE_FLAGS% \
                in=%BYTES_RECEIVED% out=%BYTES_SENT% route=%ROUTE_NAME% cluster=%UPSTREAM_CLUSTER% \
                host=%UPSTREAM_HOST% to=%UPSTREAM_REMOTE_ADDRESS% of=%RESP(:STATUS)% tries=%UPSTREAM_REQUEST_ATTEMPT_COUNT% \
                type=%ACCESS_LOG_TYPE% why=%UPSTREAM_TRANSPORT_FAILURE_REASON% took=%DURATION% \
                client=%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT% edited=%RESP(X-EDITED)% sent=%REQ(X-ADDED)%\n";
    json!({"text_format_source": {"inline_string": line}})
}

fn manager(folder: &Path) -> Value {
    let types = |types: Value| json!({"log_type_filter": types});
    let logs = [
        log(folder, "attempts", None, Some(format())),
        log(
            folder,
            "typed",
            Some(types(json!({"types": ["UpstreamEnd"]}))),
            Some(format()),
        ),
        log(
            folder,
            "others",
            Some(types(json!({"types": ["UpstreamEnd"], "exclude": true}))),
            Some(format()),
        ),
    ];
    let route = |name: &str, cluster: &str, mut settings: Value| {
        settings["cluster"] = json!(cluster);
        json!({"name": name, "match": {"prefix": format!("/{name}")}, "route": settings})
    };
    let again = |on: &str| json!({"retry_on": on, "num_retries": 1, "retriable_status_codes": [200]});
    json!({
        "generate_request_id": false,
        "http_filters": [{"name": "router", "typed_config": {"@type": ROUTER, "upstream_log": logs}}],
        "route_config": {
            "name": "r",
            "request_headers_to_add": [{"header": {"key": "x-added", "value": "a"}}],
            "response_headers_to_add": [{"header": {"key": "x-edited", "value": "e"}}],
            "virtual_hosts": [{"name": "v", "domains": ["*"], "routes": [
                route("plain", "backend", json!({})),
                route("again", "backend", json!({"retry_policy": again("retriable-status-codes")})),
                route("empty", "empty", json!({})),
                route("refusing", "refusing", json!({"retry_policy": again("connect-failure")})),
                route("silent", "silent", json!({"timeout": "0.2s"})),
                route("slow", "silent", json!({"retry_policy": {
                    "retry_on": "5xx", "num_retries": 1, "per_try_timeout": "0.1s",
                }})),
                {"name": "direct", "match": {"prefix": "/direct"}, "direct_response": {"status": 418}},
            ]}],
        },
    })
}

/// Requests, and how many attempts each of them makes.
const REQUESTS: [(&str, usize); 8] = [
    ("GET /plain HTTP/1.1\r\nhost: h\r\n\r\n", 1),
    ("POST /plain HTTP/1.1\r\nhost: h\r\ncontent-length: 5\r\n\r\n12345", 1),
    ("GET /again HTTP/1.1\r\nhost: h\r\n\r\n", 2),
    ("GET /empty HTTP/1.1\r\nhost: h\r\n\r\n", 0),
    ("GET /refusing HTTP/1.1\r\nhost: h\r\n\r\n", 2),
    ("GET /silent HTTP/1.1\r\nhost: h\r\n\r\n", 1),
    ("GET /slow HTTP/1.1\r\nhost: h\r\n\r\n", 2),
    ("GET /direct HTTP/1.1\r\nhost: h\r\n\r\n", 0),
];

/// What both data planes have written of all requests, and of a client that leaves.
fn written() -> Vec<(&'static str, TempDir)> {
    let backends = Backends::start();
    let planes = data_planes().map(|(name, plane)| {
        let folder = tempfile::tempdir().unwrap();
        let settings = [("in", manager(folder.path()))];
        let bench = Bench::with_clusters(&backends.clusters, &plane, "x-envoy", &settings);
        let mut due = 0;
        let told = |due| {
            let told = wait_for(&format!("{due} lines"), PATIENCE, || {
                bench.order("/reopen_logs");
                // Each file is written out for itself.
                let complete = |name| lines(folder.path(), name).len() >= due;
                Ok((complete("attempts") && complete("typed")).then_some(()))
            });
            told.unwrap_or_else(|error| panic!("{name}: {error:#}"));
        };
        for (request, attempts) in REQUESTS {
            bench.send("in", request);
            due += attempts;
            told(due);
        }
        let mut client = bench.connect("in");
        client
            .write_all(b"GET /silent/gone HTTP/1.1\r\nhost: h\r\n\r\n")
            .unwrap();
        drop(client);
        told(due + 1);
        (name, folder)
    });
    planes.into()
}

#[test]
fn both_write_the_same_of_the_same_attempts() {
    let planes = written();
    let [(_, ours), (_, envoys)] = &planes[..] else {
        panic!()
    };
    let shapes = |folder: &TempDir, name| -> Vec<String> {
        let lines = lines(folder.path(), name).into_iter();
        let mut shapes: Vec<_> = lines.map(|line| without_numbers(&line)).collect();
        // Whether it had a connection by then is a matter of time.
        let gone = shapes.pop().unwrap();
        assert!(
            gone.starts_with("GET /silent/gone ") && gone.contains(" 0 - - in=0 "),
            "{gone}"
        );
        shapes
    };
    let (own, expected) = (lines(ours.path(), "attempts"), lines(envoys.path(), "attempts"));
    assert_eq!(
        shapes(ours, "attempts"),
        shapes(envoys, "attempts"),
        "{own:#?}\n{expected:#?}"
    );
    let attempts: usize = REQUESTS.iter().map(|(_, attempts)| attempts).sum();
    assert_eq!(own.len(), attempts + 1);
    for (name, folder) in &planes {
        assert_eq!(lines(folder.path(), "typed").len(), own.len(), "{name}");
        assert_eq!(lines(folder.path(), "others"), Vec::<String>::new(), "{name}");
    }
}
