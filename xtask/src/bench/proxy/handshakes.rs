//! Handshakes of TLS 1.3.

use super::{
    median,
    peer::{Bench, Key, Speech},
    site::{HOST, Plan, Site},
};
use anyhow::{Context, Result};
use std::{
    fmt::Write as _,
    io::{self, Write as _},
};

const NEW: &[&str] = &["new", "ADDRESS", HOST, "AUTHORITY"];
const RESUMED: &[&str] = &["resumed", "ADDRESS", HOST, "AUTHORITY"];

/// What is measured: its name, what is started and the words for the load generator.
pub(super) fn rows() -> [(&'static str, Plan, &'static [&'static str]); 4] {
    [
        ("new, P-256", Key::P256, NEW),
        ("resumed, P-256", Key::P256, RESUMED),
        ("new, RSA 2048", Key::Rsa, NEW),
        ("resumed, RSA 2048", Key::Rsa, RESUMED),
    ]
    .map(|(name, key, words)| {
        let plan = Plan {
            speech: Speech::Tls(key),
            ..Plan::PLAIN
        };
        (name, plan, words)
    })
}

/// What they cost each proxy.
pub(super) fn table(bench: &Bench) -> Result<String> {
    let mut text = format!(
        "Handshakes of TLS 1.3, four at a time, each on a connection of its own without a request; median of {} runs of {} s:\n\n\
         | what | proxy | CPU µs a handshake | user | system | handshakes a core-second |\n|---|---|--:|--:|--:|--:|\n",
        bench.runs, bench.seconds
    );
    for (name, plan, words) in rows() {
        let mut samples = vec![Vec::new(); bench.peers.len()];
        for _ in 0..bench.runs {
            for (peer, list) in bench.peers.iter().zip(&mut samples) {
                let sample = Site::start(bench, peer, plan)
                    .and_then(|site| site.measure(words, bench.seconds))
                    .with_context(|| format!("{peer}, {name}"))?;
                writeln!(io::stdout(), "{name}, {peer}: {:.1} µs CPU", sample.cpu())?;
                list.push((sample.user, sample.system));
            }
        }
        for (peer, list) in bench.peers.iter().zip(samples) {
            let of = |value: fn(&(f64, f64)) -> f64| median(list.iter().map(value).collect());
            let cpu = of(|(user, system)| user + system);
            let (user, system) = (of(|sample| sample.0), of(|sample| sample.1));
            writeln!(
                text,
                "| {name} | {peer} | {cpu:.1} | {user:.1} | {system:.1} | {:.0} |",
                1e6 / cpu
            )?;
        }
    }
    Ok(text)
}
