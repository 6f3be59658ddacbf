//! Responses that break off behind their head: what is written down of them, on both data planes.

use crate::{
    bench::{Bench, cluster, data_planes, endpoint, listen},
    lifetimes::frame,
};
use e2e::{
    process::wait_for,
    stack::{DataPlane, PATIENCE},
};
use serde_json::{Value, json};
use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    path::Path,
};

const FILE: &str = "type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog";
const OPTIONS: &str = "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions";

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
/// END_HEADERS.
const HEAD: u8 = 4;

/// By the path that asks for it, how a response breaks off and what both write of it.
const BREAKS: [(&str, &str); 6] = [
    (
        "/chunk",
        "200 UPE upstream_reset_after_response_started{protocol_error}",
    ),
    (
        "/chunks",
        "200 UPE upstream_reset_after_response_started{protocol_error}",
    ),
    (
        "/closed2",
        "200 UC upstream_reset_after_response_started{connection_termination}",
    ),
    (
        "/length",
        "200 UPE upstream_reset_after_response_started{protocol_error}",
    ),
    (
        "/refused2",
        "200 UR upstream_reset_after_response_started{remote_refused_stream_reset}",
    ),
    ("/reset2", "200 UR upstream_reset_after_response_started{remote_reset}"),
];

/// Answers in HTTP/1 with less than it has announced.
fn in_http1(mut stream: TcpStream) {
    let mut bytes = [0; 4096];
    let count = stream.read(&mut bytes).unwrap_or(0);
    let head = String::from_utf8_lossy(&bytes[..count]).into_owned();
    let answer = match head.split(' ').nth(1) {
        Some("/length") => "content-length: 5\r\n\r\nabc",
        Some("/chunks") => "transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n",
        _ => "transfer-encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n",
    };
    // A connection that only looks whether anybody listens is gone by now.
    let _ = stream.write_all(format!("HTTP/1.1 200 OK\r\n{answer}").as_bytes());
}

/// Answers in HTTP/2 with a head, after which it resets the stream, or closes the connection.
fn in_http2(mut stream: TcpStream) -> Option<()> {
    stream.read_exact(&mut [0; 24]).ok()?;
    stream.write_all(&frame(SETTINGS, 0, 0, &[])).ok()?;
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; usize::try_from(length).ok()?];
        stream.read_exact(&mut payload).ok()?;
        if head[3] != HEADERS {
            continue;
        }
        let number = u32::from_be_bytes(head[5..].try_into().ok()?);
        // `:status: 200` of the static table (RFC 7541 appendix A).
        stream.write_all(&frame(HEADERS, HEAD, number, &[0x88])).ok()?;
        // INTERNAL_ERROR, REFUSED_STREAM, and nothing more, in the order in which they are asked for.
        let code: u32 = match number {
            1 => 2,
            3 => 7,
            _ => return None,
        };
        stream
            .write_all(&frame(RST_STREAM, 0, number, &code.to_be_bytes()))
            .ok()?;
    }
}

fn clusters() -> [Value; 2] {
    let in_http1: SocketAddr = listen(in_http1);
    let in_http2 = listen(|stream| {
        // It ends where the connection does.
        let _ = self::in_http2(stream);
    });
    let mut second = cluster("http2", &[endpoint(in_http2)]);
    second["typed_extension_protocol_options"] = json!({"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
        "@type": OPTIONS, "explicit_http_config": {"http2_protocol_options": {}}}});
    [cluster("http1", &[endpoint(in_http1)]), second]
}

fn manager(log: &Path) -> Value {
    let format = "%REQ(:PATH)% %RESPONSE_CODE% %RESPONSE_FLAGS% %RESPONSE_CODE_DETAILS%\n";
    let second = json!({"safe_regex": {"regex": ".*2"}});
    json!({
        "access_log": [{"name": "file", "typed_config": {
            "@type": FILE, "path": log, "log_format": {"text_format_source": {"inline_string": format}},
        }}],
        "route_config": {"name": "breaks", "virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [
            {"match": second, "route": {"cluster": "http2"}},
            {"match": {"prefix": "/"}, "route": {"cluster": "http1"}},
        ]}]},
    })
}

/// What a data plane writes of all of them.
fn written(plane: &DataPlane) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let bench = Bench::with_clusters(&clusters(), plane, "x-envoy", &[("breaks", manager(&log))]);
    for path in ["/length", "/chunks", "/chunk", "/reset2", "/refused2", "/closed2"] {
        let mut stream = bench.connect("breaks");
        write!(stream, "GET {path} HTTP/1.1\r\nhost: h\r\n\r\n").unwrap();
        // Until it is cut off, with good manners or without.
        let _ = stream.read_to_end(&mut Vec::new());
    }
    let text = wait_for("the log", PATIENCE, || {
        let text = fs::read_to_string(&log).unwrap_or_default();
        Ok((text.lines().count() >= BREAKS.len()).then_some(text))
    });
    let mut lines: Vec<String> = text.unwrap().0.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

#[test]
fn how_a_response_breaks_off_is_written_down() {
    let wanted = BREAKS.map(|(path, line)| format!("{path} {line}"));
    for (name, plane) in data_planes() {
        assert_eq!(written(&plane), wanted, "{name}");
    }
}
