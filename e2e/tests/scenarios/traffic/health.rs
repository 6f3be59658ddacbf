//! Backends that are left out: those that fail probes, and those that fail requests.

use super::{Routed, backend, body, get};
use crate::policies::HttpPeer;
use anyhow::Result;
use e2e::stack::DataPlane;
use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// Which backends answer some requests with 200.
fn used(www: &Routed) -> Result<BTreeSet<String>> {
    let mut used = BTreeSet::new();
    for _ in 0..12 {
        let answer = www.ask(&get("/"))?;
        if answer.status == 200 {
            used.insert(body(&answer));
        }
    }
    Ok(used)
}

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

pub(crate) fn backends_that_fail_probes_are_left_out(plane: &DataPlane) -> Result<()> {
    let is_well = Arc::new(AtomicBool::new(false));
    let well = Arc::clone(&is_well);
    let ailing = HttpPeer::start(move |request| {
        let probe = request.line.contains("/healthz");
        let status = if probe && !well.load(Ordering::Relaxed) {
            500
        } else {
            200
        };
        (status, Vec::new(), "ailing")
    })?;
    let (sound, _) = backend("sound")?;
    let www = Routed::start(plane, &[ailing.port, sound.port])?;
    www.answers(&get("/"), 200)?;
    www.holds("both backends", || Ok(used(&www)? == names(&["ailing", "sound"])))?;
    www.shape(
        "  healthCheck: { active: { type: HTTP, interval: 100ms, timeout: 1s, unhealthyThreshold: 1, \
         healthyThreshold: 1, http: { path: /healthz } } }\n",
    )?;
    www.holds("the sound backend alone", || Ok(used(&www)? == names(&["sound"])))?;
    is_well.store(true, Ordering::Relaxed);
    www.holds("the backend that got well", || {
        Ok(used(&www)? == names(&["ailing", "sound"]))
    })?;
    is_well.store(false, Ordering::Relaxed);
    www.holds("the sound backend alone", || Ok(used(&www)? == names(&["sound"])))?;
    www.unshape()?;
    www.holds("both backends, unprobed", || {
        Ok(used(&www)? == names(&["ailing", "sound"]))
    })?;
    let nowhere = "  healthCheck: { active: { type: TCP, overrides: { port: 0 } } }\n";
    www.fails_closed(nowhere, "HealthCheck")
}

pub(crate) fn backends_that_fail_are_left_out(plane: &DataPlane) -> Result<()> {
    let failing = HttpPeer::start(|_| (503, Vec::new(), "failing"))?;
    let (sound, _) = backend("sound")?;
    let www = Routed::start(plane, &[failing.port, sound.port])?;
    www.answers(&get("/"), 200)?;
    // How many of some requests fail.
    let failures = || -> Result<usize> {
        let mut failures = 0;
        for _ in 0..12 {
            failures += usize::from(www.ask(&get("/"))?.status == 503);
        }
        Ok(failures)
    };
    www.holds("a backend that fails", || Ok(failures()? > 0))?;
    www.shape(
        "  healthCheck: { passive: { consecutive5XxErrors: 2, interval: 1s, baseEjectionTime: 60s, \
         maxEjectionPercent: 100 } }\n",
    )?;
    www.holds("no failure", || Ok(failures()? == 0))?;
    www.unshape()?;
    www.holds("a backend that fails again", || Ok(failures()? > 0))?;
    www.fails_closed("  healthCheck: { passive: { interval: 3 parsecs } }\n", "HealthCheck")
}
