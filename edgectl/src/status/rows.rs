//! The conditions of an object, in the order in which they are shown: the latest first. Of listeners those that are bad
//! news: a Gateway may be programmed while one of its listeners doesn't serve.

use super::kinds::Family;
use edge_translate::status::{Truth, is_bad_news};
use serde_json::Value;

/// A condition, and for whom it holds.
pub(super) struct Row<'a> {
    /// The listener that it is about, on its first row.
    pub(super) part: String,
    /// `<kind>/<name>` of the parent or ancestor, on its first row.
    pub(super) reference: String,
    pub(super) condition: &'a Value,
}

/// The rows of an object. `is_brief` keeps the first for each parent or ancestor.
pub(super) fn rows<'a>(family: Family, object: &'a Value, is_brief: bool) -> Vec<Row<'a>> {
    let status = &object["status"];
    match family {
        Family::Own if is_brief => of_one(String::new(), status, is_brief),
        Family::Own => {
            let listeners = status["listeners"].as_array().into_iter().flatten();
            let own = of_one(String::new(), status, is_brief).into_iter();
            own.chain(listeners.flat_map(of_listener)).collect()
        }
        Family::Parents => of_each(&status["parents"], "parentRef", is_brief),
        Family::Ancestors => of_each(&status["ancestors"], "ancestorRef", is_brief),
    }
}

fn of_each<'a>(list: &'a Value, reference: &str, is_brief: bool) -> Vec<Row<'a>> {
    let list = list.as_array().into_iter().flatten();
    list.flat_map(|entry| of_one(name_of(&entry[reference]), entry, is_brief))
        .collect()
}

fn of_one(reference: String, holder: &Value, is_brief: bool) -> Vec<Row<'_>> {
    let conditions = holder["conditions"].as_array().into_iter().flatten().rev();
    let shown = if is_brief { 1 } else { usize::MAX };
    let mut reference = Some(reference);
    conditions
        .take(shown)
        .map(|condition| Row {
            part: String::new(),
            reference: reference.take().unwrap_or_default(),
            condition,
        })
        .collect()
}

fn of_listener(listener: &Value) -> impl Iterator<Item = Row<'_>> {
    let mut part = Some(format!("  listener {}", listener["name"].as_str().unwrap_or_default()));
    let conditions = listener["conditions"].as_array().into_iter().flatten().rev();
    let bad = conditions.filter(|condition| {
        let truth = match condition["status"].as_str() {
            Some("True") => Truth::True,
            _ => Truth::False,
        };
        condition["type"].as_str().is_some_and(|kind| is_bad_news(kind, truth))
    });
    bad.map(move |condition| Row {
        part: part.take().unwrap_or_default(),
        reference: String::new(),
        condition,
    })
}

fn name_of(reference: &Value) -> String {
    // The API's default: what isn't said is a Gateway.
    let kind = reference["kind"].as_str().unwrap_or("Gateway").to_lowercase();
    format!("{kind}/{}", reference["name"].as_str().unwrap_or_default())
}
