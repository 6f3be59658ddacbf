//! Which values Envoy takes in the fields of its messages: the options of `protoc-gen-validate`, cut out of a
//! descriptor set into a file of their own, so that who only reads and writes messages doesn't carry them.
//!
//! What remains has the shape of a descriptor set: packages, messages by name, fields by number and oneofs by name,
//! each with the option and nothing else.

use super::strip::{Field, fields, keep, put, put_if_any};
use anyhow::Result;

/// `validate.rules` of fields and `validate.required` of oneofs.
const RULES: u32 = 1071;

/// Takes an encoded `FileDescriptorSet` and returns the rules in it.
pub(super) fn rules(set: &[u8]) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    for file in fields(set)? {
        let mut package = Vec::new();
        let mut messages = Vec::new();
        for field in fields(file.payload)? {
            match field.number {
                2 => package.extend_from_slice(field.raw),
                4 => put_if_any(&mut messages, 4, &of_message(field.payload)?),
                _ => {}
            }
        }
        if !messages.is_empty() {
            put(&mut out, 1, &[package, messages].concat());
        }
    }
    Ok(out)
}

/// A message with its name; nothing where there is no rule in it.
fn of_message(message: &[u8]) -> Result<Vec<u8>> {
    let mut name = Vec::new();
    let mut found = Vec::new();
    for field in fields(message)? {
        match field.number {
            1 => name.extend_from_slice(field.raw),
            2 => put_if_any(&mut found, 2, &with_option(field.payload, 3, 8)?),
            3 => put_if_any(&mut found, 3, &of_message(field.payload)?),
            8 => put_if_any(&mut found, 8, &with_option(field.payload, 1, 2)?),
            _ => {}
        }
    }
    Ok(match found.is_empty() {
        true => found,
        false => [name, found].concat(),
    })
}

/// What tells a field or oneof from others, and its rule; nothing where it has none.
fn with_option(descriptor: &[u8], identity: u32, options: u32) -> Result<Vec<u8>> {
    let parts = fields(descriptor)?;
    let payload = |part: &&Field<'_>| part.number == options;
    let rule = parts
        .iter()
        .find(payload)
        .map(|part| keep(part.payload, &[RULES]))
        .transpose()?;
    let Some(rule) = rule.filter(|rule| !rule.is_empty()) else {
        return Ok(Vec::new());
    };
    let mut out = Vec::new();
    let same = parts.iter().filter(|part| part.number == identity);
    same.for_each(|part| out.extend_from_slice(part.raw));
    put(&mut out, options, &rule);
    Ok(out)
}
