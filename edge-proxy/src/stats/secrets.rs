//! Counters of the secrets that servers beside the proxy are asked for. The control half alone counts and reads them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};

use crate::stats::{SecretCells, SecretStats};

/// Scopes by the names of secrets, for as long as these are wanted.
#[derive(Debug, Default)]
pub struct SecretScopes(RwLock<BTreeMap<String, Arc<SecretStats>>>);

impl SecretScopes {
    /// What is wanted now. To begin to want a secret is a first attempt to get it.
    pub fn want(&self, names: &BTreeSet<&str>) {
        let mut scopes = self.0.write().unwrap_or_else(PoisonError::into_inner);
        scopes.retain(|name, _| names.contains(name.as_str()));
        for name in names {
            scopes.entry((*name).to_owned()).or_insert_with(|| {
                let scope = SecretStats::new(format!("sds.{}.", sanitized(name)), sanitized(name), 0);
                scope.control().update_attempt.inc();
                Arc::new(scope)
            });
        }
    }

    /// Counts how an attempt has ended. Whatever it came to, the next one begins with it, as in Envoy.
    pub fn count(&self, name: &str, count: impl FnOnce(&SecretCells)) {
        let scopes = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(scope) = scopes.get(name) {
            count(scope.control());
            scope.control().update_attempt.inc();
        }
    }

    /// All that there are, in the order of their names.
    pub fn all(&self) -> Vec<Arc<SecretStats>> {
        let scopes = self.0.read().unwrap_or_else(PoisonError::into_inner);
        scopes.values().cloned().collect()
    }
}

/// A name as Envoy has it in the names of metrics: no colons, which stand between hosts and ports in others.
fn sanitized(name: &str) -> String {
    name.replace("://", "_").replace(":/", "_").replace(':', "_")
}
