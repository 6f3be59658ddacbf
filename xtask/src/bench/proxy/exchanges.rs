//! Requests of several kinds.

use super::{
    median,
    peer::{Bench, Logs, Size, Speech},
    site::{HOST, Plan, Sample, Site},
};
use anyhow::{Context, Result};
use std::{
    fmt::Write as _,
    io::{self, Write as _},
};

/// Keep-alive connections of HTTP/1.1.
const CONNECTIONS: &str = "64";

/// A kind of request.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) plan: Plan,
    pub(super) words: &'static [&'static str],
}

/// Words for HTTP/1.1 without and with many fields, and for HTTP/2.
pub(super) const GET: &[&str] = &["get", "ADDRESS", HOST, "/x", CONNECTIONS];
const BROWSE: &[&str] = &["browse", "ADDRESS", HOST, "/x", CONNECTIONS];
const HTTP2: &[&str] = &["http2", "ADDRESS", HOST, "10", "100"];
const GRPC: &[&str] = &["grpc", "ADDRESS", HOST, "10", "100"];

/// What is measured.
pub(super) fn rows() -> [Row; 6] {
    let row = |name, words, bytes, speech, logs| Row {
        name,
        words,
        plan: Plan {
            speech,
            size: Size::Any,
            logs,
            bytes,
        },
    };
    [
        row("1 kB", GET, 1024, Speech::Http1, Logs::No),
        row("64 kB", GET, 65536, Speech::Http1, Logs::No),
        row("a browser's fields, 1 kB", BROWSE, 1024, Speech::Http1, Logs::No),
        row("access log, 1 kB", GET, 1024, Speech::Http1, Logs::File),
        row("HTTP/2, 1 kB", HTTP2, 1024, Speech::Http2, Logs::No),
        row("gRPC, unary", GRPC, 1024, Speech::Grpc, Logs::No),
    ]
}

/// What they cost each proxy.
pub(super) fn table(bench: &Bench) -> Result<String> {
    let mut text = format!(
        "Requests: {CONNECTIONS} keep-alive connections of HTTP/1.1, or 100 streams on 10 connections of HTTP/2, to backends \
         over HTTP/1.1 (gRPC: HTTP/2); proxy on one core with one worker, load generator and backend on another; median of \
         {} runs of {} s, proxies by turns. The access log has the controller's default format, that of nginx is \
         `combined`, that of HAProxy `httplog` on its output:\n\n\
         | what | proxy | requests/s | p50 µs | p99 µs | CPU µs a request | user | system | requests a core-second | RSS MiB |\n\
         |---|---|--:|--:|--:|--:|--:|--:|--:|--:|\n",
        bench.runs, bench.seconds
    );
    for row in rows() {
        let mut samples: Vec<Vec<Sample>> = vec![Vec::new(); bench.peers.len()];
        for _ in 0..bench.runs {
            for (peer, list) in bench.peers.iter().zip(&mut samples) {
                let sample = Site::start(bench, peer, row.plan)
                    .and_then(|site| site.measure(row.words, bench.seconds))
                    .with_context(|| format!("{peer}, {}", row.name))?;
                writeln!(
                    io::stdout(),
                    "{}, {peer}: {:.0}/s, {:.1} µs CPU, {:.1} of them its own",
                    row.name,
                    sample.rps,
                    sample.cpu(),
                    sample.user
                )?;
                list.push(sample);
            }
        }
        for (peer, list) in bench.peers.iter().zip(&samples) {
            let of = |value: fn(&Sample) -> f64| median(list.iter().map(value).collect());
            let cpu = of(Sample::cpu);
            writeln!(
                text,
                "| {} | {peer} | {:.0} | {:.0} | {:.0} | {cpu:.1} | {:.2} | {:.2} | {:.0} | {:.1} |",
                row.name,
                of(|s| s.rps),
                of(|s| s.p50),
                of(|s| s.p99),
                of(|s| s.user),
                of(|s| s.system),
                1e6 / cpu,
                of(|s| s.resident)
            )?;
        }
    }
    Ok(text)
}
