//! Which statements of a status are bad news.

use super::{
    ClassStatus, Condition, GatewayStatus, ListenerSetStatus, ListenerStatus, ParentStatus, Status, StatusBody, Truth,
};
use crate::api::ParentReference;

/// Conditions that are bad news when they hold; all others are when they don't.
const NEGATIVE: [&str; 7] = [
    "CertificateOutOfDate",
    "Conflicted",
    "InsecureFrontendValidationMode",
    "OverlappingTLSConfig",
    "PartiallyInvalid",
    "RouteRulesOverlap",
    "Warning",
];

/// A statement that is bad news.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Problem<'a> {
    /// The part of the object that it is about: a listener, or a parent or ancestor.
    pub part: Option<String>,
    /// What is wrong, in few words: type and reason of a condition.
    pub what: String,
    /// The sentence about it.
    pub message: &'a str,
}

/// Whether a condition of a type is bad news: most are where they don't hold.
pub fn is_bad_news(kind: &str, truth: Truth) -> bool {
    (truth == Truth::True) == NEGATIVE.contains(&kind)
}

impl Condition {
    /// Whether it is bad news.
    pub fn is_problem(&self) -> bool {
        is_bad_news(self.kind, self.status)
    }
}

impl Status {
    /// Everything in it that is bad news, in its order.
    pub fn problems(&self) -> Vec<Problem<'_>> {
        match &self.body {
            StatusBody::Conditions(conditions) | StatusBody::Class(ClassStatus { conditions, .. }) => {
                of(None, conditions).collect()
            }
            StatusBody::Gateway(GatewayStatus {
                conditions, listeners, ..
            })
            | StatusBody::ListenerSet(ListenerSetStatus { conditions, listeners }) => of(None, conditions)
                .chain(listeners.iter().flat_map(of_listener))
                .collect(),
            StatusBody::Unattached(sentences) => sentences.iter().map(|sentence| not_attached(sentence)).collect(),
            StatusBody::Parents { parents: list, .. } | StatusBody::Ancestors { ancestors: list, .. } => {
                list.iter().flat_map(of_parent).collect()
            }
        }
    }
}

fn of(part: Option<String>, conditions: &[Condition]) -> impl Iterator<Item = Problem<'_>> {
    let problems = conditions.iter().filter(|condition| condition.is_problem());
    problems.map(move |condition| Problem {
        part: part.clone(),
        what: format!("{} {}", condition.kind, condition.reason),
        message: &condition.message,
    })
}

fn not_attached(message: &str) -> Problem<'_> {
    Problem {
        part: None,
        what: "not attached".into(),
        message,
    }
}

fn of_listener(listener: &ListenerStatus) -> impl Iterator<Item = Problem<'_>> {
    of(Some(format!("listener {}", listener.name)), &listener.conditions)
}

fn of_parent(parent: &ParentStatus) -> impl Iterator<Item = Problem<'_>> {
    let ParentReference {
        kind,
        namespace,
        name,
        section_name,
        ..
    } = &*parent.parent;
    let namespace = namespace
        .as_ref()
        .map(|namespace| format!("{namespace}/"))
        .unwrap_or_default();
    let section = section_name
        .as_ref()
        .map(|section| format!("/{section}"))
        .unwrap_or_default();
    of(Some(format!("{kind} {namespace}{name}{section}")), &parent.conditions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_bad_news_depends_on_the_type() {
        let conditions = vec![
            Condition::yes("Accepted", "Accepted", ""),
            Condition::no("ResolvedRefs", "BackendNotFound", ""),
            Condition::no("Conflicted", "NoConflicts", ""),
            Condition::yes("PartiallyInvalid", "UnsupportedValue", ""),
        ];
        let status = Status {
            observed_generation: 1,
            body: StatusBody::Gateway(GatewayStatus {
                listeners: vec![ListenerStatus {
                    name: "http".into(),
                    supported_kinds: Vec::new(),
                    attached_routes: 0,
                    conditions,
                }],
                ..GatewayStatus::default()
            }),
        };
        let what: Vec<_> = status.problems().into_iter().map(|p| p.what).collect();
        assert_eq!(
            what,
            ["ResolvedRefs BackendNotFound", "PartiallyInvalid UnsupportedValue"]
        );
        assert_eq!(status.problems()[0].part.as_deref(), Some("listener http"));
    }
}
