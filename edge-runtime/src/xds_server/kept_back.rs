//! What is kept back from the proxies of each fleet, shared by their streams.
//!
//! A stream finds out what its proxy refuses; from then on no proxy of the fleet is sent it, until it changes. What is
//! kept back is told as a rejection, whether or not a proxy is connected.

use crate::state::{KeptFrom, Published, Refuser, Rejection, RejectionKey, Rejections};
use edge_ir::FleetKey;
use edge_xds::{
    delta,
    quarantine::{Quarantine, QuarantinedPart},
    snapshot::{ResourceType, Snapshot},
};
use std::{collections::BTreeMap, sync::Arc};
use tokio::sync::watch;

/// What is kept back, by fleet; fleets without anything are not in it.
pub(super) type Quarantines = BTreeMap<FleetKey, Arc<Quarantine>>;

/// The one place that knows.
#[derive(Clone, Debug)]
pub(super) struct KeptBack {
    all: Arc<watch::Sender<Quarantines>>,
    rejections: Arc<watch::Sender<Rejections>>,
}

impl KeptBack {
    pub(super) fn new(rejections: Arc<watch::Sender<Rejections>>) -> Self {
        Self {
            all: Arc::new(watch::Sender::new(Quarantines::new())),
            rejections,
        }
    }

    /// Tells of changes.
    pub(super) fn subscribe(&self) -> watch::Receiver<Quarantines> {
        self.all.subscribe()
    }

    /// Keeps parts back from a fleet, as far as they are still in its snapshot.
    pub(super) fn hold(&self, fleet: &FleetKey, held: Vec<QuarantinedPart>, snapshot: &Snapshot) {
        self.change(fleet, |quarantine| {
            held.into_iter().for_each(|held| quarantine.hold(held));
            quarantine.release(snapshot);
        });
    }

    /// Lets out what has changed, for as long as states are published.
    pub(super) async fn follow(&self, mut published: watch::Receiver<Option<Arc<Published>>>) {
        while published.changed().await.is_ok() {
            let published = published.borrow_and_update().clone();
            let fleets: Vec<FleetKey> = self.all.borrow().keys().cloned().collect();
            for fleet in fleets {
                let state = published.as_ref().and_then(|published| published.fleets.get(&fleet));
                self.change(&fleet, |quarantine| match state {
                    Some(state) => {
                        quarantine.release(&state.snapshot);
                    }
                    None => *quarantine = Quarantine::default(),
                });
            }
        }
    }

    fn change(&self, fleet: &FleetKey, change: impl FnOnce(&mut Quarantine)) {
        let changed = self.all.send_if_modified(|all| {
            let before = all.get(fleet);
            let mut quarantine = before.map(|before| Quarantine::clone(before)).unwrap_or_default();
            change(&mut quarantine);
            if before.map_or(quarantine.is_empty(), |before| **before == quarantine) {
                return false;
            }
            match quarantine.is_empty() {
                true => all.remove(fleet),
                false => all.insert(fleet.clone(), Arc::new(quarantine)),
            };
            true
        });
        if changed {
            let quarantine = self.all.borrow().get(fleet).cloned().unwrap_or_default();
            self.tell(fleet, &quarantine);
        }
    }

    fn tell(&self, fleet: &FleetKey, quarantine: &Quarantine) {
        self.rejections.send_modify(|all| {
            all.retain(|key, _| !matches!(&key.from, KeptFrom::Fleet(of, _) if of == fleet));
            all.extend(quarantine.held().enumerate().map(|(n, held)| rejection(fleet, n, held)));
        });
    }
}

impl Drop for KeptBack {
    /// The last one takes its rejections with it: whoever serves next finds out anew.
    fn drop(&mut self) {
        if Arc::strong_count(&self.all) == 1 {
            self.rejections.send_if_modified(|all| {
                let before = all.len();
                all.retain(|key, _| !matches!(key.from, KeptFrom::Fleet(..)));
                all.len() != before
            });
        }
    }
}

fn rejection(fleet: &FleetKey, n: usize, held: &QuarantinedPart) -> (RejectionKey, Rejection) {
    let key = RejectionKey {
        from: KeptFrom::Fleet(fleet.clone(), n),
        kind: ResourceType::Routes,
        name: Arc::clone(&held.table),
    };
    let rejection = Rejection {
        fleet: fleet.clone(),
        by: Refuser::DataPlane,
        reason: delta::reason(&held.detail, &held.table).into(),
        origins: Arc::clone(&held.origins),
    };
    (key, rejection)
}
