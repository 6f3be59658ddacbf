//! Virtual hosts and the tables they make up.
//!
//! A host is encoded once, framed as the repeated field of its table, and kept as a [`Piece`]. Of a host that changed,
//! the routes that didn't are copied from its previous encoding.

use super::{
    common::number,
    metadata::put_metadata,
    route,
    sharing::{Draft, Sharing},
    table::wire_name,
};
use crate::{
    snapshot::Piece,
    wire::{put_message, put_str},
};
use edge_ir::{HostStats, Route, RouteTable, VirtualHost};
use envoy_types::pb::envoy::config::route::v3::{
    HeaderMatcher, RouteConfiguration, VirtualCluster, header_matcher::HeaderMatchSpecifier,
};
use prost::Message;
use rustc_hash::FxHashMap;
use std::{ops::Range, sync::Arc};

/// `RouteConfiguration.virtual_hosts`, `RouteConfiguration.metadata`.
const TABLE_HOSTS: u32 = 2;
const TABLE_METADATA: u32 = 17;
/// `VirtualHost.name`, `.domains`, `.routes`, `.virtual_clusters`, `.metadata`.
const HOST_NAME: u32 = 1;
const HOST_DOMAINS: u32 = 2;
const HOST_ROUTES: u32 = 3;
const HOST_COUNTED: u32 = 5;
const HOST_METADATA: u32 = 24;

/// What the proxy allows a direct response to hold unless told otherwise, and the most it may be told.
const DEFAULT_BODY: usize = 4096;
const MAX_BODY: usize = 1 << 20;

/// An encoded virtual host.
#[derive(Debug)]
pub(super) struct EncodedHost {
    host: Arc<VirtualHost>,
    piece: Arc<Piece>,
    /// Where each route stands, counted from the end of the piece: the length in front of it all may have any size.
    routes: Box<[(u32, u32)]>,
    /// Length of the longest body that one of its routes answers with.
    longest_body: usize,
}

impl EncodedHost {
    /// The bytes as a field of the table.
    pub(super) fn piece(&self) -> &Arc<Piece> {
        &self.piece
    }

    /// The host it was made from.
    pub(super) fn host(&self) -> &Arc<VirtualHost> {
        &self.host
    }

    /// Length of the longest body that one of its routes answers with.
    pub(super) fn longest_body(&self) -> usize {
        self.longest_body
    }

    /// Whether a host would be encoded to the same bytes.
    pub(super) fn is_for(&self, host: &Arc<VirtualHost>) -> bool {
        Arc::ptr_eq(&self.host, host) || same_host(&self.host, host)
    }

    /// Where the bytes of a route are.
    fn route(&self, n: usize) -> Option<(&Piece, Range<usize>)> {
        let (start, end) = *self.routes.get(n)?;
        let len = self.piece.len();
        let range = len.checked_sub(start as usize)?..len.checked_sub(end as usize)?;
        Some((&self.piece, range))
    }
}

/// Compares pointers first, because the routes of a host that was rebuilt are mostly the same ones.
fn same_host(a: &VirtualHost, b: &VirtualHost) -> bool {
    (&a.name, &a.domains, a.port, a.limits, a.stats, &a.origins)
        == (&b.name, &b.domains, b.port, b.limits, b.stats, &b.origins)
        && a.routes.len() == b.routes.len()
        && a.routes.iter().zip(&b.routes).all(|(a, b)| Arc::ptr_eq(a, b) || a == b)
}

/// What encoding one host leaves for the next.
#[derive(Debug, Default)]
pub(super) struct Encoder {
    /// Scratch space.
    draft: Draft,
    /// What many routes have in common.
    sharing: Sharing,
}

impl Encoder {
    /// Forgets what no route has any more.
    pub(super) fn tidy(&mut self) {
        self.sharing.tidy();
    }

    /// Knows what another found out that encoded hosts of the same list.
    pub(super) fn learn(&mut self, other: Self) {
        self.sharing.learn(other.sharing);
    }

    /// Encodes a host, copying what it shares with its previous encoding.
    pub(super) fn encode(&mut self, host: &Arc<VirtualHost>, before: Option<&EncodedHost>) -> EncodedHost {
        let Self { draft, sharing } = self;
        draft.clear();
        let reusable = before.filter(|before| is_alike(&before.host, host));
        let known: FxHashMap<*const Route, usize> = reusable
            .map(|before| (0..).zip(&before.host.routes))
            .into_iter()
            .flatten()
            .map(|(n, route)| (Arc::as_ptr(route), n))
            .collect();
        let mut routes = Vec::with_capacity(host.routes.len());
        let mut len = 0;
        draft.put_message(TABLE_HOSTS, |draft| {
            let begin = draft.bytes.len();
            put_head(draft, sharing, host);
            for route in &host.routes {
                let start = draft.bytes.len();
                let before = reusable.and_then(|before| before.route(*known.get(&Arc::as_ptr(route))?));
                match before {
                    Some((piece, range)) => draft.put_part(piece, range),
                    None => {
                        for method in route::methods(route) {
                            draft.put_message(HOST_ROUTES, |draft| {
                                route::put_route(draft, sharing, host, route, method);
                            });
                        }
                    }
                }
                routes.push((start - begin, draft.bytes.len() - begin));
            }
            len = draft.bytes.len() - begin;
        });
        let from_end = |(start, end)| (to_u32(len - start), to_u32(len - end));
        EncodedHost {
            host: Arc::clone(host),
            piece: Arc::new(draft.piece()),
            routes: routes.into_iter().map(from_end).collect(),
            longest_body: host
                .routes
                .iter()
                .map(|route| route::body_len(route))
                .max()
                .unwrap_or(0),
        }
    }
}

/// Whether routes of a host would be encoded in the same way for another.
fn is_alike(a: &VirtualHost, b: &VirtualHost) -> bool {
    (&a.name, a.port, a.limits) == (&b.name, b.port, b.limits)
}

/// Writes everything of a host but its routes.
fn put_head(draft: &mut Draft, sharing: &mut Sharing, host: &VirtualHost) {
    let out = &mut draft.bytes;
    put_str(out, HOST_NAME, &host.name);
    for domain in host.domains.iter() {
        put_str(out, HOST_DOMAINS, domain);
    }
    if host.stats == HostStats::Own {
        put_message(out, HOST_COUNTED, |out| {
            out.extend(all_requests(host.own_name()).encode_to_vec())
        });
    }
    let put = |out: &mut Vec<u8>| put_metadata(out, HOST_METADATA, &host.origins);
    match sharing.origins(&host.origins, put) {
        Some(shared) => draft.put_shared(&shared),
        None => put(out),
    }
}

/// A host of more than 4 GiB can't be sent; an offset that is out of range is not copied from.
fn to_u32(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

/// What counts all requests of a host, under its name: those that have an authority, which none goes without.
fn all_requests(host: &str) -> VirtualCluster {
    VirtualCluster {
        name: host.to_owned(),
        headers: vec![HeaderMatcher {
            name: ":authority".to_owned(),
            header_match_specifier: Some(HeaderMatchSpecifier::PresentMatch(true)),
            ..Default::default()
        }],
    }
}

/// Everything of a table but its hosts.
pub(super) fn encode_header(table: &RouteTable, longest_body: usize) -> Piece {
    let limit = longest_body.min(MAX_BODY);
    let message = RouteConfiguration {
        name: wire_name(&table.name, &table.guards).to_string(),
        ignore_port_in_host_matching: true,
        max_direct_response_body_size_bytes: if limit > DEFAULT_BODY {
            number(to_u32(limit))
        } else {
            None
        },
        ..Default::default()
    };
    encode_with_metadata(message, table)
}

/// What a header says, for a table of another name.
pub(super) fn header_again(header: &Piece, table: &RouteTable) -> Option<Piece> {
    let message = RouteConfiguration::decode(header.contiguous()).ok()?;
    let message = RouteConfiguration {
        name: wire_name(&table.name, &table.guards).to_string(),
        metadata: None,
        ..message
    };
    Some(encode_with_metadata(message, table))
}

fn encode_with_metadata(header: RouteConfiguration, table: &RouteTable) -> Piece {
    let mut out = header.encode_to_vec();
    put_metadata(&mut out, TABLE_METADATA, &table.origins);
    Piece::new(out.into())
}
