//! Calls from browsers (gRPC-Web protocol), for which Envoy's filter makes gRPC calls.
//!
//! What: a request that needs the bridge is told that there is none. Why not forwarded as it is: a gRPC backend doesn't
//! know the framing, and whoever looks for the mistake finds nothing on the way that says so.
//! Deliberately absent: the bridge.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Response, StatusCode};

use crate::config::listener::HttpFilter;
use crate::downstream::connection::Connection;
use crate::http::body::ResponseBody;
use crate::http::head::Head;
use crate::http::local_reply::{self, Audience};

/// What all of the protocol's media types begin with: `application/grpc-web[-text][+proto …]`.
const PREFIX: &[u8] = b"application/grpc-web";

const REASON: &str = "gRPC-Web is not supported by this proxy: call with gRPC over HTTP/2, or let Envoy be the proxy";

/// 415 to a gRPC-Web request where the bridge is asked for.
pub(crate) fn refuse(connection: &Connection, head: &Head) -> Option<Response<ResponseBody>> {
    let content_type = head.headers.get(CONTENT_TYPE)?.as_bytes();
    // RFC 9110 §8.3.1: letters of either case.
    let is_web = content_type
        .get(..PREFIX.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(PREFIX));
    let filters = &connection.manager().filters;
    if !is_web || !filters.iter().any(|filter| matches!(filter, HttpFilter::GrpcWeb)) {
        return None;
    }
    let reason = Bytes::from_static(REASON.as_bytes());
    let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    Some(local_reply::text(status, reason, None, Audience::Http))
}
