//! One route beside ten thousand, and one host beside ten thousand.

use super::{
    instructions, median,
    peer::{Bench, Size},
    site::{Plan, Site},
};
use anyhow::{Context, Result};
use std::{
    fmt::Write as _,
    io::{self, Write as _},
};

/// Many.
const MANY: usize = 10_000;

/// What they cost the proxies whose configuration can say it.
pub(super) fn table(bench: &Bench) -> Result<String> {
    let mut text = format!(
        "Exact paths in one host, and hosts with one route each; the last one is asked for, 1 kB, 64 connections; median of \
         {} runs of {} s. Instructions as below:\n\n\
         | what | proxy | CPU µs a request with 1 | with {MANY} | instructions a request with 1 | with {MANY} |\n\
         |---|---|--:|--:|--:|--:|\n",
        bench.runs, bench.seconds
    );
    for (name, size) in [("routes", Size::Routes as fn(usize) -> Size), ("hosts", Size::Hosts)] {
        for peer in bench.peers.iter().filter(|peer| peer.speaks_xds()) {
            let mut samples = [Vec::new(), Vec::new()];
            let plans = [1, MANY].map(|count| Plan {
                size: size(count),
                ..Plan::PLAIN
            });
            for _ in 0..bench.runs {
                for (plan, list) in plans.into_iter().zip(&mut samples) {
                    let (host, path) = last(plan.size);
                    let words = ["get", "ADDRESS", &host, &path, "64"];
                    let sample = Site::start(bench, peer, plan)
                        .and_then(|site| site.measure(&words, bench.seconds))
                        .with_context(|| format!("{peer}, {name}"))?;
                    writeln!(io::stdout(), "{:?}, {peer}: {:.1} µs CPU", plan.size, sample.cpu())?;
                    list.push(sample.cpu());
                }
            }
            let [one, many] = samples.map(median);
            let mut counted = Vec::new();
            for plan in plans {
                let (host, path) = last(plan.size);
                let words = ["get", "ADDRESS", &host, &path, "64"];
                counted.push(match instructions::can_count(peer) {
                    true => format!("{:.0}", instructions::of_a_request(bench, peer, plan, &words)?),
                    false => "–".to_owned(),
                });
            }
            writeln!(
                text,
                "| {name} | {peer} | {one:.1} | {many:.1} | {} |",
                counted.join(" | ")
            )?;
        }
    }
    Ok(text)
}

/// Host and path of the last one.
fn last(size: Size) -> (String, String) {
    match size {
        Size::Any => ("app.example.com".to_owned(), "/x".to_owned()),
        Size::Routes(count) => ("app.example.com".to_owned(), format!("/r{}", count - 1)),
        Size::Hosts(count) => (format!("h{}.example.com", count - 1), "/x".to_owned()),
    }
}
