//! Faults, bounds of bodies, and what HTTPRouteFilters do.

use super::{Routed, backend, body, get};
use crate::policies::HttpPeer;
use anyhow::Result;
use e2e::{
    http::{Request, Response},
    stack::DataPlane,
};
use std::time::{Duration, Instant};

pub(crate) fn faults_are_injected(plane: &DataPlane) -> Result<()> {
    let (peer, _) = backend("one")?;
    let www = Routed::start(plane, &[peer.port])?;
    www.answers(&get("/"), 200)?;
    www.shape("  faultInjection: { abort: { httpStatus: 418 } }\n")?;
    www.answers(&get("/"), 418)?;
    www.shape("  faultInjection: { abort: { httpStatus: 418, percentage: 0 } }\n")?;
    www.answers(&get("/"), 200)?;
    let delay = Duration::from_millis(700);
    www.shape("  faultInjection: { delay: { fixedDelay: 700ms } }\n")?;
    www.holds("a delay", || {
        let begun = Instant::now();
        assert_eq!(www.ask(&get("/"))?.status, 200);
        Ok(begun.elapsed() >= delay)
    })?;
    www.unshape()?;
    www.holds("no delay", || {
        let begun = Instant::now();
        assert_eq!(www.ask(&get("/"))?.status, 200);
        Ok(begun.elapsed() < delay)
    })?;
    www.fails_closed("  faultInjection: { abort: { httpStatus: 600 } }\n", "FaultInjection")
}

pub(crate) fn long_requests_are_refused(plane: &DataPlane) -> Result<()> {
    let (peer, _) = backend("one")?;
    let www = Routed::start(plane, &[peer.port])?;
    www.answers(&get("/"), 200)?;
    let long = "x".repeat(2_000);
    let limit = |limit: &str| www.shape(&format!("  requestBuffer: {{ limit: {limit} }}\n"));
    limit("1Ki")?;
    www.holds("a request that is too long", || Ok(www.post(&long)?.status == 413))?;
    assert_eq!(www.post(&long[..1_000])?.status, 200);
    limit("4Ki")?;
    www.holds("a request that is short enough", || Ok(www.post(&long)?.status == 200))?;
    limit("1Ki")?;
    www.holds(
        "a request that is too long again",
        || Ok(www.post(&long)?.status == 413),
    )?;
    www.unshape()?;
    www.holds("a request without a limit", || Ok(www.post(&long)?.status == 200))?;
    www.fails_closed("  requestBuffer: { limit: 5Gi }\n", "RequestBuffer")
}

/// Where the route of its own stands, and whom it is for.
const FILE: &str = "filtered.yaml";
const ITS_HOST: &str = "filtered.example.com";

/// A route of its own to the peers, with an HTTPRouteFilter.
fn filtered(host: &str, spec: &str) -> String {
    format!(
        "---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\n\
         metadata: {{ name: filtered, namespace: default }}\nspec:\n  parentRefs: [{{ name: quickstart }}]\n  \
         hostnames: [{host}]\n  rules:\n    - filters: [{{ type: ExtensionRef, extensionRef: \
         {{ group: gateway.edge, kind: HTTPRouteFilter, name: filter }} }}]\n      \
         backendRefs: [{{ group: gateway.edge, kind: Backend, name: peers }}]\n\
         ---\napiVersion: gateway.edge/v1alpha1\nkind: HTTPRouteFilter\n\
         metadata: {{ name: filter, namespace: default }}\nspec:\n{spec}"
    )
}

/// The same for three of four requests alone, by one of two backendRefs.
fn filtered_in_part(host: &str, spec: &str) -> String {
    let filter =
        "filters: [{ type: ExtensionRef, extensionRef: { group: gateway.edge, kind: HTTPRouteFilter, name: filter } }]";
    let peers = "group: gateway.edge, kind: Backend, name: peers";
    filtered(host, spec)
        .replace(&format!("- {filter}\n      backendRefs"), "- backendRefs")
        .replace(
            &format!("[{{ {peers} }}]"),
            &format!("[{{ {peers}, weight: 3, {filter} }}, {{ {peers}, weight: 1 }}]"),
        )
}

pub(crate) fn filters_answer_rewrite_and_sign(plane: &DataPlane) -> Result<()> {
    let peer = HttpPeer::start(|request| {
        let seen = ["host", "authorization"].map(|name| request.header(name).unwrap_or("-"));
        let text = format!(
            "{} {}",
            request.line.split(' ').nth(1).unwrap_or_default(),
            seen.join(" ")
        );
        (200, Vec::new(), text)
    })?;
    let www = Routed::start(plane, &[peer.port])?;
    www.answers(&get("/"), 200)?;
    let ask = Request {
        headers: &[("x-to", "other.example.com")],
        ..Request::get(ITS_HOST, "/v1/user/ann")
    };
    let answer = |spec: &str| www.stack.put(FILE, &filtered(ITS_HOST, spec));

    answer("  directResponse: { statusCode: 418, contentType: text/plain, body: { type: Inline, inline: short } }\n")?;
    let told = www.until("an answer without backend", &ask, |told| told.status == 418)?;
    assert_eq!(
        (body(&told), told.header("content-type")),
        ("short".to_owned(), Some("text/plain"))
    );

    // What can't be answered so is closed, and leads to no backend.
    answer("  directResponse: { statusCode: 100 }\n")?;
    www.until("a route that is closed", &ask, |told| told.status == 500)?;

    answer(
        "  urlRewrite:\n    hostname: { type: Header, header: x-to }\n    path: { type: ReplaceRegexMatch, \
         replaceRegexMatch: { pattern: '/v1/user/(.*)', substitution: '/of/\\1' } }\n",
    )?;
    www.until("a path and a host that are rewritten", &ask, |told| {
        body(told) == "/of/ann other.example.com -"
    })?;
    www.stack.put(
        FILE,
        &filtered_in_part(ITS_HOST, "  urlRewrite: { hostname: { type: Header, header: x-to } }\n"),
    )?;
    let is_rewritten = |told: &Response| body(told) == "/v1/user/ann other.example.com -";
    let is_plain = |told: &Response| body(told) == format!("/v1/user/ann {ITS_HOST} -");
    www.until("a host that is rewritten", &ask, is_rewritten)?;
    let answers = (0..400).map(|_| www.ask(&ask)).collect::<Result<Vec<_>>>()?;
    assert!(answers.iter().all(|told| is_rewritten(told) || is_plain(told)));
    let rewritten = answers.iter().filter(|told| is_rewritten(told)).count();
    assert!((240..=360).contains(&rewritten), "{rewritten} of 400");

    www.stack.put(
        "secret.yaml",
        "---\napiVersion: v1\nkind: Secret\nmetadata: { name: token, namespace: default }\n\
         stringData: { credential: Bearer abc }\n",
    )?;
    answer("  credentialInjection: { overwrite: true, credential: { valueRef: { name: token } } }\n")?;
    www.until("a credential", &ask, |told| {
        body(told) == format!("/v1/user/ann {ITS_HOST} Bearer abc")
    })?;
    www.stack.remove("secret.yaml")?;
    www.until("no request without its credential", &ask, |told| told.status == 500)?;
    www.stack.remove(FILE)?;
    www.until("no such host", &ask, |told| told.status == 404).map(drop)
}

pub(crate) fn one_list_of_cookies_is_enough_and_preflights_need_none(plane: &DataPlane) -> Result<()> {
    const LISTS: &str = "  matches:\n    - cookies: [{ name: role, value: admin }, { name: seen, value: '1' }]\n    \
                         - cookies: [{ name: role, value: owner }]\n";
    const ASKS: &str = "access-control-request-method";
    let (peer, _) = backend("one")?;
    let www = Routed::start(plane, &[peer.port])?;
    let route = filtered(ITS_HOST, LISTS);
    let cors = "{ type: CORS, cors: { allowOrigins: ['https://friend.example'] } }";
    let route = route.replace(
        "- filters: [",
        &format!("- matches: [{{ method: GET }}]\n      filters: [{cors}, "),
    );
    www.stack.put(FILE, &route)?;
    let with = |method: &'static str, headers: &'static [(&'static str, &'static str)]| Request {
        method,
        headers,
        ..Request::get(ITS_HOST, "/")
    };
    www.answers(&with("GET", &[("cookie", "role=owner")]), 200)?;
    www.answers(&with("GET", &[("cookie", "role=admin; seen=1")]), 200)?;
    www.answers(&with("GET", &[("cookie", "role=admin")]), 404)?;

    let friend = ("origin", "https://friend.example");
    let told = www.ask(&Request {
        headers: &[friend, (ASKS, "GET")],
        ..with("OPTIONS", &[])
    })?;
    assert_eq!(told.header("access-control-allow-origin"), Some(friend.1), "{told:?}");
    for others in [&[friend, (ASKS, "PUT")][..], &[friend], &[(ASKS, "GET")]] {
        let told = www.ask(&Request {
            headers: others,
            ..with("OPTIONS", &[])
        })?;
        assert_eq!(told.status, 404, "{others:?}");
    }
    Ok(())
}
