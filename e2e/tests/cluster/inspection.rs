//! What `edgectl` shows of what runs: statistics, pages in a browser, an archive of everything.

use anyhow::{Context, Result, ensure};
use e2e::{
    http::{self, Request},
    lab::{Kind, PATIENCE, Tenant},
    process::{Process, Signal},
    stack::program,
};
use serde_json::Value;
use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::Command,
};

/// What `edgectl` prints about the tenant's own namespace.
pub(crate) fn edgectl(tenant: &Tenant, args: &[&str]) -> Result<Vec<u8>> {
    let output = Command::new(program("edgectl")?)
        .args(args)
        .args(["-n", &tenant.system.name])
        .output()?;
    ensure!(
        output.status.success(),
        "edgectl {args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(output.stdout)
}

/// The bootstrap of a pod as its proxy shows it.
pub(crate) fn bootstrap(tenant: &Tenant, pod: &str) -> Result<Value> {
    let shown = edgectl(tenant, &["config", "envoy-proxy", "bootstrap", pod])?;
    let mut shown: Value = serde_json::from_slice(&shown)?;
    Ok(shown[&tenant.system.name][pod]["bootstrap"].take())
}

/// Statistics of a pod by name.
pub(crate) fn stats(tenant: &Tenant, pod: &str) -> Result<Vec<(String, Value)>> {
    let shown = edgectl(tenant, &["x", "stats", "envoy-proxy", pod, "-o", "json"])?;
    let shown: Value = serde_json::from_slice(&shown)?;
    let all = shown[format!("{}/{pod}", tenant.system.name)]["stats"].as_array();
    let all = all.with_context(|| format!("no statistics of {pod}"))?;
    let named = all
        .iter()
        .filter_map(|stat| Some((stat["name"].as_str()?.to_owned(), stat["value"].clone())));
    Ok(named.collect())
}

/// Looks at a pod of a Gateway that serves from the backend `echo`, in every way there is.
pub(crate) fn look(tenant: &Tenant, gateway: &str) -> Result<()> {
    let pod = tenant.pod(gateway)?;
    let labels = format!("gateway.edge/owning-gateway-name={gateway}");
    let text = edgectl(tenant, &["x", "stats", "edge-proxy", "-l", &labels])?;
    let text = String::from_utf8(text)?;
    let heading = format!("# {}/{pod}\n", tenant.system.name);
    ensure!(
        text.starts_with(&heading) && text.contains("# TYPE envoy_server_live gauge"),
        "{text}"
    );
    let clusters = edgectl(tenant, &["x", "stats", "ep", &pod, "-t", "clusters", "-o", "yaml"])?;
    let clusters: Value = serde_yaml::from_slice(&clusters)?;
    let clusters = &clusters[format!("{}/{pod}", tenant.system.name)]["cluster_statuses"];
    let all = clusters.as_array().into_iter().flatten();
    let has_backend = |name: &Value| name.as_str().is_some_and(|name| name.contains("echo"));
    ensure!(
        all.into_iter().any(|cluster| has_backend(&cluster["name"])),
        "{clusters}"
    );

    shows_pages(tenant, &["envoy-proxy", &pod], "/server_info", "uptime_current_epoch").context("a proxy's pages")?;
    shows_pages(tenant, &["envoy-gateway"], "/api/info", "edgeGatewayVersion").context("a controller's pages")?;
    collects(tenant, &pod).context("collect")
}

fn shows_pages(tenant: &Tenant, whose: &[&str], page: &str, word: &str) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut command = Command::new(program("edgectl")?);
    command
        .args(["x", "dashboard"])
        .args(whose)
        .args(["-n", &tenant.system.name]);
    let mut dashboard = Process::start("dashboard", folder.path(), &mut command)?;
    dashboard.wait_for_output("\n", PATIENCE)?;
    let said = dashboard.output();
    let port = said
        .trim()
        .strip_prefix("http://localhost:")
        .context(said.clone())?
        .parse()?;
    // More than one connection, as browsers make them.
    for _ in 0..2 {
        let answer = http::send(
            SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port),
            &Request::get("localhost", page),
        )?;
        let body = String::from_utf8_lossy(&answer.body).into_owned();
        ensure!(answer.status == 200 && body.contains(word), "{} {body}", answer.status);
    }
    dashboard.signal(Signal::Interrupt)?;
    let ended = dashboard.wait(PATIENCE)?;
    ensure!(ended.success(), "{ended}: {}", dashboard.output());
    Ok(())
}

fn collects(tenant: &Tenant, proxy: &str) -> Result<()> {
    let (system, apps) = (&tenant.system.name, &tenant.apps.name);
    let folder = tempfile::tempdir()?;
    let archive = folder.path().join("all.tar.gz");
    let made = Command::new(program("edgectl")?)
        .args(["x", "collect", "--namespaces", &format!("{system},{apps}"), "-o"])
        .arg(&archive)
        .output()?;
    ensure!(
        made.status.success() && made.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    let unpacked = Command::new("tar")
        .arg("-xzf")
        .arg(&archive)
        .arg("-C")
        .arg(folder.path())
        .status()?;
    ensure!(unpacked.success(), "{unpacked}");
    let mut files = Vec::new();
    walk(folder.path(), &mut files)?;
    files.retain(|file| *file != archive);
    let controller = &tenant.replicas()?[0];
    for wanted in [
        "cluster/gatewayclasses.yaml".to_owned(),
        format!("namespaces/{apps}/httproutes.yaml"),
        format!("namespaces/{apps}/endpointslices.yaml"),
        format!("namespaces/{system}/edgeproxies.yaml"),
        format!("namespaces/{system}/deployments.yaml"),
        format!("namespaces/{system}/secrets.yaml"),
        format!("controllers/{system}/{controller}/edge-gateway.log"),
        format!("controllers/{system}/{controller}/metrics.prom"),
        format!("controllers/{system}/{controller}/resources.json"),
        format!("proxies/{system}/{proxy}/shutdown-manager.log"),
        format!("proxies/{system}/{proxy}/stats.prom"),
        format!("proxies/{system}/{proxy}/config_dump.json"),
    ] {
        ensure!(
            files.iter().any(|file| file.ends_with(&wanted)),
            "no {wanted} in {files:#?}"
        );
    }
    let secret = tenant.lab.get(&Kind::core("Secret").named(system, "edge-gateway"))?;
    let key = secret["data"]["tls.key"].as_str().context("a Secret without a key")?;
    for file in files {
        let text = fs::read_to_string(&file)?;
        ensure!(
            !text.contains(key) && !text.contains("PRIVATE KEY"),
            "a key in {}",
            file.display()
        );
    }
    Ok(())
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        match path.is_dir() {
            true => walk(&path, files)?,
            false => files.push(path),
        }
    }
    Ok(())
}
