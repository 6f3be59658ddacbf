use super::*;
use crate::{lower::Lowering, sample};
use bytes::Bytes;

fn entry(name: &str, text: &str) -> Arc<Entry> {
    Arc::new(Entry::new(
        name,
        Body::Whole(Bytes::copy_from_slice(text.as_bytes())),
        Origins::default(),
    ))
}

fn section(entries: &[&Arc<Entry>]) -> Arc<Section> {
    Arc::new(Section::new(entries.iter().map(|entry| Arc::clone(entry)).collect()))
}

#[test]
fn a_section_is_sorted_and_has_each_name_once() {
    let section = section(&[&entry("b", "1"), &entry("a", "2"), &entry("b", "3")]);
    let names: Vec<&str> = section.entries().iter().map(|entry| &*entry.name).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(section.get("b").unwrap().body.contiguous(), "1");
    assert!(section.get("c").is_none());
}

#[test]
fn a_diff_names_what_changed_and_what_is_gone() {
    let (same, old, new) = (entry("a", "1"), entry("b", "1"), entry("b", "2"));
    let (gone, added) = (entry("c", "1"), entry("d", "1"));
    let before = section(&[&same, &old, &gone]);
    let after = section(&[&same, &new, &added]);
    let found = diff(&before, &after);
    assert_eq!(found.changed, [new, added]);
    assert_eq!(found.removed, [Arc::from("c")]);
    assert!(diff(&after, &after).is_empty());
}

#[test]
fn equal_content_is_no_change() {
    let (before, after) = (section(&[&entry("a", "1")]), section(&[&entry("a", "1")]));
    assert!(diff(&before, &after).is_empty());
}

#[test]
fn a_rope_reads_as_its_pieces_and_its_version_depends_on_each() {
    let rope = |parts: &[&'static str]| {
        let piece = |part: &&'static str| Arc::new(Piece::new(Bytes::from_static(part.as_bytes())));
        Body::rope(parts.iter().map(piece))
    };
    let body = rope(&["ab", "c", "de"]);
    assert_eq!(body.contiguous(), "abcde");
    assert_eq!(body.len(), 5);
    assert_eq!(body.version(), rope(&["ab", "c", "de"]).version());
    assert_ne!(body.version(), rope(&["ab", "x", "de"]).version());
    assert_ne!(body.version(), rope(&["c", "ab", "de"]).version());
}

#[test]
fn type_urls_lead_back_to_kinds() {
    for kind in ResourceType::ALL {
        assert_eq!(ResourceType::from_type_url(kind.type_url()), Some(kind));
    }
    assert_eq!(ResourceType::from_type_url("type.googleapis.com/envoy.nope"), None);
}

/// The objects that a rejection is told to, as text.
fn owners_of(fleet: &edge_ir::Fleet, kind: ResourceType, name: &str) -> Vec<String> {
    let snapshot = Lowering::new().lower(fleet);
    owners(&snapshot, kind, name).iter().map(ToString::to_string).collect()
}

#[test]
fn a_cluster_belongs_to_its_backend_and_to_the_routes_that_use_it() {
    let hosts = vec![
        sample::host("a.example", vec![sample::route("one", "/", "c1")]),
        sample::host("b.example", vec![sample::route("two", "/", "c2")]),
    ];
    let fleet = sample::fleet(hosts, &["c1", "c2"]);
    let owners = |kind, name| owners_of(&fleet, kind, name);
    let wanted = ["HTTPRoute/default/one", "Service/default/c1"];
    assert_eq!(owners(ResourceType::Cluster, "c1"), wanted);
    assert_eq!(owners(ResourceType::Endpoints, "c1"), wanted);
    assert_eq!(owners(ResourceType::Routes, "default/gw/http"), ["Gateway/default/gw"]);
    assert!(owners(ResourceType::Cluster, "c3").is_empty());
}

#[test]
fn a_certificate_belongs_to_the_listeners_that_show_it() {
    let mut fleet = sample::fleet(Vec::new(), &[]);
    fleet.listeners = Arc::new(vec![sample::tls_listener(443, "default/gw/http", "default/cert")]);
    fleet.secrets = Arc::new(vec![sample::secret("default/cert")]);
    assert_eq!(
        owners_of(&fleet, ResourceType::Secret, "default/cert"),
        ["Gateway/default/gw", "Secret/default/default/cert"]
    );
}

#[test]
fn a_server_of_secrets_belongs_to_those_who_name_it() {
    let mut fleet = sample::fleet(Vec::new(), &["sds"]);
    let mut listener = edge_ir::Listener::clone(&sample::tls_listener(443, "default/gw/http", "default/cert"));
    let tls = listener.chains[0].tls.as_mut().unwrap();
    tls.certificates = vec![edge_ir::SecretSource::Server {
        server: "sds".into(),
        secret: "www".into(),
    }];
    fleet.listeners = Arc::new(vec![Arc::new(listener)]);
    assert_eq!(
        owners_of(&fleet, ResourceType::Cluster, "sds"),
        ["Gateway/default/gw", "Service/default/sds"]
    );
}
