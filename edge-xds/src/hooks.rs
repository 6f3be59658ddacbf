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

mod before;
mod judge;
mod shown;
mod split;
mod tables;
mod whole;

#[cfg(test)]
mod tests;

pub use judge::{judge, judge_all};
pub use shown::Shown;

use crate::snapshot::{Body, Entry, ResourceType, Section, Snapshot, Source};
use bytes::Bytes;
use edge_ir::{CustomObjects, Network, Origins};
use envoy_types::pb::envoy::config::cluster::v3::{
    Cluster,
    cluster::{ClusterDiscoveryType, DiscoveryType},
};
use prost::Message as _;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use tables::Tables;
use whole::Whole;
use xxhash_rust::xxh3::Xxh3Default;

/// When a service is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hook {
    /// For each route of a virtual host.
    Route,
    /// For each virtual host, its routes done.
    VirtualHost,
    /// For each listener of HTTP.
    HttpListener,
    /// For each cluster.
    Cluster,
    /// For the endpoints of each cluster.
    Endpoints,
    /// For all that the fleet is served, at the end.
    Translation,
}

/// When any service is called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hooks {
    /// For which resources.
    pub hooks: BTreeSet<Hook>,
    /// What [`Hook::Translation`] is given.
    pub whole: BTreeSet<ResourceType>,
}

/// Encoded resources by their kind.
pub type Resources = BTreeMap<ResourceType, Vec<Bytes>>;

/// What services are asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// About one resource.
    One {
        /// Which it is.
        hook: Hook,
        /// The encoded resource.
        resource: Bytes,
        /// The domains of a route's host.
        hostnames: Box<[Box<str>]>,
        /// Objects that go with it.
        custom: Option<Arc<CustomObjects>>,
    },
    /// About all of a fleet.
    All {
        /// The resources.
        resources: Resources,
        /// Policies for anything of it.
        custom: Option<Arc<CustomObjects>>,
    },
}

/// What tells questions apart: a hash of all that they hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QuestionKey(u128);

impl Question {
    /// What tells it from others.
    pub fn key(&self) -> QuestionKey {
        let mut hasher = Xxh3Default::new();
        let mut add = |bytes: &[u8]| {
            hasher.update(&bytes.len().to_le_bytes());
            hasher.update(bytes);
        };
        match self {
            Self::One {
                hook,
                resource,
                hostnames,
                custom,
            } => {
                add(&[*hook as u8]);
                add(resource);
                hostnames.iter().for_each(|name| add(name.as_bytes()));
                add_custom(custom.as_deref(), &mut add);
            }
            Self::All { resources, custom } => {
                add(&[Hook::Translation as u8]);
                for (kind, resources) in resources {
                    add(kind.type_url().as_bytes());
                    resources.iter().for_each(|resource| add(resource));
                }
                add_custom(custom.as_deref(), &mut add);
            }
        }
        QuestionKey(hasher.digest128())
    }
}

/// Nothing, where nothing goes with a resource.
fn add_custom(custom: Option<&CustomObjects>, add: &mut impl FnMut(&[u8])) {
    let Some(custom) = custom else { return };
    for (role, objects) in [(b"r", &custom.resources), (b"p", &custom.policies)] {
        add(role);
        objects.iter().for_each(|object| add(object.json.as_bytes()));
    }
}

/// What came of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What is served; none while a service that may not fail open fails.
    pub answer: Option<Answer>,
    /// What went wrong. With an answer beside it: of a service that may fail open.
    pub problem: Option<Problem>,
}

/// What all services together made of what they were asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The resource: the bytes that were asked about where nothing is changed.
    One(Bytes),
    /// All resources of the kinds that were asked about, and what else was added.
    All(Resources),
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// In words.
    pub text: Arc<str>,
    /// Whose fault it is.
    pub cause: Cause,
}

/// Whose fault it is that there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The service can't be reached, or doesn't answer in time: nobody knows what it would say.
    Unreachable,
    /// It answered, with an error or with what can't be used.
    Refused,
}

/// A question that nobody has answered well.
#[derive(Clone, Debug)]
pub struct PendingQuestion {
    /// Which of all questions this is; one that was forgotten and asked again has another number.
    pub number: u64,
    /// What is asked.
    pub question: Arc<Question>,
}

/// What is known of questions, and what is still to be asked.
#[derive(Debug, Default)]
pub struct Answers {
    outcomes: BTreeMap<QuestionKey, Outcome>,
    questions: BTreeMap<QuestionKey, PendingQuestion>,
    /// Whose answers were needed since the round began.
    used: BTreeSet<QuestionKey>,
    n_asked: u64,
}

impl Answers {
    /// Takes what came of a question, unless it isn't asked any more. What failed stays a question.
    pub fn take(&mut self, key: QuestionKey, number: u64, outcome: Outcome) {
        if self.questions.get(&key).is_some_and(|asked| asked.number == number) {
            if outcome.problem.is_none() {
                self.questions.remove(&key);
            }
            self.outcomes.insert(key, outcome);
        }
    }

    /// Forgets every answer: the services are others.
    pub fn forget(&mut self) {
        let n_asked = self.n_asked;
        *self = Self {
            n_asked,
            ..Self::default()
        };
    }

    /// Begins to look at all fleets.
    pub fn begin(&mut self) {
        self.used.clear();
    }

    /// Forgets what no fleet needed since the round began.
    pub fn end(&mut self) {
        self.outcomes.retain(|key, _| self.used.contains(key));
        self.questions.retain(|key, _| self.used.contains(key));
    }

    /// What is to be asked, or asked again.
    pub fn questions(&self) -> &BTreeMap<QuestionKey, PendingQuestion> {
        &self.questions
    }

    fn ask(&mut self, question: Question) -> (QuestionKey, Option<&Outcome>) {
        let key = question.key();
        self.used.insert(key);
        let outcome = self.outcomes.get(&key);
        if outcome.is_none() {
            self.questions.entry(key).or_insert_with(|| {
                self.n_asked += 1;
                PendingQuestion {
                    number: self.n_asked,
                    question: Arc::new(question),
                }
            });
        }
        (key, outcome)
    }
}

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

/// A resource that is asked about by itself.
#[derive(Debug, Default)]
struct Single {
    kept: Option<Kept>,
    /// The latest that a service has answered for.
    good: Option<Arc<Entry>>,
}

/// What became of what, finally.
#[derive(Debug)]
struct Kept {
    base: Arc<Entry>,
    result: Arc<Entry>,
    keys: Vec<QuestionKey>,
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
        self.answers.used.extend(keys);
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
            let singles = entries.map(|entry| {
                let single = Single {
                    kept: None,
                    good: Some(Arc::clone(entry)),
                };
                (Arc::clone(&entry.name), single)
            });
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
                single.kept = None;
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
        let is_same = |section: &&Arc<Section>| {
            let known = section.entries();
            known.len() == entries.len() && known.iter().zip(&entries).all(|(a, b)| Arc::ptr_eq(a, b))
        };
        let found = [base, self.served.section(kind)].into_iter().find(is_same);
        found.map_or_else(|| Arc::new(Section::new(entries)), Arc::clone)
    }
}

impl Single {
    fn apply(
        &mut self,
        round: &mut Round<'_>,
        hook: Hook,
        kind: ResourceType,
        entry: &Arc<Entry>,
    ) -> Option<Arc<Entry>> {
        if let Some(kept) = self.kept.as_ref().filter(|kept| is_same(&kept.base, entry)) {
            round.reuse(&kept.keys);
            return Some(Arc::clone(&kept.result));
        }
        self.kept = None;
        let resource = entry.body.contiguous();
        let question = Question::One {
            hook,
            resource: resource.clone(),
            hostnames: Box::default(),
            custom: round.shown.beside(hook, &entry.name),
        };
        match round.ask(question) {
            Stand::Taken(Answer::One(bytes), key) => {
                let result = replaced(entry, kind, &resource, bytes);
                self.good = Some(Arc::clone(&result));
                self.kept = Some(Kept {
                    base: Arc::clone(entry),
                    result: Arc::clone(&result),
                    keys: vec![key],
                });
                return Some(result);
            }
            Stand::Open(Answer::One(bytes)) => return Some(replaced(entry, kind, &resource, bytes)),
            Stand::Held(problem) => round.hold(kind, &entry.name, Arc::clone(&entry.origins), problem),
            Stand::Pending | Stand::Taken(..) | Stand::Open(_) => {}
        }
        self.good.clone()
    }
}

fn is_same(a: &Arc<Entry>, b: &Arc<Entry>) -> bool {
    Arc::ptr_eq(a, b) || a == b
}

/// The entry with other bytes; the entry itself, where they aren't. A refusal of it can't be led back to a piece of the
/// IR any more, so it has no source.
fn replaced(entry: &Arc<Entry>, kind: ResourceType, before: &Bytes, bytes: Bytes) -> Arc<Entry> {
    match *before == bytes {
        true => Arc::clone(entry),
        false => made(kind, Arc::clone(&entry.name), bytes, Arc::clone(&entry.origins)),
    }
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
