//! A proxy that counts what it does is driven in every way that is measured, and ends so that it writes its counts.

use super::{
    exchanges, handshakes,
    peer::{Bench, Peer},
    site::{Plan, Site},
};
use anyhow::{Context, Result};
use e2e::process::Signal;
use std::{path::Path, time::Duration};

/// Seconds of each kind of load.
const SECONDS: &str = "2";
/// How long an end may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Drives the proxy at this path with the load generator at that.
pub(crate) fn train(proxy: &Path, load: &Path) -> Result<()> {
    let peer = Peer::Edge(proxy.to_owned());
    let bench = Bench {
        load: load.to_owned(),
        peers: Vec::new(),
        runs: 1,
        seconds: 1,
    };
    let plans: Vec<(&str, Plan, &[&str])> = exchanges::rows()
        .into_iter()
        .map(|row| (row.name, row.plan, row.words))
        .chain(handshakes::rows())
        .collect();
    for (name, plan, words) in plans {
        let mut site = Site::start(&bench, &peer, plan).with_context(|| name.to_owned())?;
        site.drive(words, SECONDS).with_context(|| name.to_owned())?;
        site.proxy.signal(Signal::Terminate)?;
        site.proxy.wait(PATIENCE)?;
    }
    Ok(())
}
