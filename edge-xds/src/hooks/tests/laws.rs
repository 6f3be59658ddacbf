//! Laws over backends that only services know, whatever comes and goes, whether services answer or not.

use super::{Answer, Applied, Hook, Outcome, Question, ResourceType, Rig, judge, problem};
use crate::sample::{cluster, endpoints, fleet, host, route};
use edge_ir::{Cluster as IrCluster, CustomObject, CustomObjects, Fleet};
use envoy_types::pb::envoy::config::{
    cluster::v3::Cluster,
    endpoint::v3::{ClusterLoadAssignment, cluster_load_assignment::Policy},
};
use envoy_types::pb::google::protobuf::UInt32Value;
use proptest::{collection::vec, option, prelude::*, sample::select};
use prost::Message as _;
use std::{collections::BTreeMap, sync::Arc};

const NAMES: [&str; 3] = ["custom/a", "custom/b", "custom/c"];

/// What services do about a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mood {
    Answers,
    Fails,
    Silent,
}

/// For each backend the version of its object, if it is there, and what services do about it.
type Round = [(Option<u8>, Mood); NAMES.len()];

fn round() -> impl Strategy<Value = Round> {
    let version = || option::weighted(0.8, 0..3_u8);
    let mood = || select(vec![Mood::Answers, Mood::Answers, Mood::Fails, Mood::Silent]);
    let one = move || (version(), mood());
    (one(), one(), one()).prop_map(|(a, b, c)| [a, b, c])
}

/// A fleet whose route leads to these backends. That of no service is always there.
fn fleet_of(round: &Round) -> Fleet {
    let there = NAMES
        .iter()
        .zip(round)
        .filter_map(|(name, (version, _))| Some((*name, (*version)?)));
    let there: Vec<(&str, u8)> = there.collect();
    let mut fleet = fleet(vec![host("a.example", vec![route("x", "/", "plain")])], &["plain"]);
    let clusters = there.iter().map(|(name, version)| Arc::new(known(name, *version)));
    fleet.clusters = Arc::new(clusters.chain([cluster("plain")]).collect());
    let lists = there.iter().map(|(name, _)| endpoints(name, &[]));
    fleet.endpoints = Arc::new(lists.chain([endpoints("plain", &[3000])]).collect());
    fleet
}

fn known(name: &str, version: u8) -> IrCluster {
    let object = CustomObject {
        group: "sample.example.com".into(),
        kind: "Pool".into(),
        namespace: "default".into(),
        name: name.into(),
        json: format!("{{\"version\":{version}}}").into(),
    };
    let custom = CustomObjects {
        resources: vec![Arc::new(object)],
        policies: Vec::new(),
    };
    IrCluster {
        custom: custom.shared(),
        ..IrCluster::clone(&cluster(name))
    }
}

/// What services make of a resource: it says which object it was shown with.
fn answered(question: &Question) -> Answer {
    let Question::One {
        hook, resource, custom, ..
    } = question
    else {
        panic!("{question:?}");
    };
    let shown = custom.iter().flat_map(|custom| &custom.resources);
    let shown: String = shown.map(|object| object.json.to_string()).collect();
    if shown.is_empty() {
        return Answer::One(resource.clone());
    }
    let bytes = match hook {
        Hook::Cluster => {
            let mut cluster = Cluster::decode(resource.clone()).unwrap();
            cluster.alt_stat_name = shown;
            cluster.encode_to_vec()
        }
        _ => {
            let mut list = ClusterLoadAssignment::decode(resource.clone()).unwrap();
            let version = shown
                .bytes()
                .filter(u8::is_ascii_digit)
                .map(|digit| u32::from(digit - b'0'))
                .sum::<u32>();
            list.policy = Some(Policy {
                overprovisioning_factor: Some(UInt32Value { value: 100 + version }),
                ..Policy::default()
            });
            list.encode_to_vec()
        }
    };
    // Whoever calls services has their answers judged, which puts maps into one order.
    Answer::One(judge(*hook, resource, Some(bytes.into())).unwrap())
}

/// The backend that a question is about.
fn about(question: &Question) -> Option<usize> {
    let Question::One { hook, resource, .. } = question else {
        return None;
    };
    let name = match hook {
        Hook::Cluster => Cluster::decode(resource.clone()).unwrap().name,
        _ => ClusterLoadAssignment::decode(resource.clone()).unwrap().cluster_name,
    };
    NAMES.iter().position(|known| *known == name)
}

/// Looks at a fleet, and again when services have said what they say.
fn look(rig: &mut Rig, round: &Round) -> Applied {
    let fleet = fleet_of(round);
    rig.look(&fleet);
    for (key, asked) in rig.answers.questions().clone() {
        let mood = about(&asked.question).map_or(Mood::Answers, |backend| round[backend].1);
        let outcome = match mood {
            Mood::Silent => continue,
            Mood::Answers => Outcome {
                answer: Some(answered(&asked.question)),
                problem: None,
            },
            Mood::Fails => Outcome {
                answer: None,
                problem: Some(problem("down")),
            },
        };
        rig.answers.take(key, asked.number, outcome);
    }
    rig.look(&fleet)
}

/// The version of its object that each backend is served with, by its cluster and by its endpoints.
fn served(applied: &Applied) -> [BTreeMap<String, u8>; 2] {
    let entries = |kind| applied.snapshot.section(kind).entries().iter();
    let version = |text: &str| {
        text.bytes()
            .find(u8::is_ascii_digit)
            .map_or(u8::MAX, |digit| digit - b'0')
    };
    let clusters = entries(ResourceType::Cluster).map(|entry| {
        let cluster = Cluster::decode(entry.body.contiguous()).unwrap();
        (cluster.name, version(&cluster.alt_stat_name))
    });
    let lists = entries(ResourceType::Endpoints).map(|entry| {
        let list = ClusterLoadAssignment::decode(entry.body.contiguous()).unwrap();
        let factor = list.policy.and_then(|policy| policy.overprovisioning_factor);
        let version = factor.map_or(u8::MAX, |factor| u8::try_from(factor.value - 100).unwrap());
        (list.cluster_name, version)
    });
    let ours = |(name, _): &(String, u8)| NAMES.contains(&&**name);
    [clusters.filter(ours).collect(), lists.filter(ours).collect()]
}

/// A backend as a round leaves it.
#[derive(Clone, Copy)]
struct Stood {
    version: u8,
    /// Whether services have answered for that version.
    is_answered: bool,
    /// The last version that they have answered for.
    good: Option<u8>,
}

/// What is to be served, told from the rounds alone.
#[derive(Default)]
struct Model {
    /// Backends that were there in the last round.
    there: BTreeMap<usize, Stood>,
    served: BTreeMap<String, u8>,
}

impl Model {
    /// Takes a round in; says whether a backend isn't as it should be.
    fn take(&mut self, round: &Round) -> bool {
        let mut there = BTreeMap::new();
        for (backend, (version, mood)) in round.iter().enumerate() {
            let Some(version) = *version else { continue };
            let before = self.there.get(&backend);
            let is_known = before.is_some_and(|before| before.version == version && before.is_answered);
            let is_answered = *mood == Mood::Answers || is_known;
            let good = match is_answered {
                true => Some(version),
                false => before.and_then(|before| before.good),
            };
            let stands = Stood {
                version,
                is_answered,
                good,
            };
            there.insert(backend, stands);
        }
        let is_behind = there.values().any(|stands| !stands.is_answered);
        let now = there.iter();
        let now = now.filter_map(|(backend, stands)| Some((NAMES[*backend].to_owned(), stands.good?)));
        let mut served: BTreeMap<String, u8> = now.collect();
        if is_behind {
            for (name, version) in &self.served {
                served.entry(name.clone()).or_insert(*version);
            }
        }
        self.there = there;
        self.served = served;
        is_behind
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// A backend is served as services last made it, what is new and unanswered isn't there, nothing goes while
    /// something may need it, and in the end nothing tells of what there was before.
    #[test]
    fn backends_of_services_are_served_as_these_last_said(rounds in vec(round(), 1..8)) {
        let mut rig = Rig::new(&[Hook::Cluster, Hook::Endpoints], &[]);
        let mut model = Model::default();
        for (i, round) in rounds.iter().enumerate() {
            let applied = look(&mut rig, round);
            let is_behind = model.take(round);
            let [clusters, lists] = served(&applied);
            prop_assert_eq!(&clusters, &model.served, "clusters of round {}", i);
            prop_assert_eq!(&lists, &model.served, "endpoints of round {}", i);
            prop_assert_eq!(applied.is_pending || !applied.held.is_empty(), is_behind, "{:?}", applied.held);
        }
        let last = rounds.last().unwrap().map(|(version, _)| (version, Mood::Answers));
        let (mine, fresh) = (look(&mut rig, &last), look(&mut Rig::new(&[Hook::Cluster, Hook::Endpoints], &[]), &last));
        prop_assert!(!mine.is_pending && mine.held.is_empty());
        for kind in ResourceType::ALL {
            let entries = |applied: &Applied| -> Vec<_> {
                applied.snapshot.section(kind).entries().iter().map(|e| (Arc::clone(&e.name), e.body.contiguous())).collect()
            };
            prop_assert_eq!(entries(&mine), entries(&fresh), "{:?}", kind);
        }
        prop_assert!(rig.answers.questions().is_empty());
    }
}
