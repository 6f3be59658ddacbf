//! What one connection has, wants and was sent of one kind of resource.

use super::{
    hint::mentions,
    response::{Response, size_of_entry},
};
use crate::{
    lookup::HostForm,
    snapshot::{Diff, Entry, ResourceType, Section},
};
use envoy_types::pb::envoy::service::discovery::v3::DeltaDiscoveryRequest;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

/// A response grows no further than this, unless a single resource does; receivers limit messages to 4 MiB by default.
const MAX_RESPONSE: usize = 2 << 20;

/// A version that equals no other: the proxy has the resource, nobody knows in which state.
const UNKNOWN: u64 = 0;

/// State of one kind on one connection.
#[derive(Debug)]
pub(super) struct KindState {
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
    /// Groups that are sent in responses of their own, to find out which resource a refusal was about.
    probes: VecDeque<BTreeSet<Arc<str>>>,
    /// What is sent instead of the fleet's version: while it is being found out what of that is refused, or on the way
    /// to it.
    tried: BTreeMap<Arc<str>, Arc<Entry>>,
    /// Names whose rejection was told and not taken back.
    reported: BTreeSet<Arc<str>>,
    /// An answer is owed even if there is nothing to say.
    owes_answer: bool,
    outstanding: Option<Outstanding>,
}

/// What a refusal says.
#[derive(Debug)]
pub(super) enum Refusal {
    /// Nothing: it was about removals, or what it was about is not wanted any more.
    Nothing,
    /// One of several resources; they are sent again in parts.
    Unclear,
    /// This resource is refused.
    Certain(Arc<Entry>),
}

/// The response that was sent last, and in which versions the proxy had its resources before.
#[derive(Debug)]
pub(super) struct Outstanding {
    pub(super) response: Response,
    before: BTreeMap<Arc<str>, u64>,
}

impl KindState {
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
            probes: VecDeque::new(),
            tried: BTreeMap::new(),
            reported: BTreeSet::new(),
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

    /// Updates that wait to be sent.
    pub(super) fn pending(&self) -> impl Iterator<Item = &Arc<str>> {
        self.pending.iter()
    }

    /// A resource waits to be sent, or for the answer to that.
    pub(super) fn is_under_way(&self, name: &str) -> bool {
        let outstanding = self.outstanding.as_ref();
        self.pending.contains(name)
            || outstanding.is_some_and(|sent| sent.response.names().any(|known| **known == *name))
    }

    /// The proxy refuses what it should have.
    pub(super) fn has_rejections(&self) -> bool {
        !self.rejected.is_empty()
    }

    /// Names of what the proxy refuses.
    pub(super) fn rejections(&self) -> impl Iterator<Item = &Arc<str>> {
        self.rejected.keys()
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
                // Who wants everything names a resource only because it could take now what it had to reject:
                // edge-proxy does when a port has become free.
                if self.wildcard {
                    self.rejected.remove(&name);
                }
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
        self.tried.remove(name);
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
            if self.tried.contains_key(&entry.name) {
                continue;
            }
            if self.wants(&entry.name) {
                self.want(entry);
            }
        }
        for name in &diff.removed {
            self.pending.remove(name);
            self.forced.remove(name);
            self.rejected.remove(name);
            self.tried.remove(name);
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
        if self.wants(name) && !self.rejected.contains_key(name) {
            self.forced.insert(Arc::clone(name));
            self.pending.insert(Arc::clone(name));
        }
    }

    /// The next response with updates, if there are any and none is unanswered. What the proxy has, of a name in a
    /// version, may be known well enough to tell it what differs.
    pub(super) fn next_updates(
        &mut self,
        section: &Section,
        nonce: u64,
        known: impl Fn(&str, u64) -> Option<Arc<Entry>>,
    ) -> Option<Response> {
        if self.outstanding.is_some() {
            return None;
        }
        let names = match self.next_probe() {
            Some(names) => names.into_iter().collect(),
            None => self.pending_that_fit(section),
        };
        let (mut resources, mut bases) = (Vec::new(), BTreeMap::new());
        for name in names {
            // What is sent again may not be there any more.
            let has = self.sent.get(&name).filter(|_| !self.forced.contains(&name));
            let base = has.and_then(|version| known(&name, *version));
            let Some(entry) = self.take_pending(&name, section) else {
                continue;
            };
            resources.push(entry);
            bases.extend(base.map(|base| (name, base)));
        }
        let removed: Vec<Arc<str>> = std::mem::take(&mut self.missing).into_iter().collect();
        if resources.is_empty() && removed.is_empty() && !self.owes_answer {
            return None;
        }
        self.owes_answer = false;
        Some(self.send(nonce, resources, removed, bases))
    }

    /// The next group of which something is still to be sent.
    fn next_probe(&mut self) -> Option<BTreeSet<Arc<str>>> {
        while let Some(group) = self.probes.pop_front() {
            if group.iter().any(|name| self.pending.contains(name)) {
                return Some(group);
            }
        }
        None
    }

    /// The first names that are to be sent, as many as one response takes.
    fn pending_that_fit(&self, section: &Section) -> Vec<Arc<str>> {
        let (mut names, mut size) = (Vec::new(), 0);
        for name in &self.pending {
            if let Some(entry) = self.current(name, section) {
                let before = size;
                size += size_of_entry(entry);
                if size > MAX_RESPONSE && before > 0 {
                    break;
                }
            }
            names.push(Arc::clone(name));
        }
        names
    }

    /// Whatever is not there any more is among the removals.
    fn take_pending(&mut self, name: &str, section: &Section) -> Option<Arc<Entry>> {
        if !self.pending.remove(name) {
            return None;
        }
        self.forced.remove(name);
        self.current(name, section).cloned()
    }

    /// What is to be served under a name.
    fn current<'a>(&'a self, name: &str, section: &'a Section) -> Option<&'a Arc<Entry>> {
        self.tried.get(name).or_else(|| section.get(name))
    }

    /// The next response with removals, if there are any and nothing is unanswered.
    pub(super) fn next_removals(&mut self, nonce: u64) -> Option<Response> {
        if self.outstanding.is_some() || self.gone.is_empty() {
            return None;
        }
        let removed = std::mem::take(&mut self.gone).into_iter().collect();
        Some(self.send(nonce, Vec::new(), removed, BTreeMap::new()))
    }

    fn send(
        &mut self,
        nonce: u64,
        resources: Vec<Arc<Entry>>,
        removed: Vec<Arc<str>>,
        bases: BTreeMap<Arc<str>, Arc<Entry>>,
    ) -> Response {
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
            bases,
            hosts: HostForm::default(),
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

    /// Takes back what was noted of the resources of a refused response. If it had several, some may have been taken
    /// and some not, whatever the proxy says: none of them counts as held, and they are sent again in parts.
    pub(super) fn refuse(&mut self, answered: &Outstanding, detail: &str, section: &Section) -> Refusal {
        let before = |entry: &Entry| answered.before.get(&entry.name).copied();
        if let [entry] = answered.response.resources.as_slice() {
            return match self.take_back(entry, before(entry)) {
                true => Refusal::Certain(Arc::clone(entry)),
                false => Refusal::Nothing,
            };
        }
        let mut names = Vec::new();
        for entry in &answered.response.resources {
            if self.take_back(entry, Some(UNKNOWN)) && self.current(&entry.name, section).is_some() {
                self.pending.insert(Arc::clone(&entry.name));
                names.push(Arc::clone(&entry.name));
            }
        }
        if names.is_empty() {
            return Refusal::Nothing;
        }
        let (named, others): (Vec<_>, Vec<_>) = names.iter().cloned().partition(|name| mentions(detail, name));
        if named.is_empty() || named.len() == names.len() {
            let half = names.split_off(names.len() / 2);
            self.probe_first(half);
            self.probe_first(names);
        } else {
            named.into_iter().for_each(|name| self.probe_first(vec![name]));
            self.probe_first(others);
        }
        Refusal::Unclear
    }

    fn probe_first(&mut self, names: Vec<Arc<str>>) {
        if !names.is_empty() {
            self.probes.push_front(names.into_iter().collect());
        }
    }

    /// Notes what the proxy had before; tells whether the resource is still wanted.
    fn take_back(&mut self, entry: &Entry, had: Option<u64>) -> bool {
        let name = &entry.name;
        // Unsubscribed or removed meanwhile.
        if !self.sent.contains_key(name) {
            return false;
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
        true
    }

    /// Sends no more of a version that is refused for good. Tells whether it is what the proxy should have; if it is
    /// another by now, that is sent.
    pub(super) fn give_up(&mut self, entry: &Entry, section: &Section) -> bool {
        let name = &entry.name;
        self.tried.remove(name);
        let Some(current) = section.get(name) else { return false };
        let is_current = current.version == entry.version;
        if is_current {
            self.rejected.insert(Arc::clone(name), entry.version);
            self.reported.insert(Arc::clone(name));
        }
        self.want(current);
        is_current
    }

    /// Sends this instead of the fleet's version.
    pub(super) fn send_instead(&mut self, entry: &Arc<Entry>) {
        self.tried.insert(Arc::clone(&entry.name), Arc::clone(entry));
        self.want(entry);
    }

    /// The same, alone.
    pub(super) fn try_instead(&mut self, entry: &Arc<Entry>) {
        self.send_instead(entry);
        self.probe_first(vec![Arc::clone(&entry.name)]);
    }

    /// Sends the fleet's version again.
    pub(super) fn end_trial(&mut self, name: &str, section: &Section) {
        self.tried.remove(name);
        if let Some(entry) = section.get(name) {
            self.want(entry);
        }
    }

    /// Whether a name is subscribed to.
    pub(super) fn wants(&self, name: &str) -> bool {
        self.wildcard || self.names.contains(name)
    }

    /// Whether the proxy has some version of a name, or will once it has read everything.
    pub(super) fn has(&self, name: &str) -> bool {
        self.sent.contains_key(name)
    }

    /// Whether the proxy has this version of a resource.
    pub(super) fn has_version(&self, entry: &Entry) -> bool {
        self.sent.get(&entry.name) == Some(&entry.version)
    }

    /// What the proxy has, by its first request.
    pub(super) fn held(&self) -> impl Iterator<Item = (Arc<str>, u64)> {
        self.sent.iter().map(|(name, version)| (Arc::clone(name), *version))
    }

    /// Names whose rejection was told and that are all right by now: taken, gone back to, or gone.
    pub(super) fn take_resolved(&mut self) -> Vec<Arc<str>> {
        if self.reported.is_empty() {
            return Vec::new();
        }
        let waits = |name: &Arc<str>| {
            let outstanding = self.outstanding.as_ref();
            self.rejected.contains_key(name)
                || self.pending.contains(name)
                || self.tried.contains_key(name)
                || outstanding.is_some_and(|sent| sent.response.resources.iter().any(|entry| entry.name == *name))
        };
        let resolved: Vec<Arc<str>> = self.reported.iter().filter(|name| !waits(name)).cloned().collect();
        resolved.iter().for_each(|name| {
            self.reported.remove(name);
        });
        resolved
    }
}
