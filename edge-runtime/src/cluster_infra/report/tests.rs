//! Reports, from objects as the API server shows them.

use super::*;
use crate::state::Address;
use edge_infra::{CONTROLLER, FLEET};
use edge_ir::{PortProtocol, ServicePort};
use serde_json::{Value, json};

fn infra(asked: &[&str]) -> Infra {
    Infra {
        key: "ns/gw".into(),
        name: "edge-ns-gw".into(),
        namespace: "system".into(),
        placement: edge_ir::Placement::Controller,
        owner: None,
        extra_labels: edge_ir::StringMap::default(),
        labels: edge_ir::StringMap::default(),
        annotations: edge_ir::StringMap::default(),
        ports: vec![ServicePort {
            port: 80,
            protocol: PortProtocol::Tcp,
            container_port: 10080,
            name: "http-80".into(),
        }],
        addresses: asked.iter().map(|asked| Arc::from(*asked)).collect(),
        proxy: Arc::default(),
        origins: [].into(),
    }
}

fn object(kind: ObjectKind, namespace: &str, name: &str, content: &Value) -> (ObjectId, Arc<ObservedObject>) {
    let mut object = json!({"metadata": {
        "name": name, "namespace": namespace, "uid": "u", "annotations": {CONTROLLER: "c", FLEET: "ns/gw"},
    }});
    let metadata = content["metadata"].as_object().cloned().unwrap_or_default();
    object["metadata"].as_object_mut().unwrap().extend(metadata);
    for part in ["spec", "status"] {
        object[part] = content[part].clone();
    }
    let object: kube::core::DynamicObject = serde_json::from_value(object).unwrap();
    (ObjectId::of(kind, &object), Arc::new(ObservedObject::new(kind, object)))
}

fn deployment(available: u32) -> (ObjectId, Arc<ObservedObject>) {
    let content = json!({"spec": {"replicas": 2}, "status": {"availableReplicas": available}});
    object(ObjectKind::Deployment, "system", "edge-ns-gw", &content)
}

fn service(content: &Value) -> (ObjectId, Arc<ObservedObject>) {
    object(ObjectKind::Service, "system", "edge-ns-gw", content)
}

fn balanced(ip: &str) -> Value {
    json!({"spec": {"type": "LoadBalancer"}, "status": {"loadBalancer": {"ingress": [{"ip": ip}]}}})
}

fn ip(text: &str) -> Address {
    Address::Ip(text.parse().unwrap())
}

fn unusable_of(report: &Report, asked: &[&str]) -> Option<String> {
    let asked: Vec<Arc<str>> = asked.iter().map(|asked| Arc::from(*asked)).collect();
    report.asked.unusable(&asked)
}

fn refused(text: &str, field: &str) -> Fault {
    Fault::Refused {
        text: text.to_owned(),
        fields: vec![field.to_owned()],
    }
}

#[test]
fn only_the_fleets_own_service_gives_it_addresses() {
    let own = service(&balanced("192.0.2.1"));
    let elsewhere = object(ObjectKind::Service, "other", "edge-ns-gw", &balanced("198.51.100.1"));
    let stranger = object(ObjectKind::Service, "system", "a-stranger", &balanced("198.51.100.2"));
    let view = View::from([deployment(1), own, elsewhere.clone(), stranger.clone()]);
    let told = report(&infra(&[]), &view, &[], None);
    assert_eq!(told.addresses, [ip("192.0.2.1")]);
    assert_eq!((told.availability, told.replicas), (Availability::Available(1), 2));
    let told = report(&infra(&[]), &View::from([elsewhere, stranger]), &[], None);
    assert_eq!((told.addresses, told.availability), (vec![], Availability::Starting));
}

#[test]
fn what_is_on_its_way_out_is_as_good_as_gone() {
    let mut leaving = balanced("192.0.2.1");
    leaving["metadata"] = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
    let told = report(&infra(&[]), &View::from([deployment(1), service(&leaving)]), &[], None);
    assert_eq!(told.addresses, []);
}

#[test]
fn an_api_server_that_fails_takes_nothing_from_a_fleet_that_runs() {
    let failing = Fault::Failing("the API server fails (500)".to_owned());
    let view = View::from([deployment(2), service(&balanced("192.0.2.1"))]);
    let told = report(&infra(&[]), &view, &[], Some(&failing));
    assert_eq!(told.availability, Availability::Available(2));
    let told = report(&infra(&[]), &View::from([deployment(0)]), &[], Some(&failing));
    assert_eq!(
        told.availability,
        Availability::Unavailable("the API server fails (500)".into())
    );
    let told = report(&infra(&[]), &view, &[], Some(&refused("no", "spec.colour")));
    assert_eq!(told.availability, Availability::Failed("no".into()));
}

/// What is asked for, the Service, the addresses that are told, and what is unusable.
type Case<'a> = (&'a [&'a str], Option<&'a Value>, &'a [&'a str], Option<&'a str>);

#[test]
fn addresses_that_are_asked_for_and_not_given_are_unusable() {
    let outside = |external: &[&str]| {
        let mut content = balanced("192.0.2.1");
        content["spec"]["externalIPs"] = json!(external);
        content["spec"]["ipFamilies"] = json!(["IPv4"]);
        content
    };
    let inside = json!({"spec": {"type": "ClusterIP", "clusterIPs": ["10.96.0.7"], "ipFamilies": ["IPv4"]}});
    let cases: [Case<'_>; 9] = [
        (&["172.30.0.9"], Some(&outside(&["172.30.0.9"])), &["172.30.0.9"], None),
        // Somebody else's patch gave it one more.
        (
            &["172.30.0.9"],
            Some(&outside(&["172.30.0.9", "172.30.0.8"])),
            &["172.30.0.9"],
            None,
        ),
        (
            &["172.30.0.9", "lb.example"],
            Some(&outside(&["172.30.0.9"])),
            &["172.30.0.9"],
            Some("lb.example"),
        ),
        // Not of a family that the Service has.
        (
            &["fd00::9"],
            Some(&outside(&["fd00::9"])),
            &["192.0.2.1"],
            Some("fd00::9"),
        ),
        (&["10.96.0.7"], Some(&inside), &["10.96.0.7"], None),
        (&["10.96.0.8"], Some(&inside), &["10.96.0.7"], Some("10.96.0.8")),
        (&["172.30.0.9"], None, &[], Some("172.30.0.9")),
        (
            &["172.30.0.9", "198.51.100.1"],
            Some(&outside(&["172.30.0.9"])),
            &["172.30.0.9"],
            Some("198.51.100.1 (reserved by RFC 6890: nobody can be reached there)"),
        ),
        (&[], None, &[], None),
    ];
    for (asked, content, wanted, unusable) in cases {
        let view: View = std::iter::once(deployment(1)).chain(content.map(service)).collect();
        let told = report(&infra(asked), &view, &[], None);
        assert_eq!(
            unusable_of(&told, asked).as_deref(),
            unusable,
            "{asked:?} of {content:?}"
        );
        let given: Vec<Address> = told.asked.given.values().map(|given| Address::Ip(*given)).collect();
        let wanted: Vec<Address> = wanted.iter().map(|wanted| ip(wanted)).collect();
        let shown = if given.is_empty() { &told.addresses } else { &given };
        assert_eq!(*shown, wanted, "{asked:?} of {content:?}");
    }
}

/// Gateways of a class may share a fleet.
#[test]
fn what_one_gateway_asks_for_is_told_to_no_other() {
    let mut content = balanced("192.0.2.1");
    content["spec"]["externalIPs"] = json!(["172.30.0.9"]);
    let view = View::from([deployment(1), service(&content)]);
    let told = report(&infra(&["172.30.0.9", "127.0.0.1"]), &view, &[], None);
    assert_eq!(told.addresses, [ip("192.0.2.1")]);
    assert_eq!(
        told.asked.given.keys().map(|asked| &**asked).collect::<Vec<_>>(),
        ["172.30.0.9"]
    );
    assert_eq!(unusable_of(&told, &[]), None);
    assert_eq!(unusable_of(&told, &["172.30.0.9"]), None);
    assert_eq!(
        unusable_of(&told, &["127.0.0.1"]).as_deref(),
        Some("127.0.0.1 (reserved by RFC 6890: nobody can be reached there)")
    );
}

#[test]
fn an_address_that_the_api_server_refuses_is_no_fault_of_the_rest() {
    let outside = refused("Service x: not in the range", "spec.clusterIPs[0]");
    let told = report(&infra(&["10.0.0.1"]), &View::from([deployment(1)]), &[], Some(&outside));
    assert_eq!(
        unusable_of(&told, &["10.0.0.1"]).as_deref(),
        Some("10.0.0.1: Service x: not in the range")
    );
    assert_eq!(told.availability, Availability::Available(1));
    let other = refused("Service x: no", "spec.ports");
    let told = report(&infra(&["10.0.0.1"]), &View::from([deployment(1)]), &[], Some(&other));
    assert_eq!(unusable_of(&told, &["10.0.0.1"]), None);
    assert_eq!(told.availability, Availability::Failed("Service x: no".into()));
}

#[test]
fn nodes_are_told_by_the_families_of_the_service() {
    let nodes = ["172.31.0.1", "fd00:172:31::1"].map(|ip| ip.parse().unwrap());
    for (families, wanted) in [
        (json!(["IPv4"]), vec![ip("172.31.0.1")]),
        (json!(["IPv6"]), vec![ip("fd00:172:31::1")]),
        (json!(["IPv4", "IPv6"]), vec![ip("172.31.0.1"), ip("fd00:172:31::1")]),
    ] {
        let content = json!({"spec": {"type": "NodePort", "ipFamilies": families}});
        let told = report(&infra(&[]), &View::from([service(&content)]), &nodes, None);
        assert_eq!(told.addresses, wanted, "{content}");
    }
}

/// Its EdgeProxy can't be used, and couldn't when the controller began.
#[test]
fn what_the_cluster_shows_is_said_of_a_fleet_that_nobody_knows_how_to_make() {
    let home = |placement| Home {
        namespace: "system".into(),
        name: "edge-ns-gw".into(),
        placement,
    };
    let own = service(&balanced("192.0.2.1"));
    let named = object(ObjectKind::Service, "system", "named", &balanced("192.0.2.2"));
    let elsewhere = object(ObjectKind::Service, "other", "edge-ns-gw", &balanced("198.51.100.1"));
    let told = |placement, services: &[&(ObjectId, Arc<ObservedObject>)]| {
        let services = services.iter().map(|service| (*service).clone());
        let view = services.chain([deployment(1)]).collect();
        let told = report_of_unknown(&home(placement), &view, &[])?;
        assert_eq!((told.availability, told.replicas), (Availability::Available(1), 2));
        Some(told.addresses)
    };
    for placement in [Placement::Controller, Placement::Gateway] {
        assert_eq!(
            told(placement, &[&own, &named, &elsewhere]),
            Some(vec![ip("192.0.2.1")])
        );
        assert_eq!(told(placement, &[&elsewhere]), None, "nobody knows where it is reached");
    }
    assert_eq!(told(Placement::Controller, &[&named]), Some(vec![ip("192.0.2.2")]));
    assert_eq!(told(Placement::Gateway, &[&named]), None, "it may be a stranger's");
}
