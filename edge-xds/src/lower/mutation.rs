//! Edits to the headers of all messages of a listener.

use super::common::text_matcher;
use edge_ir::HeaderMutation;
use envoy_types::pb::envoy::{
    config::{
        common::mutation_rules::v3::{
            self as rules,
            header_mutation::{Action, RemoveOnMatch},
        },
        core::v3::{HeaderValue, HeaderValueOption, header_value_option::HeaderAppendAction},
    },
    extensions::filters::http::header_mutation::v3 as filter,
};

/// The filter that edits responses.
pub(super) fn of_responses(edits: &[HeaderMutation]) -> filter::HeaderMutation {
    filter::HeaderMutation {
        mutations: Some(filter::Mutations {
            response_mutations: lower(edits),
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// Edits, in order.
pub(super) fn lower(edits: &[HeaderMutation]) -> Vec<rules::HeaderMutation> {
    let action = |edit: &HeaderMutation| match edit {
        HeaderMutation::Set { name, value } => append(name, value, HeaderAppendAction::OverwriteIfExistsOrAdd),
        HeaderMutation::Add { name, value } => append(name, value, HeaderAppendAction::AppendIfExistsOrAdd),
        HeaderMutation::AddIfAbsent { name, value } => append(name, value, HeaderAppendAction::AddIfAbsent),
        HeaderMutation::Remove(name) => Action::Remove(name.to_string()),
        HeaderMutation::RemoveMatching(name) => Action::RemoveOnMatch(RemoveOnMatch {
            key_matcher: Some(text_matcher(name)),
        }),
    };
    let edits = edits.iter().map(action);
    edits
        .map(|action| rules::HeaderMutation { action: Some(action) })
        .collect()
}

fn append(name: &str, value: &str, action: HeaderAppendAction) -> Action {
    Action::Append(HeaderValueOption {
        header: Some(HeaderValue {
            key: name.to_owned(),
            // `%` starts a command operator; two stand for one.
            value: value.replace('%', "%%"),
            ..Default::default()
        }),
        append_action: action.into(),
        keep_empty_value: value.is_empty(),
        ..Default::default()
    })
}
