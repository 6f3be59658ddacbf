use envoy_types::pb::envoy::service::discovery::v3::Resource;
use envoy_types::pb::google::protobuf::Any;

use super::*;

fn names(list: &[&str]) -> BTreeSet<String> {
    list.iter().map(|name| (*name).to_owned()).collect()
}

fn response(kind: Kind, resources: &[(&str, &str)], removed: &[&str]) -> DeltaDiscoveryResponse {
    let resource = |(name, version): &(&str, &str)| Resource {
        name: (*name).to_owned(),
        version: (*version).to_owned(),
        resource: Some(Any {
            type_url: kind.type_url().to_owned(),
            value: vec![1],
        }),
        ..Resource::default()
    };
    DeltaDiscoveryResponse {
        resources: resources.iter().map(resource).collect(),
        type_url: kind.type_url().to_owned(),
        removed_resources: removed.iter().map(|name| (*name).to_owned()).collect(),
        nonce: "7".to_owned(),
        ..DeltaDiscoveryResponse::default()
    }
}

fn client() -> DeltaClient {
    DeltaClient::new(Node {
        id: "n".to_owned(),
        ..Node::default()
    })
}

#[test]
fn the_node_is_sent_once_a_stream() {
    let mut client = client();
    let first = client.start(Kind::Cluster).expect("wildcard");
    assert_eq!(
        (first.node.is_some(), first.resource_names_subscribe),
        (true, vec!["*".to_owned()])
    );
    let features = first.node.map(|node| node.client_features);
    assert_eq!(features, Some(vec![parts::FEATURE.to_owned()]));
    assert!(client.start(Kind::Cluster).is_none());
    assert!(client.start(Kind::Assignment).is_none(), "nothing is wanted yet");
    assert!(client.start(Kind::Listener).expect("wildcard").node.is_none());
    client.reset();
    assert!(client.start(Kind::Cluster).expect("new stream").node.is_some());
}

#[test]
fn good_resources_are_held_and_bad_ones_named() {
    let mut client = client();
    client.start(Kind::Cluster);
    let update = client
        .receive(response(Kind::Cluster, &[("a", "1"), ("b", "1")], &[]))
        .expect("known type");
    let bad = [Rejected {
        name: "b".to_owned(),
        reason: "lb_policy: not supported".to_owned(),
    }];
    let nack = client.answer(&update, &bad);
    assert_eq!(nack.response_nonce, "7");
    assert_eq!(nack.error_detail.expect("nack").message, "b: lb_policy: not supported");
    assert_eq!(
        (client.version(Kind::Cluster, "a"), client.version(Kind::Cluster, "b")),
        (Some("1"), None)
    );
}

#[test]
fn a_rejected_update_keeps_the_version_before() {
    let mut client = client();
    client.start(Kind::Cluster);
    let update = client
        .receive(response(Kind::Cluster, &[("a", "1")], &[]))
        .expect("known type");
    assert!(client.answer(&update, &[]).error_detail.is_none());
    let update = client
        .receive(response(Kind::Cluster, &[("a", "2")], &[]))
        .expect("known type");
    client.answer(
        &update,
        &[Rejected {
            name: "a".to_owned(),
            reason: "bad".to_owned(),
        }],
    );
    client.reset();
    let again = client.start(Kind::Cluster).expect("new stream");
    assert_eq!(again.initial_resource_versions.get("a").map(String::as_str), Some("1"));
}

#[test]
fn a_version_that_is_held_is_not_decoded_again() {
    let mut client = client();
    client.start(Kind::Cluster);
    let update = client
        .receive(response(Kind::Cluster, &[("a", "1")], &[]))
        .expect("known type");
    client.answer(&update, &[]);
    let update = client
        .receive(response(Kind::Cluster, &[("a", "1"), ("b", "1")], &["c"]))
        .expect("known type");
    let added: Vec<&str> = update.added.iter().map(|resource| resource.name.as_str()).collect();
    assert_eq!((added, update.removed), (vec!["b"], vec!["c".to_owned()]));
}

#[test]
fn subscriptions_are_sent_as_differences() {
    let mut client = client();
    let first = client.subscribe(Kind::Assignment, &names(&["a", "b"])).expect("first");
    assert_eq!(first.resource_names_subscribe, ["a", "b"]);
    assert!(client.subscribe(Kind::Assignment, &names(&["a", "b"])).is_none());
    let update = client
        .receive(response(Kind::Assignment, &[("a", "1")], &[]))
        .expect("known type");
    client.answer(&update, &[]);
    let change = client.subscribe(Kind::Assignment, &names(&["b", "c"])).expect("change");
    assert_eq!(
        (change.resource_names_subscribe, change.resource_names_unsubscribe),
        (vec!["c".to_owned()], vec!["a".to_owned()])
    );
    assert_eq!(
        client.version(Kind::Assignment, "a"),
        None,
        "a name that comes back must be sent again"
    );
}

#[test]
fn what_is_sent_while_it_is_not_wanted_is_taken_when_it_is() {
    let mut client = client();
    client.subscribe(Kind::Assignment, &names(&["a", "b"])).expect("first");
    client.subscribe(Kind::Assignment, &names(&["b"])).expect("change");
    // The server hasn't read yet that nobody wants it.
    let crossed = response(Kind::Assignment, &[("a", "1"), ("b", "1")], &["a"]);
    let update = client.receive(crossed.clone()).expect("known type");
    let added: Vec<&str> = update.added.iter().map(|resource| resource.name.as_str()).collect();
    assert_eq!((added, &*update.removed), (vec!["b"], &[][..]));
    assert!(client.answer(&update, &[]).error_detail.is_none());
    client.subscribe(Kind::Assignment, &names(&["a", "b"])).expect("change");
    let update = client.receive(crossed).expect("known type");
    assert_eq!(update.added.len(), 1, "sent again for the new subscription");
    assert_eq!(update.added[0].name, "a");
}

#[test]
fn a_type_that_nobody_asked_for_is_refused() {
    let mut wrong = response(Kind::Cluster, &[], &[]);
    wrong.type_url = "type.googleapis.com/envoy.config.core.v3.Node".to_owned();
    let Err(Unusable::Type(nack)) = client().receive(wrong) else {
        panic!("an unknown type")
    };
    assert!(nack.error_detail.is_some());
}

#[test]
fn a_resource_of_another_type_is_malformed() {
    let mut mixed = response(Kind::Cluster, &[("a", "1")], &[]);
    if let Some(any) = mixed.resources[0].resource.as_mut() {
        any.type_url = Kind::Listener.type_url().to_owned();
    }
    let mut client = client();
    let update = client.receive(mixed).expect("known type");
    assert!(
        client
            .answer(&update, &[])
            .error_detail
            .expect("nack")
            .message
            .starts_with("a: resource: type")
    );
}

#[test]
fn what_differs_is_taken_by_who_holds_the_version_before() {
    let mut client = client();
    client.subscribe(Kind::Routes, &names(&["r"])).expect("first");
    let update = client
        .receive(response(Kind::Routes, &[("r", "1")], &[]))
        .expect("known type");
    client.answer(&update, &[]);
    let told = |base: &str| {
        let mut told = response(Kind::Routes, &[("r", "2")], &[]);
        let parts = RouteTableParts {
            base: base.to_owned(),
            parts: Vec::new(),
        };
        told.resources[0].resource = Some(Any {
            type_url: parts::TYPE_URL.to_owned(),
            value: parts.encode_to_vec(),
        });
        told
    };
    assert_eq!(client.receive(told("0")), Err(Unusable::Base("r".to_owned())));
    let update = client.receive(told("1")).expect("parts");
    assert!(update.added[0].parts.is_some());
    client.answer(&update, &[]);
    assert_eq!(client.version(Kind::Routes, "r"), Some("2"));
}
