//! The descriptor set that is compiled in, and parts of it.
//!
//! Decoding all of it costs milliseconds and megabytes, so a part is cut out on the encoded form: a file is found by
//! the types it defines, and taken together with the files it imports. The set lists imports before their users.

use super::JsonError;
use prost::encoding::{WireType, decode_key, decode_varint};
use std::collections::{BTreeMap, BTreeSet};

/// Descriptors of Envoy's v3 API, made by `cargo xtask gen`.
pub(super) const ALL: &[u8] = include_bytes!("../envoy.fds");

/// Cuts out the files that define the types of these names, and their imports, as an encoded descriptor set. Types that
/// no file defines are left out.
pub(super) fn closure<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Vec<u8>, JsonError> {
    let files = files()?;
    let by_name: BTreeMap<&str, usize> = files.iter().enumerate().map(|(n, file)| (file.name, n)).collect();
    let mut wanted = BTreeSet::new();
    let mut open: Vec<usize> = names
        .into_iter()
        .filter_map(|name| files.iter().position(|file| file.defines(name)))
        .collect();
    while let Some(n) = open.pop() {
        if wanted.insert(n) {
            open.extend(files[n].imports.iter().filter_map(|import| by_name.get(import)));
        }
    }
    Ok(wanted.into_iter().flat_map(|n| files[n].raw).copied().collect())
}

/// What is read of a file without decoding it.
#[derive(Default)]
struct File<'a> {
    raw: &'a [u8],
    name: &'a str,
    package: &'a str,
    imports: Vec<&'a str>,
    messages: Vec<&'a str>,
}

impl File<'_> {
    /// Whether a type of this full name, or one that it is nested in, stands in the file.
    fn defines(&self, full_name: &str) -> bool {
        let rest = full_name
            .strip_prefix(self.package)
            .and_then(|rest| rest.strip_prefix('.'));
        let outermost = rest.map(|rest| rest.split('.').next().unwrap_or_default());
        outermost.is_some_and(|outermost| self.messages.contains(&outermost))
    }
}

fn files() -> Result<Vec<File<'static>>, JsonError> {
    let mut files = Vec::new();
    for (_, raw, payload) in fields(ALL)? {
        let mut file = File { raw, ..File::default() };
        for (number, _, payload) in fields(payload)? {
            match number {
                1 => file.name = text(payload)?,
                2 => file.package = text(payload)?,
                3 => file.imports.push(text(payload)?),
                4 => {
                    let name = fields(payload)?.into_iter().find(|(number, ..)| *number == 1);
                    file.messages.push(text(name.map_or(&[], |(_, _, payload)| payload))?);
                }
                _ => {}
            }
        }
        files.push(file);
    }
    Ok(files)
}

fn text(bytes: &[u8]) -> Result<&str, JsonError> {
    std::str::from_utf8(bytes).map_err(|error| JsonError::Descriptors(error.to_string()))
}

/// Number, whole field and content of a field; the content is empty unless length-delimited.
type Field<'a> = (u32, &'a [u8], &'a [u8]);

/// The fields of an encoded message.
fn fields(message: &[u8]) -> Result<Vec<Field<'_>>, JsonError> {
    let damaged = |error: prost::DecodeError| JsonError::Descriptors(error.to_string());
    let mut out = Vec::new();
    let mut rest = message;
    while !rest.is_empty() {
        let start = rest;
        let (number, wire_type) = decode_key(&mut rest).map_err(damaged)?;
        let mut payload: &[u8] = &[];
        let varint = decode_varint(&mut rest).map_err(damaged)?;
        match wire_type {
            WireType::Varint => {}
            WireType::LengthDelimited => {
                let cut = usize::try_from(varint)
                    .ok()
                    .and_then(|length| rest.split_at_checked(length));
                (payload, rest) = cut.ok_or_else(|| JsonError::Descriptors("a field ends early".to_owned()))?;
            }
            _ => return Err(JsonError::Descriptors(format!("field {number} has an unexpected form"))),
        }
        out.push((number, &start[..start.len() - rest.len()], payload));
    }
    Ok(out)
}
