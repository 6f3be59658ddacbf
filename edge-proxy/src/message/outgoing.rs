//! The request as it goes to a backend.
//!
//! The last form of a request, and its forms in HTTP/1 and HTTP/2.

use h2::ext::Protocol;
use http::header;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderMap, HeaderValue, Method, Request, Uri, Version};
use http_body::Body as _;

use crate::fault::Fault;
use crate::http1::encode::OutgoingHead;
use crate::http2::{keep_unrepeated_out_of_tables, remove_connection_fields};
use crate::message::body::RequestBody;
use crate::message::head::Head;

/// What the head alone does not say.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Extras<'a> {
    /// Ask the backend to switch to this protocol.
    pub(crate) upgrade: Option<&'a str>,
    /// The client takes trailers.
    pub(crate) te_trailers: bool,
}

/// A request on its way to a backend.
#[derive(Debug)]
pub(crate) struct Outgoing<'a> {
    /// Its head.
    pub(crate) head: Box<Head>,
    /// Its body.
    pub(crate) body: RequestBody,
    /// The rest.
    pub(crate) extras: Extras<'a>,
}

impl Head {
    /// The request in the terms of HTTP/1.
    pub(crate) fn in_http1<'a>(&'a self, extras: Extras<'a>) -> OutgoingHead<'a> {
        OutgoingHead {
            method: &self.method,
            target: self.target.as_str(),
            authority: &self.authority,
            headers: &self.headers,
            te_trailers: extras.te_trailers,
            // CONNECT says it by itself.
            upgrade: extras.upgrade.filter(|_| self.method != Method::CONNECT),
            spelling: self.spelling.as_deref(),
        }
    }
}

/// The request in the terms of HTTP/2. One for another protocol is an extended CONNECT (RFC 8441 §4).
pub(crate) fn into_http2(outgoing: Outgoing<'_>) -> Result<Request<RequestBody>, Fault> {
    let Outgoing { head, body, extras } = outgoing;
    // What follows is the tunnel's.
    if extras.upgrade.is_some() && !body.is_end_stream() {
        return Err(Fault::BadRequest);
    }
    let Head {
        method,
        scheme,
        authority,
        target,
        mut headers,
        ..
    } = *head;
    headers.remove(header::HOST);
    remove_connection_fields(&mut headers);
    keep_unrepeated_out_of_tables(&mut headers);
    match extras.te_trailers {
        true => headers.insert(header::TE, HeaderValue::from_static("trailers")),
        false => headers.remove(header::TE),
    };
    // What passes a tunnel is no content (RFC 9110 §9.3.6), whatever length an empty request may have named.
    match extras.upgrade.is_some() || method == Method::CONNECT {
        true => drop(headers.remove(header::CONTENT_LENGTH)),
        false => announce_length(&method, &body, &mut headers),
    }
    let mut parts = http::uri::Parts::default();
    parts.authority = Some(Authority::try_from(authority.as_bytes()).map_err(|_| Fault::BadRequest)?);
    // CONNECT itself only says whom the tunnel is to (RFC 9113 §8.5).
    if method != Method::CONNECT {
        parts.scheme = Some(if scheme == "https" { Scheme::HTTPS } else { Scheme::HTTP });
        parts.path_and_query = Some(target);
    }
    let mut request = Request::new(body);
    match extras.upgrade {
        Some(protocol) if method != Method::CONNECT => {
            *request.method_mut() = Method::CONNECT;
            request.extensions_mut().insert(Protocol::from(protocol));
        }
        _ => *request.method_mut() = method,
    }
    *request.uri_mut() = Uri::from_parts(parts).map_err(|_| Fault::BadRequest)?;
    *request.version_mut() = Version::HTTP_2;
    *request.headers_mut() = headers;
    Ok(request)
}

/// Says how long a body is that is known as a whole. Without one only a method that is about content says so.
fn announce_length(method: &Method, body: &RequestBody, headers: &mut HeaderMap) {
    let Some(length) = body.size_hint().exact() else {
        return;
    };
    let without = [Method::GET, Method::HEAD, Method::DELETE, Method::CONNECT];
    if (length != 0 || !without.contains(method)) && !headers.contains_key(header::CONTENT_LENGTH) {
        headers.insert(header::CONTENT_LENGTH, length.into());
    }
}

/// The way back, for a request that another connection must take.
pub(crate) fn from_http2(request: Request<RequestBody>) -> (Box<Head>, RequestBody) {
    let (parts, body) = request.into_parts();
    let uri = parts.uri.into_parts();
    let authority = uri.authority.as_ref().map_or("", Authority::as_str);
    let mut headers = parts.headers;
    headers.remove(header::TE);
    let head = Head {
        // Another protocol is asked for with another method elsewhere.
        method: match parts.extensions.get::<Protocol>() {
            Some(_) => Method::GET,
            None => parts.method,
        },
        scheme: if uri.scheme == Some(Scheme::HTTPS) {
            "https"
        } else {
            "http"
        },
        authority: HeaderValue::from_str(authority).unwrap_or_else(|_| HeaderValue::from_static("")),
        target: uri.path_and_query.unwrap_or_else(|| PathAndQuery::from_static("/")),
        headers,
        random: 0,
        client: None,
        spelling: None,
    };
    (Box::new(head), body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_in_http2_can_be_made_a_head_again() {
        let mut head = Box::new(Head::empty());
        head.scheme = "https";
        head.authority = HeaderValue::from_static("a.example:8443");
        head.target = PathAndQuery::from_static("/p?q");
        head.headers.insert("x-a", HeaderValue::from_static("1"));
        let extras = Extras {
            upgrade: None,
            te_trailers: true,
        };
        let body = RequestBody::Empty;
        let request = into_http2(Outgoing { head, body, extras }).unwrap();
        assert_eq!(request.uri(), "https://a.example:8443/p?q");
        assert_eq!(request.headers()[header::TE], "trailers");
        let (head, _) = from_http2(request);
        assert_eq!((head.scheme, head.authority_text()), ("https", "a.example:8443"));
        assert_eq!((head.target.as_str(), head.headers.len()), ("/p?q", 1));
    }

    #[test]
    fn a_request_for_another_protocol_is_asked_for_again_as_it_was() {
        let ask = |head: Box<Head>, body| {
            let upgrade = Some("websocket");
            let extras = Extras {
                upgrade,
                te_trailers: false,
            };
            into_http2(Outgoing { head, body, extras })
        };
        let mut head = Box::new(Head::empty());
        head.authority = HeaderValue::from_static("a.example");
        head.target = PathAndQuery::from_static("/p?q");
        let first = ask(head.clone(), RequestBody::Empty).unwrap();
        let (again, body) = from_http2(first);
        assert_eq!(again.method, Method::GET);
        let request = ask(again, body).unwrap();
        assert_eq!((request.method(), request.uri().path()), (&Method::CONNECT, "/p"));
        let protocol = request.extensions().get::<Protocol>();
        assert_eq!(protocol.map(Protocol::as_str), Some("websocket"));
    }
}
