//! Rules of who may do what.

use super::{Guarded, HOST, get};
use crate::{
    backends,
    resources::{backend, gateway, listener, route, security_policy},
};
use anyhow::{Result, ensure};
use e2e::{
    http::{self, Request},
    ports,
    stack::{DataPlane, Stack},
};
use std::{
    io::Read as _,
    net::{Ipv4Addr, SocketAddr},
};

pub(crate) fn rules_decide_who_may_do_what(plane: &DataPlane) -> Result<()> {
    let www = Guarded::start(plane)?;
    let allow = |rule: &str| {
        www.guard(&format!(
            "  authorization: {{ defaultAction: Deny, rules: [{{ action: Allow, {rule} }}] }}\n"
        ))
    };
    let post = Request {
        method: "POST",
        ..get(&[("content-length", "0")])
    };
    let inside = Request::get(HOST, "/inside/page");
    allow("principal: { clientCIDRs: [192.0.2.0/24] }")?;
    www.answers(&get(&[]), 403)?;
    allow("principal: { clientCIDRs: [127.0.0.0/8] }")?;
    www.answers(&get(&[]), 200)?;
    allow("principal: { headers: [{ name: x-team, values: [red, blue] }] }")?;
    www.answers(&get(&[]), 403)?;
    www.answers(&get(&[("x-team", "green")]), 403)?;
    www.answers(&get(&[("x-team", "blue")]), 200)?;
    allow("operation: { methods: [POST] }, principal: { clientCIDRs: [127.0.0.1/32] }")?;
    www.answers(&get(&[("x-team", "blue")]), 403)?;
    www.answers(&post, 200)?;
    allow("operation: { path: { value: /inside } }, principal: { clientCIDRs: [127.0.0.1/32] }")?;
    www.answers(&post, 403)?;
    www.answers(&inside, 200)?;

    // Nobody knows what this was to mean, so nobody is let in.
    allow("principal: { clientCIDRs: [somewhere] }")?;
    www.closes(&get(&[]), 500)?;
    www.answers(&inside, 500)?;
    www.is_refused_for("Authorization")?;
    www.open()
}

/// Rules with expressions.
pub(crate) fn rules_decide_by_expressions(plane: &DataPlane) -> Result<()> {
    let www = Guarded::start(plane)?;
    let rules = |rules: &str| {
        www.guard(&format!(
            "  authorization: {{ defaultAction: Deny, rules: [{rules}] }}\n"
        ))
    };
    let [red, blue] = ["red", "blue"].map(|team| [("x-team", team)]);
    let inside = Request::get(HOST, "/inside/page?a=b");
    rules(
        r#"{ action: Allow, cel: "request.headers['x-team'] == 'red' || request.url_path.startsWith('/inside/')" }"#,
    )?;
    www.answers(&get(&red), 200)?;
    www.answers(&get(&blue), 403)?;
    // What a request doesn't have can't be compared.
    www.answers(&get(&[]), 403)?;
    www.answers(&inside, 200)?;

    // The first rule that matches decides, whichever of them has an expression.
    rules(
        r#"{ action: Deny, principal: { headers: [{ name: x-team, values: [red] }] }, cel: "request.method == 'GET'" },
           { action: Allow, cel: "has(request.headers.host) || 'x-team' in request.headers" }"#,
    )?;
    www.answers(&get(&red), 403)?;
    www.answers(&get(&blue), 200)?;
    let post = Request {
        method: "POST",
        ..get(&[("content-length", "0"), ("x-team", "red")])
    };
    www.answers(&post, 200)?;

    // What a request doesn't have matches no rule, be it one that denies.
    www.guard(
        "  authorization: { defaultAction: Allow, rules: [{ action: Deny, cel: \"request.headers['x-team'] == 'red'\" }] }\n",
    )?;
    www.answers(&get(&red), 403)?;
    www.answers(&get(&blue), 200)?;
    www.answers(&get(&[]), 200)?;

    // What no proxy evaluates lets nobody through.
    rules(r#"{ action: Allow, cel: "['red'].exists(team, team == request.headers['x-team'])" }"#)?;
    www.closes(&get(&red), 500)?;
    www.is_refused_for("proxies run no loops")?;
    www.open()
}

/// A policy of a TCPRoute: a connection that is refused ends without a byte, also of a backend that speaks first.
pub(crate) fn connections_are_let_in_by_address(plane: &DataPlane) -> Result<()> {
    let stack = Stack::start(plane)?;
    let [answering, greeting] = ports::free()?;
    let at = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let listeners = [
        listener("lines", "TCP", answering),
        listener("greetings", "TCP", greeting),
    ];
    let resources = [
        gateway("streams", &listeners),
        route(
            "TCPRoute",
            "lines",
            "{ name: streams, sectionName: lines }",
            "",
            "lines",
        ),
        backend("lines", backends::tcp()?),
        route(
            "TCPRoute",
            "greetings",
            "{ name: streams, sectionName: greetings }",
            "",
            "greetings",
        ),
        backend("greetings", backends::greeting(b"hi")?),
    ];
    stack.put("streams.yaml", &resources.concat())?;
    let hears = |answer: &str, words: &str| {
        stack.look_until(&format!("{answer:?} and {words:?} over TCP"), || {
            // A connection may be reset as well as ended.
            let answered = backends::say(http::connect(at(answering))?, "hello").unwrap_or_default();
            let mut greeted = String::new();
            let _ = http::connect(at(greeting))?.read_to_string(&mut greeted);
            ensure!(
                (&*answered, &*greeted) == (answer, words),
                "the last answers were {answered:?} and {greeted:?}"
            );
            Ok(Some(()))
        })
    };
    let guard = |rules: &str| {
        let policy = |name: &str| {
            let target = format!("{{ group: gateway.networking.k8s.io, kind: TCPRoute, name: {name} }}");
            security_policy(name, &target, &format!("  authorization: {{ {rules} }}\n"))
        };
        stack.put("policy.yaml", &[policy("lines"), policy("greetings")].concat())
    };
    let allow = |cidr: &str| {
        guard(&format!(
            "defaultAction: Deny, rules: [{{ action: Allow, principal: {{ clientCIDRs: [{cidr}] }} }}]"
        ))
    };
    let deny = |cidr: &str| {
        guard(&format!(
            "defaultAction: Allow, rules: [{{ action: Deny, principal: {{ clientCIDRs: [{cidr}] }} }}]"
        ))
    };
    hears("HELLO", "hi")?;
    allow("192.0.2.0/24")?;
    hears("", "")?;
    allow("127.0.0.1/32")?;
    hears("HELLO", "hi")?;
    deny("127.0.0.0/8")?;
    hears("", "")?;
    deny("192.0.2.0/24")?;
    hears("HELLO", "hi")?;
    allow("somewhere")?;
    hears("", "")?;
    stack.remove("policy.yaml")?;
    hears("HELLO", "hi")
}
