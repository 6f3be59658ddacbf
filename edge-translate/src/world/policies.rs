//! What policies say of what they cover: which objects they name, and which they choose.
//!
//! Most are read here as raw fields, so that nothing about a target gets lost by a slip elsewhere in the policy: a
//! route that somebody put behind authentication must not be open for that.

use crate::{
    api::{Generic, Kind, LabelSelector, Object, PolicyTargets, StringMap, TargetRef, TargetSelector, TargetsFrom},
    name::Sym,
};
use serde::Deserialize;
use serde_json::Value;
use smallvec::SmallVec;

/// What a policy is for, in the form in which its kind is read.
#[derive(Clone, Copy)]
pub(crate) enum Written<'a> {
    /// As it stands there.
    Raw(&'a Value),
    /// As its type has it.
    Typed(PolicyTargets<'a>),
    /// As it stands there, of a kind that names its targets and chooses none.
    Naming(&'a Value),
}

/// Whether objects of a kind are policies with targets.
pub(crate) fn is_in_force(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::ClientTrafficPolicy | Kind::BackendTrafficPolicy | Kind::SecurityPolicy | Kind::EdgeExtensionPolicy
    )
}

/// What an object is for, if it is a policy.
pub(crate) fn written(object: &Object) -> Option<Written<'_>> {
    match object {
        Object::BackendTrafficPolicy(policy) => Some(match &policy.unread {
            Some(unread) => Written::Raw(&unread.spec),
            None => Written::Typed(policy.spec.targets()),
        }),
        Object::CustomPolicy(policy) => Some(Written::Naming(&policy.value["spec"])),
        other => policy_of(other).map(|policy| Written::Raw(&policy.spec)),
    }
}

/// Whether an object is a policy that names another, or chooses it by its labels, wherever it may look for them.
pub(crate) fn is_policy_for(policy: &Object, other: &Object) -> bool {
    let Some(written) = written(policy) else { return false };
    let (metadata, kind) = (other.metadata(), other.kind());
    let is_at_home = policy.metadata().namespace == metadata.namespace;
    let is_named = |target: &NamedTarget<'_>| target.kind == kind && *target.name == *metadata.name;
    let is_chosen = |selector: &Selector| {
        let may_look = is_at_home || selector.from != Reach::Same;
        selector.kind == kind && may_look && selector.chooses(&metadata.labels)
    };
    (is_at_home && written.named().iter().any(is_named)) || written.selectors().iter().any(is_chosen)
}

impl<'a> Written<'a> {
    /// The targets that it names; kinds that we don't read are left out.
    pub(crate) fn named(self) -> SmallVec<[NamedTarget<'a>; 1]> {
        match self {
            Self::Raw(spec) | Self::Naming(spec) => named_targets(spec).collect(),
            Self::Typed(targets) => targets.named.iter().chain(targets.single).filter_map(named).collect(),
        }
    }

    /// Where it names something that isn't known, or names it in a way that can't be read.
    pub(crate) fn unknown(self) -> Vec<String> {
        let (list, single): (Vec<bool>, bool) = match self {
            Self::Raw(spec) | Self::Naming(spec) => {
                let is_unknown = |target: &Value| target_of(target).is_none();
                let single = entries(&spec["targetRef"]).iter().any(is_unknown);
                (entries(&spec["targetRefs"]).iter().map(is_unknown).collect(), single)
            }
            Self::Typed(targets) => {
                let is_unknown = |target: &TargetRef| named(target).is_none();
                let single = targets.single.is_some_and(is_unknown);
                (targets.named.iter().map(is_unknown).collect(), single)
            }
        };
        let listed = list.iter().enumerate().filter(|(_, is_unknown)| **is_unknown);
        let listed = listed.map(|(n, _)| format!("spec.targetRefs[{n}]"));
        listed.chain(single.then(|| "spec.targetRef".to_owned())).collect()
    }

    /// What keeps selectors of it from choosing anything, a sentence each.
    pub(crate) fn faults(self) -> Vec<String> {
        let selectors = self.chosen().into_iter().enumerate();
        let faults = selectors.filter_map(|(n, selector)| match selector {
            None => Some((n, "its group and kind are none that is known".to_owned())),
            Some(selector) => Some((n, selector.fault()?)),
        });
        faults
            .map(|(n, why)| format!("spec.targetSelectors[{n}] chooses nothing: {why}"))
            .collect()
    }

    /// Whether it has selectors.
    pub(crate) fn chooses(self) -> bool {
        !self.selectors().is_empty()
    }

    /// Its selectors; kinds that we don't read are left out, and so is what can't choose anything.
    pub(super) fn selectors(self) -> Vec<Selector> {
        let known = self.chosen().into_iter().flatten();
        known.filter(|selector| selector.fault().is_none()).collect()
    }

    /// All selectors that it has; none for one of a kind that we don't read.
    fn chosen(self) -> Vec<Option<Selector>> {
        match self {
            Self::Raw(spec) => selectors(spec).collect(),
            Self::Typed(targets) => targets.chosen.iter().map(chosen).collect(),
            Self::Naming(_) => Vec::new(),
        }
    }
}

fn named(target: &TargetRef) -> Option<NamedTarget<'_>> {
    Some(NamedTarget {
        kind: Kind::of(&target.group, &target.kind)?,
        name: &target.name,
        section: target.section_name.as_deref(),
    })
}

fn chosen(selector: &TargetSelector) -> Option<Selector> {
    let namespaces = selector.namespaces.as_deref();
    Some(Selector {
        kind: Kind::of(&selector.group, &selector.kind)?,
        labels: LabelSelector {
            match_labels: selector.match_labels.clone(),
            match_expressions: selector.match_expressions.clone(),
        },
        from: match namespaces.map(|namespaces| &namespaces.from) {
            None | Some(TargetsFrom::Same) => Reach::Same,
            Some(TargetsFrom::Selector) => Reach::Selector,
            Some(TargetsFrom::All | TargetsFrom::Other(_)) => Reach::All,
        },
        namespaces: namespaces.and_then(|n| n.selector.as_deref()).cloned(),
    })
}

/// The policy behind an object whose kind is read as raw fields; none where it is of another kind.
pub(crate) fn policy_of(object: &Object) -> Option<&Generic> {
    match object {
        Object::ClientTrafficPolicy(policy) | Object::EdgeExtensionPolicy(policy) | Object::SecurityPolicy(policy) => {
            Some(policy)
        }
        _ => None,
    }
}

/// The entries of a list in a policy. What stands alone where a list belongs is its one entry: a policy from a file has
/// passed no API server, and what it protects must not be open for a slip.
fn entries(value: &Value) -> &[Value] {
    match value {
        Value::Null => &[],
        Value::Array(list) => list,
        one => std::slice::from_ref(one),
    }
}

/// A target as a policy names it, in its own namespace.
pub(crate) struct NamedTarget<'a> {
    /// Its kind.
    pub(crate) kind: Kind,
    /// Its name.
    pub(crate) name: &'a str,
    /// A listener or rule of it.
    pub(crate) section: Option<&'a str>,
}

/// The group of what policies point at, where they name none.
const TARGET_GROUP: &str = "gateway.networking.k8s.io";

/// The targets that a policy names; kinds that we don't read are left out.
pub(crate) fn named_targets(spec: &Value) -> impl Iterator<Item = NamedTarget<'_>> {
    let targets = entries(&spec["targetRefs"]).iter().chain(entries(&spec["targetRef"]));
    targets.filter_map(target_of)
}

fn target_of(target: &Value) -> Option<NamedTarget<'_>> {
    let text = |field: &str| target[field].as_str();
    Some(NamedTarget {
        kind: Kind::of(text("group").unwrap_or(TARGET_GROUP), text("kind")?)?,
        name: text("name")?,
        section: text("sectionName"),
    })
}

/// Objects that a policy chooses, as it says so.
#[derive(Debug, PartialEq)]
pub(crate) struct Selector {
    /// Their kind.
    pub(crate) kind: Kind,
    /// Their labels.
    pub(crate) labels: LabelSelector,
    /// Which namespaces they may be in.
    pub(crate) from: Reach,
    /// Labels of those namespaces, where these are chosen.
    pub(crate) namespaces: Option<LabelSelector>,
}

/// Which namespaces a selector looks into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// That of the policy.
    Same,
    /// Those with certain labels.
    Selector,
    /// Every one.
    All,
}

impl Reach {
    /// What `namespaces` of a selector says: `Same` where it is absent, and every one where it can't be read.
    fn of(namespaces: &Value) -> Self {
        match (namespaces, &namespaces["from"]) {
            (Value::Null, _) | (Value::Object(_), Value::Null) => Self::Same,
            (_, Value::String(from)) if from == "Same" => Self::Same,
            (_, Value::String(from)) if from == "Selector" => Self::Selector,
            _ => Self::All,
        }
    }
}

impl Selector {
    /// What keeps it from choosing anything.
    fn fault(&self) -> Option<String> {
        let of_labels = self.labels.fault();
        of_labels.or_else(|| match (self.from, &self.namespaces) {
            (Reach::Selector, Some(namespaces)) => {
                let fault = namespaces.fault()?;
                Some(format!("namespaces.selector: {fault}"))
            }
            (Reach::Selector, None) => Some("namespaces.selector must be specified when from is Selector".to_owned()),
            (Reach::Same | Reach::All, _) => None,
        })
    }

    /// The namespace whose objects it is to choose from; none where that is every one.
    pub(super) fn within(&self, home: Sym) -> Option<Sym> {
        match self.from {
            Reach::Same => Some(home),
            Reach::Selector | Reach::All => None,
        }
    }

    /// Whether it looks into a namespace with such labels. One that we know nothing of is looked into: nobody may leave
    /// a guard by living where we don't see.
    pub(super) fn looks_into(&self, namespace: Option<&StringMap>) -> bool {
        match self.from {
            Reach::Same | Reach::All => true,
            Reach::Selector => {
                let is_chosen = |labels| self.namespaces.as_ref().is_some_and(|chosen| is_meant(chosen, labels));
                namespace.is_none_or(is_chosen)
            }
        }
    }

    /// Whether it chooses an object of its kind, where it looks, with such labels.
    pub(super) fn chooses(&self, labels: &StringMap) -> bool {
        is_meant(&self.labels, labels)
    }
}

fn is_meant(selector: &LabelSelector, labels: &StringMap) -> bool {
    selector.matches(labels) == Some(true)
}

/// The selectors of a policy; none for one of a kind that we don't read. One whose labels can't be read chooses all.
fn selectors(spec: &Value) -> impl Iterator<Item = Option<Selector>> {
    let labels = |value: &Value| LabelSelector::deserialize(value).unwrap_or_default();
    entries(&spec["targetSelectors"]).iter().map(move |selector| {
        let group = selector["group"].as_str().unwrap_or(TARGET_GROUP);
        let namespaces = &selector["namespaces"];
        let chosen = &namespaces["selector"];
        Some(Selector {
            kind: Kind::of(group, selector["kind"].as_str().unwrap_or_default())?,
            labels: labels(selector),
            from: Reach::of(namespaces),
            namespaces: (!chosen.is_null()).then(|| labels(chosen)),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_target_is_found_where_a_list_was_forgotten() {
        let target = json!({"kind": "HTTPRoute", "name": "r"});
        let full = json!({"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": "r"});
        for spec in [
            json!({"targetRefs": [full]}),
            json!({"targetRefs": [target]}),
            json!({"targetRefs": target}),
            json!({"targetRef": target}),
            json!({"targetRef": [target]}),
        ] {
            let found: Vec<_> = named_targets(&spec).map(|t| (t.kind, t.name.to_owned())).collect();
            assert_eq!(found, [(Kind::HttpRoute, "r".to_owned())], "{spec}");
        }
    }

    #[test]
    fn a_selector_that_cannot_be_read_reaches_every_namespace() {
        for (namespaces, expected) in [
            (json!(null), Reach::Same),
            (json!({}), Reach::Same),
            (json!({"from": "Same"}), Reach::Same),
            (json!({"from": "Selector"}), Reach::Selector),
            (json!({"from": "All"}), Reach::All),
            (json!({"from": "Unheard"}), Reach::All),
            (json!({"from": ["Same"]}), Reach::All),
            (json!("All"), Reach::All),
        ] {
            let selector = json!({"kind": "HTTPRoute", "namespaces": namespaces});
            for spec in [
                json!({"targetSelectors": [selector]}),
                json!({"targetSelectors": selector}),
            ] {
                let found: Vec<_> = selectors(&spec).flatten().map(|s| (s.kind, s.from)).collect();
                assert_eq!(found, [(Kind::HttpRoute, expected)], "{spec}");
            }
        }
    }
}
