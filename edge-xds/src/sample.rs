//! Fleets for the tests of this crate.

use edge_ir::{
    Cluster, Destination, Discovery, DownstreamTls, Endpoint, EndpointAddress, EndpointSet, FilterChain, Fleet,
    FleetSettings, Forward, GuardSet, HttpManager, IpFamily, Listener, Locality, Network, Origin, Origins, PathMatch,
    ReadyListener, Route, RouteAction, RouteEffect, RouteMatch, RouteTable, Secret, SecretBytes, SecretContent,
    SecretName, Seldom, ServerNames, TlsVersion, VirtualHost, ZoneRouting,
};
use std::sync::Arc;

/// An HTTPRoute, or whatever the kind says.
pub(crate) fn origins(kind: &str, name: &str) -> Origins {
    [Origin {
        kind: kind.into(),
        namespace: "default".into(),
        name: name.into(),
        section: None,
        annotations: Arc::new([]),
    }]
    .into()
}

/// A route by prefix to a cluster.
pub(crate) fn route(name: &str, prefix: &str, cluster: &str) -> Arc<Route> {
    route_with(
        name,
        prefix,
        RouteAction::Forward(Forward {
            destination: Destination::Cluster(cluster.into()),
            timeout: None,
            retry: None,
            path_rewrite: None,
            host_rewrite: None,
            forwarded_host: Default::default(),
            traffic: None,
            mirrors: Seldom::default(),
        }),
    )
}

/// A route by prefix with any action.
pub(crate) fn route_with(name: &str, prefix: &str, action: RouteAction) -> Arc<Route> {
    Arc::new(Route {
        name: format!("httproute/default/{name}/rule/0/match/0").as_str().into(),
        matches: RouteMatch::on_path(PathMatch::Prefix(prefix.into())),
        portion: None,
        effect: Arc::new(RouteEffect::new(action, origins("HTTPRoute", name))),
    })
}

/// A virtual host of the table `default/gw/http`.
pub(crate) fn host(domain: &str, routes: Vec<Arc<Route>>) -> Arc<VirtualHost> {
    Arc::new(VirtualHost {
        name: format!("default/gw/http/{}", domain.replace('.', "_")).into(),
        domains: domain.into(),
        port: 80,
        routes,
        stats: edge_ir::HostStats::Usual,
        limits: edge_ir::LimitHeaders::Usual,
        origins: origins("Gateway", "gw"),
    })
}

/// A table; sorts its hosts.
pub(crate) fn table(name: &str, mut hosts: Vec<Arc<VirtualHost>>) -> Arc<RouteTable> {
    hosts.sort_by(|a, b| a.name.cmp(&b.name));
    Arc::new(RouteTable {
        name: name.into(),
        guards: GuardSet::default(),
        hosts: hosts.into(),
        origins: origins("Gateway", "gw"),
    })
}

/// A cluster with endpoints of its name.
pub(crate) fn cluster(name: &str) -> Arc<Cluster> {
    Arc::new(Cluster {
        name: name.into(),
        discovery: Discovery::Endpoints(name.into()),
        protocol: Default::default(),
        tls: None,
        sockets: Vec::new(),
        load_balancing: Default::default(),
        upstream: Default::default(),
        zones: ZoneRouting::Unheeded,
        stat_name: None,
        stats: edge_ir::ClusterStats::default(),
        custom: None,
        origins: origins("Service", name),
    })
}

/// Endpoints on loopback ports.
pub(crate) fn endpoints(name: &str, ports: &[u16]) -> Arc<EndpointSet> {
    let endpoint = |port: &u16| Endpoint {
        address: EndpointAddress::Socket {
            ip: [127, 0, 0, 1].into(),
            port: *port,
        },
        hostname: None,
        health: Default::default(),
    };
    let locality = Locality {
        region: name.into(),
        weight: 1,
        endpoints: ports.iter().map(endpoint).collect(),
        ..Default::default()
    };
    Arc::new(EndpointSet {
        name: name.into(),
        localities: vec![locality],
        origins: origins("Service", name),
    })
}

/// The chain that serves a table.
pub(crate) fn chain(table: &str, tls: Option<DownstreamTls>) -> FilterChain {
    FilterChain {
        name: table.into(),
        server_names: ServerNames::Any,
        tls,
        connections: Default::default(),
        network: Network::Http(HttpManager {
            stat_prefix: "http-10080".into(),
            filters: Vec::new(),
            client: Default::default(),
            route_table: table.into(),
            guards: GuardSet::default(),
        }),
        origins: origins("Gateway", "gw"),
    }
}

/// A listener on a plain port.
pub(crate) fn listener(port: u16, table: &str) -> Arc<Listener> {
    Arc::new(Listener {
        name: format!("tcp-{port}").into(),
        port: 10_000 + port,
        external_port: port,
        ip_family: IpFamily::V4,
        socket: Default::default(),
        carrier: Default::default(),
        hello: Default::default(),
        udp: None,
        chains: Vec::new(),
        default_chain: Some(chain(table, None)),
        origins: origins("Gateway", "gw"),
    })
}

/// A listener that terminates TLS for one name.
pub(crate) fn tls_listener(port: u16, table: &str, secret: &str) -> Arc<Listener> {
    let tls = DownstreamTls {
        certificates: vec![SecretName::from(secret).into()],
        min_version: TlsVersion::V1_2,
        max_version: TlsVersion::V1_3,
        alpn: vec!["h2".into(), "http/1.1".into()],
        ciphers: Vec::new(),
        curves: Vec::new(),
        signature_algorithms: Vec::new(),
        resumption: Default::default(),
        clients: None,
    };
    let chain = FilterChain {
        server_names: ServerNames::Only(vec!["a.example".into()]),
        ..chain(table, Some(tls))
    };
    let plain = listener(port, table);
    Arc::new(Listener {
        hello: edge_ir::Hello::Read,
        chains: vec![chain],
        default_chain: None,
        ..(*plain).clone()
    })
}

/// A certificate that no handshake would take.
pub(crate) fn secret(name: &str) -> Arc<Secret> {
    let content = SecretContent::Certificate {
        chain: "chain".into(),
        key: SecretBytes::new(b"key".to_vec()),
    };
    Arc::new(Secret {
        name: name.into(),
        content,
        origins: origins("Secret", name),
    })
}

/// A fleet that serves `hosts` on port 80 by `clusters`, each with one endpoint.
pub(crate) fn fleet(hosts: Vec<Arc<VirtualHost>>, clusters: &[&str]) -> Fleet {
    let mut names = clusters.to_vec();
    names.sort_unstable();
    Fleet {
        key: "default/gw".into(),
        settings: Arc::new(FleetSettings {
            ready: Some(ReadyListener {
                address: "0.0.0.0".into(),
                port: 19003,
            }),
            ..Default::default()
        }),
        listeners: Arc::new(vec![listener(80, "default/gw/http")]),
        route_tables: Arc::new(vec![table("default/gw/http", hosts)]),
        clusters: Arc::new(names.iter().map(|name| cluster(name)).collect()),
        endpoints: Arc::new(names.iter().map(|name| endpoints(name, &[3000])).collect()),
        secrets: Arc::new(Vec::new()),
        patches: Arc::default(),
        custom_policies: Arc::default(),
    }
}
