//! Our proxy and stock Envoy between the same load generator and backend, by turns.
//!
//! The proxy has one core, the two ends share another. What counts is the proxy's CPU time for a request, from
//! `/proc/<pid>/stat`: unlike throughput it doesn't depend on whether the load generator keeps up.

use super::report;
use crate::{
    envoy,
    workspace::{self, Profile, Programs},
};
use anyhow::{Context, Result, bail};
use e2e::process::{Process, wait_for};
use std::{
    fmt::Write as _,
    fs,
    io::{self, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    path::Path,
    process::Command,
    time::Duration,
};

/// Core of the proxy.
const PROXY_CORE: &str = "0";
/// Core of the load generator and the backend.
const LOAD_CORE: &str = "1";
/// Keep-alive connections.
const CONNECTIONS: &str = "64";
/// Sizes of the backend's answers, in bytes.
const BODIES: [usize; 2] = [1024, 65536];
/// Clock ticks of `/proc/<pid>/stat` in a second; fixed for user space on Linux.
const TICKS: f64 = 100.0;

/// One run's figures.
struct Sample {
    rps: f64,
    p50: f64,
    p99: f64,
    cpu: f64,
    rss: f64,
}

/// Measures and publishes.
pub(crate) fn run(runs: usize, seconds: u64) -> Result<()> {
    let programs = Programs::build(Profile::Dist)?;
    let build = workspace::cargo()?
        .args(["build", "--locked", "--release", "-p", "e2e", "--bin", "edge-load"])
        .status();
    if !build?.success() {
        bail!("the load generator doesn't build");
    }
    let load = workspace::target_dir()?.join("release/edge-load");
    let envoy = envoy::binary()?;
    let own = programs.path("edge-proxy");
    let mut body = format!(
        "HTTP/1.1, {CONNECTIONS} keep-alive connections, GET, proxy on one core with one worker, load generator and \
         backend on another; median of {runs} runs of {seconds} s, proxies by turns; no access log:\n\n\
         | proxy | body | requests/s | p50 µs | p99 µs | CPU µs a request | RSS MiB |\n|---|--:|--:|--:|--:|--:|--:|\n"
    );
    for bytes in BODIES {
        let proxies = [("edge-proxy", own.as_path()), ("Envoy 1.40.0", envoy.as_path())];
        let mut samples: [Vec<Sample>; 2] = [Vec::new(), Vec::new()];
        for _ in 0..runs {
            for ((name, program), list) in proxies.iter().zip(&mut samples) {
                let sample = measure(program, &load, bytes, seconds).with_context(|| (*name).to_owned())?;
                writeln!(
                    io::stdout(),
                    "{name} {bytes} B: {:.0}/s, {:.1} µs CPU",
                    sample.rps,
                    sample.cpu
                )?;
                list.push(sample);
            }
        }
        for ((name, _), list) in proxies.iter().zip(&samples) {
            let of = |value: fn(&Sample) -> f64| median(list.iter().map(value).collect());
            let (rps, p50, p99) = (of(|s| s.rps), of(|s| s.p50), of(|s| s.p99));
            let (cpu, rss) = (of(|s| s.cpu), of(|s| s.rss));
            writeln!(
                body,
                "| {name} | {bytes} | {rps:.0} | {p50:.0} | {p99:.0} | {cpu:.1} | {rss:.1} |"
            )?;
        }
    }
    report::publish("proxy", "cargo xtask bench proxy", &body)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// One run with a fresh backend and a fresh proxy.
fn measure(proxy: &Path, load: &Path, bytes: usize, seconds: u64) -> Result<Sample> {
    let folder = tempfile::tempdir()?;
    let [front, back, admin] = e2e::ports::free()?;
    let address = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut command = pinned(LOAD_CORE, load);
    command.args(["backend", &address(back).to_string(), &bytes.to_string()]);
    let _backend = Process::start("backend", folder.path(), &mut command)?;
    listens(address(back))?;
    let config = folder.path().join("bootstrap.yaml");
    fs::write(&config, bootstrap(front, back, admin))?;
    let mut command = pinned(PROXY_CORE, proxy);
    command
        .arg("-c")
        .arg(&config)
        .args(["--concurrency", "1", "--log-level", "error"]);
    let process = Process::start("proxy", folder.path(), &mut command)?;
    listens(address(front)).with_context(|| process.output())?;
    drive(load, address(front), "0.5")?;
    let before = cpu_seconds(process.pid())?;
    let found = drive(load, address(front), &seconds.to_string())?;
    let cpu = cpu_seconds(process.pid())? - before;
    let [requests, errors, p50, p99] = found[..] else {
        bail!("the load generator said {found:?}")
    };
    if errors > 0.0 {
        bail!("{errors} connections broke");
    }
    let rss = resident_mib(process.pid())?;
    Ok(Sample {
        rps: requests / seconds as f64,
        p50,
        p99,
        cpu: cpu * 1e6 / requests,
        rss,
    })
}

/// `taskset` keeps the process id, so what is measured is the program.
fn pinned(core: &str, program: &Path) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", core]).arg(program);
    command
}

fn listens(address: SocketAddr) -> Result<()> {
    wait_for(&format!("a listener on {address}"), Duration::from_secs(10), || {
        Ok(TcpStream::connect(address).ok())
    })?;
    Ok(())
}

/// Requests, errors, p50 and p99 in µs.
fn drive(load: &Path, address: SocketAddr, seconds: &str) -> Result<Vec<f64>> {
    let output = pinned(LOAD_CORE, load)
        .args(["run", &address.to_string(), "app.example.com", CONNECTIONS, seconds])
        .output()
        .context("taskset can't be started: install util-linux")?;
    if !output.status.success() {
        bail!("the load generator failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    let text = String::from_utf8(output.stdout)?;
    Ok(text.split_whitespace().map(str::parse).collect::<Result<_, _>>()?)
}

/// User and system time of a process with all its threads.
fn cpu_seconds(pid: u32) -> Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).context("the proxy is gone")?;
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    // utime and stime: fields 14 and 15 of proc(5), counted from the state, which is 3.
    let ticks = |i: usize| {
        fields
            .get(i)
            .and_then(|f| f.parse::<f64>().ok())
            .context("unreadable /proc/<pid>/stat")
    };
    Ok((ticks(11)? + ticks(12)?) / TICKS)
}

fn resident_mib(pid: u32) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status
        .lines()
        .find_map(|l| l.strip_prefix("VmRSS:"))
        .context("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<f64>()? / 1024.0)
}

/// A static bootstrap that both proxies take: one listener, one route, one endpoint.
fn bootstrap(front: u16, back: u16, admin: u16) -> String {
    let package = "type.googleapis.com/envoy.extensions.filters";
    format!(
        r#"admin: {{ address: {{ socket_address: {{ address: 127.0.0.1, port_value: {admin} }} }} }}
static_resources:
  listeners:
  - name: front
    address: {{ socket_address: {{ address: 127.0.0.1, port_value: {front} }} }}
    filter_chains:
    - filters:
      - name: http
        typed_config:
          "@type": {package}.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: front
          route_config:
            name: front
            virtual_hosts:
            - {{ name: all, domains: ["*"], routes: [ {{ match: {{ prefix: "/" }}, route: {{ cluster: back }} }} ] }}
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {{ "@type": {package}.http.router.v3.Router }}
  clusters:
  - name: back
    type: STATIC
    connect_timeout: 1s
    load_assignment:
      cluster_name: back
      endpoints:
      - lb_endpoints:
        - endpoint: {{ address: {{ socket_address: {{ address: 127.0.0.1, port_value: {back} }} }} }}
"#
    )
}
