//! Whether a policy says what it is for.
//!
//! Policies are kept as they were written and read where they act; a field that isn't known there makes one invalid,
//! and closes what it is for. A slip in what it is for takes that away instead: nothing would be guarded, and nothing
//! closed. An API server refuses it, so it is not taken.

use super::{
    Fault,
    known::nearest,
    node::{Data, Entry, Node},
};
use crate::api::Kind;

/// What leads to targets, and the fields of each form.
const FORMS: [&str; 3] = ["targetRef", "targetRefs", "targetSelectors"];
/// The group of a reference that names none.
const GROUP: &str = "gateway.networking.k8s.io";
const REFERENCE: [&str; 4] = ["group", "kind", "name", "sectionName"];
const SELECTOR: [&str; 5] = ["group", "kind", "matchLabels", "matchExpressions", "namespaces"];

/// A field of a policy that was most likely meant to say what it is for.
pub(super) fn fault(kind: Kind, root: &Node<'_>) -> Option<Fault> {
    if !has_targets(kind) {
        return None;
    }
    let Some(spec) = root.get("spec") else {
        return slip(kind, root, String::new, &["spec"]);
    };
    let in_form = |form: &str| {
        let fields: &'static [&'static str] = match form {
            "targetSelectors" => &SELECTOR,
            _ => &REFERENCE,
        };
        let written = spec.get(form)?;
        let mut items = items(written).iter().enumerate();
        items.find_map(|(i, item)| slip(kind, item, || path(form, written, i) + ".", fields))
    };
    slip(kind, spec, || "spec.".to_owned(), &FORMS).or_else(|| FORMS.into_iter().find_map(in_form))
}

/// Why a policy is for nothing, or for less than it names, whatever there is: an API server would refuse it. It is
/// taken where nothing better is known, for it may be for something beside that.
pub(super) fn missed(kind: Kind, root: &Node<'_>) -> Option<String> {
    if !has_targets(kind) {
        return None;
    }
    let written = |form: &str| {
        let written = root.get("spec")?.get(form)?;
        (!matches!(written.data, Data::Null)).then_some(written)
    };
    if FORMS
        .into_iter()
        .filter_map(written)
        .all(|written| items(written).is_empty())
    {
        return Some("it names no target".to_owned());
    }
    let odd = |form: &'static str| {
        let written = written(form)?;
        let odd = items(written).iter().position(|item| !is_known(item))?;
        Some(path(form, written, odd))
    };
    let odd = ["targetRef", "targetRefs"].into_iter().find_map(odd);
    odd.map(|path| format!("{path} names nothing that can be: check its group, kind and name"))
}

/// Whether a reference names an object of a kind that there is. Whether the policy can be for that is said elsewhere.
fn is_known(reference: &Node<'_>) -> bool {
    let text = |field| reference.get(field).and_then(Node::text);
    let has_name = text("name").is_some_and(|name| !name.is_empty());
    has_name && text("kind").is_some_and(|kind| Kind::of(text("group").unwrap_or(GROUP), kind).is_some())
}

fn has_targets(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::BackendTrafficPolicy
            | Kind::ClientTrafficPolicy
            | Kind::EdgeExtensionPolicy
            | Kind::EdgePatchPolicy
            | Kind::SecurityPolicy
    )
}

/// What stands in one of the forms: a list, or one alone.
fn items<'n, 'a>(written: &'n Node<'a>) -> &'n [Node<'a>] {
    match &written.data {
        Data::Seq(items) => items,
        _ => std::slice::from_ref(written),
    }
}

/// Where one of them stands.
fn path(form: &str, written: &Node<'_>, index: usize) -> String {
    match written.data {
        Data::Seq(_) => format!("spec.{form}[{index}]"),
        _ => format!("spec.{form}"),
    }
}

/// A field of a mapping that isn't one of these and nearly is, where that is missing.
fn slip(kind: Kind, node: &Node<'_>, path: impl Fn() -> String, fields: &'static [&'static str]) -> Option<Fault> {
    let Data::Map(entries) = &node.data else { return None };
    let wrong = |entry: &Entry<'_>| {
        let key = &*entry.key;
        // Nearly all are fields, and `targetRef` is no slip of `targetRefs`.
        if fields.contains(&key) {
            return None;
        }
        let meant = nearest(key, fields).filter(|meant| node.get(meant).is_none())?;
        let message = format!(
            "{}{key}: {kind} has no such field: did you mean `{meant}`? Without it the policy would be in force for less \
             than was meant, so it is not taken",
            path()
        );
        Some(Fault::new(entry.at, message))
    };
    entries.iter().find_map(wrong)
}

#[cfg(test)]
mod tests {
    use crate::load::{Limits, Source, load};

    fn findings(kind: &str, spec: &str) -> Vec<String> {
        let text = format!("apiVersion: gateway.edge/v1alpha1\nkind: {kind}\nmetadata: {{name: p}}\n{spec}\n");
        let source = Source {
            name: "f.yaml",
            text: &text,
        };
        let loaded = load(&source, &Limits::default());
        loaded.findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_slip_in_what_a_policy_is_for_is_an_error() {
        let reference = "{group: gateway.networking.k8s.io, kind: HTTPRoute, name: r}";
        for kind in [
            "BackendTrafficPolicy",
            "ClientTrafficPolicy",
            "EdgeExtensionPolicy",
            "EdgePatchPolicy",
            "SecurityPolicy",
        ] {
            for (spec, place, meant) in [
                (format!("sepc: {{targetRefs: [{reference}]}}"), "4:1: error", "spec"),
                (
                    format!("spec: {{tragetRefs: [{reference}]}}"),
                    "4:8: error",
                    "targetRefs",
                ),
                (
                    format!("spec: {{targetSelector: [{reference}]}}"),
                    "error",
                    "targetSelectors",
                ),
                (
                    format!("spec: {{targetRefs: [{}]}}", reference.replace("name", "nam")),
                    "error",
                    "name",
                ),
                (
                    format!("spec: {{targetRef: {}}}", reference.replace("kind", "kidn")),
                    "error",
                    "kind",
                ),
            ] {
                let found = findings(kind, &spec);
                let is_told =
                    |line: &String| line.contains(place) && line.contains(&format!("did you mean `{meant}`?"));
                assert!(found.iter().any(is_told), "{kind} {spec}: {found:?}");
            }
        }
    }

    #[test]
    fn either_form_is_right() {
        let reference = "{group: gateway.networking.k8s.io, kind: HTTPRoute, name: r}";
        for spec in [
            format!("spec: {{targetRef: {reference}}}"),
            format!("spec: {{targetRefs: [{reference}]}}"),
            format!("spec: {{targetRef: {reference}, targetRefs: [{reference}]}}"),
            "spec: {targetSelectors: [{kind: HTTPRoute, matchLabels: {a: b}}]}".to_owned(),
        ] {
            let found = findings("SecurityPolicy", &spec);
            assert!(!found.iter().any(|line| line.contains("error")), "{spec}: {found:?}");
        }
    }
}
