//! What the proxy is given by a controller that may be wrong or hostile: no bytes make it fall.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that can't go on should stop where it stands"
)]

use bolero::check;
use edge_proxy::{
    bootstrap::{self, Sources},
    compile::{
        At, Context, Files,
        cluster::cluster,
        endpoint::{EndpointInput, endpoints},
        listener::listener,
        prefixed_headers, route_table,
        secret::secret,
    },
    config::{
        listener::{EscapedSlashes, PathNormalization},
        table::without_port,
    },
    path::{Normalized, normalize},
};
use edge_xds::{
    bootstrap::{BootstrapSettings, default_bootstrap},
    snapshot::ResourceType,
};
use envoy_types::pb::envoy::{
    config::{
        cluster::v3::Cluster, endpoint::v3::ClusterLoadAssignment, listener::v3::Listener,
        route::v3::RouteConfiguration,
    },
    extensions::transport_sockets::tls::v3::Secret,
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
                terms: &Default::default(),
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

fn context() -> Context {
    Context::new(Box::new(NoFiles), prefixed_headers("").unwrap(), 1)
}

fn resources() -> Vec<(ResourceType, Vec<u8>)> {
    let snapshot = snapshot();
    let kinds = ResourceType::ALL.into_iter();
    kinds
        .flat_map(|kind| {
            snapshot
                .section(kind)
                .entries()
                .iter()
                .map(move |e| (kind, e.body.contiguous().to_vec()))
                .collect::<Vec<_>>()
        })
        .collect()
}

/// What our own controller sends is taken, or the next target would try nothing but refusals.
#[test]
fn good_resources_are_taken() {
    let mut context = context();
    let refused: Vec<_> = resources()
        .into_iter()
        .filter(|(kind, bytes)| !compile(&mut context, *kind, bytes))
        .map(|(kind, _)| kind)
        .collect();
    assert_eq!(refused, []);
}

/// Almost good resources: a message or a rejection.
#[test]
fn compiling_edited_resources() {
    let resources = resources();
    check!()
        .with_iterations(3000)
        .with_type::<(u8, Vec<Edit>)>()
        .for_each(|(choice, edits)| {
            let (kind, seed) = &resources[usize::from(*choice) % resources.len()];
            compile(&mut context(), *kind, &edited_bytes(seed, edits));
        });
}

/// Any bytes at all.
#[test]
fn compiling_bytes() {
    check!().with_iterations(2000).for_each(|bytes: &[u8]| {
        for kind in ResourceType::ALL {
            compile(&mut context(), kind, bytes);
        }
    });
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
            let host = without_port(authority);
            assert!(authority.starts_with(host), "{authority}");
            let rest = &authority[host.len()..];
            assert!(
                rest.is_empty() || rest[1..].bytes().all(|b| b.is_ascii_digit()),
                "{authority}"
            );
        });
}

/// What a server makes of a path that decodes it once.
fn decoded(path: &str) -> Vec<u8> {
    let bytes = path.as_bytes();
    let hex = |at: usize| bytes.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    let (mut out, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        match (bytes[at], hex(at + 1), hex(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                at += 3;
            }
            (byte, ..) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    out
}

/// Whether a server sees a dot segment here, which takes parameters off and decodes once. (An escaped `;` begins no
/// parameter: RFC 3986 §2.2.)
fn is_dots(segment: &str) -> bool {
    let name = segment.split(';').next().unwrap_or_default();
    matches!(&*decoded(name), b"." | b"..")
}

/// The laws of `edge_proxy::path`, over paths made of what attackers use.
#[test]
fn paths() {
    const PIECES: [&str; 24] = [
        "/", "/", ".", "..", "%", "%2", "2", "e", "E", "%32", "%65", "%66", "%2e", "%2F", "%5c", "\\", ";", "x", "%25",
        "5", "%3b", "\"", "é", "?",
    ];
    let with = |normalize, escaped_slashes| PathNormalization {
        normalize,
        merge_slashes: true,
        escaped_slashes,
    };
    let settings = [
        with(true, EscapedSlashes::Keep),
        with(true, EscapedSlashes::Reject),
        with(true, EscapedSlashes::UnescapeAndForward),
        with(true, EscapedSlashes::UnescapeAndRedirect),
        with(false, EscapedSlashes::UnescapeAndForward),
    ];
    check!()
        .with_iterations(20_000)
        .with_type::<(u8, Vec<u8>)>()
        .for_each(|(setting, pieces)| {
            let setting = settings[usize::from(*setting) % settings.len()];
            let pieces = pieces.iter().map(|piece| PIECES[usize::from(*piece) % PIECES.len()]);
            let path = format!("/{}", pieces.take(24).collect::<String>());
            let now = match normalize(&path, setting) {
                Normalized::Same => path.clone(),
                Normalized::Changed(path) | Normalized::Redirect(path) => path,
                Normalized::Reject => return,
            };
            assert_eq!(normalize(&now, setting), Normalized::Same, "{path} became {now}");
            let of = |text: &str| text.split('?').next().unwrap_or_default().to_owned();
            let (was, now) = (of(&path), of(&now));
            if setting.normalize {
                let hidden = now.split('/').find(|segment| is_dots(segment));
                assert_eq!(hidden, None, "{path} became {now}");
            }
            if setting.escaped_slashes != EscapedSlashes::Keep {
                let slashes = |path: &[u8]| path.iter().filter(|byte| matches!(byte, b'/' | b'\\')).count();
                assert_eq!(slashes(&decoded(&now)), slashes(now.as_bytes()), "{path} became {now}");
                assert!(
                    slashes(now.as_bytes()) <= slashes(&decoded(&was)),
                    "{path} became {now}"
                );
            }
        });
}
