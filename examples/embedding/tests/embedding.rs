//! Both programs do what they say.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may stop where it stands"
)]

use serde_json::{Value, json};
use std::{
    fs,
    io::Write,
    path::Path,
    process::{Command, Output, Stdio},
};

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

fn check(paths: &[&Path]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_check-yaml"))
        .args(paths)
        .output()
        .unwrap()
}

#[test]
fn a_repository_is_judged() {
    let folder = tempfile::tempdir().unwrap();
    let clean = folder.path().join("clean.yaml");
    fs::write(&clean, GATEWAY).unwrap();
    let output = check(&[&clean]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && said.ends_with("1 fleets\n"), "{said}");

    let slip =
        "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: { name: www }\nspec: { rulez: [] }\n";
    fs::write(folder.path().join("slip.yaml"), slip).unwrap();
    let output = check(&[folder.path()]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(said.contains("slip.yaml:4:"), "{said}");

    let output = check(&[&clean, &folder.path().join("absent")]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(said.contains("absent: "), "{said}");
}

fn follow(events: &[(&str, Value)]) -> Vec<String> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_follow"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    for (kind, object) in events {
        writeln!(input, "{}", json!({ "type": kind, "object": object })).unwrap();
    }
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect()
}

#[test]
fn changes_are_followed() {
    let class = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": { "name": "edge" },
        "spec": { "controllerName": "gateway.edge/gatewayclass-controller" },
    });
    let gateway = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
        "metadata": { "name": "gw", "namespace": "default" },
        "spec": { "gatewayClassName": "edge", "listeners": [{ "name": "http", "protocol": "HTTP", "port": 80 }] },
    });
    let said = follow(&[
        ("ADDED", class),
        ("ADDED", gateway.clone()),
        ("MODIFIED", gateway.clone()),
    ]);
    let send = |line: &&String| line.starts_with("default/gw: send");
    assert!(
        said.contains(&"status of Gateway/default/gw: 0 problems".to_owned()),
        "{said:?}"
    );
    assert!(
        said.contains(&"default/gw: send Listener tcp-80".to_owned()),
        "{said:?}"
    );
    let count = said.iter().filter(send).count();
    // The same object again changes nothing; without its Gateway there is no fleet.
    let more = follow(&[("ADDED", gateway.clone()), ("DELETED", gateway)]);
    assert_eq!(more.iter().filter(send).count(), 0, "{more:?}: there is no class");
    assert!(count >= 2, "{said:?}");
}

#[test]
fn what_is_gone_is_gone_whatever_it_was_at_last() {
    let route = |spec: Value| {
        json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
            "metadata": { "name": "r", "namespace": "default" }, "spec": spec,
        })
    };
    let good = route(json!({ "parentRefs": [{ "name": "gw" }] }));
    let unreadable = route(json!({ "parentRefs": 7 }));
    let said = follow(&[
        ("ADDED", good),
        ("MODIFIED", unreadable.clone()),
        ("DELETED", unreadable.clone()),
        ("DELETED", unreadable),
    ]);
    // The second one says why it isn't taken, and what is gone is told once.
    let refused = said.iter().filter(|line| line.starts_with("line "));
    assert_eq!(refused.count(), 1, "{said:?}");
    assert!(
        said.iter().any(|line| line.starts_with("line 2: spec.parentRefs")),
        "{said:?}"
    );
}
