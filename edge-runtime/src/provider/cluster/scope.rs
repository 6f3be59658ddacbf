//! Which namespaces count. The controller's own always does; those that a selector chooses come and go with their
//! labels.

use crate::config::{Cluster, Scope};
use edge_translate::{
    Change,
    api::{Kind, Object},
};
use std::{collections::BTreeSet, sync::Arc};

/// The namespaces that count now.
pub(super) struct Namespaces {
    own: Arc<str>,
    scope: Scope,
    /// Those that the selector chooses.
    chosen: BTreeSet<Arc<str>>,
}

impl Namespaces {
    pub(super) fn new(cluster: &Cluster) -> Self {
        Self {
            own: Arc::clone(&cluster.namespace),
            scope: cluster.scope.clone(),
            chosen: BTreeSet::new(),
        }
    }

    /// Whether they depend on labels, so that they aren't known before all namespaces are.
    pub(super) fn is_selective(&self) -> bool {
        matches!(self.scope, Scope::Selector(_))
    }

    /// Looks at namespaces that came, changed or went. Whether that changes what counts.
    pub(super) fn follow(&mut self, changes: &[Change]) -> bool {
        let Scope::Selector(selector) = &self.scope else {
            return false;
        };
        let mut has_changed = false;
        for change in changes {
            has_changed |= match change {
                Change::Put(Object::Namespace(namespace)) => {
                    let name = &namespace.metadata.name;
                    // An operator that we don't know chooses nothing.
                    match selector.matches(&namespace.metadata.labels) == Some(true) {
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
        let chosen = match &self.scope {
            Scope::All => return None,
            Scope::Namespaces(names) => names,
            Scope::Selector(_) => &self.chosen,
        };
        let mut names = chosen.clone();
        names.insert(Arc::clone(&self.own));
        Some(names)
    }
}
