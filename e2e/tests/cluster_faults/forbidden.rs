//! The controller's account may not do what it must.

use super::{accepted, await_acceptance, has_lasted};
use anyhow::Result;
use e2e::{lab::Tenant, stack::DataPlane};

#[test]
fn what_is_forbidden_is_told_and_done_when_it_is_allowed() -> Result<()> {
    let tenant = Tenant::install("forbidden", &DataPlane::EdgeProxy)?;
    tenant.explain(told_and_done(&tenant))
}

fn told_and_done(tenant: &Tenant) -> Result<()> {
    accepted(tenant, "allowed")?;
    tenant.forbid()?;
    let gateway = tenant.gateway("forbidden", None)?;
    tenant.wait_for_log("add that to the role of the ServiceAccount")?;
    tenant.allow()?;
    await_acceptance(tenant, &gateway)?;
    has_lasted(tenant)
}
