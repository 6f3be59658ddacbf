//! The book of facts: what everyone has said, and what follows from it for the status of each object. Pure.
//!
//! It knows no form: a document, the log, or a writer to the cluster each make their own of [`Effective`] statuses.

use super::overlay;
use crate::state::{Deliveries, Malformed, Published, Rejections, Reports, StatusChanges};
use edge_ir::FleetKey;
use edge_translate::{
    api::{Kind, ObjectKey, ParentReference},
    status::{ParentStatus, Status, StatusBody},
};
use edge_xds::snapshot::ResourceType;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// What is to be said about an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Effective {
    /// Our statements.
    pub status: Status,
    /// Addresses of a Gateway, in the form of the API; unset where nobody looks after proxies, or nobody knows yet how
    /// they are: then nothing is said about `Programmed` either, and what an object carries of both stays.
    pub addresses: Option<Value>,
}

fn unspoken(parent: &ParentReference) -> ParentStatus {
    ParentStatus {
        parent: Arc::new(parent.clone()),
        conditions: Vec::new(),
    }
}

/// The class of a Gateway that we speak of.
fn class_of(status: &Arc<Status>) -> Option<&str> {
    match &status.body {
        StatusBody::Gateway(gateway) => Some(&gateway.class),
        _ => None,
    }
}

/// Everything known about every object.
#[derive(Debug, Default)]
pub struct Book {
    /// The name that marks our entries, where they are written among those of others.
    controller_name: Option<Arc<str>>,
    statuses: BTreeMap<ObjectKey, Arc<Status>>,
    /// Objects about which something has changed.
    stale: BTreeSet<ObjectKey>,
    /// Gateways and ListenerSets of a cluster that we spoke of until what they belong to went. That is to be said once:
    /// nobody else will, and whoever they belong to later speaks for himself.
    abandoned: BTreeSet<ObjectKey>,
    fleets: overlay::Fleets,
    /// Gateways and ListenerSets of which there are listeners to be served.
    listening: BTreeSet<ObjectKey>,
    /// Those whose listeners all connected proxies of their fleet serve.
    served: BTreeMap<FleetKey, BTreeSet<ObjectKey>>,
    reports: Option<Reports>,
    rejected: BTreeMap<ObjectKey, Vec<overlay::Rejected>>,
}

impl Book {
    /// A book about objects into which others write too; our entries bear this name.
    pub fn among_others(controller_name: Arc<str>) -> Self {
        Self {
            controller_name: Some(controller_name),
            ..Self::default()
        }
    }

    /// Takes the statuses that a translation changed.
    pub fn set_statuses(&mut self, changes: StatusChanges) {
        for (key, status) in changes {
            self.note_turn(&key, status.as_ref());
            match status {
                Some(status) => drop(self.statuses.insert(key.clone(), status)),
                None => drop(self.statuses.remove(&key)),
            }
            self.stale.insert(key);
        }
    }

    /// What follows for others, or later, from an object's new status.
    fn note_turn(&mut self, key: &ObjectKey, now: Option<&Arc<Status>>) {
        let before = self.statuses.get(key);
        let classes = (before.and_then(class_of), now.and_then(class_of));
        if classes.0 != classes.1 {
            let classes = [classes.0, classes.1].into_iter().flatten();
            let classes = classes.map(|class| ObjectKey::new(Kind::GatewayClass, "", class));
            self.stale.extend(classes);
        }
        let is_nobodys = |status: &Arc<Status>| matches!(status.body, StatusBody::Unattached(_));
        let was_ours = |status: &Arc<Status>| {
            matches!(status.body, StatusBody::Gateway(_) | StatusBody::ListenerSet(_)) && self.controller_name.is_some()
        };
        if !now.is_some_and(is_nobodys) {
            self.abandoned.remove(key);
        } else if before.is_some_and(was_ours) {
            self.abandoned.insert(key.clone());
        }
    }

    /// An object carries what is to be said about it.
    pub fn said(&mut self, key: &ObjectKey) {
        self.abandoned.remove(key);
    }

    /// Somebody else says what is to be said once.
    pub fn leave_to_others(&mut self) {
        self.abandoned.clear();
    }

    /// Learns which fleet serves which Gateway and ListenerSet.
    pub fn set_fleets(&mut self, published: Option<&Published>) {
        let (mut fleets, mut listening) = (BTreeMap::new(), BTreeSet::new());
        for (fleet, state) in published.iter().flat_map(|published| &published.fleets) {
            if state.infra.is_none() {
                // It stays as it is, so it stays whose it was.
                let known = self.fleets.iter().filter(|(_, known)| *known == fleet);
                fleets.extend(known.map(|(k, v)| (k.clone(), v.clone())));
            }
            let infra = state.infra.iter().flat_map(|infra| infra.origins.iter());
            let listeners = state.snapshot.section(ResourceType::Listener).entries();
            let listeners = listeners.iter().flat_map(|listener| listener.origins.iter());
            for key in listeners.filter_map(overlay::object_of) {
                fleets.insert(key.clone(), fleet.clone());
                listening.insert(key);
            }
            for key in infra.filter_map(overlay::object_of) {
                fleets.insert(key, fleet.clone());
            }
        }
        let differs = |key: &&ObjectKey| self.fleets.get(*key) != fleets.get(*key);
        let mut outdated: BTreeSet<ObjectKey> = self
            .fleets
            .keys()
            .chain(fleets.keys())
            .filter(differs)
            .cloned()
            .collect();
        outdated.extend(self.listening.symmetric_difference(&listening).cloned());
        self.fleets = fleets;
        self.listening = listening;
        self.outdate(outdated);
    }

    /// Learns how the proxies are.
    pub fn set_reports(&mut self, reports: Option<Reports>) {
        let before = std::mem::replace(&mut self.reports, reports);
        let outdated: Vec<ObjectKey> = match (&before, &self.reports) {
            (Some(before), Some(now)) => {
                let differs = |(_, fleet): &(&ObjectKey, &FleetKey)| before.get(*fleet) != now.get(*fleet);
                self.fleets.iter().filter(differs).map(|(key, _)| key.clone()).collect()
            }
            (None, None) => Vec::new(),
            // Somebody looks after proxies from now on, or nobody any more: that is about Gateways without a fleet too.
            _ => self.statuses.keys().cloned().collect(),
        };
        self.outdate(outdated);
    }

    /// Learns what proxies serve.
    pub fn set_deliveries(&mut self, deliveries: &Deliveries) {
        let before = std::mem::replace(&mut self.served, overlay::served(deliveries));
        let is_in = |all: &BTreeMap<FleetKey, BTreeSet<ObjectKey>>, fleet: &FleetKey, key: &ObjectKey| {
            all.get(fleet).map(|served| served.contains(key))
        };
        let differs =
            |(key, fleet): &(&ObjectKey, &FleetKey)| is_in(&before, fleet, key) != is_in(&self.served, fleet, key);
        let outdated: Vec<ObjectKey> = self.fleets.iter().filter(differs).map(|(key, _)| key.clone()).collect();
        self.outdate(outdated);
    }

    /// Whether the proxies of a Gateway, as far as they are known, don't serve it yet. An edit that they take a while
    /// for, or refuse, takes nothing away: they have taken an earlier one.
    fn is_awaited(&self, key: &ObjectKey) -> bool {
        let served = self.fleets.get(key).and_then(|fleet| self.served.get(fleet));
        self.listening.contains(key) && served.is_some_and(|served| !served.contains(key))
    }

    /// Learns what proxies reject.
    pub fn set_rejections(&mut self, rejections: &Rejections) {
        let rejected = overlay::by_object(rejections);
        let differing = self.rejected.keys().chain(rejected.keys());
        let differing = differing
            .filter(|key| self.rejected.get(*key) != rejected.get(*key))
            .cloned();
        self.stale.extend(differing);
        self.rejected = rejected;
    }

    /// What is said about Gateways depends on their fleets.
    fn outdate(&mut self, keys: impl IntoIterator<Item = ObjectKey>) {
        let gateways = keys.into_iter().filter(|key| key.kind == Kind::Gateway);
        let known = gateways.filter(|key| self.statuses.contains_key(key));
        self.stale.extend(known);
    }

    /// Objects whose effective status may differ from what it was at the last call.
    pub fn take_stale(&mut self) -> BTreeSet<ObjectKey> {
        std::mem::take(&mut self.stale)
    }

    /// Objects that something is said about.
    pub fn keys(&self) -> impl Iterator<Item = &ObjectKey> {
        self.statuses.keys()
    }

    /// Whether there are Gateways of a class.
    pub fn has_gateways(&self, class: &str) -> bool {
        self.statuses.values().any(|status| class_of(status) == Some(class))
    }

    /// The Gateways that a fleet serves.
    pub fn gateways_of<'a>(&'a self, fleet: &'a FleetKey) -> impl Iterator<Item = &'a ObjectKey> {
        let of_fleet = self.fleets.iter().filter(move |(_, served_by)| *served_by == fleet);
        of_fleet.map(|(key, _)| key).filter(|key| key.kind == Kind::Gateway)
    }

    /// What is to be said about an object that can't be read: what it said before is in force, and it isn't accepted as
    /// it is now. Nothing if it leads to nothing of ours.
    pub fn effective_of_malformed(&self, key: &ObjectKey, malformed: &Malformed) -> Option<Effective> {
        let mut effective = self.effective(key).or_else(|| {
            let ours = malformed.parents.iter().filter(|parent| {
                overlay::parent_of(key, parent).is_some_and(|parent| self.statuses.contains_key(&parent))
            });
            let parents: Vec<ParentStatus> = ours.map(unspoken).collect();
            if parents.is_empty() {
                return None;
            }
            let body = StatusBody::Parents {
                controller_name: Arc::clone(self.controller_name.as_ref()?),
                parents,
            };
            Some(Effective {
                status: Status {
                    observed_generation: malformed.generation,
                    body,
                },
                addresses: None,
            })
        })?;
        overlay::add_malformed(&mut effective.status, malformed);
        Some(effective)
    }

    /// What is to be said about an object, all facts laid together; nothing if it isn't ours or gone.
    pub fn effective(&self, key: &ObjectKey) -> Option<Effective> {
        let mut status = Status::clone(self.statuses.get(key)?);
        let mut addresses = None;
        if self.abandoned.contains(key) {
            addresses = overlay::abandon(&mut status, key.kind);
        } else if key.kind == Kind::Gateway
            && let Some(reports) = &self.reports
        {
            let fleet = self.fleets.get(key);
            let report = fleet.and_then(|fleet| reports.get(fleet));
            // Of a fleet that nobody has looked at yet nothing is known, which is no reason to say that it isn't there.
            if fleet.is_none() || report.is_some() {
                addresses = Some(overlay::add_infrastructure(&mut status, report));
                if self.is_awaited(key) {
                    overlay::await_delivery(&mut status);
                }
            }
        }
        if let Some(rejected) = self.rejected.get(key) {
            overlay::add_rejections(&mut status, key, rejected, &self.fleets);
        }
        Some(Effective { status, addresses })
    }
}
