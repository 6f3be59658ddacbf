//! Controllers that are killed while requests and changes come: proxies serve on, and who leads next makes up for what
//! was missed and says nothing twice.

use anyhow::{Context, Result, ensure};
use e2e::{
    lab::{
        Kind, Object, PATIENCE, Record, Tenant, Terms, condition, is_rolled_out, on_parent, said_once, wait_for, writes,
    },
    stack::DataPlane,
    traffic::Traffic,
    with_each_data_plane,
};
use serde_json::Value;
use std::{net::SocketAddr, time::Duration};

with_each_data_plane! {
    a_fleet_serves_while_its_controller_is_gone,
    a_leader_is_killed_under_load,
}

/// How long the controller stays away.
const AWAY: Duration = Duration::from_secs(60);

fn a_fleet_serves_while_its_controller_is_gone(plane: &DataPlane) -> Result<()> {
    let tenant = Tenant::install(&format!("orphan-{plane}"), plane)?;
    tenant.explain(serve_alone(&tenant))
}

fn serve_alone(tenant: &Tenant) -> Result<()> {
    let lab = tenant.lab;
    let front = tenant.front()?;
    let leaves = tenant.route("leaves", "front", "leaves.example.com", "echo")?;
    let address = tenant.address("front", 80)?;
    for host in ["www.example.com", "leaves.example.com"] {
        tenant.wait_for_status(address, host, "/", 200)?;
    }
    lab.wait_until(&front, "to count its routes", |front| attached(front) == 2)?;
    let mut gateways = lab.record(&Kind::gateway_api("Gateway"), &tenant.apps.name)?;
    let proxies = tenant.proxies("front")?;
    let traffic = Traffic::gentle(address, "www.example.com");
    traffic.wait_for_more(100, PATIENCE)?;

    for replica in tenant.replicas()? {
        lab.crash(&replica, "edgegateway")?;
    }
    tenant.scale(0)?;
    tenant.route("later", "front", "later.example.com", "echo")?;
    lab.delete(&leaves)?;
    let late = tenant.gateway("late", None)?;
    traffic.go_on_for(AWAY, PATIENCE)?;
    tenant.wait_for_status(address, "later.example.com", "/", 404)?;
    tenant.wait_for_status(address, "leaves.example.com", "/", 200)?;

    tenant.scale(1)?;
    tenant.wait_for_status(address, "later.example.com", "/", 200)?;
    tenant.wait_for_status(address, "leaves.example.com", "/", 404)?;
    lab.wait_until_true(&late, "Programmed")?;
    traffic.wait_for_more(100, PATIENCE)?;
    traffic.stop_without_failure()?;
    let after = tenant.proxies("front")?;
    ensure!(after == proxies, "proxies were replaced: {proxies:?}, then {after:?}");
    said_once(&gateways.statuses(&front)?)
}

fn a_leader_is_killed_under_load(plane: &DataPlane) -> Result<()> {
    let terms = Terms {
        replicas: 2,
        ..Terms::default()
    };
    let tenant = Tenant::install_with(&format!("leader-{plane}"), plane, terms)?;
    tenant.explain(succeed_under_load(&tenant))
}

fn succeed_under_load(tenant: &Tenant) -> Result<()> {
    let lab = tenant.lab;
    let front = tenant.front()?;
    let address = tenant.address("front", 80)?;
    tenant.wait_for_status(address, "www.example.com", "/", 200)?;
    let has_both = |controller: &Value| is_rolled_out(controller, 2);
    lab.wait_until(&tenant.controller(), "to have both replicas", has_both)?;
    let (proxies, made) = (tenant.proxies("front")?, editions(tenant)?);
    let mut statuses = Statuses::record(tenant)?;
    let traffic = Traffic::gentle(address, "www.example.com");
    let mut changes = Changes::of(tenant, address);
    for _ in 0..3 {
        changes.go_on()?;
    }
    changes.wait_until_judged(&front)?;
    let before = statuses.written()?;

    let first = holder(tenant)?;
    let replicas = tenant.replicas()?;
    let leader = replicas.iter().find(|pod| first.starts_with(pod.as_str()));
    let leader = leader.with_context(|| format!("the holder {first} is none of {replicas:?}"))?;
    // Nothing is given up: nobody leads until the Lease runs out. What changes meanwhile reaches the proxies.
    lab.crash(leader, "edgegateway")?;
    let next = wait_for("another leader", || {
        changes.go_on()?;
        Ok(Some(holder(tenant)?).filter(|next| *next != first))
    })?;
    ensure!(
        replicas.iter().any(|pod| next.starts_with(pod.as_str())),
        "{next} leads"
    );
    changes.wait_until_judged(&front)?;
    traffic.wait_for_more(100, PATIENCE)?;
    traffic.stop_without_failure()?;

    // A write that said nothing new would be counted by who wrote it, and make no version.
    lab.wait_until(&tenant.controller(), "to have both replicas again", has_both)?;
    let counted = tenant.metric("status_update_total{status=\"success\"}")?;
    let written = statuses.written()? - before;
    ensure!(
        counted <= written as f64,
        "{counted} writes since the leader's end, and {written} of them said something"
    );
    let after = (tenant.proxies("front")?, editions(tenant)?);
    ensure!(after == (proxies, made), "the fleet was touched: {after:?}");
    Ok(())
}

/// Who holds the Lease.
fn holder(tenant: &Tenant) -> Result<String> {
    let lease = Kind::new("coordination.k8s.io/v1", "Lease").named(&tenant.system.name, "edge-gateway-leader");
    let lease = tenant.lab.get(&lease)?;
    let holder = lease["spec"]["holderIdentity"].as_str().filter(|name| !name.is_empty());
    Ok(holder.context("nobody holds the Lease")?.to_owned())
}

/// How many routes a Gateway counts.
fn attached(gateway: &Value) -> usize {
    let attached = gateway["status"]["listeners"][0]["attachedRoutes"].as_u64();
    attached.map_or(0, |attached| usize::try_from(attached).unwrap_or_default())
}

/// In which edition the objects of the fleet are: the generation of what has one, the version of the others.
fn editions(tenant: &Tenant) -> Result<Vec<Value>> {
    let edition = |object: &Object| -> Result<Value> {
        let metadata = &tenant.lab.get(object)?["metadata"];
        let has_generation = !metadata["generation"].is_null();
        Ok(metadata[if has_generation {
            "generation"
        } else {
            "resourceVersion"
        }]
        .clone())
    };
    tenant.made_for("front")?.iter().map(edition).collect()
}

/// Routes that come one after the other, each served before the next.
struct Changes<'a> {
    tenant: &'a Tenant,
    address: SocketAddr,
    routes: Vec<Object>,
}

impl<'a> Changes<'a> {
    fn of(tenant: &'a Tenant, address: SocketAddr) -> Self {
        Self {
            tenant,
            address,
            routes: Vec::new(),
        }
    }

    fn go_on(&mut self) -> Result<()> {
        let name = format!("change-{}", self.routes.len());
        let host = format!("{name}.example.com");
        let route = self.tenant.route(&name, "front", &host, "echo")?;
        self.tenant.wait_for_status(self.address, &host, "/", 200)?;
        self.routes.push(route);
        Ok(())
    }

    fn wait_until_judged(&self, front: &Object) -> Result<()> {
        let (lab, controller) = (self.tenant.lab, format!("gateway.edge/{}", self.tenant.apps.name));
        for route in &self.routes {
            lab.wait_until(route, "to be accepted", |route| {
                on_parent(route, &controller, "Accepted")["status"] == "True"
            })?;
        }
        // Beside the one that the Gateway was made with.
        let all = self.routes.len() + 1;
        lab.wait_until(front, "to count its routes", |front| attached(front) == all)?;
        Ok(())
    }
}

/// What is said about what the tenant has.
struct Statuses {
    records: Vec<(Object, Record)>,
}

impl Statuses {
    fn record(tenant: &Tenant) -> Result<Self> {
        let objects = [
            tenant.object(&Kind::gateway_api("HTTPRoute"), "www"),
            tenant.object(&Kind::gateway_api("Gateway"), "front"),
            Kind::edge("EdgeProxy").named(&tenant.system.name, "proxies"),
        ];
        let record = |object: Object| {
            let namespace = object.namespace.as_deref().unwrap_or_default();
            Ok((object.clone(), tenant.lab.record(&object.kind, namespace)?))
        };
        Ok(Self {
            records: objects.into_iter().map(record).collect::<Result<_>>()?,
        })
    }

    /// How many were written: no more than one for a route, and none that says something again or takes back that a
    /// Gateway is programmed.
    fn written(&mut self) -> Result<usize> {
        let mut written = 0;
        for (object, record) in &mut self.records {
            let said = record.statuses(object)?;
            said_once(&said)?;
            for (name, statuses) in &said {
                let is_route = object.kind == Kind::gateway_api("HTTPRoute");
                ensure!(
                    !is_route || writes([statuses]) <= 1,
                    "{name} was judged again: {statuses:#?}"
                );
                let lost = |status: &&Value| condition(&status["conditions"], "Programmed")["status"] == "False";
                let lost = statuses.iter().find(lost);
                ensure!(lost.is_none(), "{name} wasn't programmed any more: {lost:#?}");
            }
            written += writes(said.values());
        }
        Ok(written)
    }
}
