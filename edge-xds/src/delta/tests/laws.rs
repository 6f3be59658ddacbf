//! Laws over conversations of any course.

use super::{
    Action, Quarantine, ResourceType, Snapshot, Stream,
    client::{Client, Refuses, Says},
    sample,
};
use crate::lower::Lowering;
use edge_ir::{DirectResponse, LoadBalancing, PathMatch, Route, RouteAction, VirtualHost};
use envoy_types::pb::envoy::config::route::v3::{Route as Sent, route};
use proptest::prelude::*;
use std::{collections::BTreeSet, sync::Arc};

/// What is wrong with a rule or its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Nothing,
    Action,
    Match,
    Domain,
}

/// A state of the fleet: for each of four hosts the cluster that its rule routes to and what is wrong with it; the port
/// of all endpoints; whether a cluster is one that proxies refuse.
#[derive(Clone, Debug)]
struct World {
    hosts: Vec<(u8, Fault)>,
    port: u16,
    bad_cluster: bool,
}

/// One step of a conversation.
#[derive(Clone, Debug)]
enum Step {
    /// The fleet changes.
    Change(World),
    /// The client reads a message.
    Read,
    /// The server reads a message.
    Answer,
    /// The connection breaks; the client comes back with what it has.
    Reconnect,
    /// What was found out reaches the others.
    Share,
    /// Time passes.
    Wait(u8),
}

fn worlds() -> impl Strategy<Value = World> {
    let fault = prop_oneof![
        8 => Just(Fault::Nothing),
        1 => Just(Fault::Action),
        1 => Just(Fault::Match),
        1 => Just(Fault::Domain),
    ];
    let hosts = prop::collection::vec((0..4u8, fault), 4);
    (hosts, 1..4u16, prop::bool::weighted(0.2)).prop_map(|(hosts, port, bad_cluster)| World {
        hosts,
        port,
        bad_cluster,
    })
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => worlds().prop_map(Step::Change),
        8 => Just(Step::Read),
        8 => Just(Step::Answer),
        1 => Just(Step::Reconnect),
        1 => Just(Step::Share),
        1 => any::<u8>().prop_map(Step::Wait),
    ]
}

impl World {
    /// A rule with the fault beside a good one, on each host.
    fn host(n: usize, cluster: u8, fault: Fault) -> Arc<VirtualHost> {
        let name = format!("r{n}");
        let mut rule = Route::clone(&sample::route(&name, "/", &format!("c{cluster}")));
        match fault {
            Fault::Nothing | Fault::Domain => {}
            Fault::Action => {
                Arc::make_mut(&mut rule.effect).action = RouteAction::Respond(DirectResponse { status: 99, body: None })
            }
            Fault::Match => rule.matches.path = PathMatch::Exact("bad".into()),
        }
        let good = sample::route(&format!("good{n}"), "/good", &format!("c{cluster}"));
        let domain = match fault {
            Fault::Domain => format!("bad{n}.example"),
            _ => format!("h{n}.example"),
        };
        sample::host(&domain, vec![good, Arc::new(rule)])
    }

    /// The fleet: its clusters are those that its hosts use.
    fn snapshot(&self) -> Snapshot {
        let hosts = self.hosts.iter().enumerate();
        let hosts = hosts.map(|(n, (cluster, fault))| Self::host(n, *cluster, *fault));
        let used: BTreeSet<String> = self.hosts.iter().map(|(cluster, _)| format!("c{cluster}")).collect();
        let names: Vec<&str> = used.iter().map(String::as_str).collect();
        let mut fleet = sample::fleet(hosts.collect(), &names);
        fleet.endpoints = Arc::new(used.iter().map(|name| sample::endpoints(name, &[self.port])).collect());
        if self.bad_cluster {
            let clusters = fleet.clusters.iter().map(|cluster| {
                let mut cluster = edge_ir::Cluster::clone(cluster);
                if &*cluster.name == BAD_CLUSTER {
                    cluster.load_balancing = LoadBalancing::RoundRobin;
                }
                Arc::new(cluster)
            });
            fleet.clusters = Arc::new(clusters.collect());
        }
        Lowering::new().lower(&fleet)
    }

    fn refused_clusters(&self) -> BTreeSet<(ResourceType, Arc<str>)> {
        let is_there = self.bad_cluster && self.hosts.iter().any(|(cluster, _)| *cluster == 3);
        is_there
            .then(|| (ResourceType::Cluster, BAD_CLUSTER.into()))
            .into_iter()
            .collect()
    }
}

const BAD_CLUSTER: &str = "c3";

/// A client, its connection, and what is kept back from the fleet.
struct Conversation {
    world: World,
    stream: Stream,
    client: Client,
    quarantine: Quarantine,
}

impl Conversation {
    fn new(world: World, client: Client, quarantine: Quarantine) -> Self {
        let mut stream = Stream::new(world.snapshot(), quarantine.clone());
        let mut client = client;
        client.connect(&mut stream);
        Self {
            world,
            stream,
            client,
            quarantine,
        }
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Change(world) => {
                self.world = world.clone();
                let snapshot = world.snapshot();
                self.quarantine.release(&snapshot);
                let actions = self.stream.on_snapshot(&snapshot, self.client.now);
                self.client.receive(actions);
            }
            Step::Read => self.client.read_one(),
            Step::Answer => self.client.answer_one(&mut self.stream),
            Step::Reconnect => {
                self.collect();
                self.stream = Stream::new(self.world.snapshot(), self.quarantine.clone());
                self.client.connect(&mut self.stream);
            }
            Step::Share => self.share(),
            Step::Wait(millis) => self.client.wait(&mut self.stream, u64::from(*millis)),
        }
        self.client.check();
    }

    fn collect(&mut self) {
        std::mem::take(&mut self.client.quarantined)
            .into_iter()
            .for_each(|held| self.quarantine.hold(held));
        self.quarantine.release(&self.world.snapshot());
    }

    fn share(&mut self) {
        self.collect();
        let actions = self.stream.on_quarantine(&self.quarantine, self.client.now);
        self.client.receive(actions);
    }

    /// Until nobody has anything to say.
    fn run(&mut self) {
        self.client.run(&mut self.stream);
        self.share();
        self.client.run(&mut self.stream);
        assert!(self.stream.is_settled() || !self.client.rejected.is_empty());
        self.client.check();
    }

    /// It has all that is good, what is bad is closed or gone, and it is told exactly what is rejected.
    fn assert_serves(&self) {
        let served = self.quarantine.apply(&self.world.snapshot());
        self.client.assert_holds(&served);
        assert_eq!(self.client.rejected, self.world.refused_clusters());
        let faults = self.world.hosts.iter().filter(|(_, fault)| *fault != Fault::Nothing);
        assert_eq!(self.quarantine.held().count(), faults.count(), "{:?}", self.quarantine);
        let table = self.client.table().unwrap();
        let hosts = self.world.hosts.iter().enumerate();
        for (n, (cluster, fault)) in hosts {
            let domain = format!("h{n}.example");
            let host = table.virtual_hosts.iter().find(|host| host.domains.contains(&domain));
            let rules = host.map_or(Vec::new(), |host| host.routes.iter().map(kind_of).collect());
            let to = format!("c{cluster}");
            match fault {
                Fault::Nothing => assert_eq!(rules, [to.clone(), to]),
                Fault::Action => assert_eq!(rules, [to, "500".to_owned()]),
                Fault::Match => assert_eq!(rules, [to]),
                Fault::Domain => assert!(rules.is_empty()),
            }
        }
    }
}

/// Where a route leads.
fn kind_of(route: &Sent) -> String {
    match &route.action {
        Some(route::Action::DirectResponse(response)) => response.status.to_string(),
        Some(route::Action::Route(_)) => super::client::cluster_of(route).unwrap_or_default(),
        other => format!("{other:?}"),
    }
}

fn modes() -> impl Strategy<Value = (Refuses, Says)> {
    let refuses = prop_oneof![Just(Refuses::TheResponse), Just(Refuses::TheResource)];
    (refuses, prop_oneof![Just(Says::Nothing), Just(Says::Place)])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Law: whatever happens in whatever order, a client never holds a route without its cluster (but one it refused),
    /// and ends with all that is good of the snapshot, and so does one that starts later.
    #[test]
    fn a_client_converges_and_never_misses_a_cluster(
        first in worlds(),
        (refuses, says) in modes(),
        steps in prop::collection::vec(steps(), 1..80),
    ) {
        let client = || Client::new(refuses, says);
        let mut old = Conversation::new(first, client(), Quarantine::default());
        for step in &steps {
            old.take(step);
        }
        old.run();
        // It may have come with a table that nobody knows, which is no ground for experiments.
        old.collect();
        let mut new = Conversation::new(old.world.clone(), client(), old.quarantine.clone());
        new.run();
        new.assert_serves();
        old.quarantine = new.quarantine.clone();
        old.run();
        old.assert_serves();
        // What was found once needs no finding again.
        let mut last = Conversation::new(new.world.clone(), client(), new.quarantine.clone());
        last.run();
        last.assert_serves();
        prop_assert!(last.client.quarantined.is_empty());
    }
}

/// Nothing that was told is of the sort that these tests don't look at.
#[test]
fn a_change_without_faults_rejects_nothing() {
    let world = World {
        hosts: vec![(0, Fault::Nothing); 4],
        port: 1,
        bad_cluster: true,
    };
    let mut stream = Stream::new(world.snapshot(), Quarantine::default());
    let mut client = Client::default();
    client.connect(&mut stream);
    client.run(&mut stream);
    assert!(client.rejected.is_empty() && client.quarantined.is_empty());
    let actions = stream.on_snapshot(&world.snapshot(), client.now);
    assert!(actions.iter().all(|action| !matches!(action, Action::Refused { .. })));
}
