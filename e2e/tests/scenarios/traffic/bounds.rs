//! Bounds: of requests in a time, and of what a cluster bears.

use super::{Routed, backend, get, get_with};
use crate::policies::HttpPeer;
use anyhow::{Result, ensure};
use e2e::{
    http::{self, Request},
    stack::DataPlane,
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

pub(crate) fn requests_beyond_a_rate_are_turned_away(plane: &DataPlane) -> Result<()> {
    let (peer, _) = backend("one")?;
    let www = Routed::start(plane, &[peer.port])?;
    www.answers(&get("/"), 200)?;
    let limit = |rule: &str| {
        www.shape(&format!(
            "  rateLimit: {{ type: Local, local: {{ rules: [{rule}] }} }}\n"
        ))
    };
    limit("{ limit: { requests: 3, unit: Hour } }")?;
    let refused = www.answers(&get("/"), 429)?;
    assert_eq!(
        refused.header("x-ratelimit-limit").map(|limit| limit.starts_with('3')),
        Some(true),
        "{refused:?}"
    );
    www.answers(&get("/"), 429)?;

    // Each user for himself, and who is none has no limit.
    limit(
        "{ clientSelectors: [{ headers: [{ name: x-user, type: Distinct }] }], limit: { requests: 3, unit: Hour } }",
    )?;
    www.answers(&get("/"), 200)?;
    let asked = |user: &str| -> Result<Vec<u16>> {
        let headers = [("x-user", user)];
        let ask = || Ok(www.ask(&get_with("/", &headers))?.status);
        (0..5).map(|_| ask()).collect()
    };
    assert_eq!(asked("ann")?, [200, 200, 200, 429, 429]);
    assert_eq!(asked("bob")?, [200, 200, 200, 429, 429]);
    for _ in 0..5 {
        assert_eq!(www.ask(&get("/"))?.status, 200);
    }
    www.unshape()?;
    www.answers(&get_with("/", &[("x-user", "ann")]), 200)?;
    let unlimited = "{ limit: { requests: 1, unit: Hour } }, { limit: { requests: 2, unit: Hour } }";
    www.fails_closed(
        &format!("  rateLimit: {{ type: Local, local: {{ rules: [{unlimited}] }} }}\n"),
        "RateLimit",
    )
}

/// One request under way fills the cluster: another is turned away at once, and let in when the first is done.
pub(crate) fn what_a_cluster_bears_is_bounded(plane: &DataPlane) -> Result<()> {
    let (held, go) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (holds, gone) = (Arc::clone(&held), Arc::clone(&go));
    let peer = HttpPeer::start(move |request| {
        if request.line.contains("/hold") {
            holds.store(true, Ordering::Relaxed);
            while !gone.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(1));
            }
        }
        (200, Vec::new(), "one")
    })?;
    let www = Routed::start(plane, &[peer.port])?;
    www.answers(&get("/"), 200)?;
    www.shape("  circuitBreaker: { maxParallelRequests: 1, maxPendingRequests: 1 }\n")?;
    let gateway = www.stack.gateway();
    // What becomes of a request while another is held.
    let second = || {
        held.store(false, Ordering::Relaxed);
        go.store(false, Ordering::Relaxed);
        let first = thread::spawn(move || http::send(gateway, &Request::get(super::HOST, "/hold")));
        www.holds("a request under way", || Ok(held.load(Ordering::Relaxed)))?;
        let second = www.ask(&get("/"));
        go.store(true, Ordering::Relaxed);
        let Ok(first) = first.join() else {
            anyhow::bail!("a client stopped");
        };
        let (first, second) = (first?, second?);
        ensure!(first.status == 200, "{first:?}");
        Ok(second.status)
    };
    www.holds("a full cluster", || Ok(second()? == 503))?;
    www.answers(&get("/"), 200)?;
    www.unshape()?;
    www.holds("room for two", || Ok(second()? == 200))?;
    www.fails_closed("  circuitBreaker: { maxConnections: -1 }\n", "CircuitBreaker")
}
