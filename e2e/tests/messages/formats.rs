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
