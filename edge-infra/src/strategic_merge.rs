//! Strategic merge of a patch into a Kubernetes object, as `kubectl patch --type=strategic` does it.
//!
//! Unlike a JSON merge (RFC 7396), lists of named things are merged element by element, and directives in the patch
//! say what merging alone can't: `$patch: delete` and `replace`, `$deleteFromPrimitiveList/…`, `$setElementOrder/…`,
//! `$retainKeys`. What comes out has neither nulls nor directives. kubectl is the oracle of the tests; but ports of one
//! number are told apart by their protocols, too.

mod order;
mod types;

pub use types::Type;

use order::ordered;
use serde_json::{Map, Value};
use types::{Strategy, field};

type Object = Map<String, Value>;

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const ORDER_OF: &str = "$setElementOrder/";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";

/// Why a patch can't be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct MergeError {
    /// Where, as a path of field names.
    pub place: String,
    /// What is wrong there.
    pub problem: String,
}

/// Merges a patch into an object of the given type.
pub fn strategic_merge(original: Value, patch: Value, of: Type) -> Result<Value, MergeError> {
    match (original, patch) {
        (Value::Object(original), Value::Object(patch)) => merge_objects(original, patch, of, "").map(Value::Object),
        _ => Err(error("the patch", "it must be a mapping of fields")),
    }
}

fn merge_objects(mut original: Object, mut patch: Object, of: Type, place: &str) -> Result<Object, MergeError> {
    if let Some(directive) = patch.remove(PATCH) {
        return match directive.as_str() {
            Some("replace") => Ok(without_directives(patch)),
            Some("delete") => Ok(Object::new()),
            _ => Err(unknown_directive(&directive, place)),
        };
    }
    retain_keys(&mut original, &mut patch, place)?;
    set_orders(&mut original, &mut patch, of, place)?;
    for (name, value) in patch {
        merge_field(&mut original, &name, value, of, place)?;
    }
    Ok(original)
}

fn merge_field(original: &mut Object, name: &str, value: Value, of: Type, place: &str) -> Result<(), MergeError> {
    if let Some(list) = name.strip_prefix(DELETE_FROM) {
        return delete_scalars(original, list, &value, place);
    }
    let place = below(place, name);
    let (element, strategy) = field(of, name);
    let merged = match (original.remove(name), value) {
        (_, Value::Null) => None,
        (Some(Value::Object(original)), Value::Object(patch)) if strategy != Strategy::Replace => {
            Some(Value::Object(merge_objects(original, patch, element, &place)?))
        }
        (Some(Value::Array(original)), Value::Array(patch)) => {
            Some(Value::Array(merge_lists(original, patch, element, strategy, &place)?))
        }
        (_, new) => without_directive(new),
    };
    if let Some(merged) = merged {
        original.insert(name.to_owned(), merged);
    }
    Ok(())
}

/// Drops every field that `$retainKeys` doesn't list: what makes one member of a union give way to another.
fn retain_keys(original: &mut Object, patch: &mut Object, place: &str) -> Result<(), MergeError> {
    let Some(directive) = patch.remove(RETAIN_KEYS) else {
        return Ok(());
    };
    let Value::Array(keys) = directive else {
        return Err(error(&below(place, RETAIN_KEYS), "it must be a list of field names"));
    };
    let is_retained = |name: &str| keys.iter().any(|key| key.as_str() == Some(name));
    let is_directive = |name: &str| name.starts_with(ORDER_OF) || name.starts_with(DELETE_FROM);
    for (name, value) in patch.iter() {
        if !value.is_null() && !is_directive(name) && !is_retained(name) {
            let problem = format!("the patch sets {name}, which is not among the keys to retain");
            return Err(error(&below(place, RETAIN_KEYS), &problem));
        }
    }
    original.retain(|name, _| is_retained(name));
    Ok(())
}

/// Merges the lists for which the patch gives an order of elements.
fn set_orders(original: &mut Object, patch: &mut Object, of: Type, place: &str) -> Result<(), MergeError> {
    let directives: Vec<String> = patch
        .keys()
        .filter(|name| name.starts_with(ORDER_OF))
        .cloned()
        .collect();
    for directive in directives {
        let name = directive.trim_start_matches(ORDER_OF);
        let Some(Value::Array(order)) = patch.remove(&directive) else {
            return Err(error(&below(place, &directive), "it must be a list"));
        };
        let place = below(place, name);
        let (element, strategy) = field(of, name);
        let key = match strategy {
            Strategy::ByKey(key) => Some(key),
            _ => None,
        };
        let known = take_list(original, name, &place)?;
        let changes = take_list(patch, name, &place)?;
        if let Some(changes) = &changes
            && !order::follows(changes, &order, key)
        {
            return Err(error(
                &place,
                "its elements stand in another order than $setElementOrder says",
            ));
        }
        let before = known.clone().unwrap_or_default();
        let merged = match (known, changes) {
            (Some(known), Some(changes)) => merge_lists(known, changes, element, strategy, &place)?,
            (Some(known), None) => known,
            (None, Some(changes)) => changes.into_iter().filter_map(without_directive).collect(),
            (None, None) => continue,
        };
        let merged = ordered(merged, &order, &before, key);
        original.insert(name.to_owned(), Value::Array(merged));
    }
    Ok(())
}

fn take_list(fields: &mut Object, name: &str, place: &str) -> Result<Option<Vec<Value>>, MergeError> {
    match fields.remove(name) {
        None => Ok(None),
        Some(Value::Array(list)) => Ok(Some(list)),
        Some(_) => Err(error(place, "it must be a list")),
    }
}

fn merge_lists(
    original: Vec<Value>,
    patch: Vec<Value>,
    of: Type,
    strategy: Strategy,
    place: &str,
) -> Result<Vec<Value>, MergeError> {
    match strategy {
        Strategy::ByKey(key) => merge_by_key(original, patch, of, key, place),
        Strategy::Union => Ok(unite(original, patch)),
        Strategy::Usual | Strategy::Replace => replace(patch, place),
    }
}

/// Takes the list of the patch. A directive in one of its elements would mean nothing, so it is refused.
fn replace(patch: Vec<Value>, place: &str) -> Result<Vec<Value>, MergeError> {
    if patch.iter().any(|element| element.get(PATCH).is_some()) {
        let problem = "this list is replaced as a whole and knows no $patch: give all its elements";
        return Err(error(place, problem));
    }
    Ok(patch.into_iter().filter_map(without_directive).collect())
}

fn unite(original: Vec<Value>, patch: Vec<Value>) -> Vec<Value> {
    let mut merged: Vec<Value> = Vec::new();
    for value in original.iter().chain(&patch) {
        if !merged.contains(value) {
            merged.push(value.clone());
        }
    }
    ordered(merged, &patch, &original, None)
}

fn merge_by_key(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    of: Type,
    key: &'static str,
    place: &str,
) -> Result<Vec<Value>, MergeError> {
    let mut changes: Vec<Object> = Vec::new();
    let mut replaces = false;
    for element in patch {
        let Value::Object(mut element) = element else {
            return Err(error(place, "its elements must be mappings"));
        };
        match element
            .remove(PATCH)
            .as_ref()
            .map(|directive| (directive.as_str(), directive))
        {
            None => changes.push(element),
            Some((Some("replace"), _)) => replaces = true,
            Some((Some("delete"), _)) => {
                let which = named(&element, key, place)?;
                let meant = of_protocol(&original, &element, key);
                let is_meant = |n: usize| meant.is_none_or(|meant| meant == n);
                let mut n = 0..;
                original.retain(|known| !(n.next().is_some_and(is_meant) && known.get(key) == Some(which)));
            }
            Some((_, directive)) => return Err(unknown_directive(directive, place)),
        }
    }
    let plain = |element: Object| Value::Object(without_directives(element));
    if replaces {
        return Ok(changes.into_iter().map(plain).collect());
    }
    let before = original.clone();
    let mut order = Vec::new();
    for change in changes {
        let which = named(&change, key, place)?.clone();
        let is_same = |known: &Value| known.get(key) == Some(&which);
        let meant = of_protocol(&original, &change, key).or_else(|| original.iter().position(is_same));
        match meant.and_then(|meant| original.get_mut(meant)) {
            Some(Value::Object(known)) => {
                let place = format!("{place}[{key}={which}]");
                *known = merge_objects(std::mem::take(known), change, of, &place)?;
            }
            _ => original.push(plain(change)),
        }
        order.push(Value::Object(Object::from_iter([(key.to_owned(), which)])));
    }
    Ok(ordered(original, &order, &before, Some(key)))
}

/// The element that a change is about which names a protocol: an API server tells ports of one number apart by it,
/// where kubectl takes the first. None if that protocol isn't there: then the change gives one of the number another
/// protocol.
fn of_protocol(original: &[Value], change: &Object, key: &str) -> Option<usize> {
    let protocol = change.get("protocol")?;
    original.iter().position(|known| {
        let own = known.get("protocol").and_then(Value::as_str).unwrap_or("TCP");
        known.get(key) == change.get(key) && protocol.as_str() == Some(own)
    })
}

/// The value that tells an element from the others.
fn named<'a>(element: &'a Object, key: &str, place: &str) -> Result<&'a Value, MergeError> {
    element.get(key).ok_or_else(|| {
        error(
            place,
            &format!("an element has no {key}, by which elements are told apart"),
        )
    })
}

fn delete_scalars(original: &mut Object, name: &str, gone: &Value, place: &str) -> Result<(), MergeError> {
    let Value::Array(gone) = gone else {
        return Err(error(
            &below(place, name),
            "what is deleted from it must be given as a list",
        ));
    };
    if let Some(Value::Array(list)) = original.get_mut(name) {
        list.retain(|value| !gone.contains(value));
    }
    Ok(())
}

/// A value of the patch that meets no value of the original. One with a directive stands for nothing.
fn without_directive(value: Value) -> Option<Value> {
    Some(match value {
        Value::Object(fields) if fields.contains_key(PATCH) => return None,
        Value::Object(fields) => Value::Object(without_directives(fields)),
        Value::Array(elements) => Value::Array(elements.into_iter().filter_map(without_directive).collect()),
        scalar => scalar,
    })
}

fn without_directives(fields: Object) -> Object {
    let is_directive = |name: &str| name == RETAIN_KEYS || name.starts_with(ORDER_OF) || name.starts_with(DELETE_FROM);
    fields
        .into_iter()
        .filter(|(name, value)| !value.is_null() && !is_directive(name))
        .filter_map(|(name, value)| Some((name, without_directive(value)?)))
        .collect()
}

fn unknown_directive(directive: &Value, place: &str) -> MergeError {
    error(
        place,
        &format!("$patch can be delete or replace, not {directive}; without it fields are merged"),
    )
}

fn below(place: &str, name: &str) -> String {
    match place {
        "" => name.to_owned(),
        place => format!("{place}.{name}"),
    }
}

fn error(place: &str, problem: &str) -> MergeError {
    MergeError {
        place: match place {
            "" => "the patch".to_owned(),
            place => place.to_owned(),
        },
        problem: problem.to_owned(),
    }
}
