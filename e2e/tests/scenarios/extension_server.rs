//! An extension service in force: what it changes is served and asked about once, what it fails over stays as it was,
//! what is new meanwhile is closed, and all heals when it is back.

mod service;

use crate::{
    resources::route,
    statuses::{policy_says, route_says, wait_until_answered},
};
use anyhow::{Context as _, Result, ensure};
use e2e::{
    http::{self, Request},
    ports,
    process::wait_for,
    stack::{DataPlane, PATIENCE, Site, Stack},
    traffic::Traffic,
};
use service::{Says, Service};
use std::{fs, net::SocketAddr};

/// The host of the quickstart's route.
const HOST: &str = "www.example.com";

/// The quickstart, whose controller asks a service at a port. What stands in the manager beside it is given as lines.
fn site(port: u16, more: &str) -> Result<Site> {
    let site = Site::new()?;
    let config = fs::read_to_string(site.config())?;
    fs::write(site.config(), config + &manager(port, more))?;
    Ok(site)
}

fn manager(port: u16, more: &str) -> String {
    format!("\nextensionManager:\n  service: {{ ip: {{ address: 127.0.0.1, port: {port} }} }}\n{more}")
}

const HOOKS: &str = "  hooks: { xdsTranslator: { post: [Route, VirtualHost, HTTPListener, Cluster] } }\n";

fn named(name: &str) -> String {
    let head = format!("  hostnames: [{name}.example.com]\n");
    route("HTTPRoute", name, "{ name: quickstart }", &head, "echo")
}

/// A route that leads to another cluster than before.
fn renamed(name: &str) -> String {
    let retried = "rules:\n    - timeouts: { request: 20s }\n      backendRefs";
    named(name).replace("rules:\n    - backendRefs", retried)
}

/// Waits until a host's clients are told this for its route, and this for itself.
fn is_told(stack: &Stack, host: &str, by_route: Option<&str>, by_host: Option<&str>) -> Result<()> {
    wait_until_answered(stack, host, 200, ("x-by-route", by_route))?;
    wait_until_answered(stack, host, 200, ("x-by-host", by_host))
}

/// Waits until the status of a route says that it is kept back; or, for no words, that it isn't.
fn says(stack: &Stack, route: &str, why: Option<&str>) -> Result<()> {
    let found = wait_for("the status of the route", PATIENCE, || {
        let messages = route_says(&stack.status()?, route, "Programmed", "False");
        let is_so = match why {
            Some(why) => messages.iter().any(|message| message.contains(why)),
            None => messages.is_empty(),
        };
        ensure!(is_so, "it says {messages:?}");
        Ok(Some(()))
    });
    found.map(drop).with_context(|| stack.logs())
}

pub(crate) fn a_service_of_the_operator_changes_what_proxies_are_sent(plane: &DataPlane) -> Result<()> {
    let service = Service::default();
    let one = Says {
        by_route: "one",
        by_host: "host",
        ..Says::default()
    };
    service.say(one.clone());
    let [port] = ports::free()?;
    let peer = service.start_on(port)?;
    let mut stack = Stack::start_at(site(port, HOOKS)?, plane)?;
    is_told(&stack, HOST, Some("one www.example.com"), Some("host"))?;

    // What an edit doesn't touch costs no call.
    let n_before = (
        service.calls("/www/"),
        service.calls("Listener"),
        service.calls("Cluster"),
    );
    stack.put("other.yaml", &named("other"))?;
    is_told(&stack, "other.example.com", Some("one other.example.com"), Some("host"))?;
    let n_after = (
        service.calls("/www/"),
        service.calls("Listener"),
        service.calls("Cluster"),
    );
    ensure!(n_before == n_after, "{n_before:?} {n_after:?}");

    // What it fails over stays as it was, and the rest is served.
    let traffic = Traffic::start(stack.gateway(), "other.example.com", 2);
    service.say(Says {
        refused: Some("/other/"),
        by_route: "two",
        ..one.clone()
    });
    stack.put("other.yaml", &renamed("other"))?;
    says(&stack, "other", Some("nobody knows such routes"))?;
    stack.put("third.yaml", &named("third"))?;
    is_told(&stack, "third.example.com", Some("two third.example.com"), Some("host"))?;
    is_told(&stack, "other.example.com", Some("one other.example.com"), Some("host"))?;
    service.say(one.clone());
    says(&stack, "other", None)?;

    // Nobody is there: what serves goes on, what is new is closed.
    drop(peer);
    stack.put("fourth.yaml", &named("fourth"))?;
    stack.wait_for_status("fourth.example.com", "/", 500)?;
    says(&stack, "fourth", Some("can't be reached"))?;
    is_told(&stack, HOST, Some("one www.example.com"), Some("host"))?;
    traffic.stop_without_failure().with_context(|| stack.logs())?;
    let peer = service.start_on(port)?;
    is_told(
        &stack,
        "fourth.example.com",
        Some("one fourth.example.com"),
        Some("host"),
    )?;
    says(&stack, "fourth", None)?;

    // Without it, and allowed to: everything as it was made.
    drop(peer);
    stack.put("fifth.yaml", &named("fifth"))?;
    stack.wait_for_status("fifth.example.com", "/", 500)?;
    let config = fs::read_to_string(stack.site.config())?;
    fs::write(stack.site.config(), config + "  failOpen: true\n")?;
    is_told(&stack, "fifth.example.com", None, None)?;
    is_told(&stack, HOST, None, None)?;

    // Back again, it closes a cluster and bounds what the listener takes.
    service.say(Says {
        full: Some("echo"),
        head: Some(2),
        ..Says::default()
    });
    let _peer = service.start_on(port)?;
    stack.wait_for_status(HOST, "/", 503)?;
    let large = "x".repeat(4096);
    let request = Request {
        headers: &[("x-large", &large)],
        ..Request::get(HOST, "/")
    };
    let found = wait_for("a head that is too large", PATIENCE, || {
        Ok((http::send(stack.gateway(), &request)?.status == 431).then_some(()))
    });
    found.map(drop).with_context(|| stack.logs())
}

pub(crate) fn a_service_may_change_a_whole_fleet(plane: &DataPlane) -> Result<()> {
    let service = Service::default();
    service.say(Says {
        by_route: "one",
        ..Says::default()
    });
    let [port] = ports::free()?;
    let _peer = service.start_on(port)?;
    let hooks = "  hooks: { xdsTranslator: { post: [Translation], translation: { route: { includeAll: true } } } }\n";
    let stack = Stack::start_at(site(port, hooks)?, plane)?;
    let told = |told: &str| wait_until_answered(&stack, HOST, 200, ("x-by-route", Some(told)));
    told("one")?;
    service.say(Says {
        refused: Some("all"),
        ..Says::default()
    });
    stack.put("other.yaml", &named("other"))?;
    let found = wait_for("the status of the Gateway", PATIENCE, || {
        let text = stack.status()?.to_string();
        Ok(text.contains("answers Internal: not as it is").then_some(()))
    });
    found.with_context(|| stack.logs())?;
    told("one")?;
    service.say(Says {
        by_route: "two",
        ..Says::default()
    });
    told("two")?;
    wait_until_answered(&stack, "other.example.com", 200, ("x-by-route", Some("two")))
}

pub(crate) fn a_service_that_is_named_and_not_there_stops_nothing(plane: &DataPlane) -> Result<()> {
    let mut stack = Stack::start(plane)?;
    let traffic = Traffic::start(stack.gateway(), HOST, 2);
    let [port] = ports::free()?;
    let config = fs::read_to_string(stack.site.config())?;
    fs::write(stack.site.config(), config.clone() + &manager(port, HOOKS))?;
    says(&stack, "www", Some("can't be reached"))?;
    stack.put("other.yaml", &named("other"))?;
    stack.wait_for_status("other.example.com", "/", 500)?;
    fs::write(stack.site.config(), config)?;
    stack.wait_for_status("other.example.com", "/", 200)?;
    says(&stack, "www", None)?;
    traffic.stop_without_failure().with_context(|| stack.logs()).map(drop)
}

/// An object of a kind that only the service knows.
fn object(kind: &str, name: &str, says: &str) -> String {
    format!(
        "apiVersion: sample.example.com/v1\nkind: {kind}\nmetadata: {{ name: {name} }}\nspec: {{ says: \"{says}\" }}\n---\n"
    )
}

/// A route whose filters refer to objects.
fn referring(name: &str, to: &[(&str, &str)]) -> String {
    let filters = to.iter().map(|(kind, object)| {
        format!("{{ type: ExtensionRef, extensionRef: {{ group: sample.example.com, kind: {kind}, name: {object} }} }}")
    });
    let filters: Vec<String> = filters.collect();
    let filtered = format!("rules:\n    - filters: [{}]\n      backendRefs", filters.join(", "));
    named(name).replace("rules:\n    - backendRefs", &filtered)
}

pub(crate) fn a_service_is_shown_the_objects_that_routes_refer_to(plane: &DataPlane) -> Result<()> {
    let service = Service::default();
    let [port] = ports::free()?;
    let _peer = service.start_on(port)?;
    let kinds = |kinds: &[&str]| {
        let named = kinds
            .iter()
            .map(|kind| format!("{{ group: sample.example.com, version: v1, kind: {kind} }}"));
        format!("{HOOKS}  resources: [{}]\n", named.collect::<Vec<_>>().join(", "))
    };
    let mut stack = Stack::start_at(site(port, &kinds(&["Cache"]))?, plane)?;
    stack.put(
        "objects.yaml",
        &(object("Cache", "long", "60") + &object("Other", "far", "x")),
    )?;
    let to_both = [("Cache", "long"), ("Cache", "short")];
    stack.put("cached.yaml", &referring("cached", &to_both))?;
    let shown = |host: &str, shown: Option<&str>| wait_until_answered(&stack, host, 200, ("x-shown", shown));

    // One that isn't there closes the rule, and the route says so.
    let missing = |stack: &Stack, name: &str| {
        let found = wait_for("the status of the route", PATIENCE, || {
            let messages = route_says(&stack.status()?, "cached", "ResolvedRefs", "False");
            let is_told = messages
                .iter()
                .any(|message| message.contains(&format!("/{name} not found")));
            ensure!(is_told, "it says {messages:?}");
            Ok(Some(()))
        });
        found.map(drop).with_context(|| stack.logs())
    };
    missing(&stack, "short")?;
    wait_until_answered(&stack, "cached.example.com", 500, ("x-shown", None))?;
    stack.put("more.yaml", &object("Cache", "short", "1"))?;
    shown("cached.example.com", Some("long=60,short=1"))?;
    shown(HOST, None)?;

    // The route is the same, the object is another.
    stack.put("more.yaml", &object("Cache", "short", "2"))?;
    shown("cached.example.com", Some("long=60,short=2"))?;
    stack.remove("more.yaml")?;
    wait_until_answered(&stack, "cached.example.com", 500, ("x-shown", None))?;
    stack.put("more.yaml", &object("Cache", "short", "3"))?;
    shown("cached.example.com", Some("long=60,short=3"))?;

    // Objects of a kind that is named from now on have been there before.
    stack.put("other.yaml", &referring("other", &[("Other", "far")]))?;
    stack.wait_for_status("other.example.com", "/", 500)?;
    let config = fs::read_to_string(stack.site.config())?;
    fs::write(
        stack.site.config(),
        config.replace(&kinds(&["Cache"]), &kinds(&["Cache", "Other"])),
    )?;
    wait_until_answered(&stack, "other.example.com", 200, ("x-shown", Some("far=x")))
}

/// A policy that only the service knows.
fn policy(name: &str, says: &str, (kind, target): (&str, &str)) -> String {
    format!(
        "apiVersion: sample.example.com/v1\nkind: Limit\nmetadata: {{ name: {name} }}\nspec:\n  says: \"{says}\"\n  \
         targetRefs: [{{ group: gateway.networking.k8s.io, kind: {kind}, name: {target} }}]\n---\n"
    )
}

pub(crate) fn a_service_is_shown_policies_for_routes_and_listeners(plane: &DataPlane) -> Result<()> {
    let service = Service::default();
    let [port] = ports::free()?;
    let _peer = service.start_on(port)?;
    let kinds = "  policyResources: [{ group: sample.example.com, version: v1, kind: Limit }]\n";
    let stack = Stack::start_at(site(port, &format!("{HOOKS}{kinds}"))?, plane)?;
    stack.put("other.yaml", &named("other"))?;
    let policies = |host: &str, told: Option<&str>| wait_until_answered(&stack, host, 200, ("x-policies", told));
    policies("other.example.com", None)?;
    stack.put("policies.yaml", &policy("one", "5", ("HTTPRoute", "other")))?;
    policies("other.example.com", Some("one=5"))?;
    policies(HOST, None)?;
    let says = |name: &str| {
        let found = wait_for("the status of the policy", PATIENCE, || {
            let messages = policy_says(&stack.status()?, ["Limit", name, "Accepted", "True"]);
            ensure!(messages.len() == 1, "it says {messages:?}");
            Ok(Some(()))
        });
        found.map(drop).with_context(|| stack.logs())
    };
    says("one")?;

    // The policy is another, the route is the same.
    stack.put("policies.yaml", &policy("one", "7", ("HTTPRoute", "other")))?;
    policies("other.example.com", Some("one=7"))?;

    // One for the Gateway goes with its socket.
    stack.put("more.yaml", &policy("all", "9", ("Gateway", "quickstart")))?;
    says("all")?;
    let found = wait_for("a listener with its policy", PATIENCE, || {
        Ok((service.calls(" with all=9") > 0).then_some(()))
    });
    found.with_context(|| stack.logs())?;
    stack.remove("policies.yaml")?;
    policies("other.example.com", None)
}

/// A route to a backend that only the service knows.
fn pooled(name: &str, kind: &str) -> String {
    named(name).replace(
        "{ group: gateway.edge, kind: Backend, name: echo }",
        &format!("{{ group: sample.example.com, kind: {kind}, name: far }}"),
    )
}

pub(crate) fn a_service_says_where_backends_are_that_it_knows(plane: &DataPlane) -> Result<()> {
    let service = Service::default();
    let [port, nobody] = ports::free()?;
    let _peer = service.start_on(port)?;
    let kinds = |kinds: &[&str]| {
        let named = kinds
            .iter()
            .map(|kind| format!("{{ group: sample.example.com, version: v1, kind: {kind} }}"));
        let named: Vec<_> = named.collect();
        format!(
            "  hooks: {{ xdsTranslator: {{ post: [Cluster, Endpoints] }} }}\n  backendResources: [{}]\n",
            named.join(", ")
        )
    };
    let mut stack = Stack::start_at(site(port, &kinds(&["Pool"]))?, plane)?;
    let backend = stack.site.start_another_echo()?;
    let at = |port: u16| object("Pool", "far", &port.to_string());
    let host = "pooled.example.com";
    stack.put("pooled.yaml", &pooled("pooled", "Pool"))?;

    // One that isn't there closes the rule, and the route says so.
    stack.wait_for_status(host, "/", 500)?;
    let says = |stack: &Stack, name: &str, wanted: &str| {
        let found = wait_for("the status of the route", PATIENCE, || {
            let messages = route_says(&stack.status()?, name, "ResolvedRefs", "False");
            let is_told = messages.iter().any(|message| message.contains(wanted));
            ensure!(is_told, "it says {messages:?}");
            Ok(Some(()))
        });
        found.map(drop).with_context(|| stack.logs())
    };
    says(&stack, "pooled", "custom backend Pool default/far not found")?;

    // The service is shown the object with the cluster and its endpoints, and says where it is.
    let traffic = Traffic::start(stack.gateway(), HOST, 2);
    stack.put("pool.yaml", &at(backend.port))?;
    stack.wait_for_status(host, "/", 200)?;
    let about = format!("far for far={}", backend.port);
    ensure!(service.calls(&about) > 0, "it wasn't shown the object with the cluster");

    // The cluster is the same, the object is another.
    stack.put("pool.yaml", &at(nobody))?;
    stack.wait_for_status(host, "/", 503)?;
    stack.put("pool.yaml", &at(backend.port))?;
    stack.wait_for_status(host, "/", 200)?;
    // What it fails over stays as it was.
    stack.put("pool.yaml", &object("Pool", "far", "somewhere"))?;
    let found = wait_for("the service to fail over it", PATIENCE, || {
        let metrics = SocketAddr::from(([127, 0, 0, 1], stack.site.ports.metrics));
        let told = http::send(metrics, &Request::get("metrics", "/metrics"))?;
        Ok(String::from_utf8_lossy(&told.body)
            .contains("extension_held 1")
            .then_some(()))
    });
    found.with_context(|| stack.logs())?;
    stack.wait_for_status(host, "/", 200)?;
    stack.remove("pool.yaml")?;
    stack.wait_for_status(host, "/", 500)?;
    stack.put("pool.yaml", &at(backend.port))?;
    stack.wait_for_status(host, "/", 200)?;

    // A kind that is named from now on.
    stack.put("other.yaml", &pooled("other", "Other"))?;
    stack.put("far.yaml", &object("Other", "far", &backend.port.to_string()))?;
    says(&stack, "other", "Group is invalid")?;
    let config = fs::read_to_string(stack.site.config())?;
    fs::write(
        stack.site.config(),
        config.replace(&kinds(&["Pool"]), &kinds(&["Pool", "Other"])),
    )?;
    stack.wait_for_status("other.example.com", "/", 200)?;
    traffic.stop_without_failure().with_context(|| stack.logs()).map(drop)
}
