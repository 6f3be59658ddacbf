//! What one connection has, wants and was sent of one kind of resource.

use super::response::{Response, size_of_entry};
use crate::snapshot::{Diff, Entry, ResourceType, Section};
use envoy_types::pb::envoy::service::discovery::v3::DeltaDiscoveryRequest;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// A response grows no further than this, unless a single resource does; receivers limit messages to 4 MiB by default.
const MAX_RESPONSE: usize = 2 << 20;

/// A version that equals no other: the proxy has the resource, nobody knows in which state.
const UNKNOWN: u64 = 0;

/// State of one kind on one connection.
#[derive(Debug)]
pub(super) struct Kind {
    kind: ResourceType,
    /// A first request has come.
    asked: bool,
    /// All resources are wanted.
    wildcard: bool,
    /// Resources that are wanted by name.
    names: BTreeSet<Arc<str>>,
    /// What the proxy has, or will once it has read everything, and in which version.
    sent: BTreeMap<Arc<str>, u64>,
    /// Versions that the proxy refused.
    rejected: BTreeMap<Arc<str>, u64>,
    /// Wanted resources that are to be sent.
    pending: BTreeSet<Arc<str>>,
    /// Those among them that are sent even in a version that the proxy has.
    forced: BTreeSet<Arc<str>>,
    /// Resources that the proxy has and that are gone.
    gone: BTreeSet<Arc<str>>,
    /// Names that were asked for and don't exist.
    missing: BTreeSet<Arc<str>>,
    /// An answer is owed even if there is nothing to say.
    owes_answer: bool,
    outstanding: Option<Outstanding>,
}

/// The response that was sent last, and in which versions the proxy had its resources before.
#[derive(Debug)]
pub(super) struct Outstanding {
    pub(super) response: Response,
    before: BTreeMap<Arc<str>, u64>,
}

impl Kind {
    pub(super) fn new(kind: ResourceType) -> Self {
        Self {
            kind,
            asked: false,
            wildcard: false,
            names: BTreeSet::new(),
            sent: BTreeMap::new(),
            rejected: BTreeMap::new(),
            pending: BTreeSet::new(),
            forced: BTreeSet::new(),
            gone: BTreeSet::new(),
            missing: BTreeSet::new(),
            owes_answer: false,
            outstanding: None,
        }
    }

    /// Nothing to send, nothing to wait for.
    pub(super) fn is_settled(&self) -> bool {
        self.has_sent_all() && self.gone.is_empty()
    }

    /// No update to send and none unanswered.
    pub(super) fn has_sent_all(&self) -> bool {
        self.outstanding.is_none() && self.updates_sent()
    }

    /// Something is to be removed.
    pub(super) fn has_removals(&self) -> bool {
        !self.gone.is_empty()
    }

    /// The proxy has subscribed, or said that it doesn't.
    pub(super) fn has_been_asked_for(&self) -> bool {
        self.asked
    }

    /// No update to send.
    pub(super) fn updates_sent(&self) -> bool {
        self.pending.is_empty()
    }

    /// The proxy refuses what it should have.
    pub(super) fn has_rejections(&self) -> bool {
        !self.rejected.is_empty()
    }

    /// Takes the subscription part of a request.
    pub(super) fn subscribe(&mut self, request: &DeltaDiscoveryRequest, section: &Section) {
        let first = !std::mem::replace(&mut self.asked, true);
        let subscribe = &request.resource_names_subscribe;
        let mut everything = subscribe.iter().any(|name| name == "*");
        if first {
            self.sent
                .extend(request.initial_resource_versions.iter().map(|(name, version)| {
                    (
                        Arc::from(name.as_str()),
                        u64::from_str_radix(version, 16).unwrap_or(UNKNOWN),
                    )
                }));
            // Never having named anything means everything, for the kinds that a proxy can't know the names of.
            let nameable = !matches!(self.kind, ResourceType::Cluster | ResourceType::Listener);
            everything |= subscribe.is_empty() && !nameable;
        }
        if everything && !self.wildcard {
            self.wildcard = true;
            // A proxy that starts waits for the first answer, even if it is that there is nothing.
            self.owes_answer = self.sent.is_empty();
            section.entries().iter().for_each(|entry| self.want(entry));
            let vanished = self.sent.keys().filter(|name| section.get(name).is_none());
            self.gone.extend(vanished.map(Arc::clone));
        }
        for name in subscribe.iter().filter(|name| *name != "*") {
            let known = first && self.sent.contains_key(name.as_str());
            self.subscribe_name(name, known, section);
        }
        for name in &request.resource_names_unsubscribe {
            self.unsubscribe_name(name, section);
        }
        if first && !self.wildcard {
            // Versions of what is not wanted any more.
            self.sent.retain(|name, _| self.names.contains(name));
        }
    }

    /// Wanting a name again means wanting it sent again, unless a new connection says that it has it.
    fn subscribe_name(&mut self, name: &str, known: bool, section: &Section) {
        let name: Arc<str> = name.into();
        self.names.insert(Arc::clone(&name));
        match section.get(&name) {
            Some(entry) if known => self.want(entry),
            Some(entry) => {
                if self.rejected.get(&name) != Some(&entry.version) {
                    self.forced.insert(Arc::clone(&name));
                    self.pending.insert(name);
                }
            }
            None if self.sent.contains_key(&name) => {
                self.gone.insert(name);
            }
            None => {
                self.missing.insert(name);
            }
        }
    }

    fn unsubscribe_name(&mut self, name: &str, section: &Section) {
        if name == "*" {
            self.wildcard = false;
            self.owes_answer = false;
            let names = std::mem::take(&mut self.names);
            let dropped: Vec<Arc<str>> = self
                .sent
                .keys()
                .chain(&self.pending)
                .filter(|name| !names.contains(*name))
                .cloned()
                .collect();
            self.names = names;
            dropped.iter().for_each(|name| self.forget(name));
            return;
        }
        self.names.remove(name);
        if !self.wildcard {
            self.forget(name);
        } else if section.get(name).is_some() {
            // It is still wanted, and the proxy may have dropped it by now.
            self.forced.insert(name.into());
            self.pending.insert(name.into());
        }
    }

    /// Drops all that is known of a name: the proxy has no more of it.
    fn forget(&mut self, name: &str) {
        self.sent.remove(name);
        self.rejected.remove(name);
        self.missing.remove(name);
        self.pending.remove(name);
        self.forced.remove(name);
        self.gone.remove(name);
        if let Some(outstanding) = &mut self.outstanding {
            outstanding.before.remove(name);
        }
    }

    /// Takes what changed in the fleet.
    pub(super) fn update(&mut self, diff: &Diff) {
        if !self.asked {
            return;
        }
        for entry in &diff.changed {
            self.gone.remove(&entry.name);
            self.missing.remove(&entry.name);
            if self.wildcard || self.names.contains(&entry.name) {
                self.want(entry);
            }
        }
        for name in &diff.removed {
            self.pending.remove(name);
            self.forced.remove(name);
            self.rejected.remove(name);
            if self.sent.contains_key(name) {
                self.gone.insert(Arc::clone(name));
            }
        }
    }

    /// Notes whether a wanted resource is to be sent.
    fn want(&mut self, entry: &Entry) {
        let name = &entry.name;
        if self
            .rejected
            .get(name)
            .is_some_and(|rejected| *rejected != entry.version)
        {
            self.rejected.remove(name);
        }
        let has = self.sent.get(name) == Some(&entry.version) && !self.forced.contains(name);
        if has || self.rejected.contains_key(name) {
            self.pending.remove(name);
            self.forced.remove(name);
        } else {
            self.pending.insert(Arc::clone(name));
        }
    }

    /// Sends a resource again in the version that the proxy has, if it wants it at all.
    pub(super) fn resend(&mut self, name: &Arc<str>) {
        if (self.wildcard || self.names.contains(name)) && !self.rejected.contains_key(name) {
            self.forced.insert(Arc::clone(name));
            self.pending.insert(Arc::clone(name));
        }
    }

    /// The next response with updates, if there are any and none is unanswered.
    pub(super) fn next_updates(&mut self, section: &Section, nonce: u64) -> Option<Response> {
        if self.outstanding.is_some() {
            return None;
        }
        let mut resources = Vec::new();
        let mut size = 0;
        while let Some(name) = self.pending.first() {
            // Whatever is not there any more is among the removals.
            if let Some(entry) = section.get(name) {
                size += size_of_entry(entry);
                if size > MAX_RESPONSE && !resources.is_empty() {
                    break;
                }
                self.forced.remove(name);
                resources.push(Arc::clone(entry));
            }
            self.pending.pop_first();
        }
        let removed: Vec<Arc<str>> = std::mem::take(&mut self.missing).into_iter().collect();
        if resources.is_empty() && removed.is_empty() && !self.owes_answer {
            return None;
        }
        self.owes_answer = false;
        Some(self.send(nonce, resources, removed))
    }

    /// The next response with removals, if there are any and nothing is unanswered.
    pub(super) fn next_removals(&mut self, nonce: u64) -> Option<Response> {
        if self.outstanding.is_some() || self.gone.is_empty() {
            return None;
        }
        let removed = std::mem::take(&mut self.gone).into_iter().collect();
        Some(self.send(nonce, Vec::new(), removed))
    }

    fn send(&mut self, nonce: u64, resources: Vec<Arc<Entry>>, removed: Vec<Arc<str>>) -> Response {
        let mut before = BTreeMap::new();
        for entry in &resources {
            if let Some(version) = self.sent.insert(Arc::clone(&entry.name), entry.version) {
                before.insert(Arc::clone(&entry.name), version);
            }
        }
        for name in &removed {
            self.sent.remove(name);
        }
        let response = Response {
            kind: self.kind,
            nonce: nonce.to_string(),
            resources,
            removed,
        };
        self.outstanding = Some(Outstanding {
            response: response.clone(),
            before,
        });
        response
    }

    /// The response that a nonce answers. None for a change of subscription or a nonce that is not the last one.
    pub(super) fn answered(&mut self, nonce: &str) -> Option<Outstanding> {
        self.outstanding
            .take_if(|outstanding| outstanding.response.nonce == nonce)
    }

    /// Whether a resource is to be sent.
    pub(super) fn is_pending(&self, name: &str) -> bool {
        self.pending.contains(name)
    }

    /// Takes back what was noted of the resources that the detail names, or of all if it names none, and returns them.
    pub(super) fn reject(&mut self, answered: &Outstanding, detail: &str, section: &Section) -> Vec<Arc<Entry>> {
        let all = &answered.response.resources;
        let named: Vec<Arc<Entry>> = all
            .iter()
            .filter(|entry| mentions(detail, &entry.name))
            .cloned()
            .collect();
        // Some of the others may have been taken; which of them is not said.
        let certain = !named.is_empty() || all.len() == 1;
        let refused = if named.is_empty() { all.clone() } else { named };
        for entry in &refused {
            let had = answered.before.get(&entry.name).copied();
            self.take_back(entry, if certain { had } else { Some(UNKNOWN) }, section);
        }
        refused
    }

    fn take_back(&mut self, entry: &Entry, had: Option<u64>, section: &Section) {
        let name = &entry.name;
        // Unsubscribed or removed meanwhile.
        if !self.sent.contains_key(name) {
            return;
        }
        match had {
            Some(version) => {
                self.sent.insert(Arc::clone(name), version);
            }
            None => {
                self.sent.remove(name);
                self.gone.remove(name);
            }
        }
        let Some(current) = section.get(name) else { return };
        if current.version == entry.version {
            self.rejected.insert(Arc::clone(name), entry.version);
        }
        self.want(current);
    }
}

/// Whether a text contains a name that no longer name goes around.
fn mentions(text: &str, name: &str) -> bool {
    let part_of_name = |character: char| character.is_alphanumeric() || "_-~/".contains(character);
    !name.is_empty()
        && text.match_indices(name).any(|(start, _)| {
            let before = text[..start].chars().next_back();
            let after = text[start + name.len()..].chars().next();
            !before.is_some_and(part_of_name) && !after.is_some_and(part_of_name)
        })
}
