//! Instructions of a request, of a proxy's own code.
//!
//! They hardly depend on what else uses the machine. Counted by valgrind's callgrind in two runs of different length,
//! so that what the start costs falls out. Not of Envoy, which is too large for it.

use super::{
    exchanges,
    peer::{Bench, Peer, Speech},
    site::{HOST, Plan, Site},
};
use anyhow::{Context, Result, bail};
use e2e::process::Signal;
use std::{
    fmt::Write as _,
    io::{self, Write as _},
    process::Command,
    time::Duration,
};

/// Requests of the two runs.
const FEW: u32 = 2_000;
const MANY: u32 = 6_000;
/// How long an end may take.
const PATIENCE: Duration = Duration::from_secs(60);

const BROWSE: &[&str] = &["browse", "ADDRESS", HOST, "/x", "64"];
const HTTP2: &[&str] = &["http2", "ADDRESS", HOST, "10", "100"];

/// What requests of several kinds take.
pub(super) fn table(bench: &Bench) -> Result<String> {
    let mut text = format!(
        "Instructions of a request, of the proxy's own code, by callgrind ({MANY} requests less {FEW}):\n\n\
         | what | proxy | instructions |\n|---|---|--:|\n"
    );
    let http2 = Plan {
        speech: Speech::Http2,
        ..Plan::PLAIN
    };
    for (name, plan, words) in [
        ("1 kB", Plan::PLAIN, exchanges::GET),
        ("a browser's fields, 1 kB", Plan::PLAIN, BROWSE),
        ("HTTP/2, 1 kB", http2, HTTP2),
    ] {
        for peer in bench.peers.iter().filter(|peer| can_count(peer)) {
            let count = of_a_request(bench, peer, plan, words).with_context(|| format!("{peer}, {name}"))?;
            writeln!(io::stdout(), "{name}, {peer}: {count:.0} instructions")?;
            writeln!(text, "| {name} | {peer} | {count:.0} |")?;
        }
    }
    Ok(text)
}

/// Whether its instructions can be counted.
pub(super) fn can_count(peer: &Peer) -> bool {
    !matches!(peer, Peer::Envoy(_))
}

/// Of one request.
pub(super) fn of_a_request(bench: &Bench, peer: &Peer, plan: Plan, words: &[&str]) -> Result<f64> {
    let version = Command::new("valgrind").arg("--version").output();
    if !version.is_ok_and(|output| output.status.success()) {
        bail!("instructions are counted by valgrind: install it (Debian: apt-get install valgrind)");
    }
    let [few, many] = [FEW, MANY].map(|requests| of_a_run(bench, peer, plan, words, requests));
    Ok((many? - few?) as f64 / f64::from(MANY - FEW))
}

fn of_a_run(bench: &Bench, peer: &Peer, plan: Plan, words: &[&str], requests: u32) -> Result<u64> {
    let above = [
        "valgrind",
        "--tool=callgrind",
        "--callgrind-out-file=FOLDER/callgrind.out",
    ];
    let mut site = Site::start_under(bench, peer, plan, &above)?;
    site.drive(words, &format!("{requests}x"))?;
    site.proxy.signal(Signal::Terminate)?;
    site.proxy.wait(PATIENCE)?;
    let said = site.proxy.output();
    let line = said.lines().rev().find_map(|line| line.split_once("Collected : "));
    let (_, count) = line.with_context(|| format!("callgrind has counted nothing: {said}"))?;
    Ok(count.trim().parse()?)
}
