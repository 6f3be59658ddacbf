//! What only a data plane refuses: the object says so, nobody else notices, and the edit that takes it back heals it.
//!
//! An RSA key of 1024 bits is a certificate like any other to the API, and to no proxy.

use crate::{
    resources::route,
    statuses::{listener_says, route_says},
};
use anyhow::{Context as _, Result, ensure};
use e2e::{
    process::{self, Signal, wait_for},
    stack::{DataPlane, PATIENCE, Site, Stack},
    tls::{self, Authority},
    traffic::Traffic,
};
use std::{fs, net::Ipv4Addr};

const HOST: &str = "www.example.com";
const CERTIFICATE: &str = include_str!("weak/tls.crt");
const KEY: &str = include_str!("weak/tls.key");

fn weak_secret() -> String {
    let block = |pem: &str| pem.lines().map(|line| format!("    {line}\n")).collect::<String>();
    format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{ name: www, namespace: default }}\ntype: kubernetes.io/tls\n\
         stringData:\n  tls.crt: |\n{}  tls.key: |\n{}",
        block(CERTIFICATE),
        block(KEY)
    )
}

fn named(name: &str) -> String {
    let head = format!("  hostnames: [{name}.example.com]\n");
    route("HTTPRoute", name, "{ name: quickstart }", &head, "echo")
}

fn wait_until_rejected(stack: &Stack) -> Result<()> {
    wait_for("the rejection in the status", PATIENCE, || {
        let message = listener_says(&stack.status()?, "quickstart", "Programmed", "False");
        Ok(message.filter(|message| message.contains("ejected")).map(drop))
    })
    .with_context(|| stack.logs())?;
    Ok(())
}

pub(crate) fn what_a_proxy_rejects_harms_nobody_and_heals_with_its_edit(plane: &DataPlane) -> Result<()> {
    let mut stack = Stack::start(plane)?;
    let authority = Authority::new()?;
    let address = (Ipv4Addr::LOCALHOST, stack.site.ports.https).into();
    let gateway = fs::read_to_string(stack.site.watched().join("gateway.yaml"))?;
    stack.put("secret.yaml", &authority.secret("www", HOST)?)?;
    stack.put(
        "gateway.yaml",
        &(gateway + &tls::listener("www", HOST, stack.site.ports.https)),
    )?;
    let serves_tls = |stack: &Stack| {
        wait_for("an answer over TLS", PATIENCE, || {
            Ok((authority.get(address, HOST, "/")?.status == 200).then_some(()))
        })
        .with_context(|| stack.logs())
    };
    serves_tls(&stack)?;

    let traffic = Traffic::start(stack.gateway(), HOST, 2);
    stack.put("secret.yaml", &weak_secret())?;
    wait_until_rejected(&stack)?;
    ensure!(
        authority.get(address, HOST, "/")?.status == 200,
        "the last good certificate serves"
    );
    stack.put("other.yaml", &named("other"))?;
    stack.wait_for_status("other.example.com", "/", 200)?;
    traffic.stop_without_failure().with_context(|| stack.logs())?;

    // A proxy that starts now gets everything else.
    replace_proxy(&stack)?;
    stack.wait_for_status("other.example.com", "/", 200)?;
    wait_until_rejected(&stack)?;
    ensure!(
        authority.get(address, HOST, "/").is_err(),
        "a weak certificate is served"
    );

    stack.put("secret.yaml", &authority.secret("www", HOST)?)?;
    serves_tls(&stack)?;
    wait_for("the status to be good again", PATIENCE, || {
        Ok(listener_says(&stack.status()?, "quickstart", "Programmed", "False")
            .is_none()
            .then_some(()))
    })
    .with_context(|| stack.logs())?;
    Ok(())
}

/// Kills the proxy, and waits for the one that the controller starts instead.
fn replace_proxy(stack: &Stack) -> Result<()> {
    let proxy = stack.proxy()?;
    process::signal(proxy, Signal::Kill)?;
    wait_for(
        "another proxy",
        PATIENCE,
        || Ok((stack.proxy()? != proxy).then_some(())),
    )
    .map(drop)
}

/// An expression that every proxy takes, unless its operator allows less.
fn expression(pattern: &str) -> String {
    let head = "  hostnames: [poison.example.com]\n";
    let text = route("HTTPRoute", "poison", "{ name: quickstart }", head, "echo");
    let matches =
        |kind: &str, path: &str| format!("- matches: [{{ path: {{ type: {kind}, value: {path} }} }}]\n      ");
    let (first, backend) = text.split_once("- backendRefs").unwrap();
    let rule = |kind: &str, path: &str| format!("{}backendRefs{backend}", matches(kind, path));
    format!(
        "{first}{}    {}",
        rule("RegularExpression", pattern),
        rule("PathPrefix", "/plain")
    )
}

/// Stock Envoy whose operator allows small expressions only, by its bootstrap: the translation takes one that this
/// proxy refuses, and with it the whole route table.
#[test]
fn a_route_table_that_envoy_refuses_costs_its_rule_and_heals_with_its_edit() -> Result<()> {
    let site = Site::new()?;
    let config = fs::read_to_string(site.config())?;
    let limit = "/layered_runtime/layers/0/static_layer/re2.max_program_size.error_level";
    let patch = format!("{{ op: replace, path: {limit}, value: 100 }}");
    let config = format!("{config}\nedgeProxy: {{ bootstrap: {{ type: JSONPatch, jsonPatches: [{patch}] }} }}\n");
    fs::write(site.config(), config)?;
    let mut stack = Stack::start_at(site, &DataPlane::envoy()?)?;
    let says = |stack: &Stack| Ok::<_, anyhow::Error>(route_says(&stack.status()?, "poison", "Programmed", "False"));
    let wait_until_told = |stack: &Stack| {
        wait_for("the rejection in the status", PATIENCE, || {
            let messages = says(stack)?;
            let told = messages
                .iter()
                .any(|message| message.contains("rule/0") && message.contains("program size"));
            Ok(told.then_some(()))
        })
        .map(drop)
        .with_context(|| stack.logs())
    };

    let traffic = Traffic::start(stack.gateway(), HOST, 2);
    stack.put("poison.yaml", &expression("'/items/[a-z]{200}'"))?;
    wait_until_told(&stack)?;
    stack.put("other.yaml", &named("other"))?;
    stack.wait_for_status("other.example.com", "/", 200)?;
    traffic.stop_without_failure().with_context(|| stack.logs())?;
    assert_eq!(route_says(&stack.status()?, "other", "Programmed", "False"), [""; 0]);

    // A proxy that starts now gets everything else.
    replace_proxy(&stack)?;
    stack.wait_for_status("other.example.com", "/", 200)?;
    wait_until_told(&stack)?;

    stack.put("poison.yaml", &expression("'/items/[a-z]+'"))?;
    stack.wait_for_status("poison.example.com", "/items/apple", 200)?;
    stack.wait_for_status("poison.example.com", "/plain", 200)?;
    wait_for("the status to be good again", PATIENCE, || {
        Ok(says(&stack)?.is_empty().then_some(()))
    })
    .with_context(|| stack.logs())?;
    Ok(())
}
