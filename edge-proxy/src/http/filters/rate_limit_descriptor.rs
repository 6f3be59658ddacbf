//! A request in the entries that limits count it by.

use std::net::IpAddr;
use std::sync::Arc;

use crate::config::access::Metadata;
use crate::config::filter::rate_limit_descriptor::{Absent, Descriptor, DescriptorEntry, EntryValue, Hits, Pair};
use crate::http::Arrived;
use crate::http::filters::query;
use crate::message::head::Head;

/// As much a request may count for.
const MAX_HITS: f64 = 1e9;

/// A request in the entries of a rule, if it has all of them.
pub(super) fn describe(rule: &Descriptor, arrived: &Arrived<'_>) -> Option<Vec<Pair>> {
    let connection = &arrived.exchange.connection;
    let head = &arrived.head;
    let client = || head.client.unwrap_or_else(|| connection.client.ip().to_canonical());
    let mut pairs = Vec::with_capacity(rule.entries.len());
    for entry in &rule.entries {
        if let Some(value) = say(entry, head, &client)? {
            pairs.push((Arc::clone(&entry.key), value));
        }
    }
    (!pairs.is_empty()).then_some(pairs)
}

/// What a request counts for, where that is said; `None` where it should have been found out and wasn't: then the
/// descriptor is none.
pub(super) fn hits(rule: &Descriptor, metadata: &Metadata) -> Option<Option<u64>> {
    match &rule.hits {
        Hits::One => Some(None),
        Hits::Number(number) => Some(Some(*number)),
        Hits::Metadata(path) => {
            let value = path.find(metadata)?;
            let number = value
                .as_f64()
                .or_else(|| value.as_str().and_then(|text| text.trim().parse().ok()))?;
            (0.0..=MAX_HITS).contains(&number).then_some(Some(number as u64))
        }
    }
}

/// The value of an entry; `Some(None)` where it may be left out.
fn say(entry: &DescriptorEntry, head: &Head, client: &impl Fn() -> IpAddr) -> Option<Option<String>> {
    let view = head.view();
    let absent = |absent: Absent| (absent == Absent::Skip).then_some(None);
    match &entry.value {
        EntryValue::Fixed(value) => Some(Some(value.to_string())),
        EntryValue::Headers(value, conditions, expected) => {
            let holds = conditions.iter().all(|condition| condition.holds(&view));
            (holds == *expected).then(|| Some(value.to_string()))
        }
        EntryValue::Query(value, conditions, expected) => {
            // Not as it was sent, or an escape in it would lead past the limit.
            let asked = |name| query::value(head.target.as_str(), name);
            let holds = conditions
                .iter()
                .all(|condition| condition.holds(asked(&condition.name).as_deref()));
            (holds == *expected).then(|| Some(value.to_string()))
        }
        EntryValue::Client(value, clients) => clients.has(client()).then(|| Some(value.to_string())),
        EntryValue::Header(name, otherwise) => match head.headers.get(name) {
            Some(value) => Some(Some(String::from_utf8_lossy(value.as_bytes()).into_owned())),
            None => absent(*otherwise),
        },
        EntryValue::Parameter(name, otherwise) => match query::value(head.target.as_str(), name) {
            Some(value) => Some(Some(value.into_owned())),
            None => absent(*otherwise),
        },
        EntryValue::Address => Some(Some(client().to_string())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::config::access::MetadataPath;
    use crate::config::header::StringCondition;
    use crate::config::route::QueryCondition;

    #[test]
    fn an_escape_in_a_parameter_is_no_way_past_a_limit() {
        let conditions = [QueryCondition {
            name: "q".into(),
            value: Some(StringCondition::Exact("1".into())),
            absent: false,
        }];
        let entry = DescriptorEntry {
            key: "k".into(),
            value: EntryValue::Query("v".into(), conditions.into(), true),
        };
        for (target, said) in [
            ("/?q=1", true),
            ("/?q=%31", true),
            ("/?%71=1", true),
            ("/?q=2", false),
            ("/", false),
        ] {
            let mut head = Head::empty();
            head.set_target(target).expect("a target");
            let nobody = || IpAddr::from([0, 0, 0, 0]);
            assert_eq!(say(&entry, &head, &nobody).is_some(), said, "{target}");
        }
    }

    #[test]
    fn what_a_request_counts_for_may_have_been_found_out() {
        let rule = Descriptor {
            entries: Box::default(),
            hits: Hits::Metadata(MetadataPath {
                filter: "a.b".into(),
                path: ["cost".into()].into(),
            }),
            sends_limit_headers: None,
        };
        let hits = |value: Value| hits(&rule, &Metadata::from([("a.b".into(), json!({ "cost": value }))]));
        assert_eq!(hits(json!(7.9)), Some(Some(7)));
        assert_eq!(hits(json!("12")), Some(Some(12)));
        for bad in [json!(-1), json!(2e9), json!("many"), json!(true), Value::Null] {
            assert_eq!(hits(bad.clone()), None, "{bad}");
        }
        assert_eq!(super::hits(&rule, &Metadata::new()), None);
    }
}
