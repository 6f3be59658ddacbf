//! What only a data plane can refuse: the object says so, nobody else suffers, and with edge-proxy it heals by itself.

use crate::resources::{gateway, listener, route};
use anyhow::{Context as _, Result};
use e2e::{
    http::{self, Request},
    ports,
    process::wait_for,
    stack::{DataPlane, PATIENCE, Stack},
};
use serde_json::Value;
use std::net::{Ipv4Addr, TcpListener};

/// Whether a condition of a listener of a Gateway in the status document has a value.
fn listener_says(document: &Value, gateway: &str, condition: &str, value: &str) -> bool {
    let resources = document["resources"].as_array().into_iter().flatten();
    let gateways = resources.filter(|r| r["kind"] == "Gateway" && r["name"] == gateway);
    let listeners = gateways.flat_map(|g| g["status"]["listeners"].as_array().into_iter().flatten());
    let mut conditions = listeners.flat_map(|l| l["conditions"].as_array().into_iter().flatten());
    conditions.any(|c| c["type"] == condition && c["status"] == value)
}

pub(crate) fn a_port_in_use_is_told_and_served_once_it_is_free(plane: &DataPlane) -> Result<()> {
    let mut stack = Stack::start(plane)?;
    let [port] = ports::free()?;
    let taken = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))?;
    let second = gateway("second", &[listener("http", "HTTP", port)])
        + &route(
            "HTTPRoute",
            "second",
            "{ name: second }",
            "  hostnames: [second.example.com]\n",
            "echo",
        );
    stack.put("second.yaml", &second)?;
    let programmed = |value: &'static str| {
        let stack = &stack;
        move || Ok(listener_says(&stack.status()?, "second", "Programmed", value).then_some(()))
    };
    wait_for("the listener not to be programmed", PATIENCE, programmed("False")).with_context(|| stack.logs())?;
    assert_eq!(stack.get("www.example.com", "/")?.status, 200);
    drop(taken);
    if matches!(plane, DataPlane::Envoy(_)) {
        // It gives a listener up whose address is taken, and takes it again with the next change only.
        return Ok(());
    }
    wait_for("the port to be served", PATIENCE, || {
        let answer = http::send(
            (Ipv4Addr::LOCALHOST, port).into(),
            &Request::get("second.example.com", "/"),
        )?;
        Ok((answer.status == 200).then_some(()))
    })
    .with_context(|| stack.logs())?;
    wait_for("the listener to be programmed", PATIENCE, programmed("True")).with_context(|| stack.logs())?;
    stack.wait_for_status("www.example.com", "/", 200)?;
    Ok(())
}
