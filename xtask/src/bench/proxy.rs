//! Our proxy beside stock Envoy, nginx and HAProxy, between the same load generator and backend, by turns in one run.
//!
//! A proxy has one core, the two ends share another. What counts is the proxy's CPU time for a request: unlike
//! throughput it doesn't depend on whether the load generator keeps up. Its own part (user) and the kernel's (system)
//! are told apart. Each subject is a table.

mod exchanges;
mod handshakes;
mod haproxy;
mod idle;
mod instructions;
mod lookups;
mod nginx;
mod peer;
mod site;
mod standing;
mod training;
mod xds;

use super::report;
use crate::{
    envoy,
    workspace::{self, Profile, Programs},
};
use anyhow::{Result, bail};
use peer::{Bench, Peer};
use std::{
    io::{self, Write as _},
    path::PathBuf,
};
pub(crate) use training::train;

/// What is measured of proxies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Matter {
    /// Requests: small, large, a browser's, logged, HTTP/2, gRPC.
    Exchanges,
    /// Instructions of a request, which don't depend on what else runs on the machine. Needs valgrind.
    Instructions,
    /// Handshakes of TLS 1.3.
    Handshakes,
    /// Many routes and many hosts.
    Lookups,
    /// Ten thousand connections that do nothing, and what others notice of them.
    Idle,
    /// Memory with the quickstart, and new endpoints while ten thousand connections are open.
    Standing,
}

const ALL: [Matter; 6] = [
    Matter::Exchanges,
    Matter::Instructions,
    Matter::Handshakes,
    Matter::Lookups,
    Matter::Idle,
    Matter::Standing,
];

/// How to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Runs of each proxy, by turns.
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Seconds of load in a run.
    #[arg(long, default_value_t = 4)]
    seconds: u64,
    /// Only these; what is found is printed then, and not written to docs/performance.md.
    #[arg(long, value_delimiter = ',')]
    only: Vec<Matter>,
    /// Measure an older edge-proxy beside this one: the path of its binary. What is found is printed alone.
    #[arg(long, value_name = "PATH")]
    before: Option<PathBuf>,
    /// Measure programs that are built already, in this folder, the load generator among them. What is found is printed
    /// alone.
    #[arg(long, value_name = "FOLDER")]
    programs: Option<PathBuf>,
}

/// Measures, and publishes what makes a whole.
pub(crate) fn run(options: &Options) -> Result<()> {
    let (programs, load) = match &options.programs {
        Some(folder) => (Programs::built(folder), folder.join("edge-load")),
        None => (Programs::build(Profile::Dist)?, build_load()?),
    };
    let mut peers = vec![Peer::Edge(programs.path("edge-proxy"))];
    peers.extend(options.before.clone().map(Peer::EdgeBefore));
    peers.push(Peer::Envoy(envoy::binary()?));
    peers.extend(peer::packaged()?);
    let bench = Bench {
        load,
        peers,
        runs: options.runs,
        seconds: options.seconds,
    };
    let matters = if options.only.is_empty() {
        &ALL[..]
    } else {
        &options.only
    };
    let mut body = String::new();
    for matter in matters {
        let table = match matter {
            Matter::Exchanges => exchanges::table(&bench),
            Matter::Instructions => instructions::table(&bench),
            Matter::Handshakes => handshakes::table(&bench),
            Matter::Lookups => lookups::table(&bench),
            Matter::Idle => idle::table(&bench),
            Matter::Standing => standing::table(&programs),
        }?;
        writeln!(io::stdout(), "\n{table}")?;
        body.push_str(&table);
        body.push('\n');
    }
    if options.only.is_empty() && options.before.is_none() && options.programs.is_none() {
        report::publish("proxy", "cargo xtask bench proxy", &body)?;
    }
    Ok(())
}

/// The load generator.
pub(crate) fn build_load() -> Result<PathBuf> {
    let build = workspace::cargo()?
        .args(["build", "--locked", "--release", "-p", "e2e", "--bin", "edge-load"])
        .status();
    if !build?.success() {
        bail!("the load generator doesn't build");
    }
    Ok(workspace::target_dir()?.join("release/edge-load"))
}

/// The one in the middle.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
