//! Stock Envoy is told a large virtual host as a matcher, not as a list, and both mean the same to it: one process
//! serves the same host in both forms, and each request must be answered alike.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may stop where it stands"
)]

use anyhow::{Context, Result, ensure};
use e2e::{
    http::{self, Request},
    ports,
    process::{Process, wait_for},
};
use edge_xds::{
    json::{Codec, Names},
    lookup::with_matchers,
    snapshot::{Entry, ResourceType},
};
use edgectl::translate::{Options, input::Text, translate};
use serde_json::{Value, json};
use std::{env, fmt::Write as _, fs, net::Ipv4Addr, path::PathBuf, process::Command, time::Duration};

const GATEWAY: &str = "apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: { name: edge }
spec: { controllerName: gateway.edge/gatewayclass-controller }
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: { name: gw, namespace: default }
spec: { gatewayClassName: edge, listeners: [{ name: http, protocol: HTTP, port: 80 }] }
";

/// A match, and the host that requests which it takes are sent to.
fn rule(n: usize, matches: &str) -> String {
    format!(
        "  - matches: [{{ {matches} }}]
    filters: [{{ type: RequestRedirect, requestRedirect: {{ hostname: h{n}.example }} }}]
"
    )
}

/// Paths that begin with each other, in every kind of match, with a condition on a header and without.
fn world() -> String {
    let mut text = GATEWAY.to_owned();
    let kinds = ["PathPrefix", "Exact"];
    let tails = ["", "/a", "/a/b", "-a"];
    let mut rules = vec![
        rule(9000, "path: { type: PathPrefix, value: / }"),
        rule(9001, "path: { type: RegularExpression, value: '/r1.*z' }"),
        rule(9002, "path: { type: PathPrefix, value: /r1 }, method: DELETE"),
    ];
    for n in 0..160 {
        let (kind, tail) = (kinds[n % 2], tails[n / 2 % 4]);
        let header = match n % 3 {
            0 => ", headers: [{ name: x, value: '1' }]",
            _ => "",
        };
        rules.push(rule(
            n,
            &format!("path: {{ type: {kind}, value: '/r{}{tail}' }}{header}", n / 8),
        ));
    }
    for (n, rules) in rules.chunks(8).enumerate() {
        // Writing to a String can't fail.
        let _ = write!(
            text,
            "---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{ name: r{n}, namespace: default }}
spec:
  parentRefs: [{{ name: gw }}]
  rules:
{}",
            rules.concat()
        );
    }
    text
}

/// A listener on a port with a table in place.
fn listener(codec: &Codec, listener: &Entry, port: u16, table: &[u8]) -> Result<Value> {
    let kind = ResourceType::Listener.type_url();
    let mut value = codec.bytes_to_json(kind, &listener.body.contiguous(), Names::Camel)?;
    let table = codec.bytes_to_json(ResourceType::Routes.type_url(), table, Names::Camel)?;
    value["name"] = port.to_string().into();
    value["address"] = json!({ "socketAddress": { "address": "127.0.0.1", "portValue": port } });
    let manager = &mut value["defaultFilterChain"]["filters"][0]["typedConfig"];
    ensure!(manager.get("rds").is_some(), "no table is asked for: {manager}");
    let manager = manager.as_object_mut().context("no connection manager")?;
    manager.remove("rds");
    manager.insert("routeConfig".to_owned(), table);
    Ok(value)
}

/// Status and destination of an answer.
fn ask(port: u16, method: &str, path: &str, headers: &[(&str, &str)]) -> Result<(u16, String)> {
    let request = Request {
        method,
        path,
        host: "a.example",
        headers,
    };
    let answer = http::send((Ipv4Addr::LOCALHOST, port).into(), &request)?;
    Ok((answer.status, answer.header("location").unwrap_or_default().to_owned()))
}

#[test]
fn envoy_takes_a_matcher_for_what_the_list_means() -> Result<()> {
    let envoy = env::var_os("EDGE_ENVOY").map(PathBuf::from);
    let envoy = envoy.context("EDGE_ENVOY must name an Envoy binary: run `cargo xtask test --tier e2e`")?;
    let text = Text {
        name: "world".to_owned(),
        text: world(),
    };
    let outcome = translate(&[text], &Options::default());
    ensure!(outcome.findings.is_empty(), "{:?}", outcome.findings);
    let snapshot = outcome.snapshots.values().next().context("no fleet")?;
    let entries = |kind| snapshot.section(kind).entries();
    let [table] = entries(ResourceType::Routes) else {
        panic!("not one table")
    };
    let (list, matcher) = (table.body.contiguous(), with_matchers(&table.body));
    ensure!(list != matcher, "the host isn't told as a matcher");

    let codec = Codec::cached()?;
    let [port_of_list, port_of_matcher] = ports::free()?;
    let socket = entries(ResourceType::Listener)
        .iter()
        .find(|entry| &*entry.name == "tcp-80")
        .context("no listener")?;
    let config = json!({ "staticResources": { "listeners": [
        listener(codec, socket, port_of_list, &list)?,
        listener(codec, socket, port_of_matcher, &matcher)?,
    ] } });
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("envoy.json");
    fs::write(&file, serde_json::to_vec(&config)?)?;
    let mut command = Command::new(envoy);
    command
        .args(["--log-level", "warning", "--use-dynamic-base-id", "-c"])
        .arg(&file);
    let process = Process::start("envoy", folder.path(), &mut command)?;
    let limit = Duration::from_secs(60);
    wait_for("an answer", limit, || ask(port_of_matcher, "GET", "/", &[]).map(Some))
        .with_context(|| process.output())?;

    let mut seen = std::collections::BTreeSet::new();
    for n in 0..22 {
        for tail in [
            "", "/", "/a", "/ab", "/a/b", "/a/b/c", "-a", "-a/b", "?q", "/a?q=/b", "/z", "#f",
        ] {
            for (method, headers) in [("GET", &[][..]), ("GET", &[("x", "1")]), ("DELETE", &[])] {
                let path = format!("/r{n}{tail}");
                let expected = ask(port_of_list, method, &path, headers)?;
                let found = ask(port_of_matcher, method, &path, headers)?;
                ensure!(
                    found == expected,
                    "{method} {path} {headers:?}: {found:?}, by the list {expected:?}"
                );
                seen.insert(found);
            }
        }
    }
    ensure!(seen.len() > 60, "requests reach only {} routes", seen.len());
    Ok(())
}
