//! Changes while requests come without pause: not one of them fails.

use crate::resources::{backend, gateway, listener, route};
use anyhow::{Context as _, Result};
use e2e::{
    ports,
    process::wait_for,
    stack::{DataPlane, PATIENCE, Stack},
    tls::{self, Authority},
    traffic::Traffic,
};
use std::{fs, net::Ipv4Addr};

const CLIENTS: usize = 4;
/// Answers that are waited for between two changes, so that each of them meets traffic.
const BETWEEN: u64 = 20;

pub(crate) fn edits_under_load_fail_no_request(plane: &DataPlane) -> Result<()> {
    let mut stack = Stack::start(plane)?;
    let second_echo = stack.site.start_another_echo()?;
    let traffic = Traffic::start(stack.gateway(), "www.example.com", CLIENTS);
    let www = fs::read_to_string(stack.site.watched().join("www.yaml"))?;
    let moved = www.replace(
        &format!("port: {}", stack.site.ports.echo),
        &format!("port: {}", second_echo.port),
    );
    let named = |name: &str| {
        let head = format!("  hostnames: [{name}.example.com]\n");
        route("HTTPRoute", name, "{ name: quickstart }", &head, "echo")
    };
    for round in 0..5 {
        let other = format!("other-{round}");
        stack.put("other.yaml", &named(&other))?;
        stack.wait_for_status(&format!("{other}.example.com"), "/", 200)?;
        traffic.wait_for_more(BETWEEN, PATIENCE)?;
        // The endpoint of the route under load moves to another process and back.
        stack.put("www.yaml", if round % 2 == 0 { &moved } else { &www })?;
        traffic.wait_for_more(BETWEEN, PATIENCE)?;
        stack.remove("other.yaml")?;
        stack.wait_for_status(&format!("{other}.example.com"), "/", 404)?;
    }
    // Another Gateway comes and goes.
    let [port] = ports::free()?;
    let second = gateway("second", &[listener("http", "HTTP", port)]) + &backend("spare", stack.site.ports.echo);
    stack.put("second.yaml", &second)?;
    traffic.wait_for_more(BETWEEN, PATIENCE)?;
    stack.remove("second.yaml")?;
    traffic.wait_for_more(BETWEEN, PATIENCE)?;
    traffic.stop_without_failure().with_context(|| stack.logs())?;
    Ok(())
}

pub(crate) fn a_certificate_is_rotated_without_a_failed_request(plane: &DataPlane) -> Result<()> {
    let stack = Stack::start(plane)?;
    let host = "www.example.com";
    let (old, new) = (Authority::new()?, Authority::new()?);
    let gateway = fs::read_to_string(stack.site.watched().join("gateway.yaml"))?;
    stack.put("secret.yaml", &old.secret("www", host)?)?;
    stack.put(
        "gateway.yaml",
        &(gateway + &tls::listener("www", host, stack.site.ports.https)),
    )?;
    let address = (Ipv4Addr::LOCALHOST, stack.site.ports.https).into();
    let serves = |authority: &Authority| {
        wait_for("an answer over TLS", PATIENCE, || {
            let answer = authority.get(address, host, "/")?;
            Ok((answer.status == 200).then_some(()))
        })
        .with_context(|| stack.logs())
    };
    serves(&old)?;
    // Plain HTTP on the same Gateway must not notice either.
    let traffic = Traffic::start(stack.gateway(), host, CLIENTS);
    stack.put("secret.yaml", &new.secret("www", host)?)?;
    serves(&new)?;
    assert!(
        old.get(address, host, "/").is_err(),
        "the old certificate is still shown"
    );
    traffic.stop_without_failure().with_context(|| stack.logs())?;
    Ok(())
}

pub(crate) fn the_configuration_is_reloaded_under_load(plane: &DataPlane) -> Result<()> {
    let mut stack = Stack::start(plane)?;
    let config = fs::read_to_string(stack.site.config())?;
    let traffic = Traffic::start(stack.gateway(), "www.example.com", CLIENTS);
    fs::write(stack.site.config(), "kind: EdgeGateway\nnonsense: true\n")?;
    stack
        .controller
        .wait_for_output("the running configuration stays in force", PATIENCE)?;
    traffic.wait_for_more(BETWEEN, PATIENCE)?;
    // Without kind Backend the route has nowhere to send to; with it again, it has.
    fs::write(
        stack.site.config(),
        config.replace("enableBackend: true", "enableBackend: false"),
    )?;
    let outcome = {
        stack.wait_for_status("www.example.com", "/", 500)?;
        traffic.stop()?
    };
    let others: Vec<_> = outcome.failures.iter().filter(|f| *f != "status 500").collect();
    assert!(others.is_empty(), "{others:?}");
    fs::write(stack.site.config(), config)?;
    stack.wait_for_status("www.example.com", "/", 200)?;
    Ok(())
}

/// The xDS server begins again with other settings: proxies come back to it, and miss no change.
pub(crate) fn the_xds_server_is_changed_under_load(plane: &DataPlane) -> Result<()> {
    let mut stack = Stack::start(plane)?;
    let config = fs::read_to_string(stack.site.config())?;
    let traffic = Traffic::start(stack.gateway(), "www.example.com", CLIENTS);
    for age in ["10m", "20m"] {
        let name = format!("after-{age}");
        let changed = format!("{config}\nxdsServer: {{ maxConnectionAge: {age}, maxReceiveMessageSize: 8Mi }}\n");
        let printed = stack.controller.output().len();
        fs::write(stack.site.config(), changed)?;
        stack
            .controller
            .wait_for_output_after(printed, "the configuration has changed", PATIENCE)?;
        let head = format!("  hostnames: [{name}.example.com]\n");
        stack.put(
            "other.yaml",
            &route("HTTPRoute", &name, "{ name: quickstart }", &head, "echo"),
        )?;
        stack.wait_for_status(&format!("{name}.example.com"), "/", 200)?;
        traffic.wait_for_more(BETWEEN, PATIENCE)?;
    }
    traffic.stop_without_failure().with_context(|| stack.logs())?;
    Ok(())
}
