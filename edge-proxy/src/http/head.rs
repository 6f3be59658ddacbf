//! The head of a request while it passes the proxy.

use std::borrow::Cow;

use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method};

use crate::config::table::RequestView;

/// The head of a request, in the terms of HTTP semantics (RFC 9110), whatever version it came in.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    /// `:method`
    pub(crate) method: Method,
    /// `:scheme`
    pub(crate) scheme: &'static str,
    /// `:authority`; what `host` says in HTTP/1. A `host` that is left in the header map means nothing.
    pub(crate) authority: HeaderValue,
    /// `:path`
    pub(crate) target: PathAndQuery,
    /// All other fields.
    pub(crate) headers: HeaderMap,
    /// Drawn once; decides all that is random about the route.
    pub(crate) random: u64,
}

impl Head {
    /// What routing looks at.
    pub(crate) fn view(&self) -> RequestView<'_> {
        RequestView {
            method: &self.method,
            scheme: self.scheme,
            authority: self.authority_text(),
            path_and_query: self.target.as_str(),
            headers: &self.headers,
            random: self.random,
        }
    }

    /// The authority as text; it was checked on arrival.
    pub(crate) fn authority_text(&self) -> &str {
        self.authority.to_str().unwrap_or("")
    }

    /// A head that says nothing, for edits that do not look at the request.
    pub(crate) fn empty() -> Self {
        Self {
            method: Method::GET,
            scheme: "http",
            authority: HeaderValue::from_static(""),
            target: PathAndQuery::from_static("/"),
            headers: HeaderMap::new(),
            random: 0,
        }
    }

    /// Replaces the path and query; a text that is no path changes nothing.
    pub(crate) fn set_target(&mut self, target: Cow<'_, str>) {
        if let Ok(target) = PathAndQuery::try_from(target.as_ref()) {
            self.target = target;
        }
    }

    /// Whether the client speaks gRPC: local replies then must too.
    pub(crate) fn is_grpc(&self) -> bool {
        self.headers.get(http::header::CONTENT_TYPE).is_some_and(|value| {
            value
                .as_bytes()
                .strip_prefix(b"application/grpc")
                .is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';')))
        })
    }
}
