//! `cargo xtask bench`: figures that anybody can have again, printed and kept in `docs/performance.md`.

mod cluster;
mod fleet;
mod host;
pub(crate) mod proxy;
mod report;
mod translate;

use anyhow::Result;

/// What to measure.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Subject {
    /// Translation: the whole `edgectl` process, and the engine inside one.
    Translate {
        /// Runs of each size; the fastest counts.
        #[arg(long, default_value_t = 5)]
        runs: usize,
    },
    /// A fleet of 10,000 routes: start, edits and memory, with our proxy and with stock Envoy.
    Fleet,
    /// One host with up to 10,000 routes: a request, with our proxy and with stock Envoy.
    Host,
    /// The controller in a real cluster: propagation, memory, CPU, bytes and writes. Needs what tier cluster needs.
    Cluster,
    /// The proxy between a load generator and a backend, by turns with stock Envoy, nginx and HAProxy.
    Proxy(proxy::Options),
}

/// Measures.
pub(crate) fn run(subject: &Subject) -> Result<()> {
    match subject {
        Subject::Translate { runs } => translate::run(*runs),
        Subject::Fleet => fleet::run(),
        Subject::Host => host::run(),
        Subject::Cluster => cluster::run(),
        Subject::Proxy(options) => proxy::run(options),
    }
}
