use super::*;
use crate::{
    lower::Lowering,
    sample,
    snapshot::{Entry, Section},
};
use edge_ir::Fleet;
use envoy_types::pb::google::rpc::Status;

mod bridges;
mod client;
mod laws;
mod stand_ins;
mod tables;

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

fn rejected(actions: Vec<Action>) -> Vec<Rejection> {
    let rejected = actions.into_iter().filter_map(|action| match action {
        Action::Rejected(rejection) => Some(rejection),
        _ => None,
    });
    rejected.collect()
}

fn names(response: &Response) -> Vec<&str> {
    response.resources.iter().map(|entry| &*entry.name).collect()
}

#[test]
fn a_new_proxy_gets_clusters_then_endpoints_then_listeners_then_routes() {
    let mut stream = Stream::new(snapshot(&[(1, "c1")], &["c1"]), Quarantine::default());
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
    let mut stream = Stream::new(Snapshot::default(), Quarantine::default());
    let clusters = only(stream.on_request(&request(ResourceType::Cluster), 0));
    assert!(clusters.resources.is_empty() && clusters.removed.is_empty());
    assert!(sent(stream.on_request(&ack(&clusters), 0)).is_empty());
}

#[test]
fn waiting_for_endpoints_that_nobody_asks_for_ends() {
    let mut stream = Stream::new(snapshot(&[(1, "c1")], &["c1"]), Quarantine::default());
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
    let mut stream = Stream::new(snapshot, Quarantine::default());
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
    let actions = stream.on_snapshot(&Lowering::new().lower(&changed), client.now);
    let responses = sent(actions.clone());
    let kinds: Vec<ResourceType> = responses.iter().map(|response| response.kind).collect();
    assert_eq!(kinds, [ResourceType::Cluster, ResourceType::Endpoints]);
    client.receive(actions);
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
    let mut stream = Stream::new(snapshot.clone(), Quarantine::default());
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
    let mut stream = Stream::new(snapshot(&[], &[]), Quarantine::default());
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
    let mut stream = Stream::new(snapshot(&[], &[]), Quarantine::default());
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
    let mut stream = Stream::new(snapshot(&[(1, "c1")], &["c1"]), Quarantine::default());
    let clusters = only(stream.on_request(&request(ResourceType::Cluster), 0));
    let stale = DeltaDiscoveryRequest {
        response_nonce: "999".to_owned(),
        ..request(ResourceType::Cluster)
    };
    assert!(stream.on_request(&stale, 0).is_empty());
    assert!(matches!(
        stream.on_request(&ack(&clusters), 0).as_slice(),
        [Action::Acknowledged(_)]
    ));
}

#[test]
fn a_refused_response_is_sent_again_without_the_culprit() {
    let (mut stream, client) = settled(snapshot(&[(1, "c1")], &["c1"]));
    let next = snapshot(&[(1, "c3")], &["c1", "c2", "c3"]);
    let clusters = only(stream.on_snapshot(&next, client.now));
    assert_eq!(names(&clusters), ["c2", "c3"]);
    let actions = stream.on_request(&nack(&clusters, "error adding cluster c3: no"), client.now);
    assert!(matches!(actions[0], Action::Refused { .. }), "{actions:?}");
    let others = only(actions);
    assert_eq!(names(&others), ["c2"]);
    let culprit = only(stream.on_request(&ack(&others), client.now));
    assert_eq!(names(&culprit), ["c3"]);
    let rejection = rejected(stream.on_request(&nack(&culprit, "no"), client.now))
        .pop()
        .unwrap();
    assert_eq!(&*rejection.name, "c3");
    let owners: Vec<String> = rejection.origins.iter().map(ToString::to_string).collect();
    assert_eq!(owners, ["HTTPRoute/default/r1", "Service/default/c3"]);
    assert!(
        sent(stream.on_snapshot(&next, client.now)).is_empty(),
        "it is not repeated"
    );
}

#[test]
fn a_rejection_is_resolved_by_taking_the_edit_back() {
    let good = fleet(&[(1, "c1")], &["c1"]);
    let (mut stream, client) = settled(Lowering::new().lower(&good));
    let mut bad = good.clone();
    let cluster = edge_ir::Cluster {
        protocol: edge_ir::AppProtocol::Http2,
        ..(*bad.clusters[0]).clone()
    };
    bad.clusters = Arc::new(vec![Arc::new(cluster)]);
    let responses = sent(stream.on_snapshot(&Lowering::new().lower(&bad), client.now));
    assert_eq!(
        rejected(stream.on_request(&nack(&responses[0], "no"), client.now)).len(),
        1
    );
    let actions = stream.on_snapshot(&Lowering::new().lower(&good), client.now);
    let resolved = actions
        .iter()
        .any(|action| matches!(action, Action::Resolved { name, .. } if &**name == "c1"));
    assert!(resolved, "{actions:?}");
    assert!(
        actions
            .iter()
            .all(|action| !matches!(action, Action::Send(response) if response.kind == ResourceType::Cluster))
    );
}

#[test]
fn a_rejection_is_resolved_by_removal() {
    let (mut stream, client) = settled(snapshot(&[], &["c1"]));
    let clusters = only(stream.on_snapshot(&snapshot(&[], &["c1", "c2"]), client.now));
    stream.on_request(&nack(&clusters, "no"), client.now);
    let actions = stream.on_snapshot(&snapshot(&[], &["c1"]), client.now);
    assert!(
        matches!(actions.as_slice(), [Action::Resolved { name, .. }] if &**name == "c2"),
        "{actions:?}"
    );
}

/// edge-proxy does so when the port of a listener that it rejected has become free.
#[test]
fn a_rejected_resource_is_sent_again_to_who_wants_everything_and_names_it() {
    let (mut stream, client) = settled(snapshot(&[(1, "c1")], &["c1"]));
    let clusters = only(stream.on_snapshot(&snapshot(&[(1, "c1")], &["c1", "c2"]), client.now));
    assert_eq!(names(&clusters), ["c2"]);
    assert!(sent(stream.on_request(&nack(&clusters, "c2: address: in use"), client.now)).is_empty());
    let again = only(stream.on_request(&subscribe(ResourceType::Cluster, &["c2"]), client.now));
    assert_eq!(names(&again), ["c2"]);
    assert!(matches!(
        stream.on_request(&ack(&again), client.now).as_slice(),
        [Action::Acknowledged(_), Action::Resolved { .. }]
    ));
}

#[test]
fn a_rejected_table_keeps_the_clusters_that_its_last_good_version_uses() {
    let (mut stream, client) = settled(snapshot(&[(1, "c1")], &["c1"]));
    let clusters = only(stream.on_snapshot(&snapshot(&[(1, "c2")], &["c2"]), client.now));
    stream.on_request(&ack(&clusters), client.now);
    let endpoints = only(stream.on_request(&subscribe(ResourceType::Endpoints, &["c2"]), client.now));
    let routes = only(stream.on_request(&ack(&endpoints), client.now));
    assert_eq!(routes.kind, ResourceType::Routes);
    let mut tried = routes;
    while let Some(next) = sent(stream.on_request(&nack(&tried, "no"), client.now)).pop() {
        assert!(next.removed.is_empty(), "c1 is still in use");
        tried = next;
    }
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
fn a_large_answer_comes_in_parts() {
    let entry = |n: u32| {
        let body = crate::snapshot::Body::Whole(vec![1; 700 << 10].into());
        Arc::new(Entry::new(format!("c{n}"), body, [].into()))
    };
    let section = Section::new((0..6).map(entry).collect());
    let mut stream = Stream::new(
        Snapshot::default().with(ResourceType::Cluster, Arc::new(section)),
        Quarantine::default(),
    );
    let mut parts = vec![only(stream.on_request(&request(ResourceType::Cluster), 0))];
    while let Some(next) = sent(stream.on_request(&ack(&parts[parts.len() - 1]), 0)).pop() {
        parts.push(next);
    }
    let sizes: Vec<usize> = parts.iter().map(|part| part.resources.len()).collect();
    assert_eq!(sizes, [2, 2, 2]);
    assert!(
        parts
            .iter()
            .all(|part| prost::Message::encoded_len(&part.to_message()) < 2 << 20)
    );
}

#[test]
fn unsubscribing_from_everything_stops_updates() {
    let mut stream = Stream::new(snapshot(&[], &["c1"]), Quarantine::default());
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
    let mut stream = Stream::new(snapshot(&[], &[]), Quarantine::default());
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
