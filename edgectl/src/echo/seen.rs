//! What the echo backend says about a request.

use hyper::{HeaderMap, StatusCode, http::request::Parts};
use serde::Serialize;
use std::{collections::BTreeMap, time::Duration};

/// Who the backend is, so that an answer shows which copy gave it.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Identity {
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    service: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pod: Option<String>,
}

impl Identity {
    /// From `NAMESPACE`, `SERVICE_NAME` and `POD_NAME`, as a pod has them.
    pub(super) fn from_environment() -> Self {
        let value = |name| std::env::var(name).ok();
        Self {
            namespace: value("NAMESPACE"),
            service: value("SERVICE_NAME"),
            pod: value("POD_NAME"),
        }
    }
}

/// The answer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EchoedRequest<'a> {
    path: &'a str,
    host: &'a str,
    method: &'a str,
    proto: &'static str,
    headers: BTreeMap<String, Vec<String>>,
    body_bytes: usize,
    #[serde(flatten)]
    identity: &'a Identity,
}

impl<'a> EchoedRequest<'a> {
    /// Reads a request's head.
    pub(super) fn new(head: &'a Parts, body_bytes: usize, identity: &'a Identity) -> Self {
        let host = head.headers.get("host").and_then(|h| h.to_str().ok());
        Self {
            path: head.uri.path_and_query().map_or("/", |p| p.as_str()),
            host: host.or(head.uri.authority().map(|a| a.as_str())).unwrap_or_default(),
            method: head.method.as_str(),
            proto: proto(head.version),
            headers: headers(&head.headers),
            body_bytes,
            identity,
        }
    }
}

fn proto(version: hyper::Version) -> &'static str {
    match version {
        hyper::Version::HTTP_2 => "HTTP/2.0",
        hyper::Version::HTTP_10 => "HTTP/1.0",
        _ => "HTTP/1.1",
    }
}

/// Headers by name in the usual spelling (`X-Request-Id`), values in order of appearance.
fn headers(map: &HeaderMap) -> BTreeMap<String, Vec<String>> {
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in map {
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        all.entry(canonical(name.as_str())).or_default().push(value);
    }
    all
}

/// A capital at the start of each word.
fn canonical(name: &str) -> String {
    let mut at_start = true;
    name.chars()
        .map(|c| {
            let out = if at_start { c.to_ascii_uppercase() } else { c };
            at_start = c == '-';
            out
        })
        .collect()
}

/// The status that a path `/status/NNN` asks for.
pub(super) fn wanted_status(path: &str) -> Option<StatusCode> {
    let code = path.strip_prefix("/status/")?.split('/').next()?;
    StatusCode::from_bytes(code.as_bytes())
        .ok()
        .filter(|status| status.as_u16() >= 200)
}

/// The wait that a query `delay=300ms` or `delay=2s` asks for.
pub(super) fn delay(query: Option<&str>) -> Option<Duration> {
    let value = query?.split('&').find_map(|pair| pair.strip_prefix("delay="))?;
    match value.strip_suffix("ms") {
        Some(number) => number.parse().ok().map(Duration::from_millis),
        None => value.strip_suffix('s')?.parse().ok().map(Duration::from_secs),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_names_are_written_with_capitals() {
        assert_eq!(canonical("x-edge-internal"), "X-Edge-Internal");
        assert_eq!(canonical("host"), "Host");
    }

    #[test]
    fn a_status_path_names_a_final_status() {
        assert_eq!(wanted_status("/status/503"), Some(StatusCode::SERVICE_UNAVAILABLE));
        assert_eq!(wanted_status("/status/404/more"), Some(StatusCode::NOT_FOUND));
        // An interim response would never end the exchange.
        assert_eq!(wanted_status("/status/100"), None);
        assert_eq!(wanted_status("/status/abc"), None);
        assert_eq!(wanted_status("/other"), None);
    }

    #[test]
    fn a_delay_is_read_from_the_query() {
        assert_eq!(delay(Some("a=1&delay=300ms")), Some(Duration::from_millis(300)));
        assert_eq!(delay(Some("delay=2s")), Some(Duration::from_secs(2)));
        assert_eq!(delay(Some("delay=soon")), None);
        assert_eq!(delay(None), None);
    }
}
