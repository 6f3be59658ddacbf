//! The client side of delta xDS, one state machine for a stream and all that follow it.
//!
//! Which names are subscribed, which versions are held, and what to send. No sockets, no clock: the shell hands
//! responses in and sends what comes out. See "Incremental xDS" in Envoy's xDS protocol description. Our controller may
//! tell a route table by what differs from the version that is held ([`edge_xds::parts`]).

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use edge_xds::parts::{self, RouteTableParts};
use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DeltaDiscoveryResponse};
use envoy_types::pb::google::protobuf::Any;
use envoy_types::pb::google::rpc::Status;
use prost::Message;

use crate::xds::{Kind, Rejected};

#[cfg(test)]
mod tests;

/// gRPC's INVALID_ARGUMENT, the code of a NACK.
const INVALID_ARGUMENT: i32 = 3;

/// What the client knows and wants.
#[derive(Debug)]
pub struct DeltaClient {
    node: Node,
    node_sent: bool,
    types: BTreeMap<Kind, TypeState>,
}

#[derive(Debug, Default)]
struct TypeState {
    wildcard: bool,
    /// Whether this stream has a request of the type; until then nothing is sent for it.
    started: bool,
    names: BTreeSet<String>,
    versions: BTreeMap<String, String>,
}

/// A resource of a response, not yet decoded.
#[derive(Clone, Debug, PartialEq)]
pub struct Incoming {
    /// Its name.
    pub name: String,
    /// The server's version.
    pub version: String,
    /// The encoded message.
    pub body: Bytes,
    /// Instead of that, what differs from the version that is held.
    pub parts: Option<RouteTableParts>,
}

/// A response that can't be taken.
#[derive(Clone, Debug, PartialEq)]
pub enum Unusable {
    /// Nobody asked for its type; this is the NACK to send.
    Type(Box<DeltaDiscoveryRequest>),
    /// It tells what differs from something that isn't held. The next stream begins with what is.
    Base(String),
}

/// What a response changes.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    /// The type.
    pub kind: Kind,
    /// New and changed resources that are wanted; those whose version is held already are left out.
    pub added: Vec<Incoming>,
    /// Wanted resources that no longer exist (or never did).
    pub removed: Vec<String>,
    /// Resources that could not even be unpacked.
    pub malformed: Vec<Rejected>,
    nonce: String,
}

impl DeltaClient {
    /// A client that wants every listener and cluster, and whatever else is subscribed later.
    pub fn new(mut node: Node) -> Self {
        // Not in the bootstrap's node, which people copy for proxies of another kind.
        node.client_features.push(parts::FEATURE.to_owned());
        let mut types: BTreeMap<Kind, TypeState> =
            Kind::ALL.into_iter().map(|kind| (kind, TypeState::default())).collect();
        for kind in [Kind::Cluster, Kind::Listener] {
            types.entry(kind).or_default().wildcard = true;
        }
        Self {
            node,
            node_sent: false,
            types,
        }
    }

    /// A new stream has begun: nothing is started on it.
    pub fn reset(&mut self) {
        self.node_sent = false;
        for state in self.types.values_mut() {
            state.started = false;
        }
    }

    /// The first request of a type on this stream, with everything held from before; `None` when it was made already
    /// or there is nothing to ask for.
    pub fn start(&mut self, kind: Kind) -> Option<DeltaDiscoveryRequest> {
        let state = self.types.entry(kind).or_default();
        if state.started || (!state.wildcard && state.names.is_empty()) {
            return None;
        }
        state.started = true;
        let mut subscribe: Vec<String> = state.names.iter().cloned().collect();
        if state.wildcard {
            subscribe.insert(0, "*".to_owned());
        }
        let initial_resource_versions = state.versions.clone().into_iter().collect();
        let node = self.first_node();
        Some(DeltaDiscoveryRequest {
            node,
            type_url: kind.type_url().to_owned(),
            resource_names_subscribe: subscribe,
            initial_resource_versions,
            ..DeltaDiscoveryRequest::default()
        })
    }

    /// Sets the names wanted of a type; returns the request that says what changed, if the stream must know now.
    /// Versions of names that are no longer wanted are forgotten.
    pub fn subscribe(&mut self, kind: Kind, wanted: &BTreeSet<String>) -> Option<DeltaDiscoveryRequest> {
        let state = self.types.entry(kind).or_default();
        if state.names == *wanted {
            return None;
        }
        let new: Vec<String> = wanted.difference(&state.names).cloned().collect();
        let gone: Vec<String> = state.names.difference(wanted).cloned().collect();
        for name in &gone {
            state.versions.remove(name);
        }
        state.names.clone_from(wanted);
        if !state.started {
            return self.start(kind);
        }
        Some(DeltaDiscoveryRequest {
            type_url: kind.type_url().to_owned(),
            resource_names_subscribe: new,
            resource_names_unsubscribe: gone,
            ..DeltaDiscoveryRequest::default()
        })
    }

    /// Asks once more for resources that were rejected and could be taken now; `None` when the stream hasn't begun with
    /// the type, as its first request will say what is missing.
    pub fn ask_again(&self, kind: Kind, names: BTreeSet<String>) -> Option<DeltaDiscoveryRequest> {
        let started = self.types.get(&kind).is_some_and(|state| state.started);
        (started && !names.is_empty()).then(|| DeltaDiscoveryRequest {
            type_url: kind.type_url().to_owned(),
            resource_names_subscribe: names.into_iter().collect(),
            ..DeltaDiscoveryRequest::default()
        })
    }

    /// Takes a response apart.
    ///
    /// What isn't wanted (any more) is left out: a server may send it again before it has read that it is unsubscribed,
    /// and it would be dropped here, while its version stood for something that is held.
    pub fn receive(&self, response: DeltaDiscoveryResponse) -> Result<Update, Unusable> {
        let Some(kind) = Kind::of_url(&response.type_url) else {
            return Err(Unusable::Type(Box::new(refuse_type(&response))));
        };
        let state = self.types.get(&kind);
        let wants = |name: &String| state.is_some_and(|state| state.wildcard || state.names.contains(name));
        let mut update = Update {
            kind,
            added: Vec::new(),
            removed: response.removed_resources.into_iter().filter(wants).collect(),
            malformed: Vec::new(),
            nonce: response.nonce,
        };
        for resource in response.resources.into_iter().filter(|resource| wants(&resource.name)) {
            if state.is_some_and(|state| state.versions.get(&resource.name) == Some(&resource.version))
                && !resource.version.is_empty()
            {
                continue;
            }
            match resource.resource {
                Some(any) if any.type_url == response.type_url => update.added.push(Incoming {
                    name: resource.name,
                    version: resource.version,
                    body: any.value.into(),
                    parts: None,
                }),
                Some(any) if kind == Kind::Routes && any.type_url == parts::TYPE_URL => {
                    let parts = state.and_then(|state| state.parts(&resource.name, any));
                    let parts = parts.ok_or_else(|| Unusable::Base(resource.name.clone()))?;
                    update.added.push(Incoming {
                        name: resource.name,
                        version: resource.version,
                        body: Bytes::new(),
                        parts: Some(parts),
                    });
                }
                Some(any) => update.malformed.push(Rejected {
                    name: resource.name,
                    reason: format!(
                        "resource: type {:?} in a response of {:?}",
                        any.type_url, response.type_url
                    ),
                }),
                None => update.malformed.push(Rejected {
                    name: resource.name,
                    reason: "resource: is required".to_owned(),
                }),
            }
        }
        Ok(update)
    }

    /// The answer to a response after it was applied: an ACK, or a NACK that names every bad resource. Good resources
    /// of a partly bad response are held; the bad ones keep the version they had.
    pub fn answer(&mut self, update: &Update, rejected: &[Rejected]) -> DeltaDiscoveryRequest {
        let state = self.types.entry(update.kind).or_default();
        for resource in &update.added {
            if !rejected.iter().any(|bad| bad.name == resource.name) {
                state.versions.insert(resource.name.clone(), resource.version.clone());
            }
        }
        for name in &update.removed {
            state.versions.remove(name);
        }
        let reasons: Vec<String> = update
            .malformed
            .iter()
            .chain(rejected)
            .flat_map(Rejected::lines)
            .collect();
        let error_detail = (!reasons.is_empty()).then(|| Status {
            code: INVALID_ARGUMENT,
            message: reasons.join("\n"),
            ..Status::default()
        });
        DeltaDiscoveryRequest {
            type_url: update.kind.type_url().to_owned(),
            response_nonce: update.nonce.clone(),
            error_detail,
            ..DeltaDiscoveryRequest::default()
        }
    }

    /// The version held of a resource.
    pub fn version(&self, kind: Kind, name: &str) -> Option<&str> {
        self.types.get(&kind)?.versions.get(name).map(String::as_str)
    }

    fn first_node(&mut self) -> Option<Node> {
        if std::mem::replace(&mut self.node_sent, true) {
            None
        } else {
            Some(self.node.clone())
        }
    }
}

impl TypeState {
    /// What differs from what is held; nothing if it is about anything else.
    fn parts(&self, name: &str, any: Any) -> Option<RouteTableParts> {
        let parts = RouteTableParts::decode(Bytes::from(any.value)).ok()?;
        (self.versions.get(name) == Some(&parts.base)).then_some(parts)
    }
}

fn refuse_type(response: &DeltaDiscoveryResponse) -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest {
        type_url: response.type_url.clone(),
        response_nonce: response.nonce.clone(),
        error_detail: Some(Status {
            code: INVALID_ARGUMENT,
            message: format!("type {:?} was not subscribed", response.type_url),
            ..Status::default()
        }),
        ..DeltaDiscoveryRequest::default()
    }
}
