//! What the proxy is given by a controller that may be wrong or hostile: no bytes make it fall.

use bolero::check;
use edge_proxy::{
    authority::Authority,
    bootstrap::{self, Sources},
    compile::{
        At, Context, Files,
        cluster::cluster,
        endpoint::{EndpointInput, endpoints},
        listener::listener,
        prefixed_headers, route_table,
        secret::secret,
    },
    xds::{
        Kind,
        assembly::{Assembly, Origin},
        delta::{DeltaClient, Incoming},
    },
};
use edge_xds::{
    bootstrap::{BootstrapSettings, default_bootstrap},
    snapshot::ResourceType,
};
use envoy_types::pb::envoy::{
    config::{
        cluster::v3::Cluster, core::v3::Node, endpoint::v3::ClusterLoadAssignment, listener::v3::Listener,
        route::v3::RouteConfiguration,
    },
    extensions::transport_sockets::tls::v3::Secret,
    service::discovery::v3::DeltaDiscoveryResponse,
};
use fuzz::{Edit, Edited, edited_bytes, snapshot};
use prost::Message;
use std::{io, path::Path, sync::Arc};

/// A machine without files.
#[derive(Debug)]
struct NoFiles;

impl Files for NoFiles {
    fn read(&self, _: &Path) -> io::Result<Vec<u8>> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn variable(&self, _: &str) -> Option<String> {
        None
    }
}

/// Compiles the bytes as a resource of a kind, as far as they are one.
fn compile(context: &mut Context, kind: ResourceType, bytes: &[u8]) -> bool {
    match kind {
        ResourceType::Cluster => Cluster::decode(bytes)
            .ok()
            .and_then(|message| cluster(context, &message).ok())
            .is_some_and(|spec| spec.finish(&Default::default()).is_ok()),
        ResourceType::Endpoints => ClusterLoadAssignment::decode(bytes).is_ok_and(|assignment| {
            let name = Arc::from("c");
            let input = EndpointInput {
                cluster: &name,
                assignment: &assignment,
                resolved: None,
                previous: None,
                lb_settings: &Default::default(),
                sockets: &[],
                checks: Default::default(),
            };
            endpoints(context, &At::root(), &input).is_ok()
        }),
        ResourceType::Secret => Secret::decode(bytes).is_ok_and(|message| secret(&NoFiles, &message).is_ok()),
        ResourceType::Listener => Listener::decode(bytes)
            .ok()
            .and_then(|message| listener(context, &message).ok())
            .is_some_and(|spec| spec.finish(&Default::default(), None).is_ok() || spec.secrets().next().is_some()),
        ResourceType::Routes => RouteConfiguration::decode(bytes)
            .is_ok_and(|message| route_table::inline(context, &At::root(), &message).is_ok()),
    }
}

pub(crate) fn context() -> Context {
    Context::new(Box::new(NoFiles), prefixed_headers("").unwrap(), 1)
}

/// What our own controller sends: kind, name and message.
pub(crate) fn resources_of_fleet() -> Vec<(ResourceType, String, Vec<u8>)> {
    let snapshot = snapshot();
    let kinds = ResourceType::ALL.into_iter();
    kinds
        .flat_map(|kind| {
            let entries = snapshot.section(kind).entries().iter();
            entries
                .map(move |e| (kind, e.name.to_string(), e.body.contiguous().to_vec()))
                .collect::<Vec<_>>()
        })
        .collect()
}

/// What our own controller sends is taken, or the next target would try nothing but refusals.
#[test]
fn good_resources_are_taken() {
    let mut context = context();
    let refused: Vec<_> = resources_of_fleet()
        .into_iter()
        .filter(|(kind, _, bytes)| !compile(&mut context, *kind, bytes))
        .map(|(kind, name, _)| (kind, name))
        .collect();
    assert_eq!(refused, []);
}

/// Almost good resources: a message or a rejection.
#[test]
fn compiling_edited_resources() {
    let resources = resources_of_fleet();
    check!()
        .with_iterations(3000)
        .with_type::<(u8, Vec<Edit>)>()
        .for_each(|(choice, edits)| {
            let (kind, _, seed) = &resources[usize::from(*choice) % resources.len()];
            compile(&mut context(), *kind, &edited_bytes(seed, edits));
        });
}

/// Any bytes as a resource; the first says of which kind.
#[test]
fn resources() {
    check!().with_iterations(5000).for_each(|bytes: &[u8]| {
        if let Some((kind, message)) = bytes.split_first() {
            let kind = ResourceType::ALL[usize::from(*kind) % ResourceType::ALL.len()];
            compile(&mut context(), kind, message);
        }
    });
}

/// Any messages of a controller, one behind the other: the proxy answers each, and takes good clusters after them.
#[test]
fn responses() {
    // The other kinds take a millisecond each to compile, and searching is a matter of numbers.
    let is_cheap = |kind: &Kind| matches!(kind, Kind::Cluster | Kind::Assignment);
    let good: Vec<_> = good_resources()
        .into_iter()
        .filter(|(kind, _)| is_cheap(kind))
        .collect();
    check!().with_iterations(1000).for_each(|mut bytes: &[u8]| {
        let (mut client, mut assembly) = (DeltaClient::new(Node::default()), Assembly::new(context()));
        for kind in Kind::ALL {
            client.start(kind);
        }
        while !bytes.is_empty() {
            let Ok(response) = DeltaDiscoveryResponse::decode_length_delimited(&mut bytes) else {
                break;
            };
            let nonce = response.nonce.clone();
            let Ok(update) = client.receive(response) else { break };
            let rejected = assembly.apply(update.kind, Origin::Dynamic, &update.added, &update.removed);
            assert_eq!(client.answer(&update, &rejected).response_nonce, nonce);
            assembly.settle();
            for kind in Kind::ALL {
                client.subscribe(kind, &assembly.wanted(kind));
            }
        }
        for (kind, resource) in &good {
            let rejected = assembly.apply(*kind, Origin::Dynamic, std::slice::from_ref(resource), &[]);
            assert_eq!(rejected, []);
        }
        assembly.settle();
    });
}

pub(crate) fn good_resources() -> Vec<(Kind, Incoming)> {
    let resources = resources_of_fleet().into_iter();
    resources
        .map(|(kind, name, body)| {
            let resource = Incoming {
                name,
                version: "good".to_owned(),
                body: body.into(),
                parts: None,
            };
            (Kind::of_url(kind.type_url()).unwrap(), resource)
        })
        .collect()
}

/// An edited bootstrap is read or refused.
#[test]
fn bootstraps() {
    let seed = serde_json::to_string_pretty(&default_bootstrap(&BootstrapSettings::default())).unwrap();
    check!()
        .with_iterations(150)
        .with_type::<Vec<Edit>>()
        .for_each(|edits| {
            let Edited(text) = Edited::new(&[&seed], 0, edits);
            let read = bootstrap::load(&Sources {
                path: None,
                text: Some(text.clone()),
            });
            assert!(
                !matches!(read, Err(bootstrap::BootstrapError::Thread)),
                "reading fell: {text}"
            );
        });
}

/// A port is cut off a host at most once, and nothing else is.
#[test]
fn authorities() {
    check!()
        .with_iterations(5000)
        .with_type::<String>()
        .for_each(|authority| {
            let host = Authority::of(authority).host;
            assert!(authority.starts_with(host), "{authority}");
            let rest = &authority[host.len()..];
            let port = rest.strip_prefix(':');
            assert!(
                rest.is_empty() || port.is_some_and(|port| !port.contains([':', ']'])),
                "{authority}"
            );
        });
}
