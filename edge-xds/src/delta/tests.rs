use super::*;
use crate::{
    lower::Lowering,
    sample,
    snapshot::{Entry, Section},
};
use edge_ir::Fleet;
use envoy_types::pb::google::rpc::Status;
use proptest::prelude::*;
use std::collections::BTreeSet;

mod client;

use client::Client;

/// A fleet whose hosts `h<n>` route to the named clusters.
fn fleet(routes: &[(u8, &str)], clusters: &[&str]) -> Fleet {
    let host = |(n, cluster): &(u8, &str)| {
        sample::host(
            &format!("h{n}.example"),
            vec![sample::route(&format!("r{n}"), "/", cluster)],
        )
    };
    sample::fleet(routes.iter().map(host).collect(), clusters)
}

fn snapshot(routes: &[(u8, &str)], clusters: &[&str]) -> Snapshot {
    Lowering::new().lower(&fleet(routes, clusters))
}

fn request(kind: ResourceType) -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest {
        type_url: kind.type_url().to_owned(),
        ..Default::default()
    }
}

fn subscribe(kind: ResourceType, names: &[&str]) -> DeltaDiscoveryRequest {
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    DeltaDiscoveryRequest {
        resource_names_subscribe: names,
        ..request(kind)
    }
}

fn ack(response: &Response) -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest {
        response_nonce: response.nonce.clone(),
        ..request(response.kind)
    }
}

fn nack(response: &Response, message: &str) -> DeltaDiscoveryRequest {
    let status = Status {
        code: 3,
        message: message.to_owned(),
        details: Vec::new(),
    };
    DeltaDiscoveryRequest {
        error_detail: Some(status),
        ..ack(response)
    }
}

fn sent(actions: Vec<Action>) -> Vec<Response> {
    actions
        .into_iter()
        .filter_map(|action| match action {
            Action::Send(response) => Some(response),
            _ => None,
        })
        .collect()
}

fn only(actions: Vec<Action>) -> Response {
    let mut responses = sent(actions);
    assert_eq!(responses.len(), 1, "{responses:?}");
    responses.remove(0)
}

fn names(response: &Response) -> Vec<&str> {
    response.resources.iter().map(|entry| &*entry.name).collect()
}

#[test]
fn a_new_proxy_gets_clusters_then_endpoints_then_listeners_then_routes() {
    let mut stream = Stream::new(snapshot(&[(1, "c1")], &["c1"]));
    let clusters = only(stream.on_request(&request(ResourceType::Cluster), 0));
    assert_eq!(names(&clusters), ["c1"]);
    let endpoints = only(stream.on_request(&subscribe(ResourceType::Endpoints, &["c1"]), 1));
    assert!(
        sent(stream.on_request(&request(ResourceType::Listener), 2)).is_empty(),
        "clusters are not acknowledged"
    );
    assert!(
        sent(stream.on_request(&ack(&clusters), 3)).is_empty(),
        "clusters are not warm"
    );
    let listeners = only(stream.on_request(&ack(&endpoints), 4));
    assert_eq!(names(&listeners), ["edge-gateway-proxy-ready-0.0.0.0-19003", "tcp-80"]);
    let routes = only(stream.on_request(&subscribe(ResourceType::Routes, &["default/gw/http"]), 5));
    assert!(sent(stream.on_request(&ack(&routes), 6)).is_empty());
    assert!(sent(stream.on_request(&ack(&listeners), 7)).is_empty());
    assert!(stream.is_settled());
    assert_eq!(stream.deadline(), None);
}

#[test]
fn a_fleet_without_anything_is_answered_once() {
    let mut stream = Stream::new(Snapshot::default());
    let clusters = only(stream.on_request(&request(ResourceType::Cluster), 0));
    assert!(clusters.resources.is_empty() && clusters.removed.is_empty());
    assert!(sent(stream.on_request(&ack(&clusters), 0)).is_empty());
}

#[test]
fn waiting_for_endpoints_that_nobody_asks_for_ends() {
    let mut stream = Stream::new(snapshot(&[(1, "c1")], &["c1"]));
    let clusters = only(stream.on_request(&request(ResourceType::Cluster), 1000));
    stream.on_request(&request(ResourceType::Listener), 1000);
    assert!(sent(stream.on_request(&ack(&clusters), 1001)).is_empty());
    assert_eq!(stream.deadline(), Some(1000 + WARMING_MILLIS));
    assert!(sent(stream.on_deadline(1000 + WARMING_MILLIS - 1)).is_empty());
    assert_eq!(
        only(stream.on_deadline(1000 + WARMING_MILLIS)).kind,
        ResourceType::Listener
    );
}

/// A stream and its client after everything was exchanged.
fn settled(snapshot: Snapshot) -> (Stream, Client) {
    let mut stream = Stream::new(snapshot);
    let mut client = Client::default();
    client.connect(&mut stream);
    client.run(&mut stream);
    (stream, client)
}

#[test]
fn a_changed_cluster_brings_its_endpoints_again() {
    let (mut stream, mut client) = settled(snapshot(&[(1, "c1")], &["c1"]));
    let mut changed = fleet(&[(1, "c1")], &["c1"]);
    let cluster = edge_ir::Cluster {
        protocol: edge_ir::AppProtocol::Http2,
        ..(*changed.clusters[0]).clone()
    };
    changed.clusters = Arc::new(vec![Arc::new(cluster)]);
    let responses = sent(stream.on_snapshot(&Lowering::new().lower(&changed), client.now));
    let kinds: Vec<ResourceType> = responses.iter().map(|response| response.kind).collect();
    assert_eq!(kinds, [ResourceType::Cluster, ResourceType::Endpoints]);
    client.receive(responses);
    client.run(&mut stream);
    assert!(stream.is_settled());
}

#[test]
fn an_acknowledgement_of_endpoints_sent_before_the_cluster_does_not_warm_it() {
    let (mut stream, client) = settled(snapshot(&[(1, "c1")], &["c1"]));
    let mut next = fleet(&[(1, "c1")], &["c1"]);
    next.endpoints = Arc::new(vec![sample::endpoints("c1", &[4000])]);
    let early = only(stream.on_snapshot(&Lowering::new().lower(&next), client.now));
    let cluster = edge_ir::Cluster {
        protocol: edge_ir::AppProtocol::Http2,
        ..(*next.clusters[0]).clone()
    };
    next.clusters = Arc::new(vec![Arc::new(cluster)]);
    next.route_tables = fleet(&[(2, "c1")], &[]).route_tables;
    let clusters = only(stream.on_snapshot(&Lowering::new().lower(&next), client.now));
    assert!(sent(stream.on_request(&ack(&clusters), client.now)).is_empty());
    let late = only(stream.on_request(&ack(&early), client.now));
    assert_eq!(late.kind, ResourceType::Endpoints);
    assert_eq!(
        only(stream.on_request(&ack(&late), client.now)).kind,
        ResourceType::Routes
    );
}

#[test]
fn pods_coming_and_going_touch_endpoints_only_and_wait_for_nothing() {
    let (mut stream, client) = settled(snapshot(&[(1, "c1")], &["c1"]));
    let mut changed = fleet(&[(1, "c1")], &["c1"]);
    changed.endpoints = Arc::new(vec![sample::endpoints("c1", &[4000, 4001])]);
    assert_eq!(
        only(stream.on_snapshot(&Lowering::new().lower(&changed), client.now)).kind,
        ResourceType::Endpoints
    );
}

#[test]
fn changes_meanwhile_coalesce() {
    let (mut stream, client) = settled(snapshot(&[(1, "c1")], &["c1"]));
    let first = only(stream.on_snapshot(&snapshot(&[(2, "c1")], &["c1"]), client.now));
    for n in 3..9 {
        assert!(sent(stream.on_snapshot(&snapshot(&[(n, "c1")], &["c1"]), client.now)).is_empty());
    }
    let last = only(stream.on_request(&ack(&first), client.now));
    let expected = snapshot(&[(8, "c1")], &["c1"]);
    assert_eq!(last.resources, expected.section(ResourceType::Routes).entries());
    assert!(sent(stream.on_request(&ack(&last), client.now)).is_empty());
}

#[test]
fn what_a_proxy_brings_along_is_not_sent_again() {
    let snapshot = snapshot(&[(1, "c1")], &["c1"]);
    let mut stream = Stream::new(snapshot.clone());
    let versions = |kind: ResourceType| {
        let entries = snapshot.section(kind).entries();
        let known = entries
            .iter()
            .map(|entry| (entry.name.to_string(), entry.version_text()))
            .collect();
        DeltaDiscoveryRequest {
            initial_resource_versions: known,
            ..request(kind)
        }
    };
    for kind in [ResourceType::Cluster, ResourceType::Listener] {
        assert!(sent(stream.on_request(&versions(kind), 0)).is_empty());
    }
    let endpoints = DeltaDiscoveryRequest {
        resource_names_subscribe: vec!["c1".to_owned()],
        ..versions(ResourceType::Endpoints)
    };
    assert!(sent(stream.on_request(&endpoints, 0)).is_empty());
}

#[test]
fn what_vanished_while_a_proxy_was_away_is_removed() {
    let mut stream = Stream::new(snapshot(&[], &[]));
    let known = [("old".to_owned(), "00".to_owned())].into_iter().collect();
    let returning = DeltaDiscoveryRequest {
        initial_resource_versions: known,
        ..request(ResourceType::Cluster)
    };
    assert!(
        sent(stream.on_request(&returning, 5)).is_empty(),
        "its route tables may use it"
    );
    assert_eq!(stream.deadline(), Some(5 + RETURN_MILLIS));
    let response = only(stream.on_deadline(5 + RETURN_MILLIS));
    assert_eq!(response.removed, [Arc::from("old")]);
}

#[test]
fn a_name_that_does_not_exist_is_answered_once() {
    let mut stream = Stream::new(snapshot(&[], &[]));
    let response = only(stream.on_request(&subscribe(ResourceType::Endpoints, &["nope"]), 0));
    assert_eq!(
        (response.resources.len(), response.removed.as_slice()),
        (0, &[Arc::from("nope")][..])
    );
    assert!(sent(stream.on_request(&ack(&response), 0)).is_empty());
    let appears = only(stream.on_snapshot(&snapshot(&[], &["nope"]), 0));
    assert_eq!(names(&appears), ["nope"]);
}

#[test]
fn a_stale_nonce_is_no_acknowledgement() {
    let mut stream = Stream::new(snapshot(&[(1, "c1")], &["c1"]));
    let clusters = only(stream.on_request(&request(ResourceType::Cluster), 0));
    let stale = DeltaDiscoveryRequest {
        response_nonce: "999".to_owned(),
        ..request(ResourceType::Cluster)
    };
    assert!(stream.on_request(&stale, 0).is_empty());
    assert!(matches!(
        stream.on_request(&ack(&clusters), 0).as_slice(),
        [Action::Acknowledged { .. }]
    ));
}

#[test]
fn a_rejection_names_resources_and_objects_and_is_not_repeated() {
    let (mut stream, client) = settled(snapshot(&[(1, "c1")], &["c1"]));
    let clusters = only(stream.on_snapshot(&snapshot(&[(1, "c1")], &["c1", "c2", "c3"]), client.now));
    assert_eq!(names(&clusters), ["c2", "c3"]);
    let actions = stream.on_request(&nack(&clusters, "error adding cluster c3: no"), client.now);
    let [Action::Rejected(rejection)] = actions.as_slice() else {
        panic!("{actions:?}")
    };
    assert_eq!(rejection.names, [Arc::from("c3")]);
    assert_eq!(rejection.origins, sample::origins("Service", "c3").to_vec());
    assert!(sent(stream.on_snapshot(&snapshot(&[(1, "c1")], &["c1", "c2", "c3"]), client.now)).is_empty());
}

#[test]
fn a_rejected_table_keeps_the_clusters_that_its_last_good_version_uses() {
    let (mut stream, client) = settled(snapshot(&[(1, "c1")], &["c1"]));
    let clusters = only(stream.on_snapshot(&snapshot(&[(1, "c2")], &["c2"]), client.now));
    stream.on_request(&ack(&clusters), client.now);
    let endpoints = only(stream.on_request(&subscribe(ResourceType::Endpoints, &["c2"]), client.now));
    let routes = only(stream.on_request(&ack(&endpoints), client.now));
    assert_eq!(routes.kind, ResourceType::Routes);
    assert!(
        sent(stream.on_request(&nack(&routes, "no"), client.now)).is_empty(),
        "c1 is still in use"
    );
    let better = only(stream.on_snapshot(&snapshot(&[(3, "c2")], &["c2"]), client.now));
    let removal = only(stream.on_request(&ack(&better), client.now));
    assert_eq!(
        (removal.kind, removal.removed.as_slice()),
        (ResourceType::Endpoints, &[Arc::from("c1")][..])
    );
    let removal = only(stream.on_request(&ack(&removal), client.now));
    assert_eq!(
        (removal.kind, removal.removed.as_slice()),
        (ResourceType::Cluster, &[Arc::from("c1")][..])
    );
}

#[test]
fn going_back_to_the_last_good_version_sends_nothing() {
    let (mut stream, client) = settled(snapshot(&[(1, "c1")], &["c1"]));
    let routes = only(stream.on_snapshot(&snapshot(&[(2, "c1")], &["c1"]), client.now));
    stream.on_request(&nack(&routes, "no"), client.now);
    assert!(sent(stream.on_snapshot(&snapshot(&[(1, "c1")], &["c1"]), client.now)).is_empty());
    assert!(stream.is_settled());
}

#[test]
fn a_large_answer_comes_in_parts() {
    let entry = |n: u32| {
        let body = crate::snapshot::Body::Whole(vec![1; 700 << 10].into());
        Arc::new(Entry::new(format!("c{n}"), body, [].into()))
    };
    let section = Section::new((0..6).map(entry).collect());
    let mut stream = Stream::new(Snapshot::default().with(ResourceType::Cluster, Arc::new(section)));
    let mut parts = vec![only(stream.on_request(&request(ResourceType::Cluster), 0))];
    while let Some(next) = sent(stream.on_request(&ack(&parts[parts.len() - 1]), 0)).pop() {
        parts.push(next);
    }
    let sizes: Vec<usize> = parts.iter().map(|part| part.resources.len()).collect();
    assert_eq!(sizes, [2, 2, 2]);
    assert!(parts.iter().all(|part| part.encode().len() < 2 << 20));
}

#[test]
fn unsubscribing_from_everything_stops_updates() {
    let mut stream = Stream::new(snapshot(&[], &["c1"]));
    let clusters = only(stream.on_request(&subscribe(ResourceType::Cluster, &["*"]), 0));
    stream.on_request(&ack(&clusters), 0);
    let stop = DeltaDiscoveryRequest {
        resource_names_unsubscribe: vec!["*".to_owned()],
        ..request(ResourceType::Cluster)
    };
    assert!(sent(stream.on_request(&stop, 0)).is_empty());
    assert!(sent(stream.on_snapshot(&snapshot(&[], &["c1", "c2"]), 0)).is_empty());
}

#[test]
fn kinds_that_nobody_serves_are_not_answered() {
    let mut stream = Stream::new(snapshot(&[], &[]));
    let url = "type.googleapis.com/envoy.service.runtime.v3.Runtime".to_owned();
    assert!(
        stream
            .on_request(
                &DeltaDiscoveryRequest {
                    type_url: url,
                    ..Default::default()
                },
                0
            )
            .is_empty()
    );
}

/// One step of a conversation.
#[derive(Clone, Debug)]
enum Step {
    /// The fleet changes: which cluster each of three hosts routes to, and a port for the endpoints.
    Change([u8; 3], u16),
    /// The client reads a message.
    Read,
    /// The server reads a message.
    Answer,
    /// The client rejects the next response if it holds updates of clusters or routes.
    Refuse,
    /// The connection breaks; the client comes back with what it has.
    Reconnect,
    /// Time passes.
    Wait(u8),
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => ([0..4u8, 0..4u8, 0..4u8], 1..4u16).prop_map(|(hosts, port)| Step::Change(hosts, port)),
        6 => Just(Step::Read),
        6 => Just(Step::Answer),
        1 => Just(Step::Refuse),
        1 => Just(Step::Reconnect),
        1 => any::<u8>().prop_map(Step::Wait),
    ]
}

/// A fleet whose clusters are those that its hosts use.
fn world(hosts: [u8; 3], port: u16) -> Snapshot {
    let clusters: Vec<String> = hosts.iter().map(|cluster| format!("c{cluster}")).collect();
    let routes: Vec<(u8, &str)> = clusters
        .iter()
        .enumerate()
        .map(|(n, name)| (n as u8, name.as_str()))
        .collect();
    let used: BTreeSet<&str> = clusters.iter().map(String::as_str).collect();
    let mut fleet = fleet(&routes, &used.iter().copied().collect::<Vec<_>>());
    fleet.endpoints = Arc::new(used.iter().map(|name| sample::endpoints(name, &[port])).collect());
    Lowering::new().lower(&fleet)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Law: whatever happens in whatever order, a client never holds a route without its cluster (but one it refused),
    /// and ends with the snapshot.
    #[test]
    fn a_client_converges_and_never_misses_a_cluster(steps in prop::collection::vec(steps(), 1..80)) {
        let mut current = world([0, 1, 2], 1);
        let mut stream = Stream::new(current.clone());
        let mut client = Client::default();
        client.connect(&mut stream);
        for step in &steps {
            match step {
                Step::Change(hosts, port) => {
                    current = world(*hosts, *port);
                    let responses = sent(stream.on_snapshot(&current, client.now));
                    client.receive(responses);
                }
                Step::Read => client.read_one(),
                Step::Answer => client.answer_one(&mut stream),
                Step::Refuse => client.refuse_next(),
                Step::Reconnect => {
                    stream = Stream::new(current.clone());
                    client.connect(&mut stream);
                }
                Step::Wait(millis) => client.wait(&mut stream, u64::from(*millis)),
            }
            client.check();
        }
        // What was refused stays refused on its connection; a new one starts over.
        client.accept_all();
        stream = Stream::new(current.clone());
        client.connect(&mut stream);
        client.run(&mut stream);
        prop_assert!(stream.is_settled());
        client.check();
        client.assert_holds(&current);
    }
}
