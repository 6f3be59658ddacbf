//! Which namespaces count. The controller's own always does; those that a selector chooses come and go with their
//! labels, and named ones are looked into while they are there: nobody may be allowed to look into one that isn't, and
//! there is nothing in it to wait for.

use crate::config::Scope;
use edge_translate::{
    Change,
    api::{Kind, Namespace, Object},
};
use std::{collections::BTreeSet, sync::Arc};

/// The namespaces that count now.
pub(super) struct Namespaces {
    own: Arc<str>,
    scope: Scope,
    /// Those that are there of the ones that are named, or that the selector chooses.
    chosen: BTreeSet<Arc<str>>,
}

impl Namespaces {
    pub(super) fn new(own: &Arc<str>, scope: &Scope) -> Self {
        Self {
            own: Arc::clone(own),
            scope: scope.clone(),
            chosen: BTreeSet::new(),
        }
    }

    /// Whether they depend on which namespaces there are, so that they aren't known before all of those are.
    pub(super) fn is_selective(&self) -> bool {
        !matches!(self.scope, Scope::All)
    }

    /// Looks at namespaces that came, changed or went. Whether that changes what counts.
    pub(super) fn follow(&mut self, changes: &[Change]) -> bool {
        let counts = |namespace: &Namespace| match &self.scope {
            Scope::All => false,
            Scope::Namespaces(names) => names.contains(&namespace.metadata.name),
            // An operator that we don't know chooses nothing.
            Scope::Selector(selector) => selector.matches(&namespace.metadata.labels) == Some(true),
        };
        let mut has_changed = false;
        for change in changes {
            has_changed |= match change {
                Change::Put(Object::Namespace(namespace)) => {
                    let name = &namespace.metadata.name;
                    match counts(namespace) {
                        true => self.chosen.insert(Arc::clone(name)),
                        false => self.chosen.remove(name),
                    }
                }
                Change::Remove(key) if key.kind == Kind::Namespace => self.chosen.remove(&key.name),
                _ => false,
            };
        }
        has_changed
    }

    /// Their names; `None`: all count.
    pub(super) fn names(&self) -> Option<BTreeSet<Arc<str>>> {
        if matches!(self.scope, Scope::All) {
            return None;
        }
        let mut names = self.chosen.clone();
        names.insert(Arc::clone(&self.own));
        Some(names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use edge_translate::{api::ObjectKey, load::from_value};
    use serde_json::json;

    fn namespaces(scope: Scope) -> Namespaces {
        Namespaces::new(&"system".into(), &scope)
    }

    fn named(names: &Namespaces) -> Vec<String> {
        names.names().iter().flatten().map(ToString::to_string).collect()
    }

    #[test]
    fn namespaces_come_and_go_with_their_labels_and_our_own_stays() {
        let selector = serde_json::from_value(json!({ "matchLabels": { "team": "a" } })).unwrap();
        let mut chosen = namespaces(Scope::Selector(selector));
        let labelled = |name: &str, team: &str| {
            let metadata = json!({ "name": name, "labels": { "team": team } });
            let value = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": metadata });
            Change::Put(from_value(&value).unwrap().0)
        };
        assert_eq!(named(&chosen), ["system"]);
        assert!(chosen.follow(&[labelled("one", "a"), labelled("two", "b")]));
        assert_eq!(named(&chosen), ["one", "system"]);
        assert!(!chosen.follow(&[labelled("one", "a")]), "nothing new");
        assert!(chosen.follow(&[labelled("one", "b"), labelled("two", "a")]));
        assert_eq!(named(&chosen), ["system", "two"]);
        assert!(chosen.follow(&[Change::Remove(ObjectKey::new(Kind::Namespace, "", "two"))]));
        assert_eq!(named(&chosen), ["system"]);
        let mut fixed = namespaces(Scope::Namespaces(["one".into()].into()));
        assert_eq!(named(&fixed), ["system"], "it isn't there yet");
        assert!(fixed.follow(&[labelled("one", "a"), labelled("two", "a")]));
        assert_eq!(named(&fixed), ["one", "system"]);
        assert!(fixed.follow(&[Change::Remove(ObjectKey::new(Kind::Namespace, "", "one"))]));
        assert_eq!(named(&fixed), ["system"]);
        assert_eq!(namespaces(Scope::All).names(), None);
    }
}
