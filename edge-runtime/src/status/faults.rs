//! What the log says about statuses: one line when a statement turns bad, one when it is good again, none in between.
//!
//! Who edits a file looks at the log first, so a line names the object, where it is written, what doesn't hold and why.

use crate::state::SourceLocation;
use edge_translate::{
    api::{ObjectKey, ParentReference},
    status::{Condition, Status, StatusBody},
};
use std::collections::BTreeMap;

/// Why a Gateway isn't programmed while its proxies start, or fail, or take their configuration: whoever runs or serves
/// them says so itself, if it lasts.
const TOLD_ELSEWHERE: [&str; 2] = ["NoResources", "Pending"];

/// What has been told and still holds.
#[derive(Debug, Default)]
pub struct StandingFaults(BTreeMap<ObjectKey, BTreeMap<Statement, String>>);

/// Which statement about an object: the part of it, and the condition, as they are told.
type Statement = String;

/// A line for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// Something doesn't hold, or for another reason than before.
    Bad(String),
    /// It holds again.
    Good(String),
}

impl StandingFaults {
    /// What is new about an object, given what is to be said about it now.
    pub fn follow(&mut self, key: &ObjectKey, status: Option<&Status>, place: Option<&SourceLocation>) -> Vec<News> {
        let before = self.0.remove(key).unwrap_or_default();
        let now = status.map(bad).unwrap_or_default();
        let object = match place {
            Some(place) => format!("{}:{}: {key}", place.file, place.line),
            None => key.to_string(),
        };
        let mut news = Vec::new();
        for (statement, why) in &now {
            if before.get(statement) != Some(why) {
                news.push(News::Bad(format!("{object}{statement}: {why}")));
            }
        }
        // Of an object that is gone, nothing has become good.
        let mended = before
            .keys()
            .filter(|statement| status.is_some() && !now.contains_key(*statement));
        news.extend(mended.map(|statement| News::Good(format!("{object}{statement}: all right again"))));
        if !now.is_empty() {
            self.0.insert(key.clone(), now);
        }
        news
    }
}

/// Everything bad that a status says.
fn bad(status: &Status) -> BTreeMap<Statement, String> {
    let mut all = BTreeMap::new();
    if let StatusBody::Unattached(reasons) = &status.body {
        all.insert(String::new(), reasons.join("; "));
    }
    let mut take = |part: String, conditions: &[Condition]| {
        for condition in conditions.iter().filter(|condition| is_bad(condition)) {
            let why = format!("{}: {}", condition.reason, condition.message);
            all.insert(format!("{part}: {}", condition.kind), why);
        }
    };
    let (own, listeners, parents): (&[Condition], &[_], &[_]) = match &status.body {
        StatusBody::Unattached(_) => (&[], &[], &[]),
        StatusBody::Class(class) => (&class.conditions, &[], &[]),
        StatusBody::Conditions(conditions) => (conditions, &[], &[]),
        StatusBody::Gateway(gateway) => (&gateway.conditions, &gateway.listeners, &[]),
        StatusBody::ListenerSet(set) => (&set.conditions, &set.listeners, &[]),
        StatusBody::Parents { parents, .. } => (&[], &[], parents),
        StatusBody::Ancestors { ancestors, .. } => (&[], &[], ancestors),
    };
    take(String::new(), own);
    for listener in listeners {
        take(format!(", listener {}", listener.name), &listener.conditions);
    }
    for parent in parents {
        take(format!(", under {}", name_of(&parent.parent)), &parent.conditions);
    }
    all
}

fn is_bad(condition: &Condition) -> bool {
    condition.is_problem() && !TOLD_ELSEWHERE.contains(&&*condition.reason)
}

fn name_of(parent: &ParentReference) -> String {
    let mut name = format!("{} {}", parent.kind, parent.name);
    if let Some(namespace) = &parent.namespace {
        name = format!("{} {namespace}/{}", parent.kind, parent.name);
    }
    if let Some(section) = &parent.section_name {
        name.push_str(&format!(", {section}"));
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use edge_translate::{
        api::Kind,
        status::{GatewayStatus, ListenerStatus},
    };

    fn gateway(own: Vec<Condition>, listener: Vec<Condition>) -> Status {
        Status {
            observed_generation: 1,
            body: StatusBody::Gateway(GatewayStatus {
                conditions: own,
                listeners: vec![ListenerStatus {
                    name: "web".into(),
                    supported_kinds: Vec::new(),
                    attached_routes: 0,
                    conditions: listener,
                }],
                attached_listener_sets: 0,
                class: "edge".into(),
                asked: Vec::new(),
            }),
        }
    }

    #[test]
    fn a_statement_is_told_when_it_turns_or_its_reason_changes_and_not_again() {
        let key = ObjectKey::new(Kind::Gateway, "ns", "gw");
        let place = SourceLocation {
            file: "a.yaml".into(),
            line: 7,
        };
        let mut told = StandingFaults::default();
        let mut follow = |status: Option<&Status>| told.follow(&key, status, Some(&place));
        let good = gateway(
            vec![Condition::yes("Accepted", "Accepted", "Fine")],
            vec![Condition::no("Conflicted", "NoConflicts", "None")],
        );
        assert_eq!(follow(Some(&good)), []);
        let expired = gateway(
            Vec::new(),
            vec![Condition::yes("CertificateOutOfDate", "Expired", "It expired")],
        );
        assert_eq!(
            follow(Some(&expired)).len(),
            1,
            "what is served all the same is told too"
        );
        assert_eq!(follow(Some(&good)).len(), 1);
        let refused = |message: &'static str| gateway(vec![Condition::no("Accepted", "Invalid", message)], Vec::new());
        let line = |text: &str| format!("a.yaml:7: {key}{text}");
        let bad = |text: &str| vec![News::Bad(line(text))];
        assert_eq!(follow(Some(&refused("this"))), bad(": Accepted: Invalid: this"));
        assert_eq!(follow(Some(&refused("this"))), []);
        assert_eq!(follow(Some(&refused("that"))), bad(": Accepted: Invalid: that"));
        let conflicted = gateway(Vec::new(), vec![Condition::yes("Conflicted", "Port", "Taken")]);
        assert_eq!(
            follow(Some(&conflicted)),
            [
                News::Bad(line(", listener web: Conflicted: Port: Taken")),
                News::Good(line(": Accepted: all right again"))
            ]
        );
        assert_eq!(follow(None), [], "it is gone");
        let starting = gateway(vec![Condition::no("Programmed", "NoResources", "Starting")], Vec::new());
        assert_eq!(follow(Some(&starting)), [], "told by who runs the proxies");
    }

    #[test]
    fn an_object_that_leads_to_nothing_is_told_until_it_does() {
        let key = ObjectKey::new(Kind::HttpRoute, "ns", "r");
        let mut told = StandingFaults::default();
        let of = |body| Status {
            observed_generation: 1,
            body,
        };
        let lost = of(StatusBody::Unattached(vec!["there is no Gateway gv".into()]));
        let expected = [News::Bad(format!("{key}: there is no Gateway gv"))];
        assert_eq!(told.follow(&key, Some(&lost), None), expected);
        assert_eq!(told.follow(&key, Some(&lost), None), []);
        let attached = of(StatusBody::Conditions(Vec::new()));
        let expected = [News::Good(format!("{key}: all right again"))];
        assert_eq!(told.follow(&key, Some(&attached), None), expected);
    }
}
