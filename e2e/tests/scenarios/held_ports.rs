//! Ports that somebody else on the machine holds: the listener says whose it is, nobody shares it at random, and it is
//! served once it is free.

use crate::{
    resources::{gateway, listener, route},
    statuses::listener_says,
};
use anyhow::{Context as _, Result, ensure};
use e2e::{
    http::{self, Request},
    ports,
    process::{Signal, wait_for},
    stack::{DataPlane, PATIENCE, Site, Stack},
};
use std::net::{Ipv4Addr, TcpListener};

/// A Gateway on a port, with a route of its own to the echo backend.
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

/// Waits until the listener of the second Gateway says that a port is held, and by whom.
fn wait_until_held(stack: &Stack, holder: &str) -> Result<()> {
    wait_for(&format!("a port that is held by {holder}"), PATIENCE, || {
        let message = listener_says(&stack.status()?, "second", "Accepted", "False");
        Ok(message.filter(|message| message.contains(holder)).map(drop))
    })
    .with_context(|| stack.logs())?;
    Ok(())
}

fn wait_until_served(stack: &Stack, port: u16) -> Result<()> {
    wait_for("the port to be served", PATIENCE, || {
        Ok((status_at(port, "second.example.com")? == 200).then_some(()))
    })
    .with_context(|| stack.logs())?;
    wait_for("the listener to be programmed", PATIENCE, || {
        Ok(listener_says(&stack.status()?, "second", "Programmed", "True").map(drop))
    })
    .with_context(|| stack.logs())?;
    Ok(())
}

fn status_at(port: u16, host: &str) -> Result<u16> {
    let answer = http::send((Ipv4Addr::LOCALHOST, port).into(), &Request::get(host, "/"))?;
    Ok(answer.status)
}

pub(crate) fn a_port_in_use_is_told_and_served_once_it_is_free(plane: &DataPlane) -> Result<()> {
    let mut stack = Stack::start(plane)?;
    let [port] = ports::free()?;
    let taken = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))?;
    stack.put("second.yaml", &second(port))?;
    wait_until_held(&stack, &format!("held by process {} (", std::process::id()))?;
    assert_eq!(stack.get("www.example.com", "/")?.status, 200);
    drop(taken);
    wait_until_served(&stack, port)?;
    stack.wait_for_status("www.example.com", "/", 200)?;
    Ok(())
}

/// Proxies share ports by SO_REUSEPORT: without a look before they bind, each controller's would get some connections.
pub(crate) fn a_port_belongs_to_one_controller(plane: &DataPlane) -> Result<()> {
    let mut first = Stack::start(plane)?;
    let second_stack = Stack::start_at(Site::new()?, plane)?;
    let port = first.site.ports.gateway;
    let proxy = first.proxy()?;
    second_stack.put("second.yaml", &second(port))?;
    let holder = format!("held by process {proxy} (");
    wait_until_held(&second_stack, &holder)?;
    let nobody_else_answers = || {
        for _ in 0..40 {
            ensure!(status_at(port, "www.example.com")? == 200, "somebody else answers");
        }
        Ok(())
    };
    nobody_else_answers()?;

    // What a killed controller has left keeps its port, and its next controller knows it again.
    first.controller.signal(Signal::Kill)?;
    first.controller.wait(PATIENCE)?;
    nobody_else_answers()?;
    first.controller = first.site.start_controller(plane)?;
    wait_for("the first Gateway to be programmed again", PATIENCE, || {
        Ok(listener_says(&first.status()?, "quickstart", "Programmed", "True").map(drop))
    })
    .with_context(|| first.logs())?;
    assert_eq!(first.proxy()?, proxy, "the proxy was replaced");
    wait_until_held(&second_stack, &holder)?;
    nobody_else_answers()?;

    first.interrupt()?;
    wait_until_served(&second_stack, port)
}
