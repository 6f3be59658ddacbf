//! A model of a proxy: it applies what it is sent, subscribes to what that points at, and answers when told to. It
//! refuses what [`faults`] finds, as a whole response or by resource, as proxies do one or the other. One that does the
//! latter takes tables by what differs from those that it has, too.

use super::{Action, QuarantinedPart, Response, Stream, ack, nack, request, subscribe};
use crate::{
    parts::{self, tests::put_together},
    snapshot::{Entry, ResourceType, Snapshot},
};
use envoy_types::pb::envoy::{
    config::{
        cluster::v3::{Cluster, LoadBalancingPolicy},
        core::v3::Node,
        route::v3::{Route, RouteConfiguration, route, route_action::ClusterSpecifier, route_match::PathSpecifier},
    },
    service::discovery::v3::DeltaDiscoveryRequest,
};
use prost::Message;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

/// The one table that listeners of the test fleets point at.
pub(super) const TABLE: &str = "default/gw/http";

/// What a proxy makes of a response with something in it that it refuses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Refuses {
    /// It takes nothing of it.
    #[default]
    TheResponse,
    /// It takes everything else.
    TheResource,
}

/// What a proxy says about a refusal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Says {
    /// Nothing of use.
    #[default]
    Nothing,
    /// Which resource it is, and the place in it.
    Place,
}

#[derive(Default)]
pub(super) struct Client {
    refuses: Refuses,
    says: Says,
    /// Rejected and not resolved, as far as it was told.
    pub(super) rejected: BTreeSet<(ResourceType, Arc<str>)>,
    /// Told and not yet taken up.
    pub(super) quarantined: Vec<QuarantinedPart>,
    /// Responses that it read.
    pub(super) read: usize,
    /// What it has, by kind and name.
    held: BTreeMap<(ResourceType, Arc<str>), Arc<Entry>>,
    /// Sent by the server, not read yet.
    inbox: VecDeque<Response>,
    /// Sent by the client, not read yet.
    outbox: VecDeque<DeltaDiscoveryRequest>,
    refused_clusters: BTreeSet<Arc<str>>,
    subscribed_table: bool,
    pub(super) now: u64,
}

impl Client {
    /// One that refuses and speaks in its way.
    pub(super) fn new(refuses: Refuses, says: Says) -> Self {
        Self {
            refuses,
            says,
            ..Self::default()
        }
    }

    /// Opens a connection, telling what it has.
    pub(super) fn connect(&mut self, stream: &mut Stream) {
        self.inbox.clear();
        self.outbox.clear();
        self.rejected.clear();
        for kind in [
            ResourceType::Cluster,
            ResourceType::Endpoints,
            ResourceType::Listener,
            ResourceType::Routes,
        ] {
            let held: Vec<&Arc<Entry>> = self
                .held
                .iter()
                .filter(|((held, _), _)| *held == kind)
                .map(|(_, entry)| entry)
                .collect();
            let versions = held
                .iter()
                .map(|entry| (entry.name.to_string(), entry.version_text()))
                .collect();
            let wanted: Vec<String> = match kind {
                ResourceType::Endpoints => self.clusters().iter().map(|name| name.to_string()).collect(),
                ResourceType::Routes if self.subscribed_table => vec![TABLE.to_owned()],
                _ => Vec::new(),
            };
            if wanted.is_empty() && matches!(kind, ResourceType::Endpoints | ResourceType::Routes) {
                continue;
            }
            let first = DeltaDiscoveryRequest {
                node: (kind == ResourceType::Cluster).then(|| self.node()),
                resource_names_subscribe: wanted,
                initial_resource_versions: versions,
                ..request(kind)
            };
            self.receive(stream.on_request(&first, self.now));
        }
    }

    fn node(&self) -> Node {
        let client_features = match self.refuses {
            Refuses::TheResource => vec![parts::FEATURE.to_owned()],
            Refuses::TheResponse => Vec::new(),
        };
        Node {
            client_features,
            ..Node::default()
        }
    }

    /// What is told by what differs is told about what it has, and makes the whole.
    fn check_bases(&self, response: &Response) {
        for (name, base) in &response.bases {
            assert_eq!(self.refuses, Refuses::TheResource, "nobody asked for it");
            let held = self.held.get(&(response.kind, Arc::clone(name)));
            assert_eq!(held.map(|held| held.version), Some(base.version), "{name}");
            let entry = response.resources.iter().find(|entry| entry.name == *name).unwrap();
            let parts = parts::between(base, entry).unwrap();
            assert_eq!(put_together(base, &parts), entry.body.contiguous());
        }
    }

    fn clusters(&self) -> BTreeSet<Arc<str>> {
        let clusters = self.held.keys().filter(|(kind, _)| *kind == ResourceType::Cluster);
        clusters.map(|(_, name)| Arc::clone(name)).collect()
    }

    /// Takes what a stream gives.
    pub(super) fn receive(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Send(response) => self.inbox.push_back(response),
                Action::Rejected(rejection) => {
                    self.rejected.insert((rejection.kind, rejection.name));
                }
                Action::Resolved { kind, name } => {
                    assert!(self.rejected.remove(&(kind, name)), "it was never rejected");
                }
                Action::Quarantined(held) => self.quarantined.extend(held),
                Action::Acknowledged(_) | Action::Refused { .. } => {}
            }
        }
    }

    /// Reads a response, applies it and has an answer ready.
    pub(super) fn read_one(&mut self) {
        let Some(response) = self.inbox.pop_front() else { return };
        self.read += 1;
        self.check_bases(&response);
        let found: Vec<(&Arc<Entry>, String)> = response
            .resources
            .iter()
            .filter_map(|entry| Some((entry, faults(response.kind, entry)?)))
            .collect();
        if !found.is_empty() && response.kind == ResourceType::Cluster {
            self.refused_clusters
                .extend(found.iter().map(|(entry, _)| Arc::clone(&entry.name)));
        }
        let refused: BTreeSet<Arc<str>> = found.iter().map(|(entry, _)| Arc::clone(&entry.name)).collect();
        let message = match self.says {
            Says::Nothing => "no".to_owned(),
            Says::Place => found
                .iter()
                .map(|(entry, at)| format!("{}: {at}; ", entry.name))
                .collect(),
        };
        let is_refused = !refused.is_empty();
        if is_refused && self.refuses == Refuses::TheResponse {
            self.outbox.push_back(nack(&response, &message));
            return;
        }
        let clusters = self.clusters();
        // Endpoints that were on their way when their cluster went are of no use.
        let wanted = |entry: &&Arc<Entry>| {
            !refused.contains(&entry.name)
                && (response.kind != ResourceType::Endpoints || clusters.contains(&entry.name))
        };
        for entry in response.resources.iter().filter(wanted) {
            self.held
                .insert((response.kind, Arc::clone(&entry.name)), Arc::clone(entry));
            self.follow(response.kind, &entry.name);
        }
        for name in &response.removed {
            self.held.remove(&(response.kind, Arc::clone(name)));
            if response.kind == ResourceType::Cluster {
                self.held.remove(&(ResourceType::Endpoints, Arc::clone(name)));
                self.outbox.push_back(DeltaDiscoveryRequest {
                    resource_names_unsubscribe: vec![name.to_string()],
                    ..request(ResourceType::Endpoints)
                });
            }
        }
        self.outbox.push_back(match is_refused {
            true => nack(&response, &message),
            false => ack(&response),
        });
    }

    /// Subscribes to what a resource points at.
    fn follow(&mut self, kind: ResourceType, name: &str) {
        match kind {
            ResourceType::Cluster => {
                self.refused_clusters.remove(name);
                self.outbox.push_back(subscribe(ResourceType::Endpoints, &[name]));
            }
            ResourceType::Listener if !self.subscribed_table => {
                self.subscribed_table = true;
                self.outbox.push_back(subscribe(ResourceType::Routes, &[TABLE]));
            }
            _ => {}
        }
    }

    /// Lets the server read a request.
    pub(super) fn answer_one(&mut self, stream: &mut Stream) {
        if let Some(request) = self.outbox.pop_front() {
            self.receive(stream.on_request(&request, self.now));
        }
    }

    pub(super) fn wait(&mut self, stream: &mut Stream, millis: u64) {
        self.now += millis;
        self.receive(stream.on_deadline(self.now));
    }

    /// Exchanges messages until nobody has anything to say, and then lets time pass once.
    pub(super) fn run(&mut self, stream: &mut Stream) {
        for _ in 0..3 {
            while !self.inbox.is_empty() || !self.outbox.is_empty() {
                self.read_one();
                self.answer_one(stream);
                self.check();
            }
            self.wait(stream, super::RETURN_MILLIS);
        }
        assert!(self.inbox.is_empty());
    }

    /// No route without its cluster.
    pub(super) fn check(&self) {
        let clusters = self.clusters();
        for ((_, name), table) in self.held.iter().filter(|((kind, _), _)| *kind == ResourceType::Routes) {
            for cluster in clusters_of(table) {
                let excused = self.refused_clusters.contains(cluster.as_str());
                assert!(
                    excused || clusters.contains(cluster.as_str()),
                    "{name} routes to {cluster}, which is not there"
                );
            }
        }
    }

    /// It has what the server has, of all that it asked for and doesn't refuse.
    pub(super) fn assert_holds(&self, snapshot: &Snapshot) {
        for kind in [
            ResourceType::Cluster,
            ResourceType::Endpoints,
            ResourceType::Listener,
            ResourceType::Routes,
        ] {
            let held: BTreeMap<&str, u64> = self
                .held
                .iter()
                .filter(|((held, name), _)| *held == kind && !self.refused_clusters.contains(name))
                .map(|((_, name), entry)| (&**name, entry.version))
                .collect();
            let served: BTreeMap<&str, u64> = snapshot
                .section(kind)
                .entries()
                .iter()
                .filter(|entry| !self.refused_clusters.contains(&entry.name))
                .map(|entry| (&*entry.name, entry.version))
                .collect();
            assert_eq!(held, served, "{kind:?}");
        }
    }

    /// The table that it serves by.
    pub(super) fn table(&self) -> Option<RouteConfiguration> {
        let table = self.held.get(&(ResourceType::Routes, TABLE.into()))?;
        Some(RouteConfiguration::decode(table.body.contiguous()).unwrap())
    }
}

/// What this proxy refuses: a cluster that goes round robin; in a table a path that is called `bad`, a status that
/// there isn't, a domain that begins with `bad`. Gives the place.
fn faults(kind: ResourceType, entry: &Entry) -> Option<String> {
    let bytes = entry.body.contiguous();
    match kind {
        ResourceType::Cluster => {
            let cluster = Cluster::decode(bytes).unwrap();
            let policy = cluster.load_balancing_policy;
            policy.is_some_and(is_round_robin).then(|| "lb_policy".to_owned())
        }
        ResourceType::Routes => {
            let table = RouteConfiguration::decode(bytes).unwrap();
            table.virtual_hosts.iter().enumerate().find_map(|(n, host)| {
                if host.domains.iter().any(|domain| domain.starts_with("bad")) {
                    return Some(format!("virtual_hosts[{n}].domains"));
                }
                let bad = host.routes.iter().position(is_bad)?;
                Some(format!("virtual_hosts[{n}].routes[{bad}]"))
            })
        }
        _ => None,
    }
}

fn is_round_robin(policy: LoadBalancingPolicy) -> bool {
    let configs = policy
        .policies
        .iter()
        .filter_map(|policy| policy.typed_extension_config.as_ref());
    configs
        .map(|config| &config.name)
        .any(|name| name.contains("round_robin"))
}

fn is_bad(route: &Route) -> bool {
    let path = route
        .r#match
        .as_ref()
        .and_then(|matches| matches.path_specifier.as_ref());
    let bad_path = matches!(path, Some(PathSpecifier::Path(path)) if path == "bad");
    bad_path || matches!(&route.action, Some(route::Action::DirectResponse(response)) if response.status == 99)
}

fn clusters_of(table: &Entry) -> Vec<String> {
    let table = RouteConfiguration::decode(table.body.contiguous()).unwrap();
    let routes = table.virtual_hosts.iter().flat_map(|host| &host.routes);
    routes.filter_map(cluster_of).collect()
}

/// The one cluster that a route leads to.
pub(super) fn cluster_of(route: &Route) -> Option<String> {
    match &route.action {
        Some(route::Action::Route(action)) => match &action.cluster_specifier {
            Some(ClusterSpecifier::Cluster(cluster)) => Some(cluster.clone()),
            _ => None,
        },
        _ => None,
    }
}
