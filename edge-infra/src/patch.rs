//! Patches of finished objects, and what they must leave alone: an object that is no longer recognised as the fleet's
//! would be made anew for ever, and one that selects other pods would take part in somebody else's traffic.

use crate::{Object, RenderError, strategic_merge};
use edge_ir::{ObjectPatch, label};
use serde_json::Value;

/// Applies the patch that an EdgeProxy has for this kind of object, if there is one.
pub(crate) fn patched(object: Object, patch: Option<&ObjectPatch>) -> Result<Object, RenderError> {
    let Some(patch) = patch else { return Ok(object) };
    let Object {
        kind,
        namespace,
        name,
        body,
    } = object;
    let refused = |problem: String| RenderError { kind, problem };
    let merged = match patch {
        ObjectPatch::Strategic(patch) => {
            strategic_merge(body.clone(), patch.clone(), kind.merge_type()).map_err(|e| refused(e.to_string()))?
        }
        ObjectPatch::JsonMerge(patch) if patch.is_object() => {
            let mut merged = body.clone();
            json_patch::merge(&mut merged, patch);
            merged
        }
        ObjectPatch::JsonMerge(_) => return Err(refused("it must be a mapping of fields".to_owned())),
    };
    if let Some(pointer) = KEPT
        .iter()
        .find(|pointer| body.pointer(pointer) != merged.pointer(pointer))
    {
        return Err(refused(format!("it must not change {}", path(pointer))));
    }
    for pointer in LABELLED {
        let (before, after) = (body.pointer(pointer), merged.pointer(pointer));
        if let Some(label) = label::ALL.iter().find(|label| of(before, label) != of(after, label)) {
            return Err(refused(format!(
                "it must not change label {label} in {}",
                path(pointer)
            )));
        }
    }
    Ok(Object {
        kind,
        namespace,
        name,
        body: merged,
    })
}

/// What tells an object, and what it selects. Where an object has none of these, a patch must not bring them.
const KEPT: [&str; 7] = [
    "/apiVersion",
    "/kind",
    "/metadata/name",
    "/metadata/namespace",
    "/metadata/ownerReferences",
    "/spec/selector",
    "/spec/scaleTargetRef",
];

fn of<'a>(labels: Option<&'a Value>, label: &str) -> Option<&'a Value> {
    labels?.get(label)
}

/// Where the labels stand by which the fleet's objects and pods are found.
const LABELLED: [&str; 2] = ["/metadata/labels", "/spec/template/metadata/labels"];

fn path(pointer: &str) -> String {
    pointer.trim_start_matches('/').replace('/', ".")
}
