//! Chains of a TLS listener: its routes, chosen by server name, each with the connections whole.
//!
//! Every name goes to one route: the one that wrote the more specific hostname, then the older one (Gateway API v1.7.0,
//! TLSRoute `hostnames`). What the listener's hostname covers and no route asks for is closed by a chain of its own;
//! otherwise it would fall to a broader listener of the port, which must not see it.

use super::{SocketListener, downstream_tls, nobody, server_names};
use crate::{
    engine::reader::Reader,
    name::{RouteId, RouteKind},
    phase::{
        hostname::Specificity,
        precedence::Seniority,
        routes::{
            bound,
            rules::{Summary, every_rule_failed},
        },
    },
};
use edge_ir::{DownstreamTls, FilterChain, Network, StreamProxy};
use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

/// What a route has to say for itself where several want a server name; the greatest gets it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Claim<'a> {
    own: Specificity,
    seniority: Reverse<&'a Seniority>,
    kind: Reverse<RouteKind>,
}

/// The chains of a listener that takes TLS connections.
pub(super) fn chains(reader: &Reader<'_>, listener: &SocketListener, bound: u16) -> Vec<FilterChain> {
    // A listener that terminates TLS serves only with a certificate, one that passes it through never has any.
    let (word, tls) = match listener.certificates.is_empty() {
        true => ("passthrough", None),
        // What is spoken inside is nobody's business, so no protocol is offered.
        false => ("terminate", Some(downstream_tls(reader, listener, &[]))),
    };
    let stat_prefix: Arc<str> = format!("tls-{word}-{bound}").into();
    let mut chains = Vec::new();
    let mut is_covered = false;
    for (route, names) in by_route(reader, listener) {
        let Some(stream) = bound::stream(reader, route, listener.id) else {
            continue;
        };
        is_covered |= names.contains(&listener.hostname);
        let stream = StreamProxy {
            stat_prefix: Arc::clone(&stat_prefix),
            ..stream.clone()
        };
        let (all, some): (Vec<_>, Vec<_>) = names.into_iter().partition(|name| **name == *super::hostname::ANY);
        let name = format!(
            "{}/{}/{}/{}",
            listener.full_name,
            route.kind.kind().as_str().to_ascii_lowercase(),
            reader.text(route.id.namespace),
            reader.text(route.id.name)
        );
        if !some.is_empty() {
            chains.push(chain(listener, name.into(), some, &tls, stream.clone()));
        }
        if !all.is_empty() {
            chains.push(chain(listener, Arc::clone(&listener.full_name), all, &tls, stream));
        }
    }
    if !is_covered {
        let rest = vec![Arc::clone(&listener.hostname)];
        chains.push(chain(
            listener,
            Arc::clone(&listener.full_name),
            rest,
            &tls,
            nobody(stat_prefix),
        ));
    }
    chains
}

fn chain(
    listener: &SocketListener,
    name: Arc<str>,
    names: Vec<Arc<str>>,
    tls: &Option<DownstreamTls>,
    stream: StreamProxy,
) -> FilterChain {
    FilterChain {
        name,
        server_names: server_names(names),
        tls: tls.clone(),
        connections: listener.traffic.connections,
        network: Network::Tcp(stream),
        origins: Arc::new([listener.origin.clone()]),
    }
}

/// The routes that got a name, each with its names, sorted.
fn by_route(reader: &Reader<'_>, listener: &SocketListener) -> BTreeMap<RouteId, Vec<Arc<str>>> {
    let mut by_route: BTreeMap<RouteId, Vec<Arc<str>>> = BTreeMap::new();
    let mut owners: BTreeMap<Arc<str>, (Claim<'_>, RouteId)> = BTreeMap::new();
    for route in reader.listener_routes(listener.id) {
        // One that isn't accepted takes no name from others.
        let Some(bound) = reader.bound(*route).filter(|bound| !every_rule_failed(&bound.summary)) else {
            continue;
        };
        for (name, own) in names_of(reader, *route, listener) {
            let claim = claim(*route, own, &bound.summary);
            let owner = owners.entry(name).or_insert((claim, *route));
            if claim > owner.0 {
                *owner = (claim, *route);
            }
        }
    }
    for (name, (_, route)) in owners {
        by_route.entry(route).or_default().push(name);
    }
    by_route
}

fn claim(route: RouteId, own: Specificity, rules: &Summary) -> Claim<'_> {
    Claim {
        own,
        seniority: Reverse(&rules.seniority),
        kind: Reverse(route.kind),
    }
}

/// Server names that a route gets on a listener, with the specificity of what the route wrote.
fn names_of(reader: &Reader<'_>, route: RouteId, listener: &SocketListener) -> Vec<(Arc<str>, Specificity)> {
    let Some(attachments) = reader.attachments(route) else {
        return Vec::new();
    };
    attachments
        .attached()
        .filter(|a| a.listener == listener.id)
        .flat_map(|a| &a.hosts)
        .map(|host| (reader.text(host.host), host.own))
        .collect()
}
