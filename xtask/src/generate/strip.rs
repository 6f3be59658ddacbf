//! Takes out of a descriptor set what nothing reads: services, options for validation and documentation, JSON names
//! that follow the rule, and the files that only define such options.
//!
//! What remains is what converting to and from JSON needs, and which fields hold secrets. The work is done on the
//! encoded form: what isn't named here goes, custom options included, for which the decoded form has no place.

use anyhow::{Context, Result, bail};
use prost::encoding::{WireType, decode_key, decode_varint, encode_varint};

/// Files that define options for validation, documentation and code generation.
const OPTION_FILES: [&str; 7] = [
    "validate/",
    "udpa/annotations/",
    "xds/annotations/",
    "envoy/annotations/",
    "google/api/annotations.proto",
    "google/api/http.proto",
    "google/protobuf/compiler/",
];

/// `udpa.annotations.sensitive` of fields.
const SENSITIVE: u32 = 76_569_463;

/// Takes an encoded `FileDescriptorSet` and returns the smaller one.
pub(super) fn strip(set: &[u8]) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(set.len());
    for file in fields(set)? {
        let file_fields = fields(file.payload)?;
        let name = file_fields
            .iter()
            .find(|field| field.number == 1)
            .context("a file without name")?;
        if !defines_options(name.payload) {
            put(&mut out, 1, &strip_file(&file_fields)?);
        }
    }
    Ok(out)
}

fn defines_options(name: &[u8]) -> bool {
    OPTION_FILES.iter().any(|prefix| name.starts_with(prefix.as_bytes()))
}

fn strip_file(file: &[Field<'_>]) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    let shrinks = file
        .iter()
        .any(|field| field.number == 3 && defines_options(field.payload));
    for field in file {
        match field.number {
            3 if defines_options(field.payload) => {}
            // Indexes into the list of imports.
            10 | 11 if shrinks => bail!("a file with public or weak imports also imports options"),
            1..=3 | 10..=12 | 14 => out.extend_from_slice(field.raw),
            4 => put(&mut out, 4, &strip_message(field.payload)?),
            5 => put(&mut out, 5, &strip_enum(field.payload)?),
            7 => put(&mut out, 7, &strip_field(field.payload)?),
            _ => {}
        }
    }
    Ok(out)
}

fn strip_message(message: &[u8]) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    for field in fields(message)? {
        match field.number {
            1 | 5 => out.extend_from_slice(field.raw),
            2 | 6 => put(&mut out, field.number, &strip_field(field.payload)?),
            3 => put(&mut out, 3, &strip_message(field.payload)?),
            4 => put(&mut out, 4, &strip_enum(field.payload)?),
            // `map_entry` is what makes a map of a repeated message.
            7 => put_if_any(&mut out, 7, &keep(field.payload, &[7])?),
            8 => put(&mut out, 8, &strip_oneof(field.payload)?),
            _ => {}
        }
    }
    Ok(out)
}

fn strip_oneof(oneof: &[u8]) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    for field in fields(oneof)? {
        if field.number == 1 {
            out.extend_from_slice(field.raw);
        }
    }
    Ok(out)
}

fn strip_field(descriptor: &[u8]) -> Result<Vec<u8>> {
    let parts = fields(descriptor)?;
    let name = parts
        .iter()
        .find(|part| part.number == 1)
        .context("a field without name")?;
    let mut out = Vec::new();
    for part in &parts {
        match part.number {
            // `packed` changes how the field is encoded; what is `udpa.annotations.sensitive` isn't shown.
            8 => put_if_any(&mut out, 8, &keep(part.payload, &[2, SENSITIVE])?),
            10 if part.payload == default_json_name(name.payload) => {}
            _ => out.extend_from_slice(part.raw),
        }
    }
    Ok(out)
}

fn strip_enum(enumeration: &[u8]) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    for field in fields(enumeration)? {
        match field.number {
            1 => out.extend_from_slice(field.raw),
            2 => {
                let mut value = Vec::new();
                for part in fields(field.payload)?
                    .iter()
                    .filter(|part| matches!(part.number, 1 | 2))
                {
                    value.extend_from_slice(part.raw);
                }
                put(&mut out, 2, &value);
            }
            // `allow_alias`: without it two values of one number are refused.
            3 => put_if_any(&mut out, 3, &keep(field.payload, &[2])?),
            _ => {}
        }
    }
    Ok(out)
}

/// The options with the wanted numbers.
pub(super) fn keep(options: &[u8], wanted: &[u32]) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    for field in fields(options)? {
        if wanted.contains(&field.number) {
            out.extend_from_slice(field.raw);
        }
    }
    Ok(out)
}

/// The JSON name of a field that doesn't ask for another one: underscores gone, the letter after each in capital.
fn default_json_name(name: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len());
    let mut after_underscore = false;
    for &byte in name {
        match byte {
            b'_' => after_underscore = true,
            _ if after_underscore => {
                out.push(byte.to_ascii_uppercase());
                after_underscore = false;
            }
            _ => out.push(byte),
        }
    }
    out
}

/// A field of an encoded message.
pub(super) struct Field<'a> {
    pub(super) number: u32,
    /// Key and value as they stand.
    pub(super) raw: &'a [u8],
    /// The content of a length-delimited field; empty for others.
    pub(super) payload: &'a [u8],
}

pub(super) fn fields(message: &[u8]) -> Result<Vec<Field<'_>>> {
    let mut out = Vec::new();
    let mut rest = message;
    while !rest.is_empty() {
        let start = rest;
        let (number, wire_type) = decode_key(&mut rest)?;
        let length = match wire_type {
            WireType::Varint => {
                decode_varint(&mut rest)?;
                0
            }
            WireType::LengthDelimited => usize::try_from(decode_varint(&mut rest)?)?,
            WireType::ThirtyTwoBit => 4,
            WireType::SixtyFourBit => 8,
            WireType::StartGroup | WireType::EndGroup => bail!("groups are not supported"),
        };
        let payload = rest.get(..length).context("a field that ends early")?;
        rest = &rest[length..];
        out.push(Field {
            number,
            raw: &start[..start.len() - rest.len()],
            payload,
        });
    }
    Ok(out)
}

pub(super) fn put(out: &mut Vec<u8>, number: u32, payload: &[u8]) {
    encode_varint(u64::from(number << 3 | 2), out);
    encode_varint(payload.len() as u64, out);
    out.extend_from_slice(payload);
}

pub(super) fn put_if_any(out: &mut Vec<u8>, number: u32, payload: &[u8]) {
    if !payload.is_empty() {
        put(out, number, payload);
    }
}
