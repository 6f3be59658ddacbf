//! What a proxy serves, as far as listeners go, told to whoever writes statuses.
//!
//! A refused or slow edit takes nothing away: the proxy goes on with what it has taken last. Until it has answered to
//! all listeners that there were for it, nothing is told of a proxy, so that one that comes makes nobody look unserved.

use crate::state::{Connection, Deliveries, Delivery};
use edge_ir::{FleetKey, Origins};
use edge_xds::{
    delta::Response,
    snapshot::{ResourceType, Section},
};
use envoy_types::pb::envoy::service::discovery::v3::DeltaDiscoveryRequest;
use std::{collections::BTreeMap, sync::Arc};
use tokio::sync::watch;

/// What the proxy of one stream serves; told until it is dropped.
pub(super) struct Delivered {
    stream: u64,
    fleet: FleetKey,
    deliveries: Arc<watch::Sender<Deliveries>>,
    listeners: BTreeMap<Arc<str>, Origins>,
    /// It has answered to all that there was once.
    is_up: bool,
    /// Something isn't told yet.
    is_news: bool,
}

impl Delivered {
    pub(super) fn new(stream: u64, fleet: FleetKey, deliveries: Arc<watch::Sender<Deliveries>>) -> Self {
        Self {
            stream,
            fleet,
            deliveries,
            listeners: BTreeMap::new(),
            is_up: false,
            is_news: true,
        }
    }

    /// The proxy has been connected before, and says which versions it has.
    pub(super) fn brings(&mut self, request: &DeltaDiscoveryRequest, listeners: &Section) {
        let versions = &request.initial_resource_versions;
        if request.type_url != ResourceType::Listener.type_url() || versions.is_empty() {
            return;
        }
        for entry in listeners.entries() {
            if versions.get(&*entry.name) == Some(&entry.version_text()) {
                self.take(&entry.name, &entry.origins);
            }
        }
    }

    /// The proxy has taken a response.
    pub(super) fn takes(&mut self, response: &Response) {
        if response.kind != ResourceType::Listener {
            return;
        }
        for entry in &response.resources {
            self.take(&entry.name, &entry.origins);
        }
        for name in &response.removed {
            self.is_news |= self.listeners.remove(name).is_some();
        }
    }

    fn take(&mut self, name: &Arc<str>, origins: &Origins) {
        let before = self.listeners.insert(Arc::clone(name), Arc::clone(origins));
        self.is_news |= before.as_ref() != Some(origins);
    }

    /// Tells what is new, once the proxy has answered to all that there was.
    pub(super) fn tell(&mut self, has_answered: bool) {
        self.is_up |= has_answered;
        if !self.is_up || !std::mem::take(&mut self.is_news) {
            return;
        }
        let delivery = Delivery {
            fleet: self.fleet.clone(),
            listeners: self.listeners.clone(),
        };
        self.deliveries
            .send_modify(|all| drop(all.insert(Connection::Here(self.stream), delivery)));
    }
}

impl Drop for Delivered {
    fn drop(&mut self) {
        self.deliveries
            .send_if_modified(|all| all.remove(&Connection::Here(self.stream)).is_some());
    }
}
