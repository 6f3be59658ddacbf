//! Whose a resource is: the objects to which a rejection of it is told.
//!
//! A listener or a route table comes from objects whose status says what a proxy makes of them. A cluster comes from a
//! Service and a secret from a Secret, which have no such status; their users have. So the objects that refer to a
//! resource belong to its owners. This is asked when something is rejected, which is rare: it walks the whole snapshot
//! instead of keeping an index.

use super::{Entry, ResourceType, Snapshot, Source};
use edge_ir::{
    Cluster, Destination, DownstreamTls, FilterChain, FilterSettings, Listener, Network, Origin, Origins, Route,
    RouteAction, SecretSource, StreamProxy,
};
use std::collections::BTreeSet;

/// The objects that a resource came from and those that refer to it, sorted, each once.
pub fn owners(snapshot: &Snapshot, kind: ResourceType, name: &str) -> Vec<Origin> {
    let mut found = BTreeSet::new();
    if let Some(entry) = snapshot.section(kind).get(name) {
        add(&mut found, &entry.origins);
    }
    match kind {
        ResourceType::Listener | ResourceType::Routes => {}
        ResourceType::Cluster => {
            users_of_clusters(snapshot, &BTreeSet::from([name]), &mut found);
            users_of_server(snapshot, name, &mut found);
        }
        ResourceType::Endpoints => {
            let warmed = |entry: &&Entry| entry.warmed_by.as_deref() == Some(name);
            let clusters = entries(snapshot, ResourceType::Cluster).filter(warmed);
            users_of_clusters(snapshot, &clusters.map(|entry| &*entry.name).collect(), &mut found);
        }
        ResourceType::Secret => users_of_secret(snapshot, name, &mut found),
    }
    found.into_iter().collect()
}

fn entries(snapshot: &Snapshot, kind: ResourceType) -> impl Iterator<Item = &Entry> {
    snapshot.section(kind).entries().iter().map(|entry| &**entry)
}

fn add(found: &mut BTreeSet<Origin>, origins: &Origins) {
    found.extend(origins.iter().cloned());
}

fn users_of_clusters(snapshot: &Snapshot, clusters: &BTreeSet<&str>, found: &mut BTreeSet<Origin>) {
    for entry in entries(snapshot, ResourceType::Routes) {
        let Source::Table(table) = &entry.source else { continue };
        let routes = table.hosts.iter().flat_map(|host| &host.routes);
        routes
            .filter(|route| clusters_of(route).any(|cluster| clusters.contains(cluster)))
            .for_each(|route| add(found, &route.effect.origins));
    }
    for entry in entries(snapshot, ResourceType::Listener) {
        let Source::Listener(listener) = &entry.source else {
            continue;
        };
        streams_of(listener)
            .filter(|stream| stream.shares.iter().any(|share| clusters.contains(&*share.cluster)))
            .for_each(|stream| add(found, &stream.origins));
    }
}

/// Those whose secrets a server has.
fn users_of_server(snapshot: &Snapshot, server: &str, found: &mut BTreeSet<Origin>) {
    let is_asked = |source: &SecretSource| source.server().is_some_and(|name| &**name == server);
    for entry in entries(snapshot, ResourceType::Listener) {
        let Source::Listener(listener) = &entry.source else {
            continue;
        };
        let chains = listener.chains.iter().chain(&listener.default_chain);
        let uses = |tls: &DownstreamTls| tls.certificates.iter().any(is_asked);
        chains
            .filter(|chain| chain.tls.as_ref().is_some_and(uses))
            .for_each(|chain| add(found, &chain.origins));
    }
    users_of_clusters(snapshot, &clusters_with(snapshot, is_asked), found);
}

/// The clusters that name a secret of which something holds.
fn clusters_with(snapshot: &Snapshot, holds: impl Fn(&SecretSource) -> bool) -> BTreeSet<&str> {
    let uses = |cluster: &Cluster| {
        let tls = cluster.tls.iter();
        tls.flat_map(|tls| tls.authorities.iter().chain(&tls.client_certificate))
            .any(&holds)
    };
    let clusters = entries(snapshot, ResourceType::Cluster).filter(|entry| match &entry.source {
        Source::Cluster(cluster) => uses(cluster),
        _ => false,
    });
    clusters.map(|entry| &*entry.name).collect()
}

fn users_of_secret(snapshot: &Snapshot, secret: &str, found: &mut BTreeSet<Origin>) {
    for entry in entries(snapshot, ResourceType::Listener) {
        let Source::Listener(listener) = &entry.source else {
            continue;
        };
        let chains = listener.chains.iter().chain(&listener.default_chain);
        let uses = |tls: &DownstreamTls| {
            let authorities = tls.clients.iter().filter_map(|clients| clients.authorities.as_ref());
            let certificates = tls.certificates.iter().filter_map(SecretSource::of_fleet);
            certificates.chain(authorities).any(|name| &**name == secret)
        };
        chains
            .filter(|chain| chain.tls.as_ref().is_some_and(uses) || injects(chain, secret))
            .for_each(|chain| add(found, &chain.origins));
    }
    let is_named = |source: &SecretSource| source.of_fleet().is_some_and(|name| &**name == secret);
    users_of_clusters(snapshot, &clusters_with(snapshot, is_named), found);
}

/// Whether a filter of a chain puts a secret into requests.
fn injects(chain: &FilterChain, secret: &str) -> bool {
    let Network::Http(manager) = &chain.network else {
        return false;
    };
    manager.filters.iter().any(|filter| match &filter.settings {
        FilterSettings::Credential(credential) => &*credential.secret == secret,
        FilterSettings::Login(login) => [&login.secret, &login.signing].iter().any(|name| ***name == *secret),
        _ => false,
    })
}

fn streams_of(listener: &Listener) -> impl Iterator<Item = &StreamProxy> {
    let chains = listener.chains.iter().chain(&listener.default_chain);
    let tcp = chains.filter_map(|chain| match &chain.network {
        Network::Tcp(stream) => Some(stream),
        Network::Http(_) => None,
    });
    tcp.chain(&listener.udp)
}

/// Every cluster that a route may send to.
pub(crate) fn clusters_of(route: &Route) -> impl Iterator<Item = &str> {
    let forward = match &route.effect.action {
        RouteAction::Forward(forward) => Some(forward),
        RouteAction::Redirect(_) | RouteAction::Respond(_) => None,
    };
    forward.into_iter().flat_map(|forward| {
        let (one, shares) = match &forward.destination {
            Destination::Cluster(cluster) => (Some(&**cluster), [].as_slice()),
            Destination::Weighted(weighted) => (None, weighted.shares.as_slice()),
        };
        let shares = shares.iter().map(|share| &*share.cluster);
        one.into_iter()
            .chain(shares)
            .chain(forward.mirrors.iter().map(|mirror| &*mirror.cluster))
    })
}
