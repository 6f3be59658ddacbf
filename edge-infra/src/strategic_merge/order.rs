//! The order of elements in a merged list.
//!
//! What the patch names stands in the order of the patch, the rest in the order of the original, and between the two
//! decides where they stood in the original. An element that is new stands as early as the patch's order lets it.

use serde_json::Value;

/// Puts a merged list in order.
pub(super) fn ordered(merged: Vec<Value>, patch: &[Value], original: &[Value], key: Option<&str>) -> Vec<Value> {
    let position = |list: &[Value], item: &Value| {
        let item = identity(item, key);
        list.iter().position(|other| identity(other, key) == item)
    };
    let (mut named, mut rest): (Vec<Value>, Vec<Value>) =
        merged.into_iter().partition(|item| position(patch, item).is_some());
    named.sort_by_key(|item| position(patch, item));
    rest.sort_by_key(|item| position(original, item).unwrap_or(usize::MAX));

    let mut list = Vec::with_capacity(named.len() + rest.len());
    let mut named = named.into_iter().peekable();
    for item in rest {
        let at = position(original, &item);
        while let Some(other) = named.peek() {
            match (at, position(original, other)) {
                (Some(at), Some(other)) if at < other => break,
                _ => list.extend(named.next()),
            }
        }
        list.push(item);
    }
    list.extend(named);
    list
}

/// Whether the elements of a patch, those that are deleted aside, stand in the order that it gives.
pub(super) fn follows(patch: &[Value], order: &[Value], key: Option<&str>) -> bool {
    let mut order = order.iter();
    let mut stays = patch.iter().filter(|item| item.get(super::PATCH).is_none());
    order.len() == 0 || stays.all(|item| order.any(|other| identity(other, key) == identity(item, key)))
}

/// What tells an element from others.
fn identity<'a>(item: &'a Value, key: Option<&str>) -> &'a Value {
    match key {
        Some(key) => item.get(key).unwrap_or(&Value::Null),
        None => item,
    }
}
