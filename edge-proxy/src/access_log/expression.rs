//! What expressions may ask of something that is over, and how their values are written.

use std::borrow::Cow;
use std::net::SocketAddr;

use http::HeaderValue;
use jiff::{SignedDuration, Timestamp};

use crate::access_log::value::{self, Entry, Stage};
use crate::config::access_log::AddressOf;
use crate::expression::{Attribute, Expression, Facts, Field, FieldName, Message, Metadata, Value};

impl Facts for Entry<'_> {
    fn attribute(&self, attribute: Attribute) -> Option<Value<'_>> {
        let Entry {
            client,
            record,
            status,
            fields: _,
            stage,
        } = self;
        let upstream = &record.upstream;
        let port = |socket: SocketAddr| Value::Int(socket.port().into());
        let address = |of| self.socket(of).map(|socket| Value::text(socket.to_string()));
        let target = || record.request.as_ref().map(|request| &request.target);
        match attribute {
            Attribute::RequestUrlPath => target().map(|target| Value::text(target.path())),
            Attribute::RequestQuery => target().map(|target| Value::text(target.query().unwrap_or_default())),
            Attribute::RequestProtocol => self.protocol().map(Value::text),
            Attribute::RequestTime => Timestamp::try_from(record.times.calendar).ok().map(Value::Timestamp),
            Attribute::RequestSize => i64::try_from(record.received).ok().map(Value::Int),
            // As in Envoy there is none before it is over.
            Attribute::RequestDuration if *stage == Stage::Open => None,
            Attribute::RequestDuration => {
                let duration = record.times.over.saturating_duration_since(record.times.begun);
                SignedDuration::try_from(duration).ok().map(Value::Duration)
            }
            Attribute::ResponseCode => (*status > 0).then(|| Value::Int((*status).into())),
            Attribute::ResponseCodeDetails => (!record.details.is_empty()).then(|| Value::text(&*record.details)),
            Attribute::ResponseSize => i64::try_from(record.sent).ok().map(Value::Int),
            Attribute::SourceAddress => address(AddressOf::Client),
            Attribute::SourcePort => self.socket(AddressOf::Client).map(port),
            Attribute::DestinationAddress => address(AddressOf::Local),
            Attribute::DestinationPort => self.socket(AddressOf::Local).map(port),
            Attribute::ConnectionMtls => Some(Value::Bool(client.certificate.is_some())),
            Attribute::ConnectionRequestedServerName => Some(Value::text(client.server_name.unwrap_or_default())),
            Attribute::UpstreamAddress => address(AddressOf::Backend),
            Attribute::UpstreamPort => self.socket(AddressOf::Backend).map(port),
            Attribute::UpstreamLocalAddress => address(AddressOf::ToBackend),
            Attribute::UpstreamTransportFailureReason => upstream.cluster.as_ref().map(|_| Value::text(record.failure)),
            Attribute::UpstreamRequestAttemptCount => Some(Value::Uint(upstream.attempts.into())),
            Attribute::XdsClusterName => upstream.cluster.as_ref().map(|cluster| Value::text(&*cluster.name)),
            Attribute::XdsRouteName => record.route.as_deref().map(Value::text),
            Attribute::XdsFilterChainName => Some(Value::text(client.chain)),
        }
    }

    fn field(&self, field: &Field) -> Option<Cow<'_, str>> {
        let (record, [request_fields, response, trailers]) = (self.record, self.fields.whole);
        let text = |value: &'_ HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned().into();
        let request = || record.request.as_ref();
        match (field.of, &field.name) {
            (Message::Request, FieldName::Method) => Some(request()?.method.as_str().into()),
            (Message::Request, FieldName::Path) => Some(request()?.target.as_str().into()),
            (Message::Request, FieldName::Authority) => Some(text(&request()?.authority)),
            (Message::Request, FieldName::Scheme) => Some(request()?.scheme.into()),
            (Message::Response, FieldName::Status) => (self.status > 0).then(|| self.status.to_string().into()),
            (Message::Request, _) => request_fields.get(field.place)?.as_ref().map(text),
            (Message::Response, _) => response.get(field.place)?.as_ref().map(text),
            (Message::Trailers, _) => trailers.get(field.place)?.as_ref().map(text),
        }
    }

    fn metadata(&self) -> Option<&Metadata> {
        Some(&self.record.metadata)
    }
}

/// Writes the value of an expression, if it has one.
pub(super) fn put(out: &mut Vec<u8>, expression: &Expression, entry: &Entry<'_>) -> Option<()> {
    match expression.evaluate(entry).ok()? {
        Value::Bool(value) => value::show(out, value),
        Value::Int(number) => value::show(out, number),
        Value::Uint(number) => value::show(out, number),
        Value::Text(text) => value::show(out, text),
        Value::Bytes(bytes) => {
            out.extend_from_slice(&bytes);
            Some(())
        }
        _ => None,
    }
}
