//! What of an object this version doesn't honour, said in the status of whatever kind has one.

use crate::{
    api::Metadata,
    status::{Condition, Status, StatusBody},
};

/// Type of the condition; it warns and stops nothing.
const WARNING: &str = "Warning";

/// Adds the condition wherever the status has conditions of the object itself.
pub(super) fn add(status: &mut Status, metadata: &Metadata) {
    if metadata.unsupported.is_empty() {
        return;
    }
    let message = metadata.unsupported.join("; ");
    match &mut status.body {
        StatusBody::Conditions(conditions) => join(conditions, &message),
        StatusBody::Class(class) => join(&mut class.conditions, &message),
        StatusBody::Gateway(gateway) => join(&mut gateway.conditions, &message),
        StatusBody::ListenerSet(set) => join(&mut set.conditions, &message),
        StatusBody::Unattached(_) => {}
        StatusBody::Parents { parents: entries, .. } | StatusBody::Ancestors { ancestors: entries, .. } => {
            entries
                .iter_mut()
                .for_each(|entry| join(&mut entry.conditions, &message));
        }
    }
}

/// One condition a type: with another warning it is one of both.
fn join(conditions: &mut Vec<Condition>, message: &str) {
    match conditions.iter_mut().find(|c| c.kind == WARNING) {
        Some(other) => *other = Condition::yes(WARNING, "Warnings", format!("{}; {message}", other.message)),
        None => conditions.push(Condition::yes(WARNING, "UnsupportedField", message.to_owned())),
    }
}

/// All warnings as one condition, if there are any.
pub(super) fn all(warnings: impl IntoIterator<Item = Option<Condition>>) -> Option<Condition> {
    let warnings = warnings.into_iter().flatten();
    warnings.reduce(|one, other| Condition::yes(WARNING, "Warnings", format!("{}; {}", one.message, other.message)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_warnings_are_one_condition() {
        let mut conditions = vec![Condition::yes(WARNING, "DeprecatedField", "a is old")];
        join(&mut conditions, "b is not supported");
        assert_eq!(
            conditions,
            [Condition::yes(WARNING, "Warnings", "a is old; b is not supported")]
        );
    }
}
