//! What services of the operator make of built resources, between lowering and publication: pure, the calls are
//! others'.
//!
//! A fleet's [`Hooked`] is given what the fleet was lowered to, and [`Answers`], what is known of earlier questions.
//! What isn't known is asked ([`Answers::questions`]) by the bytes of the resource, so that nothing is asked twice and
//! what an edit doesn't touch costs no call. Whoever calls the services tells the [`Outcome`], and the fleet is looked
//! at again.
//!
//! Until a service has answered, and while it fails (unless it may fail open), what it was asked about is not served:
//! its last good version stays in force. Of a route table that is
//!
//! * a route, where the last good one of its name has the same match;
//! * the virtual host as it was, where the match is another: the old match in the new place could take requests from
//!   routes with more guards;
//! * for a route or a host that is new, its match with the answer 500, so that its requests don't fall to others.
//!
//! A cluster, a listener or endpoints that are new are not there. While anything stands at its last good version,
//! clusters, endpoints, secrets and tables that have gone stay too, for it may need them, and so do the filters of
//! chains: a proxy passes over what a route says of a filter that its chain lacks, and would open it.

mod answers;
mod before;
mod judge;
mod question;
mod shown;
mod single;
mod split;
mod tables;
mod whole;

#[cfg(test)]
mod tests;

pub use answers::{Answer, Answers, Cause, Outcome, PendingQuestion, Problem};
pub use judge::{judge, judge_all};
pub use question::{Hook, Hooks, Question, QuestionKey, Resources};
pub use shown::Shown;

use crate::snapshot::{Body, Entry, ResourceType, Section, Snapshot, Source};
use bytes::Bytes;
use edge_ir::{Network, Origins};
use envoy_types::pb::envoy::config::cluster::v3::{
    Cluster,
    cluster::{ClusterDiscoveryType, DiscoveryType},
};
use prost::Message as _;
use single::Single;
use std::{collections::BTreeMap, sync::Arc};
use tables::Tables;
use whole::Whole;

/// What services made of a fleet.
#[derive(Debug)]
pub struct Applied {
    /// What is served.
    pub snapshot: Snapshot,
    /// What isn't served as it should be, because services fail over it.
    pub held: Vec<HeldResource>,
    /// Whether something hasn't been answered at all yet.
    pub is_pending: bool,
}

/// What services fail over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldResource {
    /// Its kind.
    pub kind: ResourceType,
    /// The resource.
    pub name: Arc<str>,
    /// The objects that it came from.
    pub origins: Origins,
    /// What went wrong.
    pub problem: Problem,
}

/// The fleet as services have left it.
#[derive(Debug, Default)]
pub struct Hooked {
    singles: BTreeMap<ResourceType, BTreeMap<Arc<str>, Single>>,
    tables: Tables,
    whole: Whole,
    served: Snapshot,
    /// What services were shown beside it.
    shown: Arc<Shown>,
}

/// A look at one fleet.
struct Round<'a> {
    hooks: &'a Hooks,
    shown: Arc<Shown>,
    answers: &'a mut Answers,
    held: Vec<HeldResource>,
    is_pending: bool,
    /// Something stands at its last good version.
    is_behind: bool,
}

/// How a question stands.
enum Stand {
    /// Answered.
    Taken(Answer, QuestionKey),
    /// A service that may fail open fails.
    Open(Answer),
    /// A service fails.
    Held(Problem),
    /// Not answered yet.
    Pending,
}

impl Round<'_> {
    fn ask(&mut self, question: Question) -> Stand {
        let (key, outcome) = self.answers.ask(question);
        match outcome.cloned() {
            None => {
                self.is_pending = true;
                self.is_behind = true;
                Stand::Pending
            }
            Some(Outcome {
                answer: Some(answer),
                problem: None,
            }) => Stand::Taken(answer, key),
            Some(Outcome {
                answer: Some(answer), ..
            }) => Stand::Open(answer),
            Some(Outcome { problem, .. }) => {
                self.is_behind = true;
                Stand::Held(problem.unwrap_or_else(|| Problem {
                    text: "there is no answer".into(),
                    cause: Cause::Refused,
                }))
            }
        }
    }

    /// A result of before needs its answers still.
    fn reuse(&mut self, keys: &[QuestionKey]) {
        self.answers.reuse(keys);
    }

    fn hold(&mut self, kind: ResourceType, name: &Arc<str>, origins: Origins, problem: Problem) {
        self.held.push(HeldResource {
            kind,
            name: Arc::clone(name),
            origins,
            problem,
        });
    }
}

impl Hooked {
    /// A fleet that is served so before any service has been asked: that stays until one answers.
    pub fn over(served: &Snapshot) -> Self {
        let mut hooked = Self {
            served: served.clone(),
            ..Self::default()
        };
        hooked.renew();
        hooked
    }

    /// The services are others. What is served now is the last good version of everything.
    pub fn renew(&mut self) {
        let kinds = [ResourceType::Cluster, ResourceType::Endpoints, ResourceType::Listener];
        let singles = kinds.map(|kind| {
            let entries = self.served.section(kind).entries().iter();
            let singles = entries.map(|entry| (Arc::clone(&entry.name), Single::over(entry)));
            (kind, singles.collect())
        });
        self.singles = singles.into();
        self.tables = Tables::over(self.served.section(ResourceType::Routes));
        self.whole = Whole::over(&self.served);
    }

    /// Takes what services are shown besides. Where it is another, nothing that was answered is known to hold still;
    /// what was good stays so until they have.
    fn show(&mut self, shown: &Arc<Shown>) {
        if *self.shown != **shown {
            for single in self.singles.values_mut().flat_map(BTreeMap::values_mut) {
                single.ask_again();
            }
            self.tables.ask_again();
            self.whole.ask_again();
        }
        self.shown = Arc::clone(shown);
    }

    /// What is served of a snapshot, as far as answers go, given what services are shown beside it.
    pub fn apply(&mut self, snapshot: &Snapshot, shown: &Arc<Shown>, hooks: &Hooks, answers: &mut Answers) -> Applied {
        self.show(shown);
        let mut round = Round {
            hooks,
            shown: Arc::clone(shown),
            answers,
            held: Vec::new(),
            is_pending: false,
            is_behind: false,
        };
        let mut served = snapshot.clone();
        let of_kind = [
            (Hook::Cluster, ResourceType::Cluster),
            (Hook::Endpoints, ResourceType::Endpoints),
            (Hook::HttpListener, ResourceType::Listener),
        ];
        for (hook, kind) in of_kind.into_iter().filter(|(hook, _)| hooks.hooks.contains(hook)) {
            let section = self.singles(&mut round, hook, snapshot.section(kind), kind);
            served = served.with(kind, section);
        }
        if hooks.hooks.contains(&Hook::Route) || hooks.hooks.contains(&Hook::VirtualHost) {
            let base = snapshot.section(ResourceType::Routes);
            let entries = self.tables.apply(&mut round, base);
            let section = self.section(base, ResourceType::Routes, entries);
            served = served.with(ResourceType::Routes, section);
        }
        if hooks.hooks.contains(&Hook::Translation) {
            served = self.whole.apply(&mut round, served);
        }
        if round.is_behind {
            served = self.with_what_may_be_needed(served);
        }
        self.served = served.clone();
        Applied {
            snapshot: served,
            held: round.held,
            is_pending: round.is_pending,
        }
    }

    /// Asks about each resource of a kind.
    fn singles(&mut self, round: &mut Round<'_>, hook: Hook, base: &Arc<Section>, kind: ResourceType) -> Arc<Section> {
        let mut before = self.singles.remove(&kind).unwrap_or_default();
        let mut after = BTreeMap::new();
        let mut entries = Vec::with_capacity(base.entries().len());
        for entry in base.entries() {
            if hook == Hook::HttpListener && !is_http(entry) {
                entries.push(Arc::clone(entry));
                continue;
            }
            let mut single = before.remove(&entry.name).unwrap_or_default();
            entries.extend(single.apply(round, hook, kind, entry));
            after.insert(Arc::clone(&entry.name), single);
        }
        self.singles.insert(kind, after);
        self.section(base, kind, entries)
    }

    /// A section of entries: one that is there already, where they are the same.
    fn section(&self, base: &Arc<Section>, kind: ResourceType, entries: Vec<Arc<Entry>>) -> Arc<Section> {
        let has_same_entries = |section: &&Arc<Section>| {
            let known = section.entries();
            known.len() == entries.len() && known.iter().zip(&entries).all(|(a, b)| Arc::ptr_eq(a, b))
        };
        let found = [base, self.served.section(kind)].into_iter().find(has_same_entries);
        found.map_or_else(|| Arc::new(Section::new(entries)), Arc::clone)
    }
}

/// Whether an entry is as it was before, which most are by their allocation.
fn is_unchanged(before: &Arc<Entry>, now: &Arc<Entry>) -> bool {
    Arc::ptr_eq(before, now) || before == now
}

/// An entry of bytes that a service gave.
fn made(kind: ResourceType, name: Arc<str>, bytes: Bytes, origins: Origins) -> Arc<Entry> {
    let warmed_by = (kind == ResourceType::Cluster).then(|| endpoints_of(&bytes)).flatten();
    let entry = Entry::new(name, Body::Whole(bytes), origins);
    Arc::new(Entry { warmed_by, ..entry })
}

/// The endpoints without which a cluster doesn't become usable.
fn endpoints_of(cluster: &Bytes) -> Option<Arc<str>> {
    let cluster = Cluster::decode(cluster.clone()).ok()?;
    if cluster.cluster_discovery_type != Some(ClusterDiscoveryType::Type(DiscoveryType::Eds as i32)) {
        return None;
    }
    let service = cluster.eds_cluster_config.map(|config| config.service_name);
    Some(service.filter(|name| !name.is_empty()).unwrap_or(cluster.name).into())
}

/// Whether a listener is one of HTTP. What patches have changed is no less so for that.
fn is_http(entry: &Entry) -> bool {
    match &entry.source {
        Source::Listener(listener) => {
            let mut chains = listener.chains.iter().chain(&listener.default_chain);
            chains.any(|chain| matches!(chain.network, Network::Http(_)))
        }
        _ => split::mentions(&entry.body.contiguous(), HTTP_MANAGER),
    }
}

/// The filter that makes a listener one of HTTP.
const HTTP_MANAGER: &[u8] = b"envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
