//! The conditions of an object, in the order in which they are shown: the latest first.

use super::kinds::Family;
use serde_json::Value;

/// A condition, and for whom it holds.
pub(super) struct Row<'a> {
    /// `<kind>/<name>` of the parent or ancestor, on its first row.
    pub(super) reference: String,
    pub(super) condition: &'a Value,
}

/// The rows of an object. `is_brief` keeps the first for each parent or ancestor.
pub(super) fn rows<'a>(family: Family, object: &'a Value, is_brief: bool) -> Vec<Row<'a>> {
    let status = &object["status"];
    match family {
        Family::Own => of_one(String::new(), status, is_brief),
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
            reference: reference.take().unwrap_or_default(),
            condition,
        })
        .collect()
}

fn name_of(reference: &Value) -> String {
    // The API's default: what isn't said is a Gateway.
    let kind = reference["kind"].as_str().unwrap_or("Gateway").to_lowercase();
    format!("{kind}/{}", reference["name"].as_str().unwrap_or_default())
}
