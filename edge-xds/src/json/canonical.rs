//! One order for the entries of maps: a dynamic message writes them in any, and equal JSON must give equal bytes.

use prost::{
    DecodeError,
    encoding::{DecodeContext, WireType, decode_key, decode_varint, encode_key, encode_varint, skip_field},
};
use prost_reflect::{DescriptorPool, Kind, MessageDescriptor};

/// The only message whose bytes hold a message that no descriptor of it tells.
const ANY: &str = "google.protobuf.Any";
/// Fields of `Any`.
const TYPE_URL: u32 = 1;
const VALUE: u32 = 2;

/// An encoded message with the entries of its maps, and of those within, sorted by their bytes.
pub(super) fn sort_maps(pool: &DescriptorPool, of: &MessageDescriptor, bytes: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let mut out = Sorted {
        bytes: Vec::with_capacity(bytes.len()),
        map: None,
    };
    let within_any = (of.full_name() == ANY)
        .then(|| any_type(pool, bytes))
        .transpose()?
        .flatten();
    let mut rest = bytes;
    while !rest.is_empty() {
        let whole = rest;
        let (number, wire) = decode_key(&mut rest)?;
        let field = of.get_field(number);
        let kind = field.as_ref().map(|field| field.kind());
        let message = match (&within_any, number, kind) {
            (Some(message), VALUE, _) => Some(message.clone()),
            (_, _, Some(Kind::Message(message))) => Some(message),
            _ => None,
        };
        let (WireType::LengthDelimited, Some(message)) = (wire, message) else {
            skip_field(wire, number, &mut rest, DecodeContext::default())?;
            out.flush();
            out.bytes.extend_from_slice(&whole[..whole.len() - rest.len()]);
            continue;
        };
        let inner = sort_maps(pool, &message, taken(&mut rest)?)?;
        let mut written = Vec::with_capacity(inner.len() + 8);
        encode_key(number, wire, &mut written);
        encode_varint(inner.len() as u64, &mut written);
        written.extend_from_slice(&inner);
        out.put(
            number,
            written,
            field.is_some_and(|field| field.is_map()).then_some(number),
        );
    }
    out.flush();
    Ok(out.bytes)
}

/// What is written, and the entries of the map that is being read.
struct Sorted {
    bytes: Vec<u8>,
    map: Option<(u32, Vec<Vec<u8>>)>,
}

impl Sorted {
    fn put(&mut self, number: u32, written: Vec<u8>, map: Option<u32>) {
        match &mut self.map {
            Some((of, entries)) if map.is_some() && *of == number => entries.push(written),
            _ => {
                self.flush();
                match map {
                    Some(number) => self.map = Some((number, vec![written])),
                    None => self.bytes.extend_from_slice(&written),
                }
            }
        }
    }

    fn flush(&mut self) {
        let Some((_, mut entries)) = self.map.take() else {
            return;
        };
        entries.sort_unstable();
        entries.iter().for_each(|entry| self.bytes.extend_from_slice(entry));
    }
}

/// The content of a field with a length.
fn taken<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], DecodeError> {
    let len = usize::try_from(decode_varint(rest)?).unwrap_or(usize::MAX);
    let Some((content, after)) = rest.split_at_checked(len) else {
        // The library's own error, which has no constructor: reading behind the end.
        return decode_varint(&mut [].as_slice()).map(|_| [].as_slice());
    };
    *rest = after;
    Ok(content)
}

/// The type of the message in an `Any`; none if nobody knows it.
fn any_type(pool: &DescriptorPool, bytes: &[u8]) -> Result<Option<MessageDescriptor>, DecodeError> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let (number, wire) = decode_key(&mut rest)?;
        if number == TYPE_URL && wire == WireType::LengthDelimited {
            let url = std::str::from_utf8(taken(&mut rest)?).unwrap_or_default();
            return Ok(pool.get_message_by_name(super::full_name(url)));
        }
        skip_field(wire, number, &mut rest, DecodeContext::default())?;
    }
    Ok(None)
}
