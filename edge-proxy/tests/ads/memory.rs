//! Memory of a process that has read its configuration, and of one whose clients open the widest windows and read
//! nothing.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;

use crate::support::{Proxy, free_port, wait_for};

const STREAMS: u32 = 1000;
/// How many of them are answered after each flood.
const FLOODS: [&str; 5] = [
    "upstream_rq_2xx: 1000\n",
    "upstream_rq_2xx: 2000\n",
    "upstream_rq_2xx: 3000\n",
    "upstream_rq_2xx: 4000\n",
    "upstream_rq_2xx: 5000\n",
];

/// A backend whose every response is larger than what may be held of it.
fn backend() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // One thread and no waiting: what the sockets take at once is what there is.
    std::thread::spawn(move || {
        let mut open = Vec::new();
        let mut answer = b"HTTP/1.1 200 OK\r\ncontent-length: 10000000\r\n\r\n".to_vec();
        answer.resize(256 * 1024, b'x');
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut head = [0; 4096];
            if stream.read(&mut head).is_ok() && stream.set_nonblocking(true).is_ok() {
                let _ = stream.write(&answer);
                open.push(stream);
            }
        }
    });
    address
}

pub(crate) fn bootstrap(
    folder: &Path,
    admin: SocketAddr,
    front: SocketAddr,
    backend: SocketAddr,
) -> std::path::PathBuf {
    let socket = |address: SocketAddr| {
        format!(
            "{{socket_address: {{address: 127.0.0.1, port_value: {}}}}}",
            address.port()
        )
    };
    let (admin, front, backend) = (socket(admin), socket(front), socket(backend));
    let text = format!(
        r#"
admin: {{address: {admin}}}
static_resources:
  clusters:
  - name: a
    type: STATIC
    circuit_breakers: {{thresholds: [{{max_connections: 10000, max_pending_requests: 10000, max_requests: 10000}}]}}
    load_assignment: {{cluster_name: a, endpoints: [{{lb_endpoints: [{{endpoint: {{address: {backend}}}}}]}}]}}
  listeners:
  - name: in
    address: {front}
    per_connection_buffer_limit_bytes: 32768
    default_filter_chain:
      filters:
      - name: hcm
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: in
          http2_protocol_options: {{max_concurrent_streams: {STREAMS}}}
          route_config: {{virtual_hosts: [{{name: h, domains: ['*'], routes: [{{match: {{prefix: /}}, route: {{cluster: a, timeout: 0s}}}}]}}]}}
          http_filters:
          - name: router
            typed_config: {{"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}
"#
    );
    let path = folder.join("static.yaml");
    std::fs::write(&path, text).unwrap();
    path
}

/// A frame of HTTP/2.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// Opens all streams with windows of this size, and never reads.
fn flood(front: SocketAddr, window: u32) -> TcpStream {
    let mut client = TcpStream::connect(front).unwrap();
    let mut sent = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    let mut setting = vec![0, 4];
    setting.extend(window.to_be_bytes());
    sent.extend(frame(4, 0, 0, &setting));
    sent.extend(frame(8, 0, 0, &((1u32 << 31) - 1 - 65_535).to_be_bytes()));
    for stream in 0..STREAMS {
        sent.extend(frame(1, 5, 2 * stream + 1, &[0x82, 0x86, 0x84, 0x41, 1, b'h']));
    }
    client.write_all(&sent).unwrap();
    client
}

pub(crate) fn resident_kb(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn reading_the_configuration_leaves_little_behind() {
    let folder = tempfile::tempdir().unwrap();
    let [admin, front] = [(); 2].map(|()| SocketAddr::from(([127, 0, 0, 1], free_port())));
    let proxy = Proxy::start(&bootstrap(folder.path(), admin, front, backend()), admin);
    wait_for(admin, "/ready", 200, "LIVE").await;
    // The descriptors that reading needs take four megabytes, and are gone by now.
    let held = resident_kb(proxy.process());
    assert!(held < 4 * 1024, "{held} kB");
}

#[tokio::test]
async fn a_thousand_streams_that_nobody_reads_cost_little_and_leave_nothing() {
    for window in [(1 << 31) - 1, 0] {
        let folder = tempfile::tempdir().unwrap();
        let admin = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let front = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let proxy = Proxy::start(&bootstrap(folder.path(), admin, front, backend()), admin);
        wait_for(admin, "/ready", 200, "LIVE").await;
        let before = resident_kb(proxy.process());
        for answered in FLOODS {
            let client = flood(front, window);
            wait_for(admin, "/stats?filter=cluster.a", 200, answered).await;
            check(window, answered, before, resident_kb(proxy.process()));
            drop(client);
            wait_for(admin, "/stats?filter=cluster.a", 200, "upstream_cx_active: 0\n").await;
            wait_for(admin, "/stats?filter=http.in", 200, "downstream_cx_active: 0\n").await;
        }
    }
}

fn check(window: u32, flood: &str, before: u64, held: u64) {
    let more = held.saturating_sub(before);
    // What one flood held serves the next, in each of the two workers.
    let most = if flood == FLOODS[0] { 20 } else { 36 };
    assert!(
        more < most * 1024,
        "window {window}, {flood}: {more} kB more than {before} kB"
    );
}
