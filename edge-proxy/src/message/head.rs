//! The head of a request while it passes the proxy.

use std::net::IpAddr;
use std::sync::Arc;

use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method};

use crate::config::table::RequestView;
use crate::http1::head::Spelling;

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
    /// The client, where proxies before this one are trusted to say who it is and have said it; else it is the peer.
    pub(crate) client: Option<IpAddr>,
    /// How the client wrote names of fields, where backends are to see that.
    pub(crate) spelling: Option<Arc<Spelling>>,
}

/// How the other end wrote names of fields, on a message that the codec hands on.
#[derive(Clone, Debug)]
pub(crate) struct Spelled(pub(crate) Arc<Spelling>);

/// A text that can't be a path and query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotATarget;

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
            client: None,
            spelling: None,
        }
    }

    /// Replaces the path and query. A text that can't be one leaves the head as it was: whoever asked must not go on
    /// with what it wanted to get rid of.
    pub(crate) fn set_target(&mut self, target: &str) -> Result<(), NotATarget> {
        // A fragment would be cut off without a word.
        let parsed = PathAndQuery::try_from(target).ok();
        self.target = parsed.filter(|parsed| parsed.as_str() == target).ok_or(NotATarget)?;
        Ok(())
    }

    /// Whether the client speaks gRPC: local replies then must too.
    pub(crate) fn is_grpc(&self) -> bool {
        is_grpc(&self.headers)
    }
}

/// Whether a message has gRPC's media type, as Envoy knows it: without parameters.
pub(crate) fn is_grpc(fields: &HeaderMap) -> bool {
    fields.get(http::header::CONTENT_TYPE).is_some_and(|value| {
        value
            .as_bytes()
            .strip_prefix(b"application/grpc")
            .is_some_and(|rest| matches!(rest.first(), None | Some(b'+')))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_no_target_is_refused() {
        let mut head = Head::empty();
        assert_eq!(head.set_target("/a?b"), Ok(()));
        let long = format!("/{}", "a".repeat(70_000));
        for bad in ["/a b", "/a#b", "/a\nb", &long] {
            assert_eq!(head.set_target(bad), Err(NotATarget), "{bad:.20}");
        }
        assert_eq!(head.target, "/a?b");
    }
}
