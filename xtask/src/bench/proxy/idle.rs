//! Ten thousand keep-alive connections that do nothing: what they hold, and what others notice of them.

use super::{
    exchanges, median,
    peer::Bench,
    site::{HOST, Plan, Site},
};
use anyhow::{Context, Result, ensure};
use e2e::usage::memory_kib;
use std::{
    fmt::Write as _,
    io::{self, BufRead, BufReader, Write as _},
    process::Stdio,
};

/// Connections.
const HELD: u32 = 10_000;

/// What a proxy was seen to do.
struct Found {
    kib: f64,
    p99_alone: f64,
    p99_beside: f64,
}

/// Each proxy.
pub(super) fn table(bench: &Bench) -> Result<String> {
    let mut text = format!(
        "{HELD} keep-alive connections that have asked once and now do nothing: the memory that became resident with them, \
         and the p99 of 64 busy connections before and beside them; median of {} runs:\n\n\
         | proxy | kB a connection | p99 µs before | beside | ratio |\n|---|--:|--:|--:|--:|\n",
        bench.runs
    );
    let mut samples: Vec<Vec<Found>> = bench.peers.iter().map(|_| Vec::new()).collect();
    for _ in 0..bench.runs {
        for (peer, list) in bench.peers.iter().zip(&mut samples) {
            let site = Site::start(bench, peer, Plan::PLAIN)?;
            let found = hold(&site, bench.seconds).with_context(|| peer.to_string())?;
            writeln!(
                io::stdout(),
                "{peer}: {:.1} kB a connection, p99 {:.0} and {:.0} µs",
                found.kib,
                found.p99_alone,
                found.p99_beside
            )?;
            list.push(found);
        }
    }
    for (peer, list) in bench.peers.iter().zip(&samples) {
        let of = |value: fn(&Found) -> f64| median(list.iter().map(value).collect());
        writeln!(
            text,
            "| {peer} | {:.1} | {:.0} | {:.0} | {:.2} |",
            of(|found| found.kib),
            of(|found| found.p99_alone),
            of(|found| found.p99_beside),
            of(|found| found.p99_beside / found.p99_alone)
        )?;
    }
    Ok(text)
}

fn hold(site: &Site, seconds: u64) -> Result<Found> {
    let p99_alone = site.measure(exchanges::GET, seconds)?.p99;
    let before = memory_kib(site.proxy.pid(), "VmRSS")?;
    let mut holder = site
        .loader(&["hold", "ADDRESS", HOST, &HELD.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let out = holder.stdout.take().context("a process without output")?;
    let mut line = String::new();
    BufReader::new(out).read_line(&mut line)?;
    ensure!(line.trim() == "holding", "the connections can't be held: {line:?}");
    let kib = (memory_kib(site.proxy.pid(), "VmRSS")? - before) / f64::from(HELD);
    let p99_beside = site.measure(exchanges::GET, seconds)?.p99;
    // The end of its input is its end.
    drop(holder.stdin.take());
    holder.wait()?;
    Ok(Found {
        kib,
        p99_alone,
        p99_beside,
    })
}
