//! What answers of the configuration say, whom HTTP/1.0 asks, and which priorities retries go to.

use crate::bench::{Bench, cluster, data_planes, endpoint, listen};
use e2e::http;
use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader, Write},
    net::{SocketAddr, TcpStream},
    sync::mpsc,
};

/// What a listener answers to bytes.
fn answer(bench: &Bench, listener: &str, request: &str) -> (u16, String, Option<String>) {
    let mut stream = bench.connect(listener);
    stream.write_all(request.as_bytes()).unwrap();
    let response = http::read_response(&mut BufReader::new(stream)).unwrap();
    let kind = response.header("content-type").map(str::to_owned);
    (
        response.status,
        String::from_utf8_lossy(&response.body).into_owned(),
        kind,
    )
}

/// The status of an answer in whatever version.
fn status(bench: &Bench, listener: &str, request: &str) -> String {
    let mut stream = bench.connect(listener);
    stream.write_all(request.as_bytes()).unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    line.split(' ').nth(1).unwrap().to_owned()
}

#[test]
fn answers_are_made_of_requests() {
    let formats = [
        json!({"text_format_source": {"inline_string": "100%% of %REQ(:PATH)% for %REQ(X-WHO)% by %PROTOCOL%"}}),
        json!({"text_format_source": {"inline_string": "%REQ(X-NONE?:METHOD):2%%RESPONSE_CODE%"}, "content_type": "text/x"}),
        json!({"text_format_source": {"inline_string": "%REQ(X-NONE)%"}, "omit_empty_values": true}),
        json!({"text_format_source": {"inline_string": "plain 1%%"}}),
        json!({"json_format": {"who": "<%REQ(X-WHO)%>", "route": "%ROUTE_NAME%", "list": ["%PROTOCOL%", 1, true]}}),
        json!({
            "json_format": {"none": "%REQ(X-NONE)%", "method": "%REQ(:METHOD)%"},
            "content_type": "application/x+json",
            "omit_empty_values": true,
        }),
    ];
    let routes: Vec<_> = formats
        .iter()
        .enumerate()
        .map(|(at, format)| {
            json!({"match": {"prefix": format!("/{at}")}, "direct_response": {"status": 203, "body_format": format}})
        })
        .collect();
    let settings = [(
        "in",
        json!({
            "route_config": {"name": "r", "virtual_hosts": [{"name": "v", "domains": ["*"], "routes": routes}]},
        }),
    )];
    let [ours, envoys] = data_planes().map(|(_, plane)| {
        let bench = Bench::start(&plane, "x-envoy", &settings);
        let ask = |at: usize| {
            answer(
                &bench,
                "in",
                &format!("GET /{at}?a HTTP/1.1\r\nhost: h\r\nx-who: me\r\n\r\n"),
            )
        };
        (0..formats.len()).map(ask).collect::<Vec<_>>()
    });
    assert_eq!(ours, envoys);
    assert_eq!(ours[0].1, "100% of /0?a for me by HTTP/1.1");
    assert_eq!(ours[5].2.as_deref(), Some("application/x+json"));
}

/// What can be told before an exchange is over, and where a backend is said by its address.
const TOLD: [&str; 21] = [
    "RESPONSE_CODE",
    "RESPONSE_CODE_DETAILS",
    "RESPONSE_FLAGS",
    "RESPONSE_FLAGS_LONG",
    "BYTES_RECEIVED",
    "BYTES_SENT",
    "ROUTE_NAME",
    "UPSTREAM_CLUSTER",
    "UPSTREAM_HOST",
    "UPSTREAM_PROTOCOL",
    "UPSTREAM_REQUEST_ATTEMPT_COUNT",
    "UPSTREAM_REMOTE_ADDRESS",
    "UPSTREAM_LOCAL_ADDRESS_WITHOUT_PORT",
    "ACCESS_LOG_TYPE",
    "GRPC_STATUS",
    "TRAILER(x)",
    "RESPONSE_TX_DURATION",
    "COMMON_DURATION(DS_RX_BEG:DS_TX_END:ms)",
    "CEL(request.duration < duration('1h'))",
    "CEL(response.code)",
    "CEL(xds.route_name)",
];

/// The filter chain and the routes, where what is said of backends comes in place of 404, 503 and 504.
fn telling() -> Value {
    let text = TOLD.map(|operator| format!("{operator}=%{operator}%\n")).concat();
    let cel = "type.googleapis.com/envoy.extensions.formatter.cel.v3.Cel";
    let format = json!({
        "text_format_source": {"inline_string": text},
        "formatters": [{"name": "envoy.formatter.cel", "typed_config": {"@type": cel}}],
    });
    let kind = |name: &str| format!("type.googleapis.com/envoy.{name}");
    let matchers = ["404", "503", "504"].map(|status| {
        json!({
            "predicate": {"single_predicate": {
                "input": {"name": "status", "typed_config": {
                    "@type": kind("type.matcher.v3.HttpResponseStatusCodeMatchInput"),
                }},
                "value_match": {"exact": status},
            }},
            "on_match": {"action": {"name": "answer", "typed_config": {
                "@type": kind("extensions.http.custom_response.local_response_policy.v3.LocalResponsePolicy"),
                "body_format": format,
                "status_code": 499,
            }}},
        })
    });
    let filter = |name: &str, config: Value| json!({"name": name, "typed_config": config});
    let routes = json!([
        {"name": "made", "match": {"path": "/made"}, "direct_response": {"status": 200, "body_format": format}},
        {"name": "gone", "match": {"path": "/gone"}, "direct_response": {"status": 404}},
        {"name": "dead", "match": {"path": "/dead"}, "route": {
            "cluster": "dead", "retry_policy": {"retry_on": "connect-failure", "num_retries": 1},
        }},
        {"name": "nobody", "match": {"path": "/nobody"}, "route": {"cluster": "nobody"}},
        {"name": "silent", "match": {"path": "/silent"}, "route": {"cluster": "silent", "timeout": "0.5s"}},
        {"name": "failing", "match": {"path": "/failing"}, "route": {"cluster": "backend"}},
    ]);
    json!({
        "http_filters": [
            filter("responses", json!({
                "@type": kind("extensions.filters.http.custom_response.v3.CustomResponse"),
                "custom_response_matcher": {"matcher_list": {"matchers": matchers}},
            })),
            filter("router", json!({"@type": kind("extensions.filters.http.router.v3.Router")})),
        ],
        "route_config": {"name": "r", "virtual_hosts": [{"name": "v", "domains": ["*"], "routes": routes}]},
    })
}

#[test]
fn answers_tell_what_has_become_of_requests() {
    let (report, _asked) = mpsc::channel();
    let backend = failing(0, report);
    // Its queue takes connections, and nobody takes them from there.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let dead = {
        let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        closed.local_addr().unwrap()
    };
    let clusters = [
        cluster("backend", &[endpoint(backend)]),
        cluster("dead", &[endpoint(dead)]),
        cluster("nobody", &[]),
        cluster("silent", &[endpoint(silent.local_addr().unwrap())]),
    ];
    let [ours, envoys] = data_planes().map(|(_, plane)| {
        let bench = Bench::with_clusters(&clusters, &plane, "x-envoy", &[("in", telling())]);
        let paths = ["/made", "/gone", "/dead", "/nobody", "/silent", "/failing", "/none"];
        paths.map(|path| answer(&bench, "in", &format!("GET {path} HTTP/1.1\r\nhost: h\r\n\r\n")))
    });
    for (our, envoy) in ours.iter().zip(&envoys) {
        // In Envoy's words, with the error of the system behind.
        let plain = |(status, text, kind): &(u16, String, Option<String>)| {
            let lines = text
                .lines()
                .map(|line| line.split('{').next().unwrap_or(line).to_owned());
            (*status, lines.collect::<Vec<_>>(), kind.clone())
        };
        assert_eq!(plain(our), plain(envoy));
    }
    assert!(
        ours[2].1.contains("ROUTE_NAME=dead\nUPSTREAM_CLUSTER=dead\n"),
        "{}",
        ours[2].1
    );
    assert!(
        ours[2].1.contains("UPSTREAM_REQUEST_ATTEMPT_COUNT=2\n"),
        "{}",
        ours[2].1
    );
}

#[test]
fn requests_of_http_1_0_are_for_the_default_host() {
    let routes = |domain: &str, status: u16| {
        json!({"name": domain, "domains": [domain], "routes": [
            {"match": {"prefix": "/"}, "direct_response": {"status": status}},
        ]})
    };
    let tables = json!({"name": "r", "virtual_hosts": [routes("www.example.com", 210), routes("*", 211)]});
    let with = |options: Value| json!({"http_protocol_options": options, "route_config": tables});
    let settings = [
        (
            "default",
            with(json!({"accept_http_10": true, "default_host_for_http_10": "www.example.com"})),
        ),
        ("none", with(json!({"accept_http_10": true}))),
    ];
    let [ours, envoys] = data_planes().map(|(_, plane)| {
        let bench = Bench::start(&plane, "x-envoy", &settings);
        let requests = [
            "GET / HTTP/1.0\r\n\r\n",
            "GET / HTTP/1.0\r\nhost: other\r\n\r\n",
            "GET / HTTP/1.1\r\n\r\n",
        ];
        let asked = ["default", "none"].map(|listener| requests.map(|request| status(&bench, listener, request)));
        asked.to_vec()
    });
    assert_eq!(ours, envoys);
    assert_eq!(ours[0], ["210", "211", "400"]);
}

/// A backend that fails every request and says which it is.
fn failing(number: usize, report: mpsc::Sender<usize>) -> SocketAddr {
    listen(move |stream| fail(&stream, number, &report))
}

fn fail(stream: &TcpStream, number: usize, report: &mpsc::Sender<usize>) {
    let mut lines = BufReader::new(stream).lines();
    // A head ends with an empty line, and so does a connection that breaks.
    while let Some(Ok(line)) = lines.next() {
        if !line.is_empty() {
            continue;
        }
        let mut writer = stream;
        let answer = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n";
        if report.send(number).is_err() || writer.write_all(answer).is_err() {
            return;
        }
    }
}

#[test]
fn retries_leave_priorities_out_that_were_tried() {
    let (report, asked) = mpsc::channel();
    let hosts = [0, 1, 2].map(|number| failing(number, report.clone()));
    let mut upstream = cluster("backend", &[]);
    let levels = hosts
        .iter()
        .enumerate()
        .map(|(at, host)| json!({"priority": at, "lb_endpoints": [endpoint(*host)]}));
    upstream["load_assignment"]["endpoints"] = levels.collect();
    let config = "type.googleapis.com/envoy.extensions.retry.priority.previous_priorities.v3.PreviousPrioritiesConfig";
    let policy = |frequency: u32, retries: u32| {
        json!({
            "retry_on": "5xx", "num_retries": retries,
            "retry_back_off": {"base_interval": "0.001s", "max_interval": "0.001s"},
            "retry_priority": {
                "name": "envoy.retry_priorities.previous_priorities",
                "typed_config": {"@type": config, "update_frequency": frequency},
            },
        })
    };
    let rows: [(u32, &[usize]); 3] = [
        (1, &[0, 1, 2, 0, 1, 2, 0]),
        (2, &[0, 0, 1, 1, 2, 2, 0]),
        (5, &[0, 0, 0, 0, 0, 1, 1]),
    ];
    for (plane, data_plane) in data_planes() {
        for (frequency, wanted) in rows {
            let route = json!({"match": {"prefix": "/"}, "route": {"cluster": "backend", "retry_policy": policy(frequency, 6)}});
            let settings = [(
                "in",
                json!({
                    "route_config": {"name": "r", "virtual_hosts": [{"name": "v", "domains": ["*"], "routes": [route]}]},
                }),
            )];
            let bench = Bench::with_clusters(std::slice::from_ref(&upstream), &data_plane, "x-envoy", &settings);
            assert_eq!(answer(&bench, "in", "GET / HTTP/1.1\r\nhost: h\r\n\r\n").0, 503);
            let order: Vec<_> = asked.try_iter().collect();
            assert_eq!(order, wanted, "{plane}, every {frequency}");
        }
    }
}
