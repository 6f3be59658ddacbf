//! What a proxy costs that nobody asks, once with each data plane: its memory after the first answer of the quickstart,
//! and the time that its workers run when a backend's endpoints change while ten thousand connections are open. Prints
//! a Markdown table; `cargo xtask bench proxy` builds the programs and runs this.

use anyhow::{Context, Result, ensure};
use e2e::{
    http::{self, Request},
    load::http1,
    process::{children_of, wait_for},
    stack::{DataPlane, PATIENCE, Stack},
    usage::memory_kib,
};
use std::{
    fs,
    io::{self, Write},
    net::{Ipv4Addr, SocketAddr},
};

/// Open connections.
const CONNECTIONS: usize = 10_000;
/// Changes of endpoints; the median counts.
const CHANGES: usize = 21;

fn main() -> Result<()> {
    let mut out = io::stdout();
    writeln!(
        out,
        "| data plane | RSS MiB | of that its own | workers' ms for new endpoints |\n|---|--:|--:|--:|"
    )?;
    for (name, plane) in [
        ("edge-proxy", DataPlane::EdgeProxy),
        (DataPlane::ENVOY, DataPlane::envoy()?),
    ] {
        let found = measure(&plane).with_context(|| name.to_owned())?;
        writeln!(
            out,
            "| {name} | {:.1} | {:.1} | {:.2} |",
            found.resident, found.own, found.change
        )?;
    }
    Ok(())
}

struct Figures {
    resident: f64,
    own: f64,
    change: f64,
}

fn measure(plane: &DataPlane) -> Result<Figures> {
    let stack = Stack::start(plane)?;
    let children = children_of(stack.controller.pid())?;
    let proxy = children.into_iter().find(|pid| !command_line(*pid).is_empty());
    let proxy = proxy.context("the controller has no proxy")?;
    let (resident, own) = (mib(proxy, "VmRSS")?, mib(proxy, "RssAnon")?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let request = http1::request("www.example.com", "/", http1::Fields::None);
    let held = runtime.block_on(http1::hold(stack.gateway(), &request, CONNECTIONS))?;
    let admin = admin(proxy)?;
    let mut changes = Vec::with_capacity(CHANGES);
    for number in 1..=CHANGES {
        changes.push(change(&stack, proxy, admin, number)?);
    }
    ensure!(held.len() == CONNECTIONS, "connections were closed");
    changes.sort_unstable();
    Ok(Figures {
        resident,
        own,
        change: changes[CHANGES / 2] as f64 / 1e6,
    })
}

/// Saves a backend with another second endpoint, waits until the proxy has it, and says how long workers have run.
fn change(stack: &Stack, proxy: u32, admin: SocketAddr, number: usize) -> Result<u64> {
    let site = &stack.site;
    let address = format!("10.0.0.{number}");
    let first = format!(
        "endpoints:\n    - ip: {{ address: 127.0.0.1, port: {} }}",
        site.ports.echo
    );
    let text = format!(
        "apiVersion: gateway.edge/v1alpha1\nkind: Backend\nmetadata:\n  name: echo\n  namespace: default\nspec:\n  \
         {first}\n    - ip: {{ address: {address}, port: 80 }}\n"
    );
    let www = fs::read_to_string(site.watched().join("www.yaml"))?;
    let route = www.split("\n---").next().unwrap_or_default();
    let before = workers(proxy)?;
    let incoming = site.path("incoming");
    fs::write(&incoming, format!("{route}\n---\n{text}"))?;
    fs::rename(incoming, site.watched().join("www.yaml"))?;
    // The admin interface is the main thread's: workers don't notice.
    wait_for(&format!("endpoint {address}"), PATIENCE, || {
        let answer = http::send(admin, &Request::get("localhost", "/clusters"))?;
        Ok(String::from_utf8_lossy(&answer.body)
            .contains(&format!("{address}:80"))
            .then_some(()))
    })?;
    // A worker that has not looked yet will run for it after this; what it ran is then part of the next change.
    Ok(workers(proxy)?.saturating_sub(before))
}

/// Nanoseconds that all workers have run.
fn workers(pid: u32) -> Result<u64> {
    let mut sum = 0;
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let path = task?.path();
        let name = fs::read_to_string(path.join("comm"))?;
        // Ours, and Envoy's.
        if name.starts_with("worker-") || name.starts_with("wrk:") {
            let text = fs::read_to_string(path.join("schedstat"))?;
            let ran = text.split_whitespace().next().context("an empty schedstat")?;
            sum += ran.parse::<u64>()?;
        }
    }
    ensure!(sum > 0, "process {pid} has no workers");
    Ok(sum)
}

fn command_line(pid: u32) -> Vec<String> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<String> = line
        .split(|byte| *byte == 0)
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect();
    match words.iter().any(|word| word == "--service-cluster") {
        true => words,
        false => Vec::new(),
    }
}

/// The admin interface, from the bootstrap that the command line names or is.
fn admin(pid: u32) -> Result<SocketAddr> {
    let words = command_line(pid);
    let behind = |flags: &[&str]| {
        let at = words.iter().position(|word| flags.contains(&word.as_str()))?;
        words.get(at + 1).cloned()
    };
    let text = match (behind(&["--config-yaml"]), behind(&["-c", "--config-path"])) {
        (Some(text), _) => text,
        (None, Some(path)) => fs::read_to_string(path)?,
        (None, None) => anyhow::bail!("a proxy without bootstrap: {words:?}"),
    };
    let bootstrap: serde_json::Value = serde_yaml::from_str(&text)?;
    let address = &bootstrap["admin"]["address"];
    let address = address.get("socketAddress").unwrap_or(&address["socket_address"]);
    let port = address.get("portValue").unwrap_or(&address["port_value"]);
    let port = port.as_u64().and_then(|port| u16::try_from(port).ok());
    Ok((Ipv4Addr::LOCALHOST, port.context("a bootstrap without admin port")?).into())
}

fn mib(pid: u32, name: &str) -> Result<f64> {
    Ok(memory_kib(pid, name)? / 1024.0)
}
