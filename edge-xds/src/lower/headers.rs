//! Header edits.

use crate::wire::{put_message, put_str, put_text, put_varint};
use edge_ir::{HeaderEdit, HeaderEdits};
use envoy_types::pb::envoy::config::core::v3::{
    HeaderValue, HeaderValueOption, header_value_option::HeaderAppendAction,
};
use std::borrow::Cow;

/// `HeaderValueOption.header`, `.append_action`, `.keep_empty_value`.
const OPTION_HEADER: u32 = 1;
const OPTION_APPEND_ACTION: u32 = 3;
const OPTION_KEEP_EMPTY_VALUE: u32 = 4;
/// `HeaderValue.key`, `.value`.
const HEADER_KEY: u32 = 1;
const HEADER_VALUE: u32 = 2;

/// Writes headers to set and to add. The proxy removes first and adds afterwards, the IR the other way round: what
/// would be removed again is left out here.
pub(super) fn put_to_add(out: &mut Vec<u8>, number: u32, edits: &HeaderEdits) {
    let stays = |edit: &&HeaderEdit| {
        editable(&edit.name) && !edits.remove.iter().any(|name| name.eq_ignore_ascii_case(&edit.name))
    };
    for edit in edits.set.iter().filter(stays) {
        put_option(out, number, edit, HeaderAppendAction::OverwriteIfExistsOrAdd);
    }
    for edit in edits.add.iter().filter(stays) {
        put_option(out, number, edit, HeaderAppendAction::AppendIfExistsOrAdd);
    }
}

/// Headers to set and to add, for messages that are rare.
pub(super) fn to_add(edits: &HeaderEdits) -> Vec<HeaderValueOption> {
    let option = |edit: &HeaderEdit, action: HeaderAppendAction| HeaderValueOption {
        header: Some(HeaderValue {
            key: edit.name.to_string(),
            value: escaped(&edit.value).into_owned(),
            ..Default::default()
        }),
        append_action: action.into(),
        keep_empty_value: edit.value.is_empty(),
        ..Default::default()
    };
    let set = edits
        .set
        .iter()
        .map(|edit| option(edit, HeaderAppendAction::OverwriteIfExistsOrAdd));
    let add = edits
        .add
        .iter()
        .map(|edit| option(edit, HeaderAppendAction::AppendIfExistsOrAdd));
    set.chain(add).collect()
}

/// Writes headers to remove.
pub(super) fn put_to_remove(out: &mut Vec<u8>, number: u32, edits: &HeaderEdits) {
    for name in edits.remove.iter().filter(|name| editable(name)) {
        put_str(out, number, name);
    }
}

/// The value that the host is set to, if the edits do so; a proxy takes that as a host rewrite only.
pub(super) fn host_edit(edits: &HeaderEdits) -> Option<&str> {
    edits
        .set
        .iter()
        .find(|edit| edit.name.eq_ignore_ascii_case("host"))
        .map(|edit| &*edit.value)
}

/// Pseudo-headers and the host make up the request line; a proxy refuses a configuration that edits them as headers.
fn editable(name: &str) -> bool {
    !name.starts_with(':') && !name.eq_ignore_ascii_case("host")
}

fn put_option(out: &mut Vec<u8>, number: u32, edit: &HeaderEdit, action: HeaderAppendAction) {
    let value = escaped(&edit.value);
    put_message(out, number, |out| {
        put_message(out, OPTION_HEADER, |out| {
            put_text(out, HEADER_KEY, &edit.name);
            put_text(out, HEADER_VALUE, &value);
        });
        put_varint(out, OPTION_APPEND_ACTION, action as u32);
        put_varint(out, OPTION_KEEP_EMPTY_VALUE, edit.value.is_empty());
    });
}

/// `%` starts a command operator; two stand for one.
fn escaped(value: &str) -> Cow<'_, str> {
    match value.contains('%') {
        true => Cow::Owned(value.replace('%', "%%")),
        false => Cow::Borrowed(value),
    }
}
