//! A service that is asked by a call of `envoy.service.auth.v3.Authorization`.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::time::SystemTime;

use bytes::Bytes;
use envoy_types::pb::envoy::config::core::v3::{
    Address, HeaderValueOption, Metadata, SocketAddress, address, socket_address::PortSpecifier,
};
use envoy_types::pb::envoy::service::auth::v3::attribute_context::{HttpRequest, Peer, Request};
use envoy_types::pb::envoy::service::auth::v3::check_response::HttpResponse;
use envoy_types::pb::envoy::service::auth::v3::{
    AttributeContext, CheckRequest, CheckResponse, DeniedHttpResponse, OkHttpResponse,
};
use envoy_types::pb::google::protobuf::Timestamp;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use prost::Message;

use super::{Changes, Decision, Denial, is_of_message};
use crate::calls::ask::Told;
use crate::calls::grpc;
use crate::config::filter::authorizer::Authorizer;
use crate::http::Arrived;
use crate::message::Protocol;
use crate::message::head::Head;

/// What a service is asked: a call with everything that it may see of a request.
pub(super) fn question(
    filter: &Authorizer,
    (told, of_route): (Option<&BTreeMap<String, String>>, &[u8]),
    arrived: &Arrived<'_>,
    content: &Bytes,
) -> (Head, Bytes) {
    let message = CheckRequest {
        attributes: Some(AttributeContext {
            route_metadata_context: said_of_route(&filter.of_route, of_route),
            ..attributes(filter, told, arrived, content)
        }),
    };
    grpc::of(
        "/envoy.service.auth.v3.Authorization/Check",
        &filter.authority,
        &message,
    )
}

/// What is said of the route for some.
fn said_of_route(names: &[String], of_route: &[u8]) -> Option<Metadata> {
    if names.is_empty() {
        return None;
    }
    let mut said = Metadata::decode(of_route).unwrap_or_default();
    said.filter_metadata.retain(|name, _| names.contains(name));
    Some(said)
}

fn attributes(
    filter: &Authorizer,
    told: Option<&BTreeMap<String, String>>,
    arrived: &Arrived<'_>,
    content: &Bytes,
) -> AttributeContext {
    let (connection, head) = (&arrived.exchange.connection, &arrived.head);
    let client = head.client;
    let peer = |ip: std::net::IpAddr, port: u16| Peer {
        address: Some(Address {
            address: Some(address::Address::SocketAddress(SocketAddress {
                address: ip.to_string(),
                port_specifier: Some(PortSpecifier::PortValue(port.into())),
                ..SocketAddress::default()
            })),
        }),
        ..Peer::default()
    };
    let source = match client {
        // Of a client behind other proxies nobody knows the port.
        Some(ip) if ip != connection.peer.ip().to_canonical() => peer(ip, 0),
        _ => peer(connection.peer.ip().to_canonical(), connection.peer.port()),
    };
    let since = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    let text = |value: Option<&HeaderValue>| value.and_then(|value| value.to_str().ok()).unwrap_or("").to_owned();
    AttributeContext {
        source: Some(source),
        destination: Some(peer(connection.local.ip().to_canonical(), connection.local.port())),
        request: Some(Request {
            time: Some(Timestamp {
                seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
                nanos: since.subsec_nanos().cast_signed(),
            }),
            http: Some(HttpRequest {
                id: text(head.headers.get("x-request-id")),
                method: head.method.to_string(),
                headers: seen(filter, head),
                path: head.target.to_string(),
                host: head.authority_text().to_owned(),
                scheme: head.scheme.to_owned(),
                size: text(head.headers.get(header::CONTENT_LENGTH)).parse().unwrap_or(-1),
                protocol: match connection.protocol {
                    Protocol::Http1 => "HTTP/1.1",
                    Protocol::Http2 => "HTTP/2",
                }
                .to_owned(),
                body: String::from_utf8_lossy(content).into_owned(),
                ..HttpRequest::default()
            }),
        }),
        context_extensions: told
            .into_iter()
            .flatten()
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect(),
        ..AttributeContext::default()
    }
}

/// The headers that a service may see, those that HTTP/2 has in their place among them.
fn seen(filter: &Authorizer, head: &Head) -> HashMap<String, String> {
    let is_seen = |name: &str| {
        let allowed = filter.allowed.as_ref();
        let is_in = |list: &[crate::config::header::StringCondition]| list.iter().any(|one| one.matches(name));
        allowed.is_none_or(|allowed| is_in(allowed)) && !is_in(&filter.disallowed)
    };
    let mut seen = HashMap::new();
    let own = [
        (":authority", head.authority_text()),
        (":method", head.method.as_str()),
        (":path", head.target.as_str()),
        (":scheme", head.scheme),
    ];
    for (name, value) in own.into_iter().filter(|(name, _)| is_seen(name)) {
        seen.insert(name.to_owned(), value.to_owned());
    }
    for name in head.headers.keys().filter(|name| is_seen(name.as_str())) {
        let values = head.headers.get_all(name).iter();
        let values: Vec<_> = values.map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
        seen.insert(name.to_string(), values.join(","));
    }
    seen
}

/// What a service has said.
pub(super) fn decision(told: &Told) -> Decision {
    let Some(response) = grpc::message::<CheckResponse>(told) else {
        return Decision::Nothing;
    };
    let is_allowed = response.status.as_ref().is_none_or(|status| status.code == 0);
    match (is_allowed, response.http_response) {
        (true, None) => Decision::Allowed(Changes::default()),
        (true, Some(HttpResponse::OkResponse(ok))) => Decision::Allowed(changes(&ok)),
        (true, Some(_)) => Decision::Nothing,
        (false, Some(HttpResponse::DeniedResponse(denied))) => denial(&denied),
        (false, Some(HttpResponse::ErrorResponse(_))) => Decision::Nothing,
        (false, _) => denial(&DeniedHttpResponse::default()),
    }
}

/// Headers that can stand in a message, and whether each is to stand beside others.
fn headers(list: &[HeaderValueOption]) -> impl Iterator<Item = (HeaderName, HeaderValue, bool)> {
    list.iter().filter_map(|option| {
        let header = option.header.as_ref()?;
        let name = HeaderName::from_bytes(header.key.as_bytes()).ok()?;
        let value = match header.raw_value.is_empty() {
            true => HeaderValue::from_str(&header.value).ok()?,
            false => HeaderValue::from_bytes(&header.raw_value).ok()?,
        };
        #[allow(deprecated)]
        let beside = option.append.as_ref().is_some_and(|append| append.value);
        (!is_of_message(&name)).then_some((name, value, beside))
    })
}

fn changes(ok: &OkHttpResponse) -> Changes {
    let mut changes = Changes::default();
    for (name, value, beside) in headers(&ok.headers) {
        let list = if beside { &mut changes.added } else { &mut changes.set };
        list.push((name, value));
    }
    changes.removed = ok
        .headers_to_remove
        .iter()
        .filter_map(|name| HeaderName::from_bytes(name.as_bytes()).ok())
        .filter(|name| !is_of_message(name))
        .collect();
    changes.told = headers(&ok.response_headers_to_add)
        .map(|(name, value, _)| (name, value))
        .collect();
    changes
}

fn denial(denied: &DeniedHttpResponse) -> Decision {
    let code = denied.status.as_ref().map_or(0, |status| status.code);
    let status = u16::try_from(code).ok().filter(|code| (200..600).contains(code));
    let status = status.and_then(|code| StatusCode::from_u16(code).ok());
    let mut fields = HeaderMap::new();
    for (name, value, beside) in headers(&denied.headers) {
        if beside {
            fields.append(name, value);
        } else {
            fields.insert(name, value);
        }
    }
    Decision::Denied(Denial {
        status: status.unwrap_or(StatusCode::FORBIDDEN),
        fields,
        body: Bytes::from(denied.body.clone()),
    })
}
