//! Upgraded connections: what ends them, and what is written down of them, on both data planes.

use crate::bench::{Bench, cluster, data_planes, endpoint, listen};
use e2e::{
    process::wait_for,
    stack::{DataPlane, PATIENCE},
};
use serde_json::{Value, json};
use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    path::Path,
};

const FILE: &str = "type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog";

/// What ends a tunnel, by the path that asks for it, and what edge-proxy and Envoy write of it.
const ENDS: [(&str, [&str; 2]); 4] = [
    // Envoy sets no flag here.
    (
        "/aged",
        ["101 DT max_duration_timeout 4 4", "101 - max_duration_timeout 4 4"],
    ),
    (
        "/backend-leaves",
        ["101 UC upstream_reset_after_response_started{connection_termination} 4 4"; 2],
    ),
    ("/client-leaves", ["101 DC downstream_remote_disconnect 4 4"; 2]),
    ("/idle", ["101 SI stream_idle_timeout 4 4"; 2]),
];

/// A backend that switches protocols, sends four bytes back, and leaves where the path says so.
fn backend() -> SocketAddr {
    listen(|stream| {
        // It ends where the connection does.
        let _ = serve(&stream);
    })
}

fn serve(stream: &TcpStream) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let (mut leaves, mut line) = (false, String::new());
    while reader.read_line(&mut line).ok()? > 2 {
        leaves |= line.contains("/backend-leaves");
        line.clear();
    }
    let mut writer = stream;
    let head = b"HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\r\n";
    writer.write_all(head).ok()?;
    let mut bytes = [0; 4];
    reader.read_exact(&mut bytes).ok()?;
    writer.write_all(&bytes).ok()?;
    if !leaves {
        // Until the proxy ends it.
        let _ = reader.read(&mut bytes);
    }
    Some(())
}

fn manager(log: &Path) -> Value {
    let format =
        "%REQ(:PATH)% %RESPONSE_CODE% %RESPONSE_FLAGS% %RESPONSE_CODE_DETAILS% %BYTES_RECEIVED% %BYTES_SENT%\n";
    let route = |path: &str, settings: Value| json!({"match": {"path": path}, "route": settings});
    json!({
        "upgrade_configs": [{"upgrade_type": "websocket"}],
        "access_log": [{"name": "file", "typed_config": {
            "@type": FILE, "path": log, "log_format": {"text_format_source": {"inline_string": format}},
        }}],
        "route_config": {"name": "tunnels", "virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [
            route("/idle", json!({"cluster": "backend", "idle_timeout": "0.3s"})),
            route("/aged", json!({"cluster": "backend", "max_stream_duration": {"max_stream_duration": "0.3s"}})),
            {"match": {"prefix": "/"}, "route": {"cluster": "backend"}},
        ]}]},
    })
}

/// What a data plane writes of all of them.
fn written(plane: &DataPlane) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let clusters = [cluster("backend", &[endpoint(backend())])];
    let bench = Bench::with_clusters(&clusters, plane, "x-envoy", &[("tunnels", manager(&log))]);
    for (path, _) in ENDS {
        let stream = bench.connect("tunnels");
        let (mut writer, mut reader) = (&stream, BufReader::new(&stream));
        let head = format!("GET {path} HTTP/1.1\r\nhost: h\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n");
        writer.write_all(head.as_bytes()).unwrap();
        let mut line = String::new();
        while reader.read_line(&mut line).unwrap() > 2 {
            line.clear();
        }
        writer.write_all(b"ping").unwrap();
        let mut bytes = [0; 4];
        reader.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"ping", "{path}");
        if path == "/client-leaves" {
            stream.shutdown(Shutdown::Both).unwrap();
        } else {
            // However it ends: with good manners or without.
            let _ = reader.read(&mut bytes);
        }
    }
    let text = wait_for("the log", PATIENCE, || {
        let text = fs::read_to_string(&log).unwrap_or_default();
        Ok((text.lines().count() >= ENDS.len()).then_some(text))
    });
    let mut lines: Vec<String> = text.unwrap().0.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

#[test]
fn what_ends_a_tunnel_is_written_down() {
    let wanted = |of: fn((&str, [&'static str; 2])) -> String| ENDS.map(of).to_vec();
    let [(_, ours), (_, envoy)] = data_planes();
    let told = (written(&ours), written(&envoy));
    let ours = wanted(|(path, [ours, _])| format!("{path} {ours}"));
    let envoys = wanted(|(path, [_, envoy])| format!("{path} {envoy}"));
    assert_eq!(told, (ours, envoys));
}
