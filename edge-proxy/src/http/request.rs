//! The request as it goes to a backend.
//!
//! What: the last form of a head in the terms of the protocol that the backend speaks.

use http::header;
use http::uri::{Authority, Scheme};
use http::{HeaderValue, Request, Uri, Version};

use crate::fault::Fault;
use crate::http::body::RequestBody;
use crate::http::head::Head;
use crate::http::ingress::restore_upgrade;
use crate::upstream::Lease;

/// What the head alone does not say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extras<'a> {
    /// Ask the backend to switch to this protocol.
    pub(crate) upgrade: Option<&'a str>,
    /// The client takes trailers.
    pub(crate) te_trailers: bool,
}

/// Makes the request for a connection.
pub(crate) fn build(
    head: Head,
    body: RequestBody,
    extras: Extras<'_>,
    lease: &Lease,
) -> Result<Request<RequestBody>, Fault> {
    match lease {
        Lease::Http1(_) => build_http1(head, body, extras),
        Lease::Http2(_) => build_http2(head, body, extras),
    }
}

fn build_http1(head: Head, body: RequestBody, extras: Extras<'_>) -> Result<Request<RequestBody>, Fault> {
    let Head {
        method,
        authority,
        target,
        mut headers,
        ..
    } = head;
    headers.insert(header::HOST, authority);
    if let Some(protocol) = extras.upgrade {
        restore_upgrade(&mut headers, protocol);
    }
    let mut request = Request::new(body);
    *request.method_mut() = method;
    *request.uri_mut() = Uri::from(target);
    *request.version_mut() = Version::HTTP_11;
    *request.headers_mut() = headers;
    Ok(request)
}

fn build_http2(head: Head, body: RequestBody, extras: Extras<'_>) -> Result<Request<RequestBody>, Fault> {
    let Head {
        method,
        scheme,
        authority,
        target,
        mut headers,
        ..
    } = head;
    headers.remove(header::HOST);
    if extras.te_trailers {
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
    }
    let mut parts = http::uri::Parts::default();
    parts.scheme = Some(if scheme == "https" { Scheme::HTTPS } else { Scheme::HTTP });
    parts.authority = Some(Authority::try_from(authority.as_bytes()).map_err(|_| Fault::BadRequest)?);
    parts.path_and_query = Some(target);
    let mut request = Request::new(body);
    *request.method_mut() = method;
    *request.uri_mut() = Uri::from_parts(parts).map_err(|_| Fault::BadRequest)?;
    *request.version_mut() = Version::HTTP_2;
    *request.headers_mut() = headers;
    Ok(request)
}
