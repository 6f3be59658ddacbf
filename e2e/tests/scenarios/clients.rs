//! What a ClientTrafficPolicy says of clients acts, on stock Envoy where edge-proxy refuses it, the edit that takes it
//! away takes it back, and what can't be honoured closes the listener.

use crate::{
    backends,
    resources::{backend, gateway, listener, route},
    statuses::wait_until_said,
};
use anyhow::{Result, ensure};
use e2e::{
    http::{self, Request, Response},
    ports,
    stack::{DataPlane, Stack},
    tls::{self, Authority, Identity},
};
use std::{
    fs,
    io::{BufRead as _, BufReader, ErrorKind, Read, Write},
    net::{Ipv4Addr, TcpStream},
    time::Duration,
};

const HOST: &str = "www.example.com";
const FILE: &str = "clients.yaml";
/// An address that is none of ours.
const CLIENT: &str = "203.0.113.7";

/// A policy of the quickstart's Gateway. Fields are lines of its spec.
fn policy(fields: &str) -> String {
    format!(
        "---\napiVersion: gateway.edge/v1alpha1\nkind: ClientTrafficPolicy\n\
         metadata: {{ name: clients, namespace: default }}\nspec:\n  \
         targetRefs: [{{ group: gateway.networking.k8s.io, kind: Gateway, name: quickstart }}]\n{fields}"
    )
}

/// Waits for something. Workers take an edit one by one, so what goes with it is part of what is waited for.
fn until(stack: &Stack, what: &str, mut holds: impl FnMut() -> Result<bool>) -> Result<()> {
    stack.look_until(what, || Ok(holds()?.then_some(())))
}

/// Shows that nobody is served while the policy says what can't be honoured, as its status tells.
fn fails_closed(stack: &Stack, fields: &str, why: &str) -> Result<()> {
    stack.put(FILE, &policy(fields))?;
    until(stack, "everybody to be refused", || {
        Ok(stack.get(HOST, "/")?.status == 500)
    })?;
    wait_until_said(stack, ["ClientTrafficPolicy", "clients", "Accepted", "False"], why)
}

/// The values of a header that the backend was sent.
fn seen(answer: &Response, header: &str) -> Result<Vec<String>> {
    ensure!(answer.status == 200, "status {}", answer.status);
    let values = answer.json()?["headers"][header].as_array().cloned();
    let values = values.unwrap_or_default().into_iter();
    Ok(values.filter_map(|value| value.as_str().map(str::to_owned)).collect())
}

fn get_with(stack: &Stack, host: &str, headers: &[(&str, &str)]) -> Result<Response> {
    let request = Request {
        headers,
        ..Request::get(host, "/")
    };
    stack.send(&request)
}

pub(crate) fn connections_tell_whose_they_are(plane: &DataPlane) -> Result<()> {
    let stack = Stack::start(plane)?;
    let plain = || stack.get(HOST, "/");
    let told = || {
        let mut stream = http::connect(stack.gateway())?;
        stream.write_all(format!("PROXY TCP4 {CLIENT} 192.0.2.1 5000 80\r\n").as_bytes())?;
        http::exchange(stream, &Request::get(HOST, "/"))
    };
    let is_known = || -> Result<bool> { Ok(seen(&told()?, "X-Forwarded-For")? == [CLIENT]) };

    stack.put(FILE, &policy("  proxyProtocol: {}\n"))?;
    until(&stack, "a client by its PROXY header alone", || {
        Ok(is_known()? && plain().is_err())
    })?;

    stack.put(FILE, &policy("  proxyProtocol: { optional: true }\n"))?;
    until(&stack, "a client without PROXY header too", || {
        Ok(plain()?.status == 200 && is_known()?)
    })?;

    fails_closed(&stack, "  proxyProtocol: { optional: perhaps }\n", "proxyProtocol")?;
    stack.remove(FILE)?;
    until(&stack, "PROXY headers to be nonsense", || {
        Ok(told()?.status == 400 && plain()?.status == 200)
    })
}

/// Through a TCP listener, whose backend is told in the same way: it answers each line in capitals, the header's too.
pub(crate) fn backends_are_told_whose_connections_they_get(plane: &DataPlane) -> Result<()> {
    let stack = Stack::start(plane)?;
    let [port] = ports::free()?;
    let about = |kind: &str, name: &str, target: &str, fields: &str| {
        format!(
            "---\napiVersion: gateway.edge/v1alpha1\nkind: {kind}\nmetadata: {{ name: {name}, namespace: default }}\n\
             spec:\n  targetRefs: [{{ group: gateway.networking.k8s.io, {target} }}]\n  proxyProtocol: {{{fields}}}\n"
        )
    };
    let resources = [
        gateway("streams", &[listener("lines", "TCP", port)]),
        route("TCPRoute", "lines", "{ name: streams }", "", "lines"),
        backend("lines", backends::tcp()?),
        about("ClientTrafficPolicy", "told", "kind: Gateway, name: streams", ""),
        about(
            "BackendTrafficPolicy",
            "tells",
            "kind: TCPRoute, name: lines",
            " version: V1 ",
        ),
    ];
    stack.put("streams.yaml", &resources.concat())?;
    let header = format!("PROXY TCP4 {CLIENT} 192.0.2.1 5000 80");
    until(&stack, "the header and a line in capitals", || {
        let mut stream = BufReader::new(http::connect((Ipv4Addr::LOCALHOST, port).into())?);
        stream.get_mut().write_all(format!("{header}\r\nhello\n").as_bytes())?;
        let (mut first, mut second) = (String::new(), String::new());
        stream.read_line(&mut first)?;
        stream.read_line(&mut second)?;
        Ok((first.trim_end(), second.trim_end()) == (&*header, "HELLO"))
    })
}

/// Only clients from one network may ask, so that an answer tells where a client was thought to be.
pub(crate) fn clients_are_where_the_policy_looks(plane: &DataPlane) -> Result<()> {
    let stack = Stack::start(plane)?;
    let guard = "---\napiVersion: gateway.edge/v1alpha1\nkind: SecurityPolicy\n\
                 metadata: { name: guard, namespace: default }\nspec:\n  \
                 targetRefs: [{ group: gateway.networking.k8s.io, kind: Gateway, name: quickstart }]\n  \
                 authorization: { defaultAction: Deny, rules: [\
                 { action: Allow, principal: { clientCIDRs: [203.0.113.0/24] } }] }\n";
    let status = |headers: &[(&str, &str)]| Ok::<_, anyhow::Error>(get_with(&stack, HOST, headers)?.status);
    let chain = [("x-forwarded-for", "198.51.100.1, 203.0.113.7, 10.0.0.1")];
    let short = [("x-forwarded-for", CLIENT)];
    let named = [("x-real-ip", CLIENT)];
    stack.put("guard.yaml", guard)?;
    until(&stack, "a guarded Gateway", || Ok(status(&chain)? == 403))?;

    let detect = |how: &str| stack.put(FILE, &policy(&format!("  clientIPDetection: {{ {how} }}\n")));
    detect("xForwardedFor: { numTrustedHops: 2 }")?;
    until(&stack, "a client behind two proxies, not one", || {
        Ok(status(&chain)? == 200 && status(&short)? == 403)
    })?;

    detect("xForwardedFor: { numTrustedHops: 1 }")?;
    until(&stack, "a client behind one proxy, not two", || {
        Ok(status(&short)? == 200 && status(&chain)? == 403)
    })?;

    detect("xForwardedFor: { trustedCIDRs: [10.0.0.0/8, 127.0.0.0/8] }")?;
    until(&stack, "a client behind known proxies", || {
        Ok(status(&chain)? == 200 && status(&short)? == 200)
    })?;

    detect("customHeader: { name: x-real-ip, failClosed: true }")?;
    until(&stack, "a client by its header alone", || {
        Ok(status(&named)? == 200 && status(&chain)? == 403)
    })?;

    let nowhere = "  clientIPDetection: { xForwardedFor: { trustedCIDRs: [somewhere] } }\n";
    fails_closed(&stack, nowhere, "ClientIPDetection")?;

    stack.remove(FILE)?;
    until(&stack, "nobody to be believed", || {
        Ok(status(&named)? == 403 && status(&chain)? == 403 && status(&short)? == 403)
    })
}

pub(crate) fn headers_are_as_the_policy_wants_them(plane: &DataPlane) -> Result<()> {
    let stack = Stack::start(plane)?;
    // A route that only an edited request has.
    let blue = route(
        "HTTPRoute",
        "blue",
        "{ name: quickstart }",
        "  hostnames: [blue.example.com]\n",
        "echo",
    );
    let condition = "matches: [{ headers: [{ name: x-tenant, value: blue }] }]";
    stack.put(
        "blue.yaml",
        &blue.replace("- backendRefs", &format!("- {condition}\n      backendRefs")),
    )?;
    // Somebody from outside, whose ids and headers nobody believes.
    let outside = "  clientIPDetection: { xForwardedFor: { numTrustedHops: 1 } }\n";
    let sent = [
        ("x-forwarded-for", CLIENT),
        ("x-request-id", "mine"),
        ("x-internal-user", "root"),
    ];
    let ask = || get_with(&stack, "blue.example.com", &sent);

    let headers = "  headers:\n    requestID: PreserveOrGenerate\n    earlyRequestHeaders: { set: [{ name: x-tenant, \
                   value: blue }], removeOnMatch: [{ type: Prefix, value: x-internal- }] }\n    lateResponseHeaders: \
                   { addIfAbsent: [{ name: x-frame-options, value: DENY }], remove: [content-type] }\n    \
                   enableEnvoyHeaders: false\n";
    stack.put(FILE, &policy(&format!("{outside}{headers}")))?;
    // A route that only edited requests have: this answer is of a worker that has the edit.
    let answer = stack.look_until("an edited request", || {
        Ok(Some(ask()?).filter(|answer| answer.status == 200))
    })?;
    assert_eq!(seen(&answer, "X-Tenant")?, ["blue"]);
    assert_eq!(seen(&answer, "X-Internal-User")?, [""; 0]);
    assert_eq!(seen(&answer, "X-Request-Id")?, ["mine"]);
    assert_eq!(answer.header("x-frame-options"), Some("DENY"));
    assert_eq!(answer.header("content-type"), None);
    assert_eq!(answer.header("x-edge-upstream-service-time"), None);

    stack.put(
        FILE,
        &policy(&format!("{outside}  headers: {{ requestID: Disable }}\n")),
    )?;
    let ask = || get_with(&stack, HOST, &sent);
    until(&stack, "requests as they are, without an id", || {
        let answer = ask()?;
        Ok(seen(&answer, "X-Internal-User")? == ["root"]
            && answer.header("x-frame-options").is_none()
            && answer.header("content-type") == Some("application/json")
            && answer.header("x-edge-upstream-service-time").is_some()
            && seen(&stack.get(HOST, "/")?, "X-Request-Id")?.is_empty())
    })?;

    stack.put(FILE, &policy(outside))?;
    until(&stack, "ids of the proxy's own", || {
        let ids = seen(&ask()?, "X-Request-Id")?;
        Ok(ids.len() == 1 && ids != ["mine"])
    })?;
    fails_closed(&stack, "  headers: { maxRequestHeaderLimit: '512' }\n", "Headers")?;
    stack.remove(FILE)?;
    until(&stack, "a request to be served", || {
        Ok(stack.get(HOST, "/")?.status == 200)
    })
}

pub(crate) fn names_with_underscores_are_refused_unless_the_policy_lets_them(plane: &DataPlane) -> Result<()> {
    let stack = Stack::start(plane)?;
    let ask = || get_with(&stack, HOST, &[("a_name", "value")]);
    assert_eq!(ask()?.status, 400);
    stack.put(FILE, &policy("  headers: { withUnderscoresAction: Allow }\n"))?;
    until(&stack, "a name with an underscore", || {
        Ok(seen(&ask()?, "A_name")? == ["value"])
    })?;
    stack.put(FILE, &policy("  headers: { withUnderscoresAction: DropHeader }\n"))?;
    until(&stack, "no such name", || Ok(seen(&ask()?, "A_name")?.is_empty()))?;
    stack.remove(FILE)?;
    until(&stack, "such a name to be refused", || Ok(ask()?.status == 400))
}

pub(crate) fn paths_are_read_as_the_policy_says(plane: &DataPlane) -> Result<()> {
    let stack = Stack::start(plane)?;
    let path = |path: &str| -> Result<String> {
        let answer = stack.get(HOST, path)?;
        ensure!(answer.status == 200, "status {}", answer.status);
        Ok(answer.json()?["path"].as_str().unwrap_or_default().to_owned())
    };
    let status = |path: &str| Ok::<_, anyhow::Error>(stack.get(HOST, path)?.status);
    assert_eq!((status("/a%2Fb")?, &*path("/a//b")?), (307, "/a/b"));

    let fields = "  path: { escapedSlashesAction: KeepUnchanged, disableMergeSlashes: true }\n  \
                  healthCheck: { path: /alive }\n";
    stack.put(FILE, &policy(fields))?;
    // No host has such a route: the proxy answers itself.
    let alive = || Ok::<_, anyhow::Error>(stack.get("nobody.example.com", "/alive")?.status);
    until(&stack, "paths as they are", || {
        Ok(path("/a%2Fb")? == "/a%2Fb" && path("/a//b")? == "/a//b" && alive()? == 200)
    })?;

    stack.put(FILE, &policy("  path: { escapedSlashesAction: RejectRequest }\n"))?;
    until(&stack, "a refused path", || {
        Ok(status("/a%2Fb")? == 400 && path("/a//b")? == "/a/b" && alive()? == 404)
    })?;

    fails_closed(&stack, "  path: { escapedSlashesAction: Unheard }\n", "Path")?;

    stack.remove(FILE)?;
    until(&stack, "a redirect", || Ok(status("/a%2Fb")? == 307))
}

/// What comes on a connection that says no more; nothing if nothing does for a while.
fn answer_to(stack: &Stack, text: &str) -> Result<Option<u16>> {
    let mut stream = http::connect(stack.gateway())?;
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    stream.write_all(text.as_bytes())?;
    match http::read_response(&mut BufReader::new(stream)) {
        Ok(answer) => Ok(Some(answer.status)),
        Err(error) => match error.downcast_ref::<std::io::Error>().map(std::io::Error::kind) {
            Some(ErrorKind::WouldBlock | ErrorKind::TimedOut) => Ok(None),
            Some(_) | None => Err(error),
        },
    }
}

pub(crate) fn requests_have_the_time_that_the_policy_gives_them(plane: &DataPlane) -> Result<()> {
    let stack = Stack::start(plane)?;
    let half_head = format!("GET / HTTP/1.1\r\nhost: {HOST}\r\n");
    let half_body = format!("POST / HTTP/1.1\r\nhost: {HOST}\r\ncontent-length: 10\r\n\r\nhalf");
    let limit = |field: &str| stack.put(FILE, &policy(&format!("  timeout: {{ http: {{ {field}: 100ms }} }}\n")));

    limit("requestHeadersReceivedTimeout")?;
    until(&stack, "no time for a head", || {
        Ok(answer_to(&stack, &half_head)? == Some(408))
    })?;
    limit("requestReceivedTimeout")?;
    until(&stack, "no time for a body", || {
        Ok(answer_to(&stack, &half_body)? == Some(408))
    })?;
    stack.put(
        FILE,
        &policy("  timeout: { http: { idleTimeout: 100ms } }\n  healthCheck: { path: /alive }\n"),
    )?;
    until(&stack, "an idle connection to end", || {
        ensure!(stack.get(HOST, "/alive")?.body.is_empty(), "the policy isn't there");
        let (_, mut stream) = held(&stack)?;
        Ok(stream.read(&mut [0])? == 0)
    })?;
    let odd = "  timeout: { http: { requestReceivedTimeout: 3 parsecs } }\n";
    fails_closed(&stack, odd, "Timeout")?;
    stack.remove(FILE)?;
    until(&stack, "time for all", || {
        Ok(answer_to(&stack, &half_body)?.is_none() && answer_to(&stack, &half_head)?.is_none())
    })
}

/// A connection that has had an answer, and stays.
fn held(stack: &Stack) -> Result<(Response, TcpStream)> {
    let mut stream = http::connect(stack.gateway())?;
    stream.write_all(format!("GET / HTTP/1.1\r\nhost: {HOST}\r\n\r\n").as_bytes())?;
    let answer = http::read_response(&mut BufReader::new(&stream))?;
    ensure!(answer.status == 200, "status {}", answer.status);
    Ok((answer, stream))
}

pub(crate) fn as_many_connections_are_open_as_the_policy_allows(plane: &DataPlane) -> Result<()> {
    let stack = Stack::start(plane)?;
    let is_served = || stack.get(HOST, "/").is_ok_and(|answer| answer.status == 200);
    stack.put(
        FILE,
        &policy("  connection: { connectionLimit: { value: 1, maxRequestsPerConnection: 1 } }\n"),
    )?;
    until(&stack, "a connection for one request", || {
        let (answer, _) = held(&stack)?;
        Ok(answer.header("connection") == Some("close"))
    })?;

    stack.put(FILE, &policy("  connection: { connectionLimit: { value: 1 } }\n"))?;
    until(&stack, "a connection that stays", || {
        let (answer, _stream) = held(&stack)?;
        Ok(answer.header("connection").is_none() && !is_served())
    })?;
    until(&stack, "the next connection", || Ok(is_served()))?;

    fails_closed(
        &stack,
        "  connection: { connectionLimit: { value: 0 } }\n",
        "Connection",
    )?;
    stack.remove(FILE)?;
    until(&stack, "two connections", || {
        let _streams = (held(&stack)?, held(&stack)?);
        Ok(is_served())
    })
}

/// Texts of a ConfigMap.
fn config_map(name: &str, entries: &[(&str, &str)]) -> String {
    let entry = |(key, text): &(&str, &str)| {
        let lines: String = text.lines().map(|line| format!("    {line}\n")).collect();
        format!("  {key}: |\n{lines}")
    };
    let data: String = entries.iter().map(entry).collect();
    format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{ name: {name}, namespace: default }}\ndata:\n{data}")
}

pub(crate) fn clients_show_the_certificates_that_the_policy_asks_for(plane: &DataPlane) -> Result<()> {
    let stack = Stack::start(plane)?;
    let (servers, clients, strangers) = (Authority::new()?, Authority::new()?, Authority::new()?);
    let (alice, bob, mallory) = (
        clients.identity("alice")?,
        clients.identity("bob")?,
        strangers.identity("mallory")?,
    );
    let address = (Ipv4Addr::LOCALHOST, stack.site.ports.https).into();
    let gateway = fs::read_to_string(stack.site.watched().join("gateway.yaml"))?;
    stack.put("secret.yaml", &servers.secret("www", HOST)?)?;
    let revoked = clients.revoke(&[&bob])?;
    let authorities = [("ca.crt", clients.pem()), ("ca.crl", &*revoked)];
    stack.put("authorities.yaml", &config_map("clients", &authorities))?;
    stack.put(
        "gateway.yaml",
        &(gateway + &tls::listener("www", HOST, stack.site.ports.https)),
    )?;
    let get = |identity: Option<&Identity>| servers.get_as(identity, address, HOST);
    let served = || [None, Some(&alice), Some(&bob), Some(&mallory)].map(|who| get(who).is_ok_and(|a| a.status == 200));
    let wait = |what: &str, wanted: [bool; 4]| {
        until(&stack, what, || {
            let found = served();
            ensure!(found == wanted, "{found:?}");
            Ok(true)
        })
    };
    let ask = |how: &str| {
        let told = "  headers: { xForwardedClientCert: { mode: SanitizeSet, certDetailsToAdd: [Subject] } }\n";
        stack.put(
            FILE,
            &policy(&format!("{told}  tls: {{ clientValidation: {{ {how} }} }}\n")),
        )
    };
    let reference = "[{ kind: ConfigMap, group: '', name: clients }]";
    let from = format!("caCertificateRefs: {reference}");

    ask(&from)?;
    wait("nobody but those of the authority", [false, true, true, false])?;
    ask(&format!("{from}, crl: {{ refs: {reference} }}"))?;
    wait("none whose certificate was revoked", [false, true, false, false])?;
    ask(&format!("{from}, mode: VerifyIfGiven"))?;
    wait("those without a certificate too", [true, true, true, false])?;
    ask("mode: RequireAny")?;
    wait("anybody with a certificate", [false, true, true, true])?;
    ask("mode: Request")?;
    wait("anybody", [true; 4])?;
    until(&stack, "the backend to be told who it was", || {
        let told = seen(&get(Some(&mallory))?, "X-Forwarded-Client-Cert")?;
        Ok(told.concat().contains("CN=mallory"))
    })?;
    ask("caCertificateRefs: [{ kind: ConfigMap, group: '', name: nowhere }]")?;
    until(&stack, "everybody to be refused", || {
        Ok(get(Some(&alice))?.status == 500 && get(None)?.status == 500)
    })?;

    stack.remove(FILE)?;
    wait("anybody", [true; 4])?;
    until(&stack, "nobody to be asked who it is", || {
        Ok(seen(&get(Some(&alice))?, "X-Forwarded-Client-Cert")?.is_empty())
    })
}
