//! The API server is away, or hangs.

use super::{accepted, has_lasted};
use anyhow::Result;
use e2e::{
    lab::{Lab, Tenant},
    stack::DataPlane,
};

/// What a leader says that could not renew its Lease.
const STEPS_DOWN: &str = "this replica doesn't lead any more";

#[test]
fn an_api_server_that_was_stopped_is_caught_up_with() -> Result<()> {
    let tenant = Tenant::install("stopped", &DataPlane::EdgeProxy)?;
    tenant.explain(outlives(&tenant, Lab::stop_api_server, Lab::start_api_server))
}

#[test]
fn an_api_server_that_hung_is_caught_up_with() -> Result<()> {
    let tenant = Tenant::install("hung", &DataPlane::EdgeProxy)?;
    tenant.explain(outlives(&tenant, Lab::freeze_api_server, Lab::thaw_api_server))
}

fn outlives(tenant: &Tenant, end: fn(&Lab) -> Result<()>, begin: fn(&Lab) -> Result<()>) -> Result<()> {
    accepted(tenant, "before")?;
    end(tenant.lab)?;
    // Long enough that it gives up what it can't renew.
    let told = tenant.wait_for_log(STEPS_DOWN);
    begin(tenant.lab)?;
    told?;
    accepted(tenant, "after")?;
    has_lasted(tenant)
}
