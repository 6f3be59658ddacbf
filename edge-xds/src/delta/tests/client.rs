//! A model of a proxy: it applies what it is sent, subscribes to what that points at, and answers when told to.

use super::{Action, Response, Stream, ack, nack, request, sent, subscribe};
use crate::snapshot::{Entry, ResourceType, Snapshot};
use envoy_types::pb::envoy::{
    config::route::v3::{RouteConfiguration, route, route_action::ClusterSpecifier},
    service::discovery::v3::DeltaDiscoveryRequest,
};
use prost::Message;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

/// The one table that listeners of the test fleets point at.
const TABLE: &str = "default/gw/http";

#[derive(Default)]
pub(super) struct Client {
    /// What it has, by kind and name.
    held: BTreeMap<(ResourceType, Arc<str>), Arc<Entry>>,
    /// Sent by the server, not read yet.
    inbox: VecDeque<Response>,
    /// Sent by the client, not read yet.
    outbox: VecDeque<DeltaDiscoveryRequest>,
    refuse: bool,
    refused_clusters: BTreeSet<Arc<str>>,
    subscribed_table: bool,
    pub(super) now: u64,
}

impl Client {
    /// Opens a connection, telling what it has.
    pub(super) fn connect(&mut self, stream: &mut Stream) {
        self.inbox.clear();
        self.outbox.clear();
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
                resource_names_subscribe: wanted,
                initial_resource_versions: versions,
                ..request(kind)
            };
            let responses = sent(stream.on_request(&first, self.now));
            self.receive(responses);
        }
    }

    fn clusters(&self) -> BTreeSet<Arc<str>> {
        let clusters = self.held.keys().filter(|(kind, _)| *kind == ResourceType::Cluster);
        clusters.map(|(_, name)| Arc::clone(name)).collect()
    }

    pub(super) fn receive(&mut self, responses: Vec<Response>) {
        self.inbox.extend(responses);
    }

    /// Refuses the next response with updates of clusters or routes.
    pub(super) fn refuse_next(&mut self) {
        self.refuse = true;
    }

    /// Refuses nothing from now on. Routes that it has may still point at what it refused.
    pub(super) fn accept_all(&mut self) {
        self.refuse = false;
    }

    /// Reads a response, applies it and has an answer ready.
    pub(super) fn read_one(&mut self) {
        let Some(response) = self.inbox.pop_front() else { return };
        let refusable = matches!(response.kind, ResourceType::Cluster | ResourceType::Routes);
        if self.refuse && refusable && !response.resources.is_empty() {
            self.refuse = false;
            let names: Vec<&str> = response.resources.iter().map(|entry| &*entry.name).collect();
            if response.kind == ResourceType::Cluster {
                self.refused_clusters
                    .extend(response.resources.iter().map(|entry| Arc::clone(&entry.name)));
            }
            self.outbox
                .push_back(nack(&response, &format!("refused: {}", names.join(", "))));
            return;
        }
        let clusters = self.clusters();
        // Endpoints that were on their way when their cluster went are of no use.
        let wanted = |entry: &&Arc<Entry>| response.kind != ResourceType::Endpoints || clusters.contains(&entry.name);
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
        self.outbox.push_back(ack(&response));
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
            let actions: Vec<Action> = stream.on_request(&request, self.now);
            self.receive(sent(actions));
        }
    }

    pub(super) fn wait(&mut self, stream: &mut Stream, millis: u64) {
        self.now += millis;
        let responses = sent(stream.on_deadline(self.now));
        self.receive(responses);
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

    /// It has what the server has, of all that it asked for.
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
                .filter(|((held, _), _)| *held == kind)
                .map(|((_, name), entry)| (&**name, entry.version))
                .collect();
            let served: BTreeMap<&str, u64> = snapshot
                .section(kind)
                .entries()
                .iter()
                .map(|entry| (&*entry.name, entry.version))
                .collect();
            assert_eq!(held, served, "{kind:?}");
        }
    }
}

fn clusters_of(table: &Entry) -> Vec<String> {
    let table = RouteConfiguration::decode(table.body.contiguous()).unwrap();
    let routes = table.virtual_hosts.into_iter().flat_map(|host| host.routes);
    routes
        .filter_map(|route| match route.action {
            Some(route::Action::Route(action)) => match action.cluster_specifier {
                Some(ClusterSpecifier::Cluster(cluster)) => Some(cluster),
                _ => None,
            },
            _ => None,
        })
        .collect()
}
