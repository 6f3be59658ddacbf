//! What a policy lends to one that merges into it: its credentials go where it says, and nowhere else.
//!
//! The more specific policy may say otherwise where logins are, or who decides. What Secrets of the other hold is sent
//! there only if the namespace of the more specific one might name them itself (GEP-709): by merging, nobody learns
//! what they may not read.

use crate::{
    api::Kind,
    engine::reader::Reader,
    phase::{
        policies::{traffic::Problems, written::HOME},
        reference::{Referent, Referrer, is_permitted},
    },
};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// A part of a policy that sends what it refers to.
struct Sender {
    /// What messages call it.
    area: &'static str,
    field: &'static str,
    /// Members that say to whom.
    peers: &'static [&'static str],
    /// What says so, in each of these.
    address: &'static [&'static str],
}

const BACKENDS: [&str; 2] = ["backendRef", "backendRefs"];

const SENDERS: [Sender; 2] = [
    Sender {
        area: super::oidc::AREA,
        field: "oidc",
        peers: &["provider"],
        address: &[
            BACKENDS[0],
            BACKENDS[1],
            "authorizationEndpoint",
            "endSessionEndpoint",
            "issuer",
            "tokenEndpoint",
        ],
    },
    Sender {
        area: super::ext_auth::AREA,
        field: "extAuth",
        peers: &["grpc", "http"],
        address: &BACKENDS,
    },
];

/// Says what of a parent's would go where only a policy of another namespace wants it.
pub(super) fn check(
    reader: &Reader<'_>,
    namespace: &str,
    parent: &Map<String, Value>,
    both: &Map<String, Value>,
    problems: &mut Problems,
) {
    let from = Referrer::of(Kind::SecurityPolicy, namespace);
    for sender in &SENDERS {
        let (Some(before), Some(now)) = (parent.get(sender.field), both.get(sender.field)) else {
            continue;
        };
        if sender.addresses(before).eq(sender.addresses(now)) {
            continue;
        }
        let lent = sender.sent(now).into_iter().filter(|lent| lent[HOME] != *namespace);
        let refused = lent.filter_map(referent).filter(|to| !is_permitted(reader, from, *to));
        let refused: BTreeSet<String> = refused
            .map(|to| format!("{} {}/{}", to.kind, to.namespace, to.name))
            .collect();
        for what in refused {
            problems.add(
                sender.area,
                format_args!(
                    "{what}, which the parent's policy names, would be sent where this policy says: not permitted by \
                     any ReferenceGrant"
                ),
            );
        }
    }
}

/// What a reference leads to, as it was written; none where that can't be read, and the policy is invalid for it.
fn referent(reference: &Value) -> Option<Referent<'_>> {
    Some(Referent {
        group: reference["group"].as_str().unwrap_or_default(),
        kind: reference["kind"].as_str().unwrap_or("Secret"),
        namespace: reference["namespace"].as_str().or(reference[HOME].as_str())?,
        name: reference["name"].as_str()?,
    })
}

impl Sender {
    fn addresses<'a>(&'a self, part: &'a Value) -> impl Iterator<Item = Option<&'a Value>> {
        let peers = self.peers.iter().map(|peer| &part[*peer]);
        peers.flat_map(|peer| {
            self.address
                .iter()
                .map(|member| peer.get(member).filter(|value| !value.is_null()))
        })
    }

    /// References, but those to whom it is sent.
    fn sent<'a>(&self, part: &'a Value) -> Vec<&'a Value> {
        let mut found = Vec::new();
        let members = part.as_object().into_iter().flatten();
        let members = members.filter(|(name, _)| !self.peers.contains(&name.as_str()));
        members.for_each(|(_, value)| references(value, &mut found));
        found
    }
}

fn references<'a>(value: &'a Value, found: &mut Vec<&'a Value>) {
    match value {
        Value::Object(fields) => {
            if fields.contains_key(HOME) {
                found.push(value);
            }
            fields.values().for_each(|value| references(value, found));
        }
        Value::Array(list) => list.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        load::{Limits, Source, tree::trees},
        phase::policies::written::REFERENCES,
    };

    const DEFINITION: &str = include_str!("../../../../../charts/gateway-crds-helm/templates/securitypolicies.yaml");

    /// The paths of all references in a part of a schema.
    fn paths(schema: &Value, path: &str, found: &mut Vec<String>) {
        let members = schema["properties"].as_object();
        if members.is_some_and(|members| members.contains_key("name") && members.contains_key("namespace")) {
            found.push(path.to_owned());
        }
        for (name, member) in members.into_iter().flatten() {
            paths(member, &format!("{path}.{name}"), found);
        }
        for below in ["items", "additionalProperties"].map(|below| &schema[below]) {
            if below.is_object() {
                paths(below, path, found);
            }
        }
    }

    #[test]
    fn every_reference_is_known_as_what_is_sent_or_as_whom_it_is_sent_to() {
        let name = "securitypolicies.yaml";
        let source = Source { name, text: DEFINITION };
        let (trees, _) = trees(&source, &Limits::default());
        let definition = trees[0].value();
        let spec = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
        for sender in &SENDERS {
            let mut found = Vec::new();
            paths(&spec["properties"][sender.field], sender.field, &mut found);
            assert!(found.len() > 2, "{}: {found:?}", sender.field);
            for path in found {
                let steps: Vec<&str> = path.split('.').collect();
                let (member, last) = (steps[1], steps[steps.len() - 1]);
                assert!(REFERENCES.contains(&last), "nobody notes where {path} was written");
                let is_address = sender.address.contains(&last);
                assert_eq!(
                    is_address,
                    sender.peers.contains(&member),
                    "{path}: is it sent, or sent to?"
                );
            }
        }
    }
}
