//! What must hold of every fleet, whatever the world looks like.

use super::pools;
use edge_ir::{
    Cluster, Destination, Discovery, FilterChain, FilterId, FilterKind, FilterSettings, Fleet, Forward, HttpManager,
    LoadBalancing, Network, Origins, Route, RouteAction, RouteTraffic, SecretContent, SecretSource, ServerNames,
    ServerNaming, StreamProxy, UpstreamSettings, UpstreamTls, VirtualHost,
};
use edge_translate::api::{Kind, Object, ObjectKey};
use std::collections::{BTreeMap, BTreeSet};

/// All violations, empty when the fleet is whole: each name stands once and in order, and each reference leads
/// somewhere.
pub(crate) fn wholeness(fleet: &Fleet) -> Vec<String> {
    let mut wrong = Vec::new();
    ordered("listeners", fleet.listeners.iter().map(|l| &*l.name), &mut wrong);
    ordered("route tables", fleet.route_tables.iter().map(|t| &*t.name), &mut wrong);
    ordered("clusters", fleet.clusters.iter().map(|c| &*c.name), &mut wrong);
    ordered("endpoints", fleet.endpoints.iter().map(|e| &*e.name), &mut wrong);
    ordered("secrets", fleet.secrets.iter().map(|s| &*s.name), &mut wrong);
    sockets(fleet, &mut wrong);
    tables(fleet, &mut wrong);
    backends(fleet, &mut wrong);
    variants(fleet, &mut wrong);
    wrong
}

fn ordered<'a>(what: &str, names: impl Iterator<Item = &'a str>, wrong: &mut Vec<String>) {
    let names: Vec<&str> = names.collect();
    if !names.is_sorted_by(|a, b| a < b) {
        wrong.push(format!("{what} are not sorted, or not unique: {names:?}"));
    }
}

fn chains(fleet: &Fleet) -> impl Iterator<Item = &FilterChain> {
    fleet
        .listeners
        .iter()
        .flat_map(|l| l.chains.iter().chain(&l.default_chain))
}

/// Sockets can be opened together, chains can be told apart, and what they name exists.
fn sockets(fleet: &Fleet, wrong: &mut Vec<String>) {
    let mut ports = BTreeSet::new();
    for listener in fleet.listeners.iter() {
        if !ports.insert((listener.udp.is_some(), listener.port)) {
            wrong.push(format!("two sockets on port {}", listener.port));
        }
        let mut names = BTreeSet::new();
        let mut chain_names = BTreeSet::new();
        for chain in listener.chains.iter().chain(&listener.default_chain) {
            if !chain_names.insert(&*chain.name) {
                wrong.push(format!("{}: two chains of this name", chain.name));
            }
        }
        for chain in &listener.chains {
            match &chain.server_names {
                ServerNames::Any => wrong.push(format!("{}: a chain for any name beside others", chain.name)),
                ServerNames::Only(list) => {
                    wrong.extend(
                        list.iter()
                            .filter(|n| !names.insert(*n))
                            .map(|n| format!("{n}: in two chains")),
                    );
                }
            }
        }
        if listener.udp.is_some() == (listener.default_chain.is_some() || !listener.chains.is_empty()) {
            wrong.push(format!(
                "{} takes nothing, or both datagrams and connections",
                listener.name
            ));
        }
    }
    for chain in chains(fleet) {
        if let Network::Http(manager) = &chain.network {
            wrong.extend(filters(&chain.name, manager, routes_of(fleet, &manager.route_table)));
            wrong.extend(guards(&chain.name, manager, fleet));
        }
    }
    let used: BTreeSet<&str> = chains(fleet).filter_map(table_of).collect();
    let tables: BTreeSet<&str> = fleet.route_tables.iter().map(|t| &*t.name).collect();
    if used != tables {
        wrong.push(format!("chains name tables {used:?}, there are {tables:?}"));
    }
    let tls = chains(fleet).filter_map(|c| c.tls.as_ref());
    let mut sources: Vec<&SecretSource> = tls.flat_map(|t| &t.certificates).collect();
    let upstream = || fleet.clusters.iter().filter_map(|c| c.tls.as_ref());
    sources.extend(upstream().flat_map(|t| t.client_certificate.iter().chain(&t.authorities)));
    let mut used: BTreeSet<&str> = sources.iter().filter_map(|s| s.of_fleet()).map(|s| &**s).collect();
    let servers = sources.iter().filter_map(|source| source.server());
    let unknown = servers.filter(|server| !fleet.clusters.iter().any(|cluster| cluster.name == **server));
    wrong.extend(unknown.map(|server| format!("a secret comes from {server}, which is no cluster")));
    let clients = chains(fleet).filter_map(|c| c.tls.as_ref()?.clients.as_ref()?.authorities.as_ref());
    used.extend(clients.map(|name| &**name));
    let managers = chains(fleet).filter_map(|c| match &c.network {
        Network::Http(manager) => Some(manager),
        Network::Tcp(_) => None,
    });
    used.extend(managers.flat_map(|m| &m.filters).filter_map(|f| match &f.settings {
        FilterSettings::Credential(credential) => Some(&*credential.secret),
        _ => None,
    }));
    let verifies = |t: &UpstreamTls| t.naming != ServerNaming::Fixed || !t.subjects.is_empty();
    // A Backend alone may say in words that any will do (`insecureSkipVerify`).
    let is_backend = |c: &Cluster| c.origins.iter().any(|origin| &*origin.kind == "Backend");
    let others = fleet.clusters.iter().filter(|c| !is_backend(c));
    let mut others = others.filter_map(|c| c.tls.as_ref());
    if others.any(|t| t.authorities.is_none() || !verifies(t)) {
        wrong.push("a cluster takes any certificate".to_owned());
    }
    let secrets: BTreeSet<&str> = fleet.secrets.iter().map(|s| &*s.name).collect();
    if used != secrets {
        wrong.push(format!(
            "chains and clusters name secrets {used:?}, there are {secrets:?}"
        ));
    }
}

fn routes_of<'a>(fleet: &'a Fleet, table: &'a str) -> impl Iterator<Item = &'a Route> {
    let tables = fleet.route_tables.iter().filter(move |t| *t.name == *table);
    tables
        .flat_map(|t| t.hosts.iter())
        .flat_map(|h| h.routes.iter().map(|r| &**r))
}

/// A manager has the filters that routes of its table use, and no other: a GRPCRoute where no call can reach it needs
/// none.
fn filters<'a>(chain: &str, manager: &HttpManager, routes: impl Iterator<Item = &'a Route>) -> Option<String> {
    let of_calls = [FilterKind::GrpcWeb, FilterKind::GrpcStats].map(FilterId::shared);
    let (mut needed, mut of_use) = (BTreeSet::new(), BTreeSet::new());
    for route in routes {
        needed.extend(route.effect.filters.iter().map(|filter| filter.id.clone()));
        if route.name.to_string().starts_with("grpcroute/") {
            of_use.extend(of_calls.clone());
            if matches!(route.effect.action, RouteAction::Forward(_)) {
                needed.extend(of_calls.clone());
            }
        }
    }
    of_use.extend(needed.iter().cloned());
    // It is for what the clusters of routes are, which no route says; this one for what rules of routes ask.
    of_use.extend([FilterKind::DynamicForwardProxy, FilterKind::Geoip].map(FilterId::shared));
    let there: BTreeSet<_> = manager.filters.iter().map(|f| f.id.clone()).collect();
    let is_right = needed.is_subset(&there) && there.is_subset(&of_use);
    (!is_right).then(|| format!("{chain}: filters {there:?} for routes that need {needed:?}"))
}

/// A table is told apart by the guards of its chains, where there are any, and all that it may need stand on them.
fn guards(chain: &str, manager: &HttpManager, fleet: &Fleet) -> Option<String> {
    let table = fleet
        .route_tables
        .iter()
        .find(|table| table.name == manager.route_table)?;
    let stands_guard = manager.filters.iter().any(|filter| filter.id.kind.is_guard());
    let is_right = table.guards == manager.guards && stands_guard != manager.guards.is_empty();
    (!is_right).then(|| {
        format!(
            "{chain}: guards {:?}, its table's are {:?}",
            manager.guards, table.guards
        )
    })
}

fn table_of(chain: &FilterChain) -> Option<&str> {
    match &chain.network {
        Network::Http(manager) => Some(&manager.route_table),
        Network::Tcp(_) => None,
    }
}

/// What takes whole connections and datagrams.
pub(crate) fn streams(fleet: &Fleet) -> impl Iterator<Item = &StreamProxy> {
    let tcp = chains(fleet).filter_map(|chain| match &chain.network {
        Network::Tcp(stream) => Some(stream),
        Network::Http(_) => None,
    });
    tcp.chain(fleet.listeners.iter().filter_map(|l| l.udp.as_ref()))
}

/// Each domain stands once in a table.
fn tables(fleet: &Fleet, wrong: &mut Vec<String>) {
    for table in fleet.route_tables.iter() {
        ordered("virtual hosts", table.hosts.iter().map(|h| &*h.name), wrong);
        let mut domains = BTreeSet::new();
        let all = table.hosts.iter().flat_map(|host| host.domains.iter());
        let twice = all.filter(|domain| !domains.insert(*domain));
        wrong.extend(twice.map(|domain| format!("{}: {domain} stands twice", table.name)));
    }
}

/// Every cluster that a route names exists; so do the endpoints of every cluster, and no others.
fn backends(fleet: &Fleet, wrong: &mut Vec<String>) {
    let clusters: BTreeMap<&str, &Cluster> = fleet.clusters.iter().map(|c| (&*c.name, &**c)).collect();
    for (host, route) in routes(fleet) {
        for name in clusters_of(route)
            .iter()
            .filter(|name| !clusters.contains_key(&***name))
        {
            wrong.push(format!(
                "{}: {} sends to {name}, which doesn't exist",
                host.name, route.name
            ));
        }
        if let RouteAction::Forward(forward) = &route.effect.action
            && let Destination::Weighted(weighted) = &forward.destination
            && (is_idle(forward) || weighted.shares.iter().any(|s| s.weight == 0))
        {
            wrong.push(format!("{}: a share without weight", route.name));
        }
    }
    for share in streams(fleet).flat_map(|s| &s.shares) {
        if !clusters.contains_key(&*share.cluster) || share.weight == 0 {
            wrong.push(format!(
                "a stream sends to {} with weight {}",
                share.cluster, share.weight
            ));
        }
    }
    for set in fleet.endpoints.iter() {
        let mut seen = BTreeSet::new();
        let all = set.localities.iter().flat_map(|l| &l.endpoints);
        let twice = all.filter(|e| !seen.insert(&e.address));
        wrong.extend(twice.map(|e| format!("{}: {:?} stands twice", set.name, e.address)));
    }
    let eds = clusters.values().filter_map(|c| match &c.discovery {
        Discovery::Endpoints(set) => Some(&**set),
        Discovery::Dns(_) | Discovery::OfRequest(_) | Discovery::Fixed(_) => None,
    });
    let wanted: BTreeSet<&str> = eds.collect();
    // That with the fleet's own proxies is for a cluster of their bootstrap.
    let sets = fleet.endpoints.iter().map(|e| &*e.name);
    let sets: BTreeSet<&str> = sets.filter(|name| *name != &*fleet.key).collect();
    if wanted != sets {
        wrong.push(format!("clusters name endpoints {wanted:?}, there are {sets:?}"));
    }
}

/// What passes through is encrypted by the client alone: it never goes to a cluster that encrypts; and a cluster that
/// leaves out what its backend asks for is for nothing else: a variant (`~` in its name) of which no policy asks
/// anything, or that doesn't encrypt where the backend's own cluster does.
fn variants(fleet: &Fleet, wrong: &mut Vec<String>) {
    let own = |name: &str| name.split('~').next().unwrap_or_default().to_owned();
    let securely: BTreeSet<String> = fleet
        .clusters
        .iter()
        .filter(|c| c.tls.is_some())
        .map(|c| own(&c.name))
        .collect();
    let in_clear: BTreeSet<&str> = fleet
        .clusters
        .iter()
        .filter(|c| {
            let is_asked = *c.upstream != UpstreamSettings::default() || c.load_balancing != LoadBalancing::default();
            c.name.contains('~') && c.tls.is_none() && (!is_asked || securely.contains(&own(&c.name)))
        })
        .map(|c| &*c.name)
        .collect();
    let encrypts: BTreeMap<&str, bool> = fleet.clusters.iter().map(|c| (&*c.name, c.tls.is_some())).collect();
    for stream in streams(fleet) {
        let passes = stream.stat_prefix.starts_with("tls-passthrough-");
        for name in stream.shares.iter().map(|share| &*share.cluster) {
            if passes && encrypts.get(name) == Some(&true) {
                wrong.push(format!("{}: TLS in TLS to {name}", stream.stat_prefix));
            }
            if !passes && in_clear.contains(name) {
                wrong.push(format!("{}: {name} is spoken to in clear", stream.stat_prefix));
            }
        }
    }
    for (_, route) in routes(fleet) {
        let clear = clusters_of(route).into_iter().filter(|name| in_clear.contains(name));
        wrong.extend(clear.map(|name| format!("{}: {name} is spoken to in clear", route.name)));
    }
}

/// All routes with the hosts they are in.
pub(crate) fn routes(fleet: &Fleet) -> impl Iterator<Item = (&VirtualHost, &Route)> {
    let hosts = fleet.route_tables.iter().flat_map(|t| t.hosts.iter());
    hosts.flat_map(|host| host.routes.iter().map(move |route| (&**host, &**route)))
}

/// A route with nowhere to go answers by itself, unless it is for tunnels alone.
fn is_idle(forward: &Forward) -> bool {
    let traffic = forward.traffic.as_deref();
    let is_empty = matches!(&forward.destination, Destination::Weighted(weighted) if weighted.shares.is_empty());
    is_empty && !traffic.is_some_and(RouteTraffic::is_for_tunnels_alone)
}

/// The clusters that a route sends to, mirrors included.
pub(crate) fn clusters_of(route: &Route) -> Vec<&str> {
    let RouteAction::Forward(forward) = &route.effect.action else {
        return Vec::new();
    };
    let mut names: Vec<&str> = forward.mirrors.iter().map(|m| &*m.cluster).collect();
    match &forward.destination {
        Destination::Cluster(name) => names.push(name),
        Destination::Weighted(weighted) => names.extend(weighted.shares.iter().map(|s| &*s.cluster)),
    }
    names
}

/// Pieces of a fleet that don't lead back to an object of the world, or lead to the wrong kind.
pub(crate) fn unexplained(fleet: &Fleet, objects: &BTreeMap<ObjectKey, Object>) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut ask = |piece: &str, origins: &Origins, kinds: &[&str]| {
        if origins.is_empty() {
            wrong.push(format!("{piece} has no origin"));
        }
        for origin in origins.iter() {
            let kind = Kind::ALL.iter().find(|kind| kind.as_str() == &*origin.kind);
            let key = match &*origin.kind {
                "Pool" => Some(pools::key(&origin.namespace, &origin.name)),
                _ => kind.map(|kind| ObjectKey::new(*kind, &*origin.namespace, &*origin.name)),
            };
            if !kinds.contains(&&*origin.kind) || key.is_none_or(|key| !objects.contains_key(&key)) {
                wrong.push(format!("{piece} comes from {origin}, which isn't there"));
            }
            if let (Some(section), Some(key)) = (&origin.section, holder(origin))
                && !has_listener(objects, &key, section)
            {
                wrong.push(format!("{piece} comes from {origin}, which has no such listener"));
            }
        }
    };
    for listener in fleet.listeners.iter() {
        ask(&listener.name, &listener.origins, &["Gateway", "ListenerSet"]);
        for chain in listener.chains.iter().chain(&listener.default_chain) {
            ask(&chain.name, &chain.origins, &["Gateway", "ListenerSet"]);
        }
    }
    for table in fleet.route_tables.iter() {
        ask(&table.name, &table.origins, &["Gateway", "ListenerSet"]);
        for host in table.hosts.iter() {
            ask(&host.name, &host.origins, &["Gateway", "ListenerSet"]);
        }
    }
    for (_, route) in routes(fleet) {
        let name = route.name.to_string();
        let kinds: &[&str] = match &*name {
            "misdirected-request" => &["Gateway", "ListenerSet"],
            _ => &["HTTPRoute", "GRPCRoute"],
        };
        ask(&name, &route.effect.origins, kinds);
    }
    for stream in streams(fleet).filter(|s| !s.origins.is_empty() || !s.shares.is_empty()) {
        ask(
            &stream.stat_prefix,
            &stream.origins,
            &["TLSRoute", "TCPRoute", "UDPRoute"],
        );
    }
    let backends = ["Service", "ServiceImport", "Backend", "Pool"];
    // Servers of secrets come from whatever names them.
    let is_server = |c: &&std::sync::Arc<Cluster>| matches!(c.discovery, Discovery::Fixed(_));
    for cluster in fleet.clusters.iter().filter(|c| !is_server(c)) {
        ask(&cluster.name, &cluster.origins, &backends);
    }
    for set in fleet.endpoints.iter() {
        ask(&set.name, &set.origins, &backends);
    }
    // What the system trusts comes from no object.
    let is_ours = |s: &&std::sync::Arc<edge_ir::Secret>| s.content != SecretContent::SystemAuthorities;
    for secret in fleet.secrets.iter().filter(is_ours) {
        let kinds = [
            "Secret",
            "BackendTLSPolicy",
            "Backend",
            "Gateway",
            "ClientTrafficPolicy",
        ];
        ask(&secret.name, &secret.origins, &kinds);
    }
    wrong
}

/// The object that a listener stands in.
fn holder(origin: &edge_ir::Origin) -> Option<ObjectKey> {
    let kind = match &*origin.kind {
        "Gateway" => Kind::Gateway,
        "ListenerSet" => Kind::ListenerSet,
        _ => return None,
    };
    Some(ObjectKey::new(kind, &*origin.namespace, &*origin.name))
}

fn has_listener(objects: &BTreeMap<ObjectKey, Object>, key: &ObjectKey, name: &str) -> bool {
    let listeners = match objects.get(key) {
        Some(Object::Gateway(gateway)) => &gateway.spec.listeners,
        Some(Object::ListenerSet(set)) => &set.spec.listeners,
        _ => return false,
    };
    listeners.iter().any(|l| &*l.name == name)
}
