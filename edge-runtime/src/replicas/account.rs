//! What a replica tells of its proxies, as text of bounded length. Pure.

use crate::{
    state::{Connection, Deliveries, Delivery, KeptFrom, Refuser, Rejection, RejectionKey, Rejections},
    status::overlay::served,
};
use edge_ir::{FleetKey, Origin};
use edge_translate::api::ObjectKey;
use edge_xds::snapshot::ResourceType;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Longest text, in bytes: all annotations of an object together may have 256 KiB.
const LONGEST: usize = 200 * 1024;

/// What the proxies of one replica say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Account {
    /// What they refuse; of several that refuse the same, one.
    rejected: BTreeSet<Refusal>,
    /// What all of a fleet that are connected there serve.
    served: BTreeMap<FleetKey, BTreeSet<Origin>>,
}

/// One resource that is refused.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Refusal {
    fleet: FleetKey,
    /// The type URL of its kind.
    kind: String,
    name: Arc<str>,
    reason: Arc<str>,
    /// Who refuses it; older replicas don't say.
    #[serde(default)]
    by: Refuser,
    origins: Vec<Origin>,
}

impl Account {
    /// What these proxies say.
    pub(super) fn of(rejections: &Rejections, deliveries: &Deliveries) -> Self {
        let refusal = |(key, rejection): (&RejectionKey, &Rejection)| Refusal {
            fleet: rejection.fleet.clone(),
            kind: key.kind.type_url().to_owned(),
            name: Arc::clone(&key.name),
            reason: Arc::clone(&rejection.reason),
            by: rejection.by,
            origins: rejection.origins.iter().map(named).collect(),
        };
        let objects = |keys: BTreeSet<ObjectKey>| keys.iter().map(origin).collect();
        Self {
            rejected: rejections.iter().map(refusal).collect(),
            served: served(deliveries)
                .into_iter()
                .map(|(fleet, keys)| (fleet, objects(keys)))
                .collect(),
        }
    }

    /// The account as text, and how many entries of it had no room: of what is served before what is refused.
    pub(super) fn to_text(&self) -> (String, usize) {
        self.to_text_within(LONGEST)
    }

    pub(super) fn to_text_within(&self, longest: usize) -> (String, usize) {
        let whole = text(self);
        if whole.len() <= longest {
            return (whole, 0);
        }
        let mut kept = Self::default();
        // Each entry's own text, and the comma behind it; of a fleet the colon too.
        let mut room = longest.saturating_sub(text(&kept).len());
        let mut left_out = 0;
        let mut fits = |length: usize| {
            let fits = length <= room;
            // Nothing has room any more behind what hasn't.
            room = if fits { room - length } else { 0 };
            left_out += usize::from(!fits);
            fits
        };
        for refusal in &self.rejected {
            if fits(text(refusal).len() + 1) {
                kept.rejected.insert(refusal.clone());
            }
        }
        for (fleet, objects) in &self.served {
            if fits(text(fleet).len() + text(objects).len() + 2) {
                kept.served.insert(fleet.clone(), objects.clone());
            }
        }
        (text(&kept), left_out)
    }

    /// Reads a text. What isn't one says nothing.
    pub(super) fn from_text(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// Lays what it says beside what others say.
    pub(super) fn add_to(&self, replica: &Arc<str>, rejections: &mut Rejections, deliveries: &mut Deliveries) {
        for (n, refusal) in self.rejected.iter().enumerate() {
            // A kind that a newer version knows has no place here.
            let Some(kind) = ResourceType::from_type_url(&refusal.kind) else {
                continue;
            };
            let key = RejectionKey {
                from: KeptFrom::Elsewhere(Arc::clone(replica), n),
                kind,
                name: Arc::clone(&refusal.name),
            };
            let rejection = Rejection {
                fleet: refusal.fleet.clone(),
                by: refusal.by,
                reason: Arc::clone(&refusal.reason),
                origins: refusal.origins.clone().into(),
            };
            rejections.insert(key, rejection);
        }
        for (n, (fleet, objects)) in self.served.iter().enumerate() {
            let delivery = Delivery {
                fleet: fleet.clone(),
                listeners: [("".into(), objects.iter().cloned().collect())].into(),
            };
            deliveries.insert(Connection::Elsewhere(Arc::clone(replica), n), delivery);
        }
    }
}

/// An origin without what its object says about itself, which nobody asks for here.
fn named(origin: &Origin) -> Origin {
    Origin {
        annotations: Arc::default(),
        ..origin.clone()
    }
}

fn origin(key: &ObjectKey) -> Origin {
    Origin {
        kind: key.kind.as_str().into(),
        namespace: Arc::clone(&key.namespace),
        name: Arc::clone(&key.name),
        section: None,
        annotations: Arc::default(),
    }
}

/// Maps with text as keys and plain lists can always be written.
fn text(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
