//! The controller goes together with the definitions of its kinds.

use anyhow::{Context as _, Result, ensure};
use e2e::{
    http::{self, Request},
    lab::{Installation, PATIENCE, Tenant},
    process::wait_for,
    stack::DataPlane,
};
use serde_json::json;
use std::{
    net::SocketAddr,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

/// Makes the definitions again, for tests that come after.
struct Defined;

impl Drop for Defined {
    fn drop(&mut self) {
        let _ = Installation::new("definitions", &json!({})).install(&["--only-crds"]);
    }
}

#[test]
fn a_guarded_route_stays_shut_while_its_guard_goes() -> Result<()> {
    let tenant = Tenant::install("removed", &DataPlane::EdgeProxy)?;
    tenant.explain(stays_shut(&tenant))
}

const GUARD: &str = "
apiVersion: gateway.edge/v1alpha1
kind: SecurityPolicy
metadata: { name: guard, namespace: TENANT }
spec:
  targetRefs: [{ group: gateway.networking.k8s.io, kind: HTTPRoute, name: www }]
  oidc: { clientID: nobody, clientSecret: { name: nobody }, provider: { issuer: https://nobody.example.com } }
";

fn stays_shut(tenant: &Tenant) -> Result<()> {
    tenant.apply(GUARD)?;
    tenant.front()?;
    let address = tenant.address("front", 80)?;
    tenant.wait_for_status(address, "www.example.com", "/", 500)?;
    let with_kinds = ["--with-crds", "--wait"];
    // Controllers of tests that are over need a while to end.
    wait_for("all other controllers to be gone", PATIENCE, || {
        Ok(tenant.installation.uninstall(&["--with-crds", "--dry-run"]).ok())
    })?;
    let _defined = Defined;
    let is_over = AtomicBool::new(false);
    let opened = thread::scope(|scope| {
        let asking = scope.spawn(|| first_other_answer(address, &is_over));
        let removed = tenant.installation.uninstall(&with_kinds);
        is_over.store(true, Ordering::Relaxed);
        let opened = asking.join().ok().context("the client panicked")??;
        removed.map(|_| opened)
    })?;
    ensure!(
        opened.is_none(),
        "the guard was taken away before the controller: {opened:?}"
    );
    Ok(())
}

/// Asks until it is over; gives the first status other than that of the guard.
fn first_other_answer(address: SocketAddr, is_over: &AtomicBool) -> Result<Option<u16>> {
    while !is_over.load(Ordering::Relaxed) {
        let status = http::send(address, &Request::get("www.example.com", "/"))?.status;
        if status != 500 {
            return Ok(Some(status));
        }
    }
    Ok(None)
}
