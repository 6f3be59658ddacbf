//! Encoded messages cut at their fields: what isn't changed keeps its bytes, and nothing has to be known of it.

use bytes::Bytes;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

/// `VirtualHost.name`, and that of any resource; `VirtualHost.domains`, `.routes`.
pub(super) const NAME: u32 = 1;
pub(super) const DOMAINS: u32 = 2;
pub(super) const ROUTES: u32 = 3;
/// `RouteConfiguration.virtual_hosts`.
pub(super) const HOSTS: u32 = 2;
/// `Route.match`, `.metadata`, `.name`.
pub(super) const ROUTE_MATCH: u32 = 1;
pub(super) const ROUTE_METADATA: u32 = 4;
pub(super) const ROUTE_NAME: u32 = 14;

/// One occurrence of a field.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) number: u32,
    /// With what stands before its value.
    pub(super) whole: Bytes,
    /// The value, where it is a message, text or bytes.
    pub(super) value: Bytes,
}

/// All fields of a message, in their order; none if it is none.
pub(super) fn fields(message: &Bytes) -> Option<Vec<Field>> {
    let mut fields = Vec::new();
    let mut rest: &[u8] = message;
    while !rest.is_empty() {
        let start = message.len() - rest.len();
        let (number, wire) = decode_key(&mut rest).ok()?;
        let mut value = Bytes::new();
        if wire == WireType::LengthDelimited {
            let length = usize::try_from(decode_varint(&mut rest).ok()?).ok()?;
            let from = message.len() - rest.len();
            rest = rest.get(length..)?;
            value = message.slice(from..from + length);
        } else {
            skip_field(wire, number, &mut rest, DecodeContext::default()).ok()?;
        }
        let whole = message.slice(start..message.len() - rest.len());
        fields.push(Field { number, whole, value });
    }
    Some(fields)
}

/// The value of a field; of several the last counts.
pub(super) fn last(fields: &[Field], number: u32) -> Option<&Bytes> {
    let found = fields.iter().rev().find(|field| field.number == number);
    found.map(|field| &field.value)
}

/// The text of a field.
pub(super) fn text(fields: &[Field], number: u32) -> Option<&str> {
    std::str::from_utf8(last(fields, number)?).ok()
}

/// Whether a text stands anywhere in a message.
pub(super) fn mentions(message: &Bytes, text: &[u8]) -> bool {
    message.windows(text.len()).any(|window| window == text)
}
