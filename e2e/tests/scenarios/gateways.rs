//! Gateways beside each other: a fleet of their own each, and an end that nobody else notices.

use crate::resources::{backend, gateway, listener, route};
use anyhow::{Context as _, Result, ensure};
use e2e::{
    held::Held,
    http::{self, Request},
    ports,
    process::wait_for,
    stack::{DataPlane, PATIENCE, Stack},
};
use std::{net::Ipv4Addr, thread};

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

pub(crate) fn a_deleted_gateway_finishes_what_it_serves(plane: &DataPlane) -> Result<()> {
    let mut stack = Stack::start(plane)?;
    let [port] = ports::free()?;
    let address = (Ipv4Addr::LOCALHOST, port).into();
    let backend_of_slow = Held::start()?;
    let slow = route(
        "HTTPRoute",
        "slow",
        "{ name: second }",
        "  hostnames: [slow.example.com]\n",
        "slow",
    );
    // However long this machine takes.
    let slow = slow.replace("- backendRefs", "- timeouts: { request: 0s }\n      backendRefs");
    stack.put(
        "second.yaml",
        &(second(port) + &slow + &backend("slow", backend_of_slow.port)),
    )?;
    wait_for("the second Gateway", PATIENCE, || {
        let answer = http::send(address, &Request::get("second.example.com", "/"))?;
        Ok((answer.status == 200).then_some(()))
    })
    .with_context(|| stack.logs())?;

    let client = http::connect(address)?;
    let request = thread::spawn(move || http::exchange(client, &Request::get("slow.example.com", "/")));
    let in_flight = backend_of_slow.request().with_context(|| stack.logs())?;
    stack.remove("second.yaml")?;
    stack
        .controller
        .wait_for_output("no Gateway makes this fleet any more", PATIENCE)?;
    stack.wait_until_closed(address)?;
    in_flight.answer()?;
    let answer = request.join().map_err(|_| anyhow::anyhow!("the client panicked"))?;
    assert_eq!(answer.with_context(|| stack.logs())?.status, 200);
    wait_for("the second proxy to end", PATIENCE, || {
        Ok(second_proxy(&stack)?.is_none().then_some(()))
    })
    .with_context(|| stack.logs())?;
    stack.controller.wait_for_output("proxy stopped", PATIENCE)?;
    Ok(())
}
