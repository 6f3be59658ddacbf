//! What a request costs where one host has many routes, under the controller as it is: CPU of the proxy for a request
//! to the last of them, once with each data plane. Stock Envoy tries routes one after the other, unless it is told them
//! as a tree (edge-xds/src/lookup.rs). Beside them Envoy with a configuration of its own, as small as one can be: what
//! it costs under the controller is compared with that. Prints a Markdown table; `cargo xtask bench host` builds the
//! programs and runs this.

use anyhow::{Context, Result, bail};
use e2e::{
    http::{self, Request},
    ports,
    process::{Process, wait_for},
    stack::{DataPlane, PATIENCE, Site, Stack},
    usage::Cpu,
};
use std::{
    fmt::Write as _,
    fs,
    io::{self, Write as _},
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    process::Command,
};

/// How many routes the host has.
const SIZES: [usize; 3] = [1, 1_000, 10_000];
/// Measurements of each; the median counts.
const RUNS: usize = 3;
/// Seconds that each takes.
const SECONDS: &str = "3";
/// Connections of the load.
const CONNECTIONS: &str = "64";
/// The host.
const HOST: &str = "many.example.com";

fn main() -> Result<()> {
    let mut out = io::stdout();
    let columns: String = SIZES.iter().map(|size| format!(" {size} |")).collect();
    writeln!(
        out,
        "| data plane, by HTTPRoutes |{columns}\n|---|{}",
        "--:|".repeat(SIZES.len())
    )?;
    for (name, plane) in [
        ("edge-proxy", DataPlane::EdgeProxy),
        (DataPlane::ENVOY, DataPlane::envoy()?),
    ] {
        write!(out, "| {name} |")?;
        for size in SIZES {
            let cost = measure(&plane, size).with_context(|| format!("{name}, {size} routes"))?;
            write!(out, " {cost:.1} |")?;
        }
        writeln!(out)?;
    }
    let DataPlane::Envoy(envoy) = DataPlane::envoy()? else {
        bail!("stock Envoy is a program");
    };
    let cost = measure_bare(&envoy).context("Envoy alone")?;
    let rest = " |".repeat(SIZES.len() - 1);
    writeln!(
        out,
        "| {} alone, one listener, route and cluster | {cost:.1} |{rest}",
        DataPlane::ENVOY
    )?;
    Ok(())
}

/// Microseconds of CPU for a request through an Envoy that has nothing but what it must have.
fn measure_bare(envoy: &Path) -> Result<f64> {
    let [backend_port, port] = ports::free()?;
    let site = Site::new()?;
    let _backend = start_backend(&site, backend_port)?;
    let bootstrap = site.path("bare.yaml");
    fs::write(&bootstrap, bare(port, backend_port))?;
    let mut command = Command::new(envoy);
    command.args([
        "--concurrency",
        "1",
        "--disable-hot-restart",
        "--log-level",
        "error",
        "-c",
    ]);
    let process = Process::start("bare", &site.path(""), command.arg(&bootstrap))?;
    let gateway = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    wait_for("an answer", PATIENCE, || {
        let answer = http::send(gateway, &Request::get(HOST, "/"))?;
        Ok((answer.status == 200).then_some(()))
    })
    .with_context(|| process.output())?;
    cost(process.pid(), gateway, "/")
}

/// One listener, one route, one cluster.
fn bare(port: u16, backend: u16) -> String {
    const TYPES: &str = "type.googleapis.com/envoy.extensions.filters";
    format!(
        "static_resources:
  listeners:
  - address: {{ socket_address: {{ address: 127.0.0.1, port_value: {port} }} }}
    filter_chains:
    - filters:
      - name: http
        typed_config:
          \"@type\": {TYPES}.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: http
          http_filters:
          - {{ name: router, typed_config: {{ \"@type\": {TYPES}.http.router.v3.Router }} }}
          route_config:
            virtual_hosts:
            - {{ name: all, domains: ['*'], routes: [{{ match: {{ prefix: / }}, route: {{ cluster: backend }} }}] }}
  clusters:
  - name: backend
    load_assignment:
      cluster_name: backend
      endpoints:
      - lb_endpoints:
        - endpoint: {{ address: {{ socket_address: {{ address: 127.0.0.1, port_value: {backend} }} }} }}
"
    )
}

/// Microseconds of CPU for a request to the last of so many routes.
fn measure(plane: &DataPlane, routes: usize) -> Result<f64> {
    let [port] = ports::free()?;
    let site = Site::new()?;
    write_world(&site, routes, port)?;
    let _backend = start_backend(&site, port)?;
    let mut stack = Stack::start_at(site, plane)?;
    let path = format!("/r{:05}", routes - 1);
    stack.wait_for_status(HOST, &path, 200)?;
    cost(stack.proxy()?, stack.gateway(), &path)
}

/// What answers, on the core of the load.
fn start_backend(site: &Site, port: u16) -> Result<Process> {
    let mut backend = on_core("1");
    backend.args([
        env!("CARGO_BIN_EXE_edge-load"),
        "backend",
        &format!("127.0.0.1:{port}"),
        "1024",
    ]);
    Process::start("backend", &site.path(""), &mut backend)
}

/// Microseconds of CPU that a proxy takes for a request, kept on one core.
fn cost(proxy: u32, gateway: SocketAddr, path: &str) -> Result<f64> {
    let pinned = Command::new("taskset")
        .args(["-apc", "0", &proxy.to_string()])
        .output()?;
    if !pinned.status.success() {
        bail!(
            "the proxy can't be kept on one core: {}",
            String::from_utf8_lossy(&pinned.stderr)
        );
    }
    let gateway = gateway.to_string();
    let mut costs = Vec::with_capacity(RUNS);
    // The first one warms up.
    for run in 0..=RUNS {
        let before = Cpu::of(proxy)?;
        let mut load = on_core("1");
        load.args([
            env!("CARGO_BIN_EXE_edge-load"),
            "get",
            &gateway,
            HOST,
            path,
            CONNECTIONS,
            SECONDS,
        ]);
        let told = load.output()?;
        let told = String::from_utf8_lossy(&told.stdout).into_owned();
        let requests: f64 = told
            .split_whitespace()
            .next()
            .context("the load says nothing")?
            .parse()?;
        if run > 0 {
            let used = Cpu::of(proxy)?.since(before);
            costs.push((used.user + used.system) * 1e6 / requests);
        }
    }
    costs.sort_by(f64::total_cmp);
    Ok(costs[RUNS / 2])
}

/// The quickstart's Gateway without access log, and the routes of the host.
fn write_world(site: &Site, routes: usize, port: u16) -> Result<()> {
    let gateway = site.watched().join("gateway.yaml");
    let text = fs::read_to_string(&gateway)?;
    let (class, parameters) = (
        "  gatewayClassName: edge\n",
        "  infrastructure: { parametersRef: { group: gateway.edge, kind: EdgeProxy, name: quiet } }\n",
    );
    fs::write(&gateway, text.replace(class, &format!("{class}{parameters}")))?;
    let mut text = format!(
        "apiVersion: gateway.edge/v1alpha1\nkind: EdgeProxy\nmetadata: {{ name: quiet, namespace: default }}\nspec: {{ \
         telemetry: {{ accessLog: {{ disable: true }} }} }}\n---\napiVersion: gateway.edge/v1alpha1\nkind: Backend\nmetadata: \
         {{ name: many, namespace: default }}\nspec: {{ endpoints: [{{ ip: {{ address: 127.0.0.1, port: {port} }} }}] }}\n"
    );
    for number in 0..routes {
        write!(
            text,
            "---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{ name: many-{number}, namespace: \
             default }}\nspec:\n  parentRefs: [{{ name: quickstart }}]\n  hostnames: [{HOST}]\n  rules:\n  - matches: [{{ path: \
             {{ type: PathPrefix, value: /r{number:05} }} }}]\n    backendRefs: [{{ group: gateway.edge, kind: Backend, name: \
             many, port: {port} }}]\n"
        )?;
    }
    Ok(fs::write(site.watched().join("many.yaml"), text)?)
}

fn on_core(core: &str) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", core]);
    command
}
