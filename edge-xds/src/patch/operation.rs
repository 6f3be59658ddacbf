//! One operation on the JSON form of a resource.

use edge_ir::{JsonPatchOperation, Patch, PatchProblem};
use json_patch::PatchOperation;
use jsonpath_rust::JsonPath;
use serde_json::Value;

/// How deep brackets may stand in each other in an expression.
const MAX_NESTING: usize = 16;

/// The resource after the operation.
pub(super) fn change(value: Option<&Value>, patch: &Patch) -> Result<Value, PatchProblem> {
    let operation = &patch.operation;
    let path = operation.path.as_deref().unwrap_or_default();
    if &*operation.op == "add" && path.is_empty() && operation.json_path.is_none() {
        let Some(text) = operation.value.as_deref() else {
            return Err(invalid("Missing value for add operation with empty path."));
        };
        return serde_json::from_str(text).map_err(invalid);
    }
    let Some(value) = value else {
        return Err(PatchProblem::NotFound(format!("{}/{}", patch.type_url, patch.name)));
    };
    let pointers = match operation.json_path.as_deref() {
        None => vec![path.to_owned()],
        Some(expression) => selected(value, expression, path)?,
    };
    let mut changed = value.clone();
    for pointer in pointers {
        let step = step(operation, &pointer).map_err(invalid)?;
        json_patch::patch(&mut changed, &[step])
            .map_err(|error| invalid(format!("{} {pointer}: {}", operation.op, error.kind)))?;
    }
    Ok(changed)
}

fn invalid(error: impl ToString) -> PatchProblem {
    PatchProblem::Invalid(error.to_string())
}

/// Pointers that an expression selects, with a path behind each. The last come first, so that what is removed from a
/// list moves nothing that is still to come.
fn selected(value: &Value, expression: &str, path: &str) -> Result<Vec<String>, PatchProblem> {
    if nesting(expression) > MAX_NESTING {
        return Err(invalid(format!("The jsonPath is nested more than {MAX_NESTING} deep.")));
    }
    let found = value
        .query_only_path(expression)
        .map_err(|error| invalid(format!("The jsonPath '{expression}' can't be read: {error}")))?;
    let mut pointers: Vec<String> = Vec::with_capacity(found.len());
    for pointer in found.iter().rev().map(|found| pointer(found) + path) {
        if !pointers.contains(&pointer) {
            pointers.push(pointer);
        }
    }
    if pointers.is_empty() {
        let message = format!(
            "No jsonPointers were found while evaluating the jsonPath: '{expression}'. It is evaluated on the resource \
             with names of fields as in protobuf (snake_case)."
        );
        return Err(invalid(message));
    }
    Ok(pointers)
}

/// How deep brackets stand in each other. The library reads expressions by recursion.
fn nesting(expression: &str) -> usize {
    let depth = |depth: usize, c: char| match c {
        '(' | '[' => depth + 1,
        ')' | ']' => depth.saturating_sub(1),
        _ => depth,
    };
    let depths = expression.chars().scan(0, |at, c| {
        *at = depth(*at, c);
        Some(*at)
    });
    depths.max().unwrap_or_default()
}

/// A normalized path (RFC 9535 §2.7) as a pointer (RFC 6901).
pub(super) fn pointer(path: &str) -> String {
    let mut out = String::new();
    let mut rest = path.strip_prefix('$').unwrap_or(path);
    while let Some(inner) = rest.strip_prefix('[') {
        let (part, after) = match inner.strip_prefix('\'') {
            Some(quoted) => unquoted(quoted),
            None => {
                let (index, after) = inner.split_once(']').unwrap_or((inner, ""));
                (index.to_owned(), after)
            }
        };
        out.push('/');
        out.push_str(&part.replace('~', "~0").replace('/', "~1"));
        rest = after;
    }
    out
}

/// The name before the closing quote, and what follows the bracket.
fn unquoted(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\'' => return (name, text[at + 1..].strip_prefix(']').unwrap_or_default()),
            '\\' => name.extend(chars.next().map(|(_, c)| c)),
            c => name.push(c),
        }
    }
    (name, "")
}

/// An operation as the library takes it, at a pointer.
pub(crate) fn step(operation: &JsonPatchOperation, pointer: &str) -> Result<PatchOperation, String> {
    let mut fields = serde_json::Map::new();
    fields.insert("op".to_owned(), Value::from(&*operation.op));
    fields.insert("path".to_owned(), Value::from(pointer));
    if let Some(from) = operation.from.as_deref() {
        fields.insert("from".to_owned(), Value::from(from));
    }
    if let Some(text) = operation.value.as_deref() {
        let value = serde_json::from_str(text).map_err(|error| format!("value is not JSON: {error}"))?;
        fields.insert("value".to_owned(), value);
    }
    serde_json::from_value(Value::Object(fields)).map_err(|error| error.to_string())
}
