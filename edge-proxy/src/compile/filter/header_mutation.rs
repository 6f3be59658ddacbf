//! HeaderMutation → edits of headers.

use envoy_types::pb::envoy::config::common::mutation_rules::v3::HeaderMutation as ProtoEdit;
use envoy_types::pb::envoy::config::common::mutation_rules::v3::header_mutation::{Action, RemoveOnMatch};
use envoy_types::pb::envoy::extensions::filters::http::header_mutation::v3::{HeaderMutation, Mutations};
use envoy_types::pb::google::protobuf::Any;

use crate::compile::Context;
use crate::compile::field::{At, Rejection, fields, unpack};
use crate::compile::header::{editable, put, string_condition};
use crate::config::filter::{FilterKind, HeaderMutations};
use crate::config::header::{HeaderStep, HeaderSteps, HeaderTemplate};

/// Compiles the filter of a chain.
pub(super) fn on_chain(at: &At<'_>, config: &Any, _: &mut Context) -> Result<FilterKind, Rejection> {
    let message: HeaderMutation = unpack(at, config)?;
    fields!(at, &message => HeaderMutation {
        mutations;
        // Edits of routes are refused, so there is no order among levels.
        ignore most_specific_header_mutations_wins;
        refuse
    });
    let nothing = Mutations::default();
    let (at, message) = (at.field("mutations"), mutations.as_ref().unwrap_or(&nothing));
    fields!(at, message => Mutations {
        request_mutations, response_mutations;
        ignore;
        refuse query_parameter_mutations, response_trailers_mutations, request_trailers_mutations
    });
    Ok(FilterKind::HeaderMutation(HeaderMutations {
        request: edits(&at.field("request_mutations"), request_mutations)?,
        response: edits(&at.field("response_mutations"), response_mutations)?,
    }))
}

/// Edits in their order, whose values are as they stand.
fn edits(at: &At<'_>, list: &[ProtoEdit]) -> Result<HeaderSteps, Rejection> {
    let steps = rendered(at, list)?;
    for (index, step) in steps.iter().enumerate() {
        if let HeaderStep::Put {
            value: HeaderTemplate::Parts(_),
            ..
        } = step
        {
            let at = at.index(index);
            return Err(at.error("substitution commands are not supported here"));
        }
    }
    Ok(steps)
}

/// Edits in their order, whose values may have substitution commands.
pub(in crate::compile) fn rendered(at: &At<'_>, list: &[ProtoEdit]) -> Result<HeaderSteps, Rejection> {
    let list = list.iter().enumerate();
    list.map(|(index, edit)| step(&at.index(index), edit)).collect()
}

fn step(at: &At<'_>, message: &ProtoEdit) -> Result<HeaderStep, Rejection> {
    match &message.action {
        Some(Action::Remove(name)) => Ok(HeaderStep::Remove(editable(&at.field("remove"), name)?)),
        Some(Action::Append(option)) => put(&at.field("append"), option),
        Some(Action::RemoveOnMatch(message)) => {
            let at = at.field("remove_on_match");
            fields!(at, message => RemoveOnMatch { key_matcher; ignore; refuse });
            let Some(matcher) = key_matcher else {
                return Err(at.field("key_matcher").error("is required"));
            };
            string_condition(&at.field("key_matcher"), matcher).map(|names| HeaderStep::RemoveAll(Box::new(names)))
        }
        None => Err(at.error("an action is required")),
    }
}
