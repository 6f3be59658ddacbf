//! Header edits.

use edge_ir::{HeaderEdit, HeaderEdits};
use envoy_types::pb::envoy::config::core::v3::{
    HeaderValue, HeaderValueOption, header_value_option::HeaderAppendAction,
};

/// Headers to set and to add. The proxy removes first and adds afterwards, the IR the other way round: what would be
/// removed again is left out here.
pub(super) fn to_add(edits: &HeaderEdits) -> Vec<HeaderValueOption> {
    let stays = |edit: &&HeaderEdit| {
        editable(&edit.name) && !edits.remove.iter().any(|name| name.eq_ignore_ascii_case(&edit.name))
    };
    let set = edits
        .set
        .iter()
        .filter(stays)
        .map(|edit| option(edit, HeaderAppendAction::OverwriteIfExistsOrAdd));
    let add = edits
        .add
        .iter()
        .filter(stays)
        .map(|edit| option(edit, HeaderAppendAction::AppendIfExistsOrAdd));
    set.chain(add).collect()
}

/// Headers to remove.
pub(super) fn to_remove(edits: &HeaderEdits) -> Vec<String> {
    edits
        .remove
        .iter()
        .filter(|name| editable(name))
        .map(|name| name.to_string())
        .collect()
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

fn option(edit: &HeaderEdit, action: HeaderAppendAction) -> HeaderValueOption {
    // `%` starts a command operator; two stand for one.
    let value = if edit.value.contains('%') {
        edit.value.replace('%', "%%")
    } else {
        edit.value.to_string()
    };
    HeaderValueOption {
        header: Some(HeaderValue {
            key: edit.name.to_string(),
            value,
            ..Default::default()
        }),
        append_action: action.into(),
        keep_empty_value: edit.value.is_empty(),
        ..Default::default()
    }
}
