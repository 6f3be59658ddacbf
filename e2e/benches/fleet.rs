//! A large fleet as its users feel it, once with each data plane: from the start of the controller to the first answer,
//! from a saved file to the answer that follows from it, and the memory that both sides keep. Prints a Markdown table;
//! `cargo xtask bench fleet` builds the programs, runs this and puts the table into docs/performance.md.

use anyhow::{Context, Result, bail};
use e2e::{
    http::{self, Request},
    process::{Process, children_of, wait_for},
    stack::{DataPlane, Site},
    usage::memory_kib,
    world,
};
use std::{
    fs,
    io::{self, Write},
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

/// HTTPRoutes in the world.
const ROUTES: usize = 10_000;
/// Edits of one more route; the median counts.
const EDITS: usize = 21;
/// A large fleet takes stock Envoy many seconds to start.
const PATIENCE: Duration = Duration::from_secs(180);
/// The host of the route that is edited.
const HOST: &str = "edited.example.com";

fn main() -> Result<()> {
    let mut out = io::stdout();
    writeln!(
        out,
        "| data plane | start → first answer s | file saved → answer ms | proxy RSS MiB | controller RSS MiB |\n\
         |---|--:|--:|--:|--:|"
    )?;
    for (name, plane) in [
        ("edge-proxy", DataPlane::EdgeProxy),
        (DataPlane::ENVOY, DataPlane::envoy()?),
    ] {
        let found = measure(&plane).with_context(|| name.to_owned())?;
        writeln!(
            out,
            "| {name} | {:.1} | {:.0} | {:.0} | {:.0} |",
            found.start.as_secs_f64(),
            found.edit.as_secs_f64() * 1e3,
            found.proxy,
            found.controller
        )?;
    }
    Ok(())
}

struct Figures {
    start: Duration,
    edit: Duration,
    proxy: f64,
    controller: f64,
}

fn measure(plane: &DataPlane) -> Result<Figures> {
    let site = Site::new()?;
    fs::remove_dir_all(site.watched())?;
    fs::create_dir(site.watched())?;
    let port = site.ports.gateway;
    let text = world::yaml(ROUTES).replace("port: 8000", &format!("port: {port}"));
    fs::write(site.watched().join("world.yaml"), text)?;
    save(&site, 0)?;
    let mut controller = site.start_controller(plane)?;
    let gateway = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let start = answers(&mut controller, gateway, 0)?;
    let mut edits = Vec::with_capacity(EDITS);
    for version in 1..=EDITS {
        save(&site, version)?;
        edits.push(answers(&mut controller, gateway, version)?);
    }
    edits.sort();
    let proxy = children_of(controller.pid())?.into_iter().find(|pid| is_proxy(*pid));
    Ok(Figures {
        start,
        edit: edits[EDITS / 2],
        proxy: resident_mib(proxy.context("the controller has no proxy")?)?,
        controller: resident_mib(controller.pid())?,
    })
}

/// Writes the edited route in a version, by rename as editors do. It redirects, so that no backend takes part.
fn save(site: &Site, version: usize) -> Result<()> {
    let text = format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata:\n  name: edited\n  namespace: ns-0\nspec:\n  \
         parentRefs:\n  - name: gw\n    namespace: infra\n  hostnames:\n  - {HOST}\n  rules:\n  - matches:\n    - path:\n        \
         value: /v{version}\n    filters:\n    - type: RequestRedirect\n      requestRedirect:\n        \
         hostname: other.example.com\n"
    );
    let incoming = site.path("incoming");
    fs::write(&incoming, text)?;
    Ok(fs::rename(incoming, site.watched().join("edited.yaml"))?)
}

/// How long until the proxy answers by that version of the route.
fn answers(controller: &mut Process, gateway: SocketAddr, version: usize) -> Result<Duration> {
    let path = format!("/v{version}");
    let ((), time) = wait_for(&format!("a redirect of {path}"), PATIENCE, || {
        if let Some(ended) = controller.ended()? {
            bail!("the controller ended ({ended}): {}", controller.output());
        }
        let answer = http::send(gateway, &Request::get(HOST, &path))?;
        Ok((answer.status == 302).then_some(()))
    })?;
    Ok(time)
}

fn is_proxy(pid: u32) -> bool {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).contains("--service-cluster")
}

fn resident_mib(pid: u32) -> Result<f64> {
    Ok(memory_kib(pid, "VmRSS")? / 1024.0)
}
