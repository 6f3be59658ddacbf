//! Which clusters take their endpoints from which assignment.
//!
//! Pods come and go all the time, and finding the clusters of an assignment must not look at every cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::compile::cluster::Discovery;

/// Names of clusters by the name of their assignment (`eds_cluster_config.service_name`).
#[derive(Debug, Default)]
pub(super) struct Services(BTreeMap<Arc<str>, BTreeSet<Arc<str>>>);

impl Services {
    /// Enters a cluster, if its endpoints are discovered by EDS.
    pub(super) fn add(&mut self, cluster: &Arc<str>, discovery: &Discovery) {
        if let Discovery::Eds(service) = discovery {
            self.0.entry(service.clone()).or_default().insert(cluster.clone());
        }
    }

    /// Takes a cluster out, with the settings it was entered with.
    pub(super) fn remove(&mut self, cluster: &str, discovery: &Discovery) {
        let Discovery::Eds(service) = discovery else {
            return;
        };
        if let Some(clusters) = self.0.get_mut(service) {
            clusters.remove(cluster);
            if clusters.is_empty() {
                self.0.remove(service);
            }
        }
    }

    /// The clusters of an assignment.
    pub(super) fn clusters_of(&self, service: &str) -> impl Iterator<Item = &Arc<str>> {
        self.0.get(service).into_iter().flatten()
    }

    /// Whether any cluster uses this assignment.
    pub(super) fn contains(&self, service: &str) -> bool {
        self.0.contains_key(service)
    }

    /// The assignments in use, sorted.
    pub(super) fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.0.keys()
    }
}
