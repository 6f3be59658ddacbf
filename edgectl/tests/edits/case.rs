//! A golden case as a world that can be edited, and what its fleets do with each request.

use edge_ir::{Fleet, FleetKey, Network, Origin, Route, RouteAction, StreamProxy};
use edge_translate::{
    Answers, Change, Fact, Translator,
    api::{Object, ObjectKey, Timestamp},
    load,
};
use edgectl::translate::Options;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

/// An input of `golden/`, as it is written.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) objects: Vec<Value>,
    text: String,
}

impl Case {
    /// Those whose documents all are objects.
    pub(crate) fn all() -> Vec<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../golden");
        let cases = entries(&root).into_iter().flat_map(|topic| entries(&topic));
        cases.filter_map(|folder| Self::read(&folder)).collect()
    }

    fn read(folder: &Path) -> Option<Self> {
        let text = fs::read_to_string(folder.join("input.yaml")).ok()?;
        let documents = text.split("\n---\n").map(|one| serde_yaml::from_str(one).ok());
        let objects: Vec<Value> = documents.collect::<Option<_>>()?;
        let are_readable = objects.iter().all(|value| load::from_value(value).is_ok());
        let mut names = folder.iter().rev().map(|part| part.to_str().unwrap());
        let (case, topic) = (names.next()?, names.next()?);
        are_readable.then(|| Self {
            name: format!("{topic}/{case}"),
            objects,
            text,
        })
    }

    /// The objects of some kinds.
    pub(crate) fn of_kinds<'a>(&'a self, kinds: &'a [&str]) -> impl Iterator<Item = &'a Value> {
        self.objects.iter().filter(|value| is_one_of(value, kinds))
    }

    /// What the text says before the first object.
    fn said<'a>(&'a self, word: &'a str) -> impl Iterator<Item = &'a str> {
        let comments = self.text.lines().take_while(|line| line.starts_with('#'));
        comments.filter_map(move |line| line.strip_prefix("# ")?.strip_prefix(word)?.strip_prefix(": "))
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.collect::<BTreeSet<_>>().into_iter().collect()
}

/// Whether an object is of one of these kinds.
pub(crate) fn is_one_of(value: &Value, kinds: &[&str]) -> bool {
    kinds.iter().any(|kind| value["kind"] == **kind)
}

/// An object as the loader reads it.
pub(crate) fn read(value: &Value) -> Object {
    load::from_value(value).unwrap().0
}

/// A translator that follows a case.
pub(crate) struct Running {
    translator: Translator,
    documents: Answers,
    pub(crate) fleets: BTreeMap<FleetKey, Arc<Fleet>>,
    /// How often the last edit was translated.
    pub(crate) rounds: usize,
    /// The units that the last edit ran.
    pub(crate) runs: BTreeMap<&'static str, u32>,
}

impl Running {
    pub(crate) fn new(case: &Case) -> Self {
        let mut answers = Answers::default();
        let documents = case.said("document").filter_map(|said| said.split_once(' '));
        documents.for_each(|(url, text)| answers.put(url, text.as_bytes()));
        let mut running = Self {
            translator: Translator::new(Options::default().settings),
            documents: answers,
            fleets: BTreeMap::new(),
            rounds: 0,
            runs: BTreeMap::new(),
        };
        let now = case.said("now").find_map(Timestamp::parse);
        let facts = now.map(|now| Change::Fact(Fact::Time(now))).into_iter();
        running.edit(facts.chain(case.objects.iter().map(|value| Change::Put(read(value)))));
        running
    }

    pub(crate) fn put(&mut self, value: &Value) {
        self.edit([Change::Put(read(value))]);
    }

    pub(crate) fn remove(&mut self, value: &Value) {
        self.edit([Change::Remove(key(value))]);
    }

    /// Changes the world, and answers what translation asks until it asks no more.
    pub(crate) fn edit(&mut self, changes: impl IntoIterator<Item = Change>) {
        changes.into_iter().for_each(|change| self.translator.apply(change));
        self.runs.clear();
        self.rounds = 0;
        loop {
            self.rounds += 1;
            let translation = self.translator.translate();
            assert!(translation.faults.is_empty(), "{:?}", translation.faults);
            for (unit, times) in &translation.runs {
                *self.runs.entry(unit).or_default() += times;
            }
            let facts = self.documents.to(&translation.wanted);
            self.fleets = translation.fleets;
            if facts.is_empty() {
                return;
            }
            facts
                .into_iter()
                .for_each(|fact| self.translator.apply(Change::Fact(fact)));
        }
    }

    /// What becomes of requests and connections now.
    pub(crate) fn places(&self) -> Places {
        let mut places = Places::new();
        for (key, fleet) in &self.fleets {
            for host in fleet.route_tables.iter().flat_map(|table| table.hosts.iter()) {
                for route in &host.routes {
                    let place = (key.clone(), host.name.to_string(), route.name.to_string());
                    places.insert(place, Piece::Route(Arc::clone(route)));
                }
            }
            for (name, stream) in streams(fleet) {
                places.insert((key.clone(), name, String::new()), Piece::Stream(stream.clone()));
            }
        }
        places
    }
}

/// The key of an object.
pub(crate) fn key(value: &Value) -> ObjectKey {
    read(value).key()
}

fn streams(fleet: &Fleet) -> impl Iterator<Item = (String, &StreamProxy)> {
    fleet.listeners.iter().flat_map(|listener| {
        let chains = listener.chains.iter().chain(&listener.default_chain);
        let tcp = chains.filter_map(|chain| match &chain.network {
            Network::Tcp(stream) => Some((format!("{}/{}", listener.name, chain.name), stream)),
            Network::Http(_) => None,
        });
        tcp.chain(listener.udp.iter().map(|stream| (listener.name.to_string(), stream)))
    })
}

/// Where something is decided: fleet, host and route, or listener and chain.
pub(crate) type Place = (FleetKey, String, String);

/// What is decided at each place.
pub(crate) type Places = BTreeMap<Place, Piece>;

/// What is done with requests or connections.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Piece {
    Route(Arc<Route>),
    Stream(StreamProxy),
}

impl Piece {
    /// Nobody gets through.
    pub(crate) fn is_closed(&self) -> bool {
        match self {
            Self::Route(route) => {
                matches!(&route.effect.action, RouteAction::Respond(answer) if matches!(answer.status, 421 | 500))
            }
            Self::Stream(stream) => stream.shares.is_empty(),
        }
    }

    /// The routes that it comes from.
    pub(crate) fn origins(&self) -> Vec<Origin> {
        match self {
            Self::Route(route) => route.effect.origins.to_vec(),
            Self::Stream(stream) => stream.origins.to_vec(),
        }
    }

    /// What stands before it.
    pub(crate) fn guards(&self) -> BTreeSet<&'static str> {
        match self {
            Self::Route(route) => {
                let filters = route.effect.filters.iter().map(|filter| filter.id.kind);
                filters.filter(|kind| kind.is_guard()).map(|kind| kind.word()).collect()
            }
            Self::Stream(stream) => stream.access.iter().map(|_| "access").collect(),
        }
    }
}

/// The places at which two states differ.
pub(crate) fn differences(a: &Places, b: &Places) -> BTreeSet<Place> {
    let places = a.keys().chain(b.keys());
    places.filter(|place| a.get(*place) != b.get(*place)).cloned().collect()
}

/// Whether a policy, or an object that others name, may be about what comes from a route.
pub(crate) fn is_about(case: &Case, subject: &Value, origin: &Origin) -> bool {
    if subject["kind"] == "EdgeProxy" {
        return true;
    }
    if !is_one_of(subject, &["Backend", "HTTPRouteFilter"]) {
        return is_target(subject, origin);
    }
    // Who names it is a route, or a policy about some.
    let mut users = case.objects.iter().filter(|user| names(&user["spec"], subject));
    users.any(|user| {
        let is_route = user["kind"].as_str().is_some_and(|kind| kind.ends_with("Route"));
        match is_route {
            true => user["kind"] == *origin.kind && user["metadata"]["name"] == *origin.name,
            false => is_target(user, origin),
        }
    })
}

/// Whether something names an object.
fn names(value: &Value, object: &Value) -> bool {
    match value {
        Value::Object(members) => {
            let is_it = value["kind"] == object["kind"] && value["name"] == object["metadata"]["name"];
            is_it || members.values().any(|member| names(member, object))
        }
        Value::Array(entries) => entries.iter().any(|entry| names(entry, object)),
        _ => false,
    }
}

/// What a policy names is that route or is no route.
pub(crate) fn is_target(policy: &Value, origin: &Origin) -> bool {
    let spec = &policy["spec"];
    let named: Vec<&Value> = ["targetRef", "targetRefs"]
        .iter()
        .flat_map(|field| match &spec[field] {
            Value::Array(list) => list.iter().collect(),
            Value::Null => Vec::new(),
            one => vec![one],
        })
        .collect();
    let is_route = |target: &Value| target["kind"].as_str().is_some_and(|kind| kind.ends_with("Route"));
    !spec["targetSelectors"].is_null()
        || named
            .iter()
            .any(|target| !is_route(target) || (target["kind"] == *origin.kind && target["name"] == *origin.name))
}
