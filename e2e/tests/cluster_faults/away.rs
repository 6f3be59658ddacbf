//! The API server is away, or hangs.

use super::{accepted, has_lasted};
use anyhow::{Context, Result, ensure};
use e2e::{
    lab::{Kind, Lab, PATIENCE, Tenant, on_parent},
    stack::DataPlane,
    traffic::Traffic,
};
use std::{net::SocketAddr, time::Duration};

/// What a leader says that could not renew its Lease.
const STEPS_DOWN: &str = "this replica doesn't lead any more";
/// How long traffic goes on without an API server.
const AWAY: Duration = Duration::from_secs(30);

#[test]
fn fleets_serve_while_the_api_server_is_away() -> Result<()> {
    let planes = [("edge-proxy", DataPlane::EdgeProxy), ("envoy", DataPlane::envoy()?)];
    let install = |(program, plane): (&'static str, DataPlane)| -> Result<(Tenant, &'static str)> {
        Ok((Tenant::install(&format!("away-{plane}"), &plane)?, program))
    };
    let tenants = planes.into_iter().map(install).collect::<Result<Vec<_>>>()?;
    let result = serve_without(&tenants);
    tenants
        .iter()
        .fold(result, |result, (tenant, _)| tenant.explain(result))
}

fn serve_without(tenants: &[(Tenant, &str)]) -> Result<()> {
    let lab = Lab::join()?;
    let fleets = tenants.iter().map(|(tenant, program)| Fleets::make(tenant, program));
    let fleets = fleets.collect::<Result<Vec<_>>>()?;
    lab.stop_api_server()?;
    let outlived = fleets.iter().try_for_each(Fleets::outlive);
    let outlived = outlived.and_then(|()| fleets[0].traffic.go_on_for(AWAY, PATIENCE));
    lab.start_api_server()?;
    outlived?;
    fleets.into_iter().try_for_each(Fleets::catch_up)
}

/// A tenant's Gateways: `front` has traffic, and proxies of `spare` may crash.
struct Fleets<'a> {
    tenant: &'a Tenant,
    program: &'a str,
    proxies: Vec<(String, serde_json::Value)>,
    front: SocketAddr,
    spare: SocketAddr,
    spare_pod: String,
    traffic: Traffic,
}

impl<'a> Fleets<'a> {
    fn make(tenant: &'a Tenant, program: &'a str) -> Result<Self> {
        tenant.front()?;
        tenant.gateway("spare", None)?;
        tenant.route("spare", "spare", "spare.example.com", "echo")?;
        let (front, spare) = (tenant.address("front", 80)?, tenant.address("spare", 80)?);
        tenant.wait_for_status(front, "www.example.com", "/", 200)?;
        tenant.wait_for_status(spare, "spare.example.com", "/", 200)?;
        let spare_pod = tenant.proxies("spare")?.pop().context("no proxy of spare")?.0;
        Ok(Self {
            tenant,
            program,
            proxies: tenant.proxies("front")?,
            front,
            spare,
            spare_pod,
            traffic: Traffic::gentle(front, "www.example.com"),
        })
    }

    /// While there is no API server: a proxy that begins gets its configuration, and the others go on.
    fn outlive(&self) -> Result<()> {
        self.tenant.lab.crash(&self.spare_pod, self.program)?;
        self.tenant.wait_for_status(self.spare, "spare.example.com", "/", 200)?;
        self.tenant.wait_for_log(STEPS_DOWN)
    }

    /// When it is back.
    fn catch_up(self) -> Result<()> {
        let (tenant, lab) = (self.tenant, self.tenant.lab);
        let route = tenant.route("after", "front", "after.example.com", "echo")?;
        tenant.wait_for_status(self.front, "after.example.com", "/", 200)?;
        lab.delete(&tenant.object(&Kind::gateway_api("HTTPRoute"), "spare"))?;
        tenant.wait_for_status(self.spare, "spare.example.com", "/", 404)?;
        lab.wait_until(&route, "to be accepted", |route| {
            let controller = format!("gateway.edge/{}", tenant.apps.name);
            on_parent(route, &controller, "Accepted")["status"] == "True"
        })?;
        tenant.gateway("after", None)?;
        tenant.address("after", 80)?;
        self.traffic.wait_for_more(100, PATIENCE)?;
        self.traffic.stop_without_failure()?;
        let after = tenant.proxies("front")?;
        ensure!(
            after == self.proxies,
            "proxies were replaced: {:?}, then {after:?}",
            self.proxies
        );
        has_lasted(tenant)
    }
}

#[test]
fn an_api_server_that_hung_is_caught_up_with() -> Result<()> {
    let tenant = Tenant::install("hung", &DataPlane::EdgeProxy)?;
    tenant.explain(outlives(&tenant))
}

fn outlives(tenant: &Tenant) -> Result<()> {
    accepted(tenant, "before")?;
    tenant.lab.freeze_api_server()?;
    // Long enough that it gives up what it can't renew.
    let told = tenant.wait_for_log(STEPS_DOWN);
    tenant.lab.thaw_api_server()?;
    told?;
    accepted(tenant, "after")?;
    has_lasted(tenant)
}
