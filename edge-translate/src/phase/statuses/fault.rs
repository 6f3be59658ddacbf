//! What the status of an object says when our own code failed at it.

use crate::status::{Condition, Status, StatusBody};

/// Marks a status: the object as it stands isn't accepted, and that isn't its author's fault.
pub(super) fn mark(status: &mut Status, faults: &[(&'static str, &str)]) {
    let messages: Vec<String> = faults.iter().map(|(unit, text)| format!("{unit}: {text}")).collect();
    let message = format!(
        "Edge Gateway failed to translate this object. This is a bug of Edge Gateway, not a mistake in the object; what \
         was in force before stays in force. Please report it with the object and these words: {}",
        messages.join("; ")
    );
    let mark = |conditions: &mut Vec<Condition>| {
        let condition = Condition::no("Accepted", "TranslationFault", message.clone());
        match conditions.iter_mut().find(|c| c.kind == "Accepted") {
            Some(accepted) => *accepted = condition,
            None => conditions.insert(0, condition),
        }
    };
    match &mut status.body {
        StatusBody::Conditions(conditions) => mark(conditions),
        StatusBody::Class(class) => mark(&mut class.conditions),
        StatusBody::Gateway(gateway) => mark(&mut gateway.conditions),
        StatusBody::ListenerSet(set) => mark(&mut set.conditions),
        StatusBody::Unattached(_) => {}
        StatusBody::Parents { parents: entries, .. } | StatusBody::Ancestors { ancestors: entries, .. } => {
            entries.iter_mut().for_each(|entry| mark(&mut entry.conditions));
        }
    }
}
