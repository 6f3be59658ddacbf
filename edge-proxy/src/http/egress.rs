//! What the connection manager does to every response before the client gets it.

use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue, Response, StatusCode, Version};

use crate::config::http_manager::ServerHeader;
use crate::connection::Connection;
use crate::http::body::ResponseBody;
use crate::http::ingress::X_REQUEST_ID;
use crate::message::Protocol;

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");

/// Fields of the client's request that the response may repeat.
#[derive(Debug, Default)]
pub(crate) struct Echo {
    /// `x-request-id`
    pub(crate) request_id: Option<HeaderValue>,
}

/// Finishes a response. (`date` is added by the codec when it is missing.)
pub(crate) fn finish(
    connection: &Connection,
    mut response: Response<ResponseBody>,
    echo: Echo,
) -> Response<ResponseBody> {
    let manager = connection.manager();
    let status = response.status();
    *response.version_mut() = match connection.protocol {
        Protocol::Http1 => Version::HTTP_11,
        Protocol::Http2 => Version::HTTP_2,
    };
    let headers = response.headers_mut();
    match &manager.server_header {
        ServerHeader::Overwrite(value) => {
            headers.insert(header::SERVER, value.clone());
        }
        ServerHeader::AppendIfAbsent(value) => {
            if !headers.contains_key(header::SERVER) {
                headers.insert(header::SERVER, value.clone());
            }
        }
        ServerHeader::PassThrough => {}
    }
    if let Some(via) = &manager.via {
        headers.append(header::VIA, via.clone());
    }
    if let Some(id) = echo.request_id
        && manager.request_id.in_response
    {
        headers.insert(X_REQUEST_ID, id);
    }
    if connection.protocol == Protocol::Http1 && connection.is_leaving() && status != StatusCode::SWITCHING_PROTOCOLS {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Takes the fields about the backend's connection off a response (RFC 9110 §7.6.1).
pub(crate) fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let mut nominated = false;
    let (mut framing, mut others) = (false, false);
    for name in headers.keys() {
        match name.as_str() {
            "connection" => nominated = true,
            "transfer-encoding" => framing = true,
            "keep-alive" | "proxy-connection" | "upgrade" | "te" | "trailer" => others = true,
            _ => {}
        }
    }
    if nominated {
        remove_nominated(headers);
    }
    if framing {
        headers.remove(header::TRANSFER_ENCODING);
    }
    if others {
        for name in [
            KEEP_ALIVE,
            PROXY_CONNECTION,
            header::UPGRADE,
            header::TE,
            header::TRAILER,
        ] {
            headers.remove(name);
        }
    }
}

/// Removes `connection`, of which there may be several lines, and the fields that they name.
fn remove_nominated(headers: &mut HeaderMap) {
    let lines = headers.get_all(header::CONNECTION).iter().cloned();
    let lines: smallvec::SmallVec<[HeaderValue; 1]> = lines.collect();
    headers.remove(header::CONNECTION);
    for token in lines.iter().flat_map(|line| line.to_str().unwrap_or("").split(',')) {
        let token = token.trim();
        if !token.is_empty() && !token.eq_ignore_ascii_case("close") && !token.eq_ignore_ascii_case("content-length") {
            headers.remove(token);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_connection_counts() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, x-a"),
            ("connection", "X-B"),
            ("x-a", "1"),
            ("x-b", "1"),
            ("x-c", "1"),
        ] {
            headers.append(name, HeaderValue::from_static(value));
        }
        remove_hop_by_hop(&mut headers);
        let names: Vec<_> = headers.keys().collect();
        assert_eq!(names, ["x-c"]);
    }
}
