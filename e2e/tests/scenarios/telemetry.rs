//! What an EdgeProxy asks its fleets to tell of themselves.

use crate::{
    backends,
    resources::{backend, gateway, listener, route},
};
use anyhow::{Result, ensure};
use e2e::{
    collector::Collector,
    http::Request,
    ports,
    stack::{DataPlane, Stack},
    tls::Authority,
};
use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::Path,
};

pub(crate) fn access_logs_go_where_an_edge_proxy_says(plane: &DataPlane) -> Result<()> {
    let stack = Stack::start(plane)?;
    let [first, second] = ["first.log", "second.log"].map(|name| stack.site.path(name));
    stack.put("proxy.yaml", &log_into(&first, ""))?;
    ask_for_the_proxy(&stack)?;
    is_logged(&stack, &first, "one")?;

    // Another file, and beside it a log for a service that isn't there: that log alone is left out, and told.
    let nowhere = "      - sinks: [{ type: ALS, als: { type: HTTP, backendRefs: [{ name: nowhere, port: 80 }] } }]\n";
    stack.put("proxy.yaml", &log_into(&second, nowhere))?;
    is_logged(&stack, &second, "two")?;
    gateway_says(&stack, "nowhere")?;
    is_logged(&stack, &second, "three")?;
    let kept = fs::read_to_string(&first)?;
    assert!(!kept.contains("three"), "the first file goes on: {kept}");
    Ok(())
}

pub(crate) fn streams_are_logged_where_an_edge_proxy_says(plane: &DataPlane) -> Result<()> {
    let stack = Stack::start(plane)?;
    let (file, [port, tls]) = (stack.site.path("streams.log"), ports::free()?);
    let text = "%BYTES_RECEIVED% %BYTES_SENT% %RESPONSE_FLAGS% %REQUESTED_SERVER_NAME% %ACCESS_LOG_TYPE%\\n";
    stack.put("proxy.yaml", &log_as(&file, text, ""))?;
    ask_for_the_proxy(&stack)?;
    let (lines, authority) = (backends::tcp()?, Authority::new()?);
    let server = authority.server("one.example.com")?;
    let passthrough = format!("{{ name: tls, protocol: TLS, port: {tls}, tls: {{ mode: Passthrough }} }}");
    let resources = [
        gateway("streams", &[listener("lines", "TCP", port), passthrough]),
        route(
            "TCPRoute",
            "lines",
            "{ name: streams, sectionName: lines }",
            "",
            "lines",
        ),
        backend("lines", lines),
        route(
            "TLSRoute",
            "one",
            "{ name: streams, sectionName: tls }",
            "  hostnames: [one.example.com]\n",
            "one",
        ),
        backend("one", backends::tls(&server)?),
    ];
    stack.put("streams.yaml", &resources.concat())?;
    let says = |line: &str, visit: &dyn Fn() -> Result<()>| {
        stack.look_until(&format!("{line:?} in the log"), || {
            visit()?;
            let text = fs::read_to_string(&file).unwrap_or_default();
            ensure!(text.lines().any(|one| one.contains(line)), "it holds {text:?}");
            Ok(Some(()))
        })
    };
    let here = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    says("6 6 - - TcpConnectionEnd", &|| {
        backends::say(e2e::http::connect(here(port))?, "hello").map(drop)
    })?;
    says(" - one.example.com TcpConnectionEnd", &|| {
        backends::say(authority.connect(here(tls), "one.example.com")?, "hello").map(drop)
    })?;
    says("0 0 NC two.example.com TcpConnectionEnd", &|| {
        // No route is for it.
        drop(backends::say(authority.connect(here(tls), "two.example.com")?, "hello"));
        Ok(())
    })
}

pub(crate) fn services_are_told_what_an_edge_proxy_says(plane: &DataPlane) -> Result<()> {
    let stack = Stack::start(plane)?;
    let collector = Collector::start()?;
    let service = "backendRefs: [{ group: gateway.edge, kind: Backend, name: collector, port: 4317 }]";
    let logs = format!(
        "      - sinks: [{{ type: ALS, als: {{ type: HTTP, logName: edge, {service}, http: {{ requestHeaders: [x-name] }} }} }}]\n      \
         - format: {{ type: JSON, json: {{ name: \"%REQ(X-NAME)%\" }} }}\n        \
         sinks: [{{ type: OpenTelemetry, openTelemetry: {{ {service} }} }}]\n"
    );
    let file = stack.site.path("beside.log");
    let resources = log_into(&file, &logs) + &backend("collector", collector.address.port());
    stack.put("proxy.yaml", &resources)?;
    ask_for_the_proxy(&stack)?;
    is_logged(&stack, &file, "somebody")?;
    for path in [
        "/envoy.service.accesslog.v3.AccessLogService/StreamAccessLogs",
        "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
    ] {
        stack.look_until(&format!("an entry by {path}"), || {
            stack.send(&Request {
                headers: &[("x-name", "somebody")],
                ..Request::get("www.example.com", "/")
            })?;
            // A text stands in a message as it is.
            let heard = collector.heard(path);
            let says = |text: &[u8]| {
                heard
                    .iter()
                    .any(|one| one.message.windows(text.len()).any(|part| part == text))
            };
            Ok((says(b"somebody") && says(b"edge")).then_some(()))
        })?;
    }
    Ok(())
}

pub(crate) fn collectors_are_told_of_metrics(plane: &DataPlane) -> Result<()> {
    let stack = Stack::start(plane)?;
    let collector = Collector::start()?;
    let port = collector.address.port();
    // Of metrics of clusters this and no other one.
    let metrics = "      matches: [{ type: Suffix, value: .upstream_rq_total }]\n      \
                   sinks: [{ type: OpenTelemetry, openTelemetry: { resourceAttributes: { tenant: edge-tests }, headers: \
                   [{ name: x-token, value: t }], backendRefs: [{ group: gateway.edge, kind: Backend, name: collector, \
                   port: 4317 }] } }]\n";
    let proxy = format!(
        "---\napiVersion: gateway.edge/v1alpha1\nkind: EdgeProxy\nmetadata: {{ name: proxy, namespace: default }}\n\
         spec:\n  telemetry:\n    metrics:\n{metrics}"
    );
    stack.put("proxy.yaml", &(proxy + &backend("collector", port)))?;
    ask_for_the_proxy(&stack)?;
    let path = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";
    stack.look_until("requests among the metrics", || {
        stack.send(&Request::get("www.example.com", "/"))?;
        let heard = collector.heard(path);
        // A text stands in a message as it is.
        let says = |text: &str| {
            let is_there = |message: &[u8]| message.windows(text.len()).any(|part| part == text.as_bytes());
            heard.iter().any(|one| is_there(&one.message))
        };
        ensure!(!says("upstream_cx_total"), "more is told than was asked for");
        ensure!(
            heard.iter().all(|one| one.fields["x-token"] == "t"),
            "a call without its header"
        );
        Ok((says("cluster.upstream_rq_total") && says("edge-tests")).then_some(()))
    })
}

/// Lets the class name the EdgeProxy.
fn ask_for_the_proxy(stack: &Stack) -> Result<()> {
    let class = fs::read_to_string(stack.site.watched().join("gateway.yaml"))?;
    let named = "parametersRef: { group: gateway.edge, kind: EdgeProxy, name: proxy, namespace: default }";
    let class = class.replacen("spec:\n", &format!("spec:\n  {named}\n"), 1);
    stack.put("gateway.yaml", &class)
}

/// An EdgeProxy that logs into a file, with more settings of its access logs.
fn log_into(path: &Path, more: &str) -> String {
    log_as(path, "%REQ(:METHOD)% %REQ(X-NAME)% %RESPONSE_CODE%\\n", more)
}

/// The same with another text.
fn log_as(path: &Path, text: &str, more: &str) -> String {
    let path = path.display();
    format!(
        "---\napiVersion: gateway.edge/v1alpha1\nkind: EdgeProxy\nmetadata: {{ name: proxy, namespace: default }}\n\
         spec:\n  telemetry:\n    accessLog:\n      settings:\n      \
         - format: {{ type: Text, text: \"{text}\" }}\n        \
         sinks: [{{ type: File, file: {{ path: {path} }} }}]\n{more}"
    )
}

/// Waits until requests with this name are written into a file.
fn is_logged(stack: &Stack, path: &Path, name: &str) -> Result<()> {
    let line = format!("GET {name} 200");
    stack.look_until(&format!("{line:?} in {}", path.display()), || {
        let headers = [("x-name", name)];
        let request = Request {
            headers: &headers,
            ..Request::get("www.example.com", "/")
        };
        let answer = stack.send(&request)?;
        ensure!(answer.status == 200, "the last answer was {answer:?}");
        let text = fs::read_to_string(path)?;
        ensure!(text.lines().any(|one| one == line), "it holds {text:?}");
        Ok(Some(()))
    })
}

/// Waits until the Gateway says that its parameters aren't all in force, and which.
fn gateway_says(stack: &Stack, which: &str) -> Result<()> {
    stack.look_until(&format!("a status that says {which:?}"), || {
        let document = stack.status()?;
        let resources = document["resources"].as_array().into_iter().flatten();
        let conditions = resources
            .filter(|r| r["kind"] == "Gateway")
            .flat_map(|r| r["status"]["conditions"].as_array().into_iter().flatten());
        let mut said = conditions.filter(|c| c["reason"] == "InvalidParameters");
        let is_it = said.any(|c| c["message"].as_str().is_some_and(|message| message.contains(which)));
        ensure!(is_it, "it says {document}");
        Ok(Some(()))
    })
}
