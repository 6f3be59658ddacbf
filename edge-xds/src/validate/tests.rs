use super::*;
use crate::{
    lower::Lowering,
    sample,
    snapshot::{Body, Entry, ResourceType, Section, Snapshot},
};
use envoy_types::{
    pb::{
        envoy::{
            config::{
                cluster::v3::{Cluster, cluster::ClusterDiscoveryType, cluster::CustomClusterType},
                route::v3::{
                    Route, RouteAction, RouteConfiguration, RouteMatch, VirtualHost, route,
                    route_action::ClusterSpecifier, route_match::PathSpecifier,
                },
            },
            extensions::clusters::dns::v3::DnsCluster,
        },
        google::protobuf::Duration,
    },
    util::pack_any,
};
use prost::{Message, Name};

fn violation<M: Message + Name>(message: &M) -> Option<(String, String)> {
    let codec = Codec::cached().unwrap();
    let outcome = Validator::new(codec).validate(&M::type_url(), &message.encode_to_vec());
    outcome.err().map(|violation| (violation.path, violation.message))
}

fn at(path: &str, message: &str) -> Option<(String, String)> {
    Some((path.to_owned(), message.to_owned()))
}

fn table(domains: &[&str], path: PathSpecifier) -> RouteConfiguration {
    let action = RouteAction {
        cluster_specifier: Some(ClusterSpecifier::Cluster("c".to_owned())),
        ..Default::default()
    };
    let route = Route {
        r#match: Some(RouteMatch {
            path_specifier: Some(path),
            ..Default::default()
        }),
        action: Some(route::Action::Route(action)),
        ..Default::default()
    };
    let host = VirtualHost {
        name: "h".to_owned(),
        domains: domains.iter().map(|domain| (*domain).to_owned()).collect(),
        routes: vec![route],
        ..Default::default()
    };
    RouteConfiguration {
        name: "t".to_owned(),
        virtual_hosts: vec![host],
        ..Default::default()
    }
}

#[test]
fn what_lowering_makes_is_valid() {
    let mut fleet = sample::fleet(
        vec![sample::host("a.example", vec![sample::route("r", "/a", "c")])],
        &["c"],
    );
    fleet.listeners = Arc::new(vec![
        sample::tls_listener(443, "default/gw/http", "default/cert"),
        sample::listener(80, "default/gw/http"),
    ]);
    fleet.secrets = Arc::new(vec![sample::secret("default/cert")]);
    let snapshot = Lowering::new().lower(&fleet);
    let mut validator = Validator::new(Codec::cached().unwrap());
    for kind in ResourceType::ALL {
        for entry in snapshot.section(kind).entries() {
            let outcome = validator.validate(kind.type_url(), &entry.body.contiguous());
            assert_eq!(outcome, Ok(()), "{}", entry.name);
        }
    }
}

#[test]
fn lists_texts_and_patterns_are_checked() {
    let prefix = |text: &str| PathSpecifier::PathSeparatedPrefix(text.to_owned());
    assert_eq!(violation(&table(&["*"], prefix("/a"))), None);
    let found = violation(&table(&[], prefix("/a")));
    assert_eq!(found, at("virtual_hosts[0].domains", "needs at least 1 elements"));
    let (path, message) = violation(&table(&["*"], prefix("/a/"))).unwrap();
    assert_eq!(path, "virtual_hosts[0].routes[0].match.path_separated_prefix");
    assert!(message.starts_with("must match"), "{message}");
}

#[test]
fn a_missing_choice_is_found() {
    let mut config = table(&["*"], PathSpecifier::Prefix("/".to_owned()));
    config.virtual_hosts[0].routes[0].action = None;
    let (path, message) = violation(&config).unwrap();
    assert_eq!(path, "virtual_hosts[0].routes[0].action");
    assert!(message.starts_with("one of route, redirect"), "{message}");
}

#[test]
fn a_missing_message_is_found() {
    let mut config = table(&["*"], PathSpecifier::Prefix("/".to_owned()));
    config.virtual_hosts[0].routes[0].r#match = None;
    assert_eq!(
        violation(&config),
        at("virtual_hosts[0].routes[0].match", "must be set")
    );
}

#[test]
fn durations_and_what_stands_in_an_any_are_checked() {
    let seconds = |seconds| Some(Duration { seconds, nanos: 0 });
    let cluster = |connect, refresh| Cluster {
        name: "c".to_owned(),
        connect_timeout: seconds(connect),
        cluster_discovery_type: Some(ClusterDiscoveryType::ClusterType(CustomClusterType {
            name: "envoy.cluster.dns".to_owned(),
            typed_config: Some(pack_any(DnsCluster {
                dns_refresh_rate: seconds(refresh),
                ..Default::default()
            })),
        })),
        ..Default::default()
    };
    assert_eq!(violation(&cluster(1, 1)), None);
    assert_eq!(violation(&cluster(0, 1)), at("connect_timeout", "must be more than 0s"));
    let (path, _) = violation(&cluster(1, 0)).unwrap();
    assert_eq!(path, "cluster_type.typed_config.dns_refresh_rate");
}

#[test]
fn an_unknown_type_is_found() {
    let mut validator = Validator::new(Codec::cached().unwrap());
    assert!(validator.validate("type.googleapis.com/envoy.nope.v3.X", b"").is_err());
}

/// A snapshot with two hosts, the second one by this prefix, and a cluster of this name.
fn served(prefix: &str, cluster: &str) -> Snapshot {
    let hosts = vec![
        sample::host("a.example", vec![sample::route("a", "/a", "c")]),
        sample::host("b.example", vec![sample::route("b", prefix, "c")]),
    ];
    Lowering::new().lower(&sample::fleet(hosts, &[cluster]))
}

fn domains(snapshot: &Snapshot) -> Vec<String> {
    let table = snapshot.section(ResourceType::Routes).get("default/gw/http").unwrap();
    let table = RouteConfiguration::decode(table.body.contiguous()).unwrap();
    table.virtual_hosts.into_iter().flat_map(|host| host.domains).collect()
}

#[test]
fn a_bad_virtual_host_is_kept_back_alone() {
    let (good, bad) = (served("/b", "c"), served("/b?", "c"));
    let mut validator = Validator::new(Codec::cached().unwrap());
    assert_eq!(validator.admit(&Snapshot::default(), &good), (good.clone(), Vec::new()));
    let (admitted, kept_back) = validator.admit(&good, &bad);
    assert_eq!(domains(&admitted), ["a.example"]);
    assert_eq!(kept_back.len(), 1);
    assert_eq!(
        (kept_back[0].kind, &*kept_back[0].name),
        (ResourceType::Routes, "default/gw/http")
    );
    assert!(
        kept_back[0].violation.path.ends_with("match.path_separated_prefix"),
        "{:?}",
        kept_back[0]
    );
    let (again, kept_back) = validator.admit(&admitted, &bad);
    assert_eq!((domains(&again), kept_back.len()), (vec!["a.example".to_owned()], 1));
    assert_eq!(validator.admit(&again, &good), (good, Vec::new()));
}

#[test]
fn a_bad_resource_keeps_its_last_good_version() {
    let good = served("/b", "c");
    let broken = Entry::new("c", Body::Whole(Cluster::default().encode_to_vec().into()), [].into());
    let section = Section::new(vec![Arc::new(broken)]);
    let next = good.clone().with(ResourceType::Cluster, Arc::new(section));
    let mut validator = Validator::new(Codec::cached().unwrap());
    let (admitted, kept_back) = validator.admit(&good, &next);
    assert_eq!(admitted, good);
    assert_eq!(kept_back[0].violation.to_string(), "name: needs a length of at least 1");
    let (admitted, _) = validator.admit(&Snapshot::default(), &next);
    assert!(admitted.section(ResourceType::Cluster).entries().is_empty());
}
