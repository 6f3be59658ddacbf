//! What arrives over xDS on either side: JSON of messages, requests of a proxy, resources of a controller.

use bolero::check;
use edge_xds::{
    bootstrap::{BootstrapSettings, default_bootstrap},
    delta::{Action, Stream},
    json::{Names, from_json, to_json},
    quarantine::Quarantine,
    snapshot::{ResourceType, Snapshot},
};
use envoy_types::pb::{
    envoy::{config::bootstrap::v3::Bootstrap, service::discovery::v3::DeltaDiscoveryRequest},
    google::rpc::Status,
};
use fuzz::{Edit, Edited, snapshot};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// JSON that is a message stays that message when it is written and read again.
#[test]
fn json_of_messages() {
    let seed = serde_json::to_string(&default_bootstrap(&BootstrapSettings::default())).unwrap();
    check!()
        .with_iterations(500)
        .with_type::<Vec<Edit>>()
        .for_each(|edits| {
            let Edited(text) = Edited::new(&[&seed], 0, edits);
            let Ok(value) = serde_json::from_str::<Value>(&text) else {
                return;
            };
            let Ok(message) = from_json::<Bootstrap>(value) else {
                return;
            };
            let written = to_json(&message, Names::Proto).unwrap_or_else(|error| panic!("{error}: {text}"));
            assert_eq!(from_json::<Bootstrap>(written).ok(), Some(message), "{text}");
        });
}

/// One thing that a proxy may do: a kind, what it subscribes to or not, which nonce it answers, and how.
type Step = (u8, u8, u8, u8, u16);

const NAMES: &[&str] = &[
    "*",
    "",
    "service/default/s/80",
    "backend/default/b",
    "tcp-80",
    "default/g/http",
    "default/cert",
    "x",
];

/// Whatever a proxy asks, in whatever order: one response of a kind is out at a time, each has its own nonce, it holds
/// what the fleet has, and only what was asked for.
#[test]
fn delta_requests() {
    let (full, empty) = (snapshot(), Snapshot::default());
    check!()
        .with_iterations(2000)
        .with_type::<Vec<Step>>()
        .for_each(|steps| {
            let mut stream = Stream::new(full.clone(), Quarantine::default());
            let mut current = &full;
            let mut outstanding: BTreeMap<ResourceType, String> = BTreeMap::new();
            let mut nonces = BTreeSet::new();
            let mut now = 0;
            for (kind, what, names, answer, time) in steps {
                now += u64::from(*time);
                let actions = match what % 8 {
                    0 => {
                        current = if std::ptr::eq(current, &full) { &empty } else { &full };
                        stream.on_snapshot(current, now)
                    }
                    1 => stream.on_deadline(now),
                    _ => {
                        let request = request(*kind, *what, *names, *answer, &outstanding);
                        let kind = ResourceType::from_type_url(&request.type_url);
                        if let Some(kind) = kind
                            && outstanding.get(&kind) == Some(&request.response_nonce)
                        {
                            outstanding.remove(&kind);
                        }
                        stream.on_request(&request, now)
                    }
                };
                for action in actions {
                    let Action::Send(response) = action else { continue };
                    assert!(nonces.insert(response.nonce.clone()), "nonce {} again", response.nonce);
                    let before = outstanding.insert(response.kind, response.nonce.clone());
                    assert_eq!(
                        before, None,
                        "a second {:?} response before the first was answered",
                        response.kind
                    );
                    let section = current.section(response.kind);
                    for entry in &response.resources {
                        let held = section.get(&entry.name);
                        // Of a table that was refused, parts are tried.
                        let in_parts = response.kind == ResourceType::Routes;
                        assert!(
                            held.is_some_and(|held| in_parts || held.version == entry.version),
                            "{} isn't there",
                            entry.name
                        );
                    }
                    for name in &response.removed {
                        assert!(section.get(name).is_none(), "{name} is there");
                    }
                }
                assert!(stream.deadline().is_none_or(|deadline| deadline > 0));
            }
        });
}

fn request(
    kind: u8,
    what: u8,
    names: u8,
    answer: u8,
    outstanding: &BTreeMap<ResourceType, String>,
) -> DeltaDiscoveryRequest {
    let kind = ResourceType::ALL.get(usize::from(kind) % 6).copied();
    let chosen = |bits: u8| -> Vec<String> {
        let chosen = NAMES.iter().enumerate().filter(|(i, _)| bits & (1 << i) != 0);
        chosen.map(|(_, name)| (*name).to_owned()).collect()
    };
    let nonce = kind
        .and_then(|kind| outstanding.get(&kind))
        .cloned()
        .unwrap_or_default();
    DeltaDiscoveryRequest {
        type_url: kind.map_or("example.com/unheard", ResourceType::type_url).to_owned(),
        resource_names_subscribe: if what & 8 != 0 { chosen(names) } else { Vec::new() },
        resource_names_unsubscribe: if what & 16 != 0 {
            chosen(names.rotate_left(3))
        } else {
            Vec::new()
        },
        initial_resource_versions: match what & 32 {
            0 => Default::default(),
            _ => chosen(names)
                .into_iter()
                .map(|name| (name, "0123456789abcdef".to_owned()))
                .collect(),
        },
        response_nonce: match answer % 4 {
            0 => String::new(),
            1 => "never sent".to_owned(),
            _ => nonce,
        },
        error_detail: (answer & 8 != 0).then(|| Status {
            code: 3,
            message: chosen(names).join(" was refused, "),
            details: Vec::new(),
        }),
        ..Default::default()
    }
}
