//! What expressions may ask of a request that filters are at.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::time::SystemTime;

use http::{Method, Version};
use jiff::Timestamp;

use crate::connection::Connection;
use crate::expression::{Attribute, Facts, Field, FieldName, Message, Metadata, Value};
use crate::http::Arrived;
use crate::lines::joined;
use crate::message::head::Head;

/// A request, and what filters before this one have found out about it.
pub(super) struct Attributes<'r> {
    arrived: &'r Arrived<'r>,
}

impl<'r> Attributes<'r> {
    /// Of a request as it is now.
    pub(super) fn of(arrived: &'r Arrived<'r>) -> Self {
        Self { arrived }
    }

    fn connection(&self) -> &Connection {
        &self.arrived.exchange.connection
    }

    /// When it began, by the calendar.
    fn time(&self) -> Option<Timestamp> {
        let elapsed = self.arrived.exchange.elapsed();
        Timestamp::try_from(SystemTime::now().checked_sub(elapsed)?).ok()
    }
}

impl Facts for Attributes<'_> {
    fn attribute(&self, attribute: Attribute) -> Option<Value<'_>> {
        let Arrived { head, notes, .. } = self.arrived;
        let connection = self.connection();
        let address = |address: SocketAddr| Value::text(canonical(address).to_string());
        let port = |address: SocketAddr| Value::Int(address.port().into());
        Some(match attribute {
            // A CONNECT has none.
            Attribute::RequestUrlPath if head.method == Method::CONNECT => return None,
            Attribute::RequestUrlPath => Value::text(head.target.path()),
            Attribute::RequestQuery => Value::text(head.target.query().unwrap_or_default()),
            Attribute::RequestProtocol => Value::text(match notes.version {
                Version::HTTP_2 => "HTTP/2",
                Version::HTTP_10 => "HTTP/1.0",
                _ => "HTTP/1.1",
            }),
            Attribute::RequestTime => Value::Timestamp(self.time()?),
            // Content is read, and sent, once filters have let the head through.
            Attribute::RequestSize | Attribute::ResponseSize => Value::Int(0),
            Attribute::SourceAddress => address(client(connection, head)),
            Attribute::SourcePort => port(client(connection, head)),
            Attribute::DestinationAddress => address(connection.local),
            Attribute::DestinationPort => port(connection.local),
            Attribute::ConnectionMtls => Value::Bool(connection.certificate.is_some()),
            Attribute::ConnectionRequestedServerName => {
                Value::text(connection.server_name.as_deref().unwrap_or_default())
            }
            Attribute::XdsFilterChainName => Value::text(connection.chain_name()),
            _ => return None,
        })
    }

    fn field(&self, field: &Field) -> Option<Cow<'_, str>> {
        let head = &self.arrived.head;
        match (field.of, &field.name) {
            (Message::Request, FieldName::Method) => Some(head.method.as_str().into()),
            (Message::Request, FieldName::Path) => Some(head.target.as_str().into()),
            (Message::Request, FieldName::Authority) => Some(String::from_utf8_lossy(head.authority.as_bytes())),
            (Message::Request, FieldName::Scheme) => Some(head.scheme.into()),
            (Message::Request, FieldName::Named(name)) => joined(&head.headers, name),
            _ => None,
        }
    }

    fn metadata(&self) -> Option<&Metadata> {
        Some(&self.arrived.metadata)
    }
}

/// Whose request it is. Of a client behind other proxies nobody knows the port.
fn client(connection: &Connection, head: &Head) -> SocketAddr {
    match head.client {
        Some(said) if said != connection.client.ip().to_canonical() => (said, 0).into(),
        _ => connection.client,
    }
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}
