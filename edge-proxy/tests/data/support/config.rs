//! Configurations, made of their parts.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use edge_proxy::compile::prefixed_headers;
use edge_proxy::config::address::ClientAddress;
use edge_proxy::config::cluster::{Cluster, ClusterEntry};
use edge_proxy::config::endpoint::{EndpointSet, Group, Health, Host, HostAddress, HostId, LbSettings, Level};
use edge_proxy::config::filter::{FilterSettings, HttpFilters, Mark, RouteFilter, RouteFilters};
use edge_proxy::config::http_manager::{
    Codec, EscapedSlashes, ForwardClientCert, HttpManager, PathNormalization, RouteSource, RouterOptions,
    SchemeOverride, ServerHeader, StripPort, UnderscoreAction,
};
use edge_proxy::config::listener::{FilterChain, FilterChains, Hello, Listener, Network};
use edge_proxy::config::protocol::{Http1Options, Http2Options};
use edge_proxy::config::request_id::{RequestId, TracesInIds};
use edge_proxy::config::route::{Action, ClusterChoice, Forward, PathCondition, Route};
use edge_proxy::config::table::{HostTable, PathIndex, RouteTable, TlsRequirement, VirtualHost};
use edge_proxy::config::timeouts::DownstreamTimeouts;
use edge_proxy::config::{ClusterId, RouteTableId, Snapshot};
use edge_proxy::stats::{ClusterStats, HttpStats, ListenerStats};
use http::{HeaderValue, StatusCode};

/// What a proxy is started with.
pub(crate) struct Config {
    pub(crate) snapshot: Snapshot,
    pub(crate) workers: usize,
}

/// A forward with everything off.
pub(crate) fn forward(cluster: u32) -> Forward {
    Forward {
        clusters: ClusterChoice::Single(ClusterId(cluster)),
        cluster_not_found: StatusCode::SERVICE_UNAVAILABLE,
        timeout: Some(Duration::from_secs(15)),
        idle_timeout: None,
        max_stream_duration: None,
        hashing: Box::default(),
        retry: None,
        path_rewrite: None,
        host_rewrite: None,
        append_x_forwarded_host: false,
        body_limit: None,
        mirrors: Box::default(),
        upgrades: Box::default(),
        attempt_count_in_request: false,
        attempt_count_in_response: false,
    }
}

pub(crate) fn route(path: PathCondition, action: Action) -> Route {
    Route {
        tracing: None,
        name: Arc::from("route"),
        path,
        headers: Box::default(),
        query: Box::default(),
        cookies: Box::default(),
        fraction: None,
        grpc_only: false,
        filters: RouteFilters::default(),
        action,
        request_headers: Arc::from([]),
        response_headers: Arc::from([]),
        metadata: Box::default(),
    }
}

/// What a route says of a filter.
pub(crate) fn says(name: &str, settings: FilterSettings) -> RouteFilters {
    RouteFilters::new(vec![RouteFilter {
        name: name.into(),
        disabled: false,
        settings: Some(Arc::new(settings)),
        mark: Mark::default(),
    }])
}

/// A route for everything that forwards to a cluster.
pub(crate) fn catch_all(settings: Forward) -> Route {
    route(PathCondition::Prefix("/".into()), Action::Forward(Box::new(settings)))
}

pub(crate) fn virtual_host(routes: Vec<Route>) -> Arc<VirtualHost> {
    let routes: Box<[Route]> = routes.into();
    let index = PathIndex::new(&routes);
    Arc::new(VirtualHost {
        name: Arc::from("vh"),
        routes,
        index,
        require_tls: TlsRequirement::None,
    })
}

/// A table with one virtual host for `www.example.com` and `*`-less otherwise.
pub(crate) fn table(host: &str, routes: Vec<Route>) -> Arc<RouteTable> {
    let mut hosts = HostTable::default();
    match host {
        "*" => hosts.any = Some(virtual_host(routes)),
        exact => drop(hosts.exact.insert(exact.into(), virtual_host(routes))),
    }
    Arc::new(RouteTable {
        name: Arc::from("rt"),
        hosts,
        ignore_port: true,
    })
}

pub(crate) fn http2_options() -> Http2Options {
    Http2Options {
        max_concurrent_streams: 100,
        initial_stream_window: 65_536,
        initial_connection_window: 1_048_576,
        keepalive: None,
        allow_connect: true,
    }
}

pub(crate) fn manager(routes: RouteSource) -> HttpManager {
    let private = |text: &str, prefix_len| edge_proxy::config::address::AddressRange {
        address: text.parse().unwrap(),
        prefix_len,
    };
    HttpManager {
        tracing: None,
        access_logs: None,
        codec: Codec::Auto,
        routes,
        filters: HttpFilters::default(),
        router: RouterOptions {
            attempt_logs: None,
            suppress_envoy_headers: false,
        },
        early_edits: [].into(),
        prefixed: Arc::new(prefixed_headers("x-edge").unwrap()),
        client_address: ClientAddress {
            use_remote_address: true,
            xff_trusted_hops: 0,
            skip_xff_append: false,
            internal_ranges: vec![private("127.0.0.0", 8), private("10.0.0.0", 8)],
            detection: None,
        },
        server_header: ServerHeader::Overwrite(HeaderValue::from_static("edge")),
        via: None,
        path: PathNormalization {
            normalize: true,
            merge_slashes: true,
            escaped_slashes: EscapedSlashes::UnescapeAndRedirect,
        },
        underscores: UnderscoreAction::Reject,
        request_id: RequestId {
            generate: true,
            preserve_external: false,
            in_response: false,
            traces: TracesInIds::default(),
        },
        strip_port: StripPort::Keep,
        strip_trailing_host_dot: false,
        max_request_headers_bytes: 60 * 1024,
        max_request_headers: 100,
        http1: Http1Options::default(),
        http2: http2_options(),
        timeouts: DownstreamTimeouts {
            idle: Some(Duration::from_secs(3600)),
            stream_idle: Some(Duration::from_secs(300)),
            flush: None,
            request: None,
            request_headers: None,
            max_connection_duration: None,
            max_stream_duration: None,
            drain: Duration::from_secs(5),
            delayed_close: Duration::from_secs(1),
        },
        max_requests_per_connection: None,
        upgrades: vec![edge_proxy::config::http_manager::Upgrade {
            protocol: "websocket".into(),
            enabled: true,
            connect: edge_proxy::config::http_manager::Connect::default(),
        }],
        scheme: SchemeOverride::Downstream,
        forward_client_cert: ForwardClientCert::Sanitize,
        stats: Arc::new(HttpStats::new("http.in.", "in", 2)),
    }
}

/// The settings of HTTP on the only listener of a snapshot.
pub(crate) fn manager_of(snapshot: &Snapshot) -> Arc<HttpManager> {
    let listener = snapshot.listeners.values().next().unwrap();
    let chain = listener
        .chain_for(Hello::Cleartext, std::net::Ipv4Addr::LOCALHOST.into())
        .unwrap();
    Arc::clone(chain.network.http().unwrap())
}

pub(crate) fn chain(manager: HttpManager) -> Arc<FilterChain> {
    Arc::new(FilterChain {
        name: Arc::from(""),
        tls: None,
        handshake_timeout: Duration::from_secs(10),
        network: Network::Http(Arc::new(manager)),
        fingerprint: 0,
        settings: 0,
        guards: Arc::default(),
        limits: Arc::default(),
        transport: 0,
    })
}

/// One chain for everything.
pub(crate) fn only(chain: Arc<FilterChain>) -> FilterChains {
    let mut chains = FilterChains::default();
    chains.enter(None, &[], &chain);
    chains
}

pub(crate) fn listener(chains: FilterChains) -> Arc<Listener> {
    Arc::new(Listener {
        name: Arc::from("in"),
        addresses: Vec::new(),
        chains,
        udp: None,
        proxy_protocol: None,
        unmatched_logs: None,
        inspects_tls: false,
        per_connection_buffer_limit: 32 * 1024,
        inspection_timeout: Duration::from_secs(10),
        bypass_overload: false,
        stats: Arc::new(ListenerStats::new("listener.in.", "in", 2)),
    })
}

pub(crate) fn cluster(id: u32) -> Cluster {
    let name = format!("c{id}");
    let stats = ClusterStats::new(format!("cluster.{name}."), name.clone(), 2);
    Cluster {
        idle_timeout: Some(Duration::from_secs(60)),
        // What passes to clients is then for the listener to say.
        http1: edge_proxy::config::protocol::Http1Upstream {
            enable_trailers: true,
            keeps_names: false,
        },
        http2: http2_options(),
        ..Cluster::plain(&name, stats)
    }
}

pub(crate) fn endpoints(addresses: &[SocketAddr]) -> Arc<EndpointSet> {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    let hosts: Box<[Arc<Host>]> = addresses
        .iter()
        .map(|address| {
            Arc::new(Host {
                id: HostId(NEXT.fetch_add(1, Ordering::Relaxed) as u64),
                address: HostAddress::Socket(*address),
                hostname: Arc::from("backend.internal"),
                weight: 1,
                health: Health::Healthy,
                stats: Arc::default(),
                vitals: Arc::default(),
                check: None,
                socket: None,
            })
        })
        .collect();
    let members = (0..hosts.len() as u32).collect();
    let group = Group {
        name: Arc::from(""),
        weight: None,
        members,
    };
    let level = Level { groups: [group].into() };
    Arc::new(EndpointSet::new(hosts, [level].into(), LbSettings::default()))
}

pub(crate) fn entry(id: u32, cluster: Cluster, addresses: &[SocketAddr]) -> Option<Arc<ClusterEntry>> {
    let endpoints = endpoints(addresses);
    Some(Arc::new(ClusterEntry {
        id: ClusterId(id),
        cluster: Arc::new(cluster),
        endpoints,
        proxies: None,
    }))
}

/// A snapshot with one cleartext listener whose routes are dynamic table 0.
pub(crate) fn snapshot(
    table: Arc<RouteTable>,
    clusters: Vec<Option<Arc<ClusterEntry>>>,
    change: impl FnOnce(&mut HttpManager),
) -> Snapshot {
    let mut manager = manager(RouteSource::Dynamic {
        name: Arc::from("rt"),
        id: RouteTableId(0),
    });
    change(&mut manager);
    let listener = listener(only(chain(manager)));
    snapshot_with(listener, table, clusters)
}

pub(crate) fn snapshot_with(
    listener: Arc<Listener>,
    table: Arc<RouteTable>,
    clusters: Vec<Option<Arc<ClusterEntry>>>,
) -> Snapshot {
    let ids = clusters
        .iter()
        .flatten()
        .map(|entry| (Arc::clone(&entry.cluster.name), entry.id))
        .collect();
    Snapshot {
        version: 1,
        listeners: Arc::new(BTreeMap::from([(Arc::from("in"), listener)])),
        route_tables: Arc::new(vec![Some(table)]),
        clusters: Arc::new(clusters),
        cluster_ids: Arc::new(ids),
    }
}

/// One cluster, one catch-all route for every host.
pub(crate) fn simple(backend: SocketAddr) -> Config {
    with_forward(backend, forward(0))
}

pub(crate) fn with_forward(backend: SocketAddr, settings: Forward) -> Config {
    with_routes(backend, vec![catch_all(settings)])
}

pub(crate) fn with_routes(backend: SocketAddr, routes: Vec<Route>) -> Config {
    let clusters = vec![entry(0, cluster(0), &[backend])];
    Config {
        snapshot: snapshot(table("*", routes), clusters, |_| {}),
        workers: 1,
    }
}
