//! What the service is told of an exchange besides its messages, by the names and in the words of Envoy's attributes.

use std::net::SocketAddr;

use envoy_types::pb::google::protobuf::value::Kind;
use envoy_types::pb::google::protobuf::{Struct, Value};
use http::{HeaderName, StatusCode, header};

use crate::config::filter::ext_proc::Attribute;
use crate::connection::Connection;
use crate::http::ingress::X_REQUEST_ID;
use crate::message::Protocol;
use crate::message::head::Head;

/// What is known.
pub(super) struct Known<'k> {
    pub(super) connection: &'k Connection,
    /// The request, if the filter has seen it.
    pub(super) head: Option<&'k Head>,
    pub(super) route: &'k str,
    pub(super) status: Option<StatusCode>,
}

/// The values of attributes. What isn't known is left out.
pub(super) fn told(attributes: &[Attribute], known: &Known<'_>) -> Struct {
    let told = attributes.iter().filter_map(|attribute| {
        let kind = match attribute {
            Attribute::MutualTls => Kind::BoolValue(known.connection.certificate.is_some()),
            Attribute::SourcePort => Kind::NumberValue(client(known).port().into()),
            Attribute::DestinationPort => Kind::NumberValue(known.connection.local.port().into()),
            Attribute::ResponseCode => Kind::NumberValue(known.status?.as_u16().into()),
            _ => Kind::StringValue(text(*attribute, known)?),
        };
        Some((attribute.name().to_owned(), Value { kind: Some(kind) }))
    });
    Struct { fields: told.collect() }
}

fn text(attribute: Attribute, known: &Known<'_>) -> Option<String> {
    let connection = known.connection;
    let field = |name: HeaderName| {
        let value = known.head?.headers.get(name)?;
        Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    let target = || known.head.map(|head| &head.target);
    Some(match attribute {
        Attribute::Path => target()?.as_str().to_owned(),
        Attribute::UrlPath => target()?.path().to_owned(),
        Attribute::Query => target()?.query().unwrap_or_default().to_owned(),
        Attribute::Host => known.head?.authority_text().to_owned(),
        Attribute::Scheme => known.head?.scheme.to_owned(),
        Attribute::Method => known.head?.method.to_string(),
        Attribute::Referer => field(header::REFERER)?,
        Attribute::UserAgent => field(header::USER_AGENT)?,
        Attribute::Id => field(X_REQUEST_ID)?,
        Attribute::Protocol => match connection.protocol {
            Protocol::Http1 => "HTTP/1.1",
            Protocol::Http2 => "HTTP/2",
        }
        .to_owned(),
        Attribute::Source => client(known).to_string(),
        Attribute::Destination => {
            SocketAddr::new(connection.local.ip().to_canonical(), connection.local.port()).to_string()
        }
        Attribute::ServerName => connection.server_name.as_deref().unwrap_or_default().to_owned(),
        Attribute::RouteName => known.route.to_owned(),
        Attribute::MutualTls | Attribute::SourcePort | Attribute::DestinationPort | Attribute::ResponseCode => {
            return None;
        }
    })
}

/// Whose request it is.
fn client(known: &Known<'_>) -> SocketAddr {
    let peer = known.connection.client;
    match known.head.and_then(|head| head.client) {
        // Of a client behind other proxies nobody knows the port.
        Some(ip) if ip != peer.ip().to_canonical() => (ip, 0).into(),
        _ => SocketAddr::new(peer.ip().to_canonical(), peer.port()),
    }
}
