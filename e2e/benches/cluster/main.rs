//! The controller in a real cluster as its users feel it: from a route in the API server to the answer by it, memory,
//! what it does when nothing happens, what it sends when a pod is replaced, what it writes when routes come by the
//! thousand. Prints a Markdown table; `cargo xtask bench cluster` builds the programs, runs this inside of a lab and
//! puts the table into docs/performance.md.
//!
//! One tenant with one controller and one proxy grows from 10 routes to 5,000, while somebody asks it for answers.

mod controller;
mod propagation;
mod world;

use anyhow::{Context, Result, ensure};
use controller::{Memory, Sent};
use e2e::{
    lab::{Kind, Tenant, wait_for, writes},
    stack::DataPlane,
    traffic::{Outcome, Traffic},
};
use propagation::Propagation;
use serde_json::Value;
use std::{
    io::{self, Write},
    time::{Duration, Instant},
};

/// Routes that come at once, all to one Service.
const AT_ONCE: usize = 1_000;
/// How long nothing happens while the controller's CPU time is looked at.
const IDLE: Duration = Duration::from_secs(30);
/// Pause of each client that asks all the while.
const PAUSE: Duration = Duration::from_millis(10);

/// What was found.
struct Figures {
    /// With so many routes, the controller and the proxy have so much in memory.
    memory: Vec<(usize, Memory, Memory)>,
    /// The same controller after a crash, and the statuses that it wrote then.
    restarted: (Memory, f64),
    /// With so many routes present.
    propagation: Vec<(usize, Propagation)>,
    idle: f64,
    replaced: Sent,
    writes: Writes,
    traffic: Outcome,
}

/// How often statuses became others while routes came at once.
struct Writes {
    routes: usize,
    /// Of the route that was written most often.
    most: usize,
    gateway: usize,
    /// How long all that took.
    time: Duration,
}

fn main() -> Result<()> {
    let tenant = Tenant::install("bench", &DataPlane::EdgeProxy)?;
    let figures = tenant.explain(measure(&tenant))?;
    print(&figures).context("the table can't be printed")
}

fn measure(tenant: &Tenant) -> Result<Figures> {
    tenant.apply(world::ECHO)?;
    tenant.gateway("front", None)?;
    tenant
        .lab
        .create_all(&[world::route_to_echo(&tenant.apps.name, "www")])?;
    let address = tenant.address("front", 80)?;
    tenant.wait_for_status(address, "www.example.com", "/", 200)?;
    let traffic = Traffic::start_with_pauses(address, "www.example.com", 2, PAUSE);
    let (mut memory, mut propagation) = (Vec::new(), Vec::new());
    let grow = |from: usize, to: usize| {
        say(&format!("routes {from} to {to}"))?;
        tenant
            .lab
            .create_all(&world::routes_with_services(&tenant.apps.name, from..to))?;
        controller::settle(tenant)
    };
    // The route that is asked for all the while is one of them.
    grow(1, 10)?;
    memory.push(look(tenant, 10)?);
    grow(10, 100)?;
    propagation.push((100, propagation::measure(tenant, address, "few")?));
    grow(100, 1_000)?;
    memory.push(look(tenant, 1_000)?);
    let writes = at_once(tenant)?;
    let replaced = replace_a_pod(tenant)?;
    grow(1_000, 5_000 - AT_ONCE)?;
    memory.push(look(tenant, 5_000)?);
    propagation.push((5_000, propagation::measure(tenant, address, "many")?));
    controller::settle(tenant)?;
    say("nothing")?;
    let idle = controller::load(controller::process(tenant)?, IDLE)?;
    let restarted = restart(tenant)?;
    Ok(Figures {
        memory,
        restarted,
        propagation,
        idle,
        replaced,
        writes,
        traffic: traffic.stop()?,
    })
}

/// Where the bench is; the table goes to standard output.
fn say(stage: &str) -> Result<()> {
    writeln!(io::stderr(), "bench: {stage}").context("standard error is closed")
}

/// What the controller and the proxy have in memory.
fn look(tenant: &Tenant, routes: usize) -> Result<(usize, Memory, Memory)> {
    let own = controller::memory(controller::process(tenant)?)?;
    let pods = tenant.fleet(&Kind::core("Pod"), "front")?;
    let [pod] = &pods[..] else {
        anyhow::bail!("{} proxies", pods.len())
    };
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    let proxy = controller::memory(controller::the_one(tenant, name, "edge-proxy")?)?;
    say(&format!(
        "{} with {routes} routes, proxy {}",
        shown(&own),
        shown(&proxy)
    ))?;
    Ok((routes, own, proxy))
}

/// Creates a thousand routes to one Service.
fn at_once(tenant: &Tenant) -> Result<Writes> {
    say("routes at once")?;
    let (apps, lab) = (&tenant.apps.name, tenant.lab);
    let (http_routes, gateways) = (Kind::gateway_api("HTTPRoute"), Kind::gateway_api("Gateway"));
    let (mut of_routes, mut of_gateways) = (lab.record(&http_routes, apps)?, lab.record(&gateways, apps)?);
    let all: Vec<Value> = (0..AT_ONCE)
        .map(|number| world::route_to_echo(apps, &format!("shop-{number}")))
        .collect();
    let (before, begun) = (controller::written(tenant)?, Instant::now());
    lab.create_all(&all)?;
    wait_for("as many writes as routes", || {
        Ok((controller::written(tenant)? - before >= AT_ONCE as f64).then_some(()))
    })?;
    let time = begun.elapsed();
    controller::settle(tenant)?;
    let routes = of_routes.statuses(&tenant.object(&http_routes, "www"))?;
    let of_gateway = of_gateways.statuses(&tenant.object(&gateways, "front"))?;
    Ok(Writes {
        routes: writes(routes.values()),
        most: routes
            .values()
            .map(|statuses| writes([statuses]))
            .max()
            .unwrap_or_default(),
        gateway: writes(of_gateway.values()),
        time,
    })
}

/// Deletes one pod of the Service that those use, and waits until another is in its place.
fn replace_a_pod(tenant: &Tenant) -> Result<Sent> {
    say("a pod is replaced")?;
    let (lab, pods) = (tenant.lab, Kind::core("Pod"));
    let names = || -> Result<Vec<String>> {
        let ready = lab
            .list(&pods, &tenant.apps.name, "app=echo")?
            .into_iter()
            .filter(|pod| {
                let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
                let mut ready = conditions.filter(|c| c["type"] == "Ready" && c["status"] == "True");
                ready.next().is_some() && pod["metadata"]["deletionTimestamp"].is_null()
            });
        Ok(ready
            .filter_map(|pod| Some(pod["metadata"]["name"].as_str()?.to_owned()))
            .collect())
    };
    let before = controller::sent(tenant)?;
    let old = names()?;
    ensure!(old.len() == 3, "{} pods are ready", old.len());
    let gone = tenant.object(&pods, &old[0]);
    lab.delete(&gone)?;
    lab.wait_until_gone(&gone)?;
    let is_replaced = || Ok((names()?.len() == 3).then_some(()));
    wait_for("another pod", is_replaced)?;
    controller::settle(tenant)?;
    let after = controller::sent(tenant)?;
    Ok(Sent {
        endpoints: after.endpoints - before.endpoints,
        others: after.others - before.others,
    })
}

/// Kills the controller, waits for the next and until it has nothing left to do. What it has counted is its own.
fn restart(tenant: &Tenant) -> Result<(Memory, f64)> {
    say("the controller is restarted")?;
    let old = controller::process(tenant)?;
    let replicas = tenant.replicas()?;
    tenant.lab.crash(&replicas[0], "edgegateway")?;
    let process = wait_for("another controller", || {
        Ok(controller::process(tenant).ok().filter(|process| *process != old))
    })?;
    wait_for("its proxy", || Ok((tenant.metric("xds_streams")? > 0.0).then_some(())))?;
    controller::settle(tenant)?;
    Ok((controller::memory(process)?, controller::written(tenant)?))
}

fn print(figures: &Figures) -> Result<()> {
    let mut out = io::stdout();
    writeln!(out, "| what | target | figure |\n|---|--:|--:|")?;
    for (routes, times) in &figures.propagation {
        writeln!(
            out,
            "| HTTPRoute created (answer of the API server) → first 200, {routes} routes present: median, p99 \
             | 25 ms, 100 ms | {} |\n\
             | the same from the request to the API server | | {} |",
            times.from_answer, times.from_request
        )?;
    }
    for (routes, own, proxy) in &figures.memory {
        let target = match routes {
            10 => "30 MiB",
            1_000 => "60 MiB",
            _ => "150 MiB",
        };
        writeln!(
            out,
            "| controller's memory with {routes} routes: resident (of that its own) | {target} | {} |\n\
             | edge-proxy's, the same | | {} |",
            shown(own),
            shown(proxy)
        )?;
    }
    writeln!(
        out,
        "| controller's memory with 5000 routes, begun anew | 150 MiB | {} |\n\
         | statuses that it writes then | 0 | {} |\n\
         | CPU of the controller with 5000 routes while nothing changes, over {} s | 1 % of a core | {:.2} % |",
        shown(&figures.restarted.0),
        figures.restarted.1,
        IDLE.as_secs(),
        figures.idle * 100.0
    )?;
    let Writes {
        routes,
        most,
        gateway,
        time,
    } = &figures.writes;
    writeln!(
        out,
        "| one pod replaced of a Service that {AT_ONCE} routes use: bytes of endpoints to a proxy, of anything else \
         | 2000, 0 | {:.0}, {:.0} |\n\
         | writes of status for {AT_ONCE} routes created at once, in {:.1} s: routes (most of one), Gateway \
         | {AT_ONCE} (1), 1 | {routes} ({most}), {gateway} |\n\
         | requests meanwhile; of these failed | 0 failed | {}; {} |",
        figures.replaced.endpoints,
        figures.replaced.others,
        time.as_secs_f64(),
        figures.traffic.answered,
        figures.traffic.failures.len()
    )?;
    for failure in figures.traffic.failures.iter().take(5) {
        say(failure)?;
    }
    Ok(())
}

fn shown(memory: &Memory) -> String {
    format!("{:.1} MiB ({:.1})", memory.resident, memory.anonymous)
}
