//! Expressions in filters and formats of logs.

use envoy_types::pb::envoy::extensions::access_loggers::filters::cel::v3::ExpressionFilter;

use crate::compile::expression::{self, Site, Texts};
use crate::compile::field::{At, Rejection, fields};
use crate::config::access_log::{CapturedFields, Filter, Operator, Written, place};
use crate::expression::{Attribute, FieldName, Message};

/// A filter that takes what an expression is true for.
pub(super) fn filter(
    at: &At<'_>,
    message: &ExpressionFilter,
    wanted: &mut CapturedFields,
) -> Result<Filter, Rejection> {
    fields!(at, message => ExpressionFilter { expression, cel_config; ignore; refuse });
    let texts = expression::texts(&at.field("cel_config"), cel_config.as_ref())?;
    let at = at.field("expression");
    let tree = expression::parse(&at, expression)?;
    let made = expression::expression(&at, &tree, texts, &mut OfRecords { wanted })?;
    Ok(Filter::Expression(Box::new(made)))
}

/// `CEL(…)`. The text of a command ends at its last bracket: expressions have some of their own.
pub(super) fn operator(at: &At<'_>, command: &str, wanted: &mut CapturedFields) -> Result<Operator, Rejection> {
    let text = command.strip_prefix("CEL(").and_then(|rest| rest.strip_suffix(')'));
    let Some(text) = text else {
        return Err(at.error(format!("command operator %{command}% is not supported by this proxy")));
    };
    let tree = expression::parse(at, text)?;
    let made = expression::expression(at, &tree, Texts::default(), &mut OfRecords { wanted })?;
    Ok(Operator::Expression(Box::new(Written {
        text: text.into(),
        expression: made,
    })))
}

/// What is known of an exchange that is over, of which only wanted fields were kept.
struct OfRecords<'w> {
    wanted: &'w mut CapturedFields,
}

impl Site for OfRecords<'_> {
    fn place(&mut self, of: Message, name: &FieldName) -> Option<usize> {
        let whole = &mut self.wanted.whole;
        let names = match (of, name) {
            (Message::Request, FieldName::Named(_)) => &mut whole.request,
            (Message::Response, FieldName::Named(_)) => &mut whole.response,
            (Message::Trailers, FieldName::Named(_)) => &mut whole.trailers,
            (Message::Request, FieldName::Status) | (Message::Trailers, _) => return None,
            (Message::Request, _) | (Message::Response, FieldName::Status) => return Some(0),
            (Message::Response, _) => return None,
        };
        match name {
            FieldName::Named(name) => Some(place(names, name.clone())),
            _ => None,
        }
    }

    fn tells(&self, _: Attribute) -> bool {
        true
    }

    fn takes_computed_names(&self) -> bool {
        false
    }

    fn tells_metadata(&self) -> bool {
        true
    }
}
