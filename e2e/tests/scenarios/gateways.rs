//! Gateways beside each other: a fleet of their own each.

use crate::resources::{gateway, listener, route};
use anyhow::{Context as _, Result, ensure};
use e2e::{
    http::{self, Request},
    ports,
    process::wait_for,
    stack::{DataPlane, PATIENCE, Stack},
};
use std::net::Ipv4Addr;

/// A second Gateway with a route of its own to the echo backend.
fn second(port: u16) -> String {
    gateway("second", &[listener("http", "HTTP", port)])
        + &route(
            "HTTPRoute",
            "second",
            "{ name: second }",
            "  hostnames: [second.example.com]\n",
            "echo",
        )
}

/// The proxy of the second Gateway.
fn second_proxy(stack: &Stack) -> Result<Option<u32>> {
    let processes = stack.site.processes()?;
    let is_it = |line: &str| line.contains("--service-cluster default/second");
    Ok(processes.into_iter().find(|(_, line)| is_it(line)).map(|(pid, _)| pid))
}

pub(crate) fn gateways_do_not_notice_each_other(plane: &DataPlane) -> Result<()> {
    let mut stack = Stack::start(plane)?;
    let [port] = ports::free()?;
    let address = (Ipv4Addr::LOCALHOST, port).into();
    let first_proxy = stack.proxy()?;
    stack.put("second.yaml", &second(port))?;
    let ask = |host: &str| http::send(address, &Request::get(host, "/")).map(|answer| answer.status);
    wait_for("the second Gateway", PATIENCE, || {
        Ok((ask("second.example.com")? == 200).then_some(()))
    })
    .with_context(|| stack.logs())?;
    assert_eq!(ask("www.example.com")?, 404, "a route of the other Gateway");
    assert_eq!(stack.get("second.example.com", "/")?.status, 404);
    let proxy = second_proxy(&stack)?.context("no proxy of the second Gateway")?;
    ensure!(proxy != first_proxy, "one proxy for both");

    stack.remove("second.yaml")?;
    wait_for("the second proxy to end", PATIENCE, || {
        Ok(second_proxy(&stack)?.is_none().then_some(()))
    })
    .with_context(|| stack.logs())?;
    assert!(ask("second.example.com").is_err(), "nobody listens");
    stack.wait_for_status("www.example.com", "/", 200)?;
    assert_eq!(stack.proxy()?, first_proxy, "the first proxy was replaced");
    Ok(())
}
