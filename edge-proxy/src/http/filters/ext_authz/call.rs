//! A service that is asked by a call of `envoy.service.auth.v3.Authorization`.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::time::SystemTime;

use bytes::Bytes;
use envoy_types::pb::envoy::config::core::v3::header_value_option::HeaderAppendAction;
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
use crate::calls::ask::ServiceReply;
use crate::calls::grpc;
use crate::config::filter::ext_authz::Authorizer;
use crate::config::header::PutAction;
use crate::http::Arrived;
use crate::http::filters::pseudo;
use crate::message::Protocol;
use crate::message::head::Head;

/// What a service is asked: a call with everything that it may see of a request.
pub(super) fn question(
    filter: &Authorizer,
    context: Option<&BTreeMap<String, String>>,
    of_route: &[u8],
    arrived: &Arrived<'_>,
    content: &Bytes,
) -> (Head, Bytes) {
    let message = CheckRequest {
        attributes: Some(AttributeContext {
            route_metadata_context: said_of_route(&filter.of_route, of_route),
            ..attributes(filter, context, arrived, content)
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
        Some(ip) if ip != connection.client.ip().to_canonical() => peer(ip, 0),
        _ => peer(connection.client.ip().to_canonical(), connection.client.port()),
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
pub(super) fn decision(told: &ServiceReply) -> Decision {
    let Some(response) = grpc::message::<CheckResponse>(told) else {
        return Decision::Nothing;
    };
    let is_allowed = response.status.as_ref().is_none_or(|status| status.code == 0);
    let decision = match (is_allowed, response.http_response) {
        (true, None) => Ok(Decision::Allowed(Changes::default())),
        (true, Some(HttpResponse::OkResponse(ok))) => changes(ok).map(Decision::Allowed),
        (true, Some(_)) => Ok(Decision::Nothing),
        (false, Some(HttpResponse::DeniedResponse(denied))) => denial(&denied),
        (false, Some(HttpResponse::ErrorResponse(_))) => Ok(Decision::Nothing),
        (false, _) => denial(&DeniedHttpResponse::default()),
    };
    decision.unwrap_or_else(|Impossible| Decision::Impossible)
}

/// A header that can't stand in a message.
struct Impossible;

/// A header as a service says it.
fn value(option: &HeaderValueOption) -> Result<HeaderValue, Impossible> {
    let header = option.header.as_ref().ok_or(Impossible)?;
    let value = match header.raw_value.is_empty() {
        true => HeaderValue::from_str(&header.value),
        false => HeaderValue::from_bytes(&header.raw_value),
    };
    value.map_err(|_| Impossible)
}

fn name(text: &str) -> Result<HeaderName, Impossible> {
    HeaderName::from_bytes(text.as_bytes()).map_err(|_| Impossible)
}

fn key(option: &HeaderValueOption) -> &str {
    option.header.as_ref().map_or("", |header| &header.key)
}

/// Headers of a message, without those that are about the message itself.
fn headers(
    list: &[HeaderValueOption],
) -> impl Iterator<Item = Result<(HeaderName, HeaderValue, &HeaderValueOption), Impossible>> {
    let all = list
        .iter()
        .map(|option| Ok((name(key(option))?, value(option)?, option)));
    all.filter(|header| !matches!(header, Ok((name, ..)) if is_of_message(name)))
}

/// How a header of the response goes beside those of its name.
#[allow(deprecated)]
fn action(option: &HeaderValueOption) -> PutAction {
    match (&option.append, HeaderAppendAction::try_from(option.append_action)) {
        (Some(append), _) if append.value => PutAction::Append,
        (Some(_), _) | (None, Ok(HeaderAppendAction::OverwriteIfExistsOrAdd)) => PutAction::Overwrite,
        (None, Ok(HeaderAppendAction::AddIfAbsent)) => PutAction::AddIfAbsent,
        (None, Ok(HeaderAppendAction::OverwriteIfExists)) => PutAction::OverwriteIfExists,
        (None, Ok(HeaderAppendAction::AppendIfExistsOrAdd) | Err(_)) => PutAction::Append,
    }
}

fn changes(ok: OkHttpResponse) -> Result<Changes, Impossible> {
    let mut changes = Changes::default();
    let (own, named): (Vec<_>, Vec<_>) = ok.headers.into_iter().partition(|option| pseudo::is(key(option)));
    for option in &own {
        changes.own.push((key(option).to_ascii_lowercase(), value(option)?));
    }
    for header in headers(&named) {
        let (name, value, option) = header?;
        #[allow(deprecated)]
        let beside = option.append.as_ref().is_some_and(|append| append.value);
        let list = if beside { &mut changes.added } else { &mut changes.set };
        list.push((name, value));
    }
    let removed = ok.headers_to_remove.iter().filter_map(|text| name(text).ok());
    changes.removed = removed.filter(|name| !is_of_message(name)).collect();
    for header in headers(&ok.response_headers_to_add) {
        let (name, value, option) = header?;
        changes.told.push((name, value, action(option)));
    }
    let parameters = ok.query_parameters_to_set.into_iter();
    changes.parameters = parameters
        .map(|parameter| (parameter.key, Some(parameter.value)))
        .chain(ok.query_parameters_to_remove.into_iter().map(|name| (name, None)))
        .collect();
    Ok(changes)
}

fn denial(denied: &DeniedHttpResponse) -> Result<Decision, Impossible> {
    let code = denied.status.as_ref().map_or(0, |status| status.code);
    let status = u16::try_from(code).ok().filter(|code| (200..600).contains(code));
    let status = status.and_then(|code| StatusCode::from_u16(code).ok());
    let mut fields = HeaderMap::new();
    for header in headers(&denied.headers) {
        let (name, value, _) = header?;
        fields.append(name, value);
    }
    Ok(Decision::Denied(Denial {
        status: status.unwrap_or(StatusCode::FORBIDDEN),
        fields,
        body: Bytes::from(denied.body.clone()),
    }))
}

#[cfg(test)]
mod tests {
    use envoy_types::pb::envoy::config::core::v3::HeaderValue as ProtoHeader;
    use envoy_types::pb::envoy::config::core::v3::QueryParameter;

    use super::*;

    fn option(key: &str, value: &str, append_action: HeaderAppendAction) -> HeaderValueOption {
        HeaderValueOption {
            header: Some(ProtoHeader {
                key: key.to_owned(),
                value: value.to_owned(),
                ..ProtoHeader::default()
            }),
            append_action: append_action.into(),
            ..HeaderValueOption::default()
        }
    }

    fn usual(key: &str, value: &str) -> HeaderValueOption {
        option(key, value, HeaderAppendAction::AppendIfExistsOrAdd)
    }

    #[test]
    fn what_a_service_says_is_all_taken() {
        let ok = OkHttpResponse {
            headers: vec![
                usual("x-a", "1"),
                usual(":path", "/b"),
                usual("Host", "b.example"),
                usual("te", "x"),
            ],
            headers_to_remove: vec!["x-b".to_owned(), "content-length".to_owned()],
            response_headers_to_add: vec![
                usual("x-c", "1"),
                option("x-c", "2", HeaderAppendAction::OverwriteIfExistsOrAdd),
            ],
            query_parameters_to_set: vec![QueryParameter {
                key: "q".to_owned(),
                value: "1".to_owned(),
            }],
            query_parameters_to_remove: vec!["r".to_owned()],
            ..OkHttpResponse::default()
        };
        let Ok(changes) = changes(ok) else { panic!("refused") };
        let own: Vec<_> = changes.own.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(own, [":path", "host"]);
        assert_eq!((changes.set.len(), changes.set[0].0.as_str()), (1, "x-a"));
        assert_eq!(changes.removed, ["x-b"]);
        let told: Vec<_> = changes.told.iter().map(|(.., action)| *action).collect();
        assert_eq!(told, [PutAction::Append, PutAction::Overwrite]);
        let parameters = [("q".to_owned(), Some("1".to_owned())), ("r".to_owned(), None)];
        assert_eq!(changes.parameters, parameters);
    }

    /// Left out, it would leave what the client says of itself.
    #[test]
    fn a_header_that_can_be_none_is_no_decision() {
        for header in [usual("x-a", "1\r\nx-b: 2"), usual("x a", "1")] {
            let ok = OkHttpResponse {
                headers: vec![header],
                ..OkHttpResponse::default()
            };
            assert!(changes(ok).is_err());
        }
    }

    #[test]
    fn a_refusal_has_all_its_headers() {
        let denied = DeniedHttpResponse {
            headers: vec![usual("set-cookie", "a=1"), usual("set-cookie", "b=2")],
            ..DeniedHttpResponse::default()
        };
        let Ok(Decision::Denied(denial)) = denial(&denied) else {
            panic!("something else")
        };
        assert_eq!(denial.fields.get_all("set-cookie").iter().count(), 2);
    }
}
