//! A proxy, backends and clients for tests.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener as StdListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use edge_proxy::compile::prefixed_headers;
use edge_proxy::config::cluster::{Balancing, CircuitLimits, Cluster, ClusterEntry, LbPolicy, UpstreamProtocol};
use edge_proxy::config::endpoint::{EndpointSet, Health, Host, HostAddress, HostId, Priority};
use edge_proxy::config::listener::{
    ClientAddress, Codec, DownstreamTimeouts, EscapedSlashes, FilterChain, FilterChains, ForwardClientCert,
    Http1Options, Http2Options, HttpManager, Listener, Network, PathNormalization, RequestId, RouteSource,
    RouterOptions, SchemeOverride, ServerHeader, StripPort, UnderscoreAction,
};
use edge_proxy::config::route::{Action, ClusterChoice, Forward, PathCondition, Route};
use edge_proxy::config::table::{HostTable, PathIndex, RouteTable, TlsRequirement, VirtualHost};
use edge_proxy::config::{ClusterId, RouteTableId, Snapshot};
use edge_proxy::shared::{BoundListener, Drain, ListeningSockets, RuntimeFlags, Shared};
use edge_proxy::stats::{ClusterStats, HttpStats, ListenerStats, ServerStats, WorkerIndex};
use edge_proxy::worker;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// How long a test waits for what must happen. Only a failing test reaches it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Runs a test with the runtime of its clients and backends.
pub(crate) fn run<F: Future>(test: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async { tokio::time::timeout(PATIENCE, test).await.expect("the test hangs") })
}

// ---------------------------------------------------------------------------------------------- configuration

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
        retry: None,
        path_rewrite: None,
        host_rewrite: None,
        append_x_forwarded_host: false,
        mirrors: Box::default(),
        upgrades: Box::default(),
        attempt_count_in_request: false,
        attempt_count_in_response: false,
    }
}

pub(crate) fn route(path: PathCondition, action: Action) -> Route {
    Route {
        name: Arc::from("route"),
        path,
        headers: Box::default(),
        query: Box::default(),
        fraction: None,
        grpc_only: false,
        cors: None,
        action,
        request_headers: Arc::from([]),
        response_headers: Arc::from([]),
    }
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
    let private = |text: &str, prefix_len| edge_proxy::config::listener::AddressRange {
        address: text.parse().unwrap(),
        prefix_len,
    };
    HttpManager {
        codec: Codec::Auto,
        routes,
        filters: Vec::new(),
        router: RouterOptions {
            suppress_envoy_headers: false,
            respect_expected_rq_timeout: false,
        },
        prefixed: Arc::new(prefixed_headers("x-edge").unwrap()),
        client_address: ClientAddress {
            use_remote_address: true,
            xff_trusted_hops: 0,
            skip_xff_append: false,
            internal_ranges: vec![private("127.0.0.0", 8), private("10.0.0.0", 8)],
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
            request: None,
            request_headers: None,
            max_connection_duration: None,
            max_stream_duration: None,
            drain: Duration::from_secs(5),
            delayed_close: Duration::from_secs(1),
        },
        max_requests_per_connection: None,
        upgrades: vec![edge_proxy::config::listener::Upgrade {
            protocol: "websocket".into(),
            enabled: true,
        }],
        scheme: SchemeOverride::Downstream,
        forward_client_cert: ForwardClientCert::Sanitize,
        stats: Arc::new(HttpStats::new("http.in.", "in", 2)),
    }
}

pub(crate) fn chain(manager: HttpManager) -> Arc<FilterChain> {
    Arc::new(FilterChain {
        name: Arc::from(""),
        tls: None,
        network: Network::Http(Arc::new(manager)),
        fingerprint: 0,
    })
}

pub(crate) fn listener(chains: FilterChains) -> Arc<Listener> {
    Arc::new(Listener {
        name: Arc::from("in"),
        addresses: Vec::new(),
        chains,
        udp: None,
        inspects_tls: false,
        per_connection_buffer_limit: 32 * 1024,
        handshake_timeout: Duration::from_secs(10),
        bypass_overload: false,
        stats: Arc::new(ListenerStats::new("listener.in.", "in", 2)),
    })
}

pub(crate) fn cluster(id: u32) -> Cluster {
    Cluster {
        name: Arc::from(format!("c{id}")),
        connect_timeout: Duration::from_secs(5),
        balancing: Balancing {
            policy: LbPolicy::RoundRobin,
            locality_weighted: false,
        },
        protocol: UpstreamProtocol::Http1,
        tls: None,
        limits: CircuitLimits::default(),
        per_connection_buffer_limit: 32 * 1024,
        idle_timeout: Some(Duration::from_secs(60)),
        max_connection_duration: None,
        max_requests_per_connection: None,
        http2: http2_options(),
        tcp_keepalive: None,
        stats: Arc::new(ClusterStats::new(format!("cluster.c{id}."), format!("c{id}"), 2)),
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
            })
        })
        .collect();
    let usable: Box<[u32]> = (0..hosts.len() as u32).collect();
    let load = if hosts.is_empty() { 0 } else { 100 };
    let total_weight = hosts.len() as u64;
    let priority = Priority {
        usable,
        equal_weights: true,
        total_weight,
        ..Priority::default()
    };
    Arc::new(EndpointSet {
        hosts,
        priorities: [priority].into(),
        priority_load: [load].into(),
    })
}

pub(crate) fn entry(id: u32, cluster: Cluster, addresses: &[SocketAddr]) -> Option<Arc<ClusterEntry>> {
    let endpoints = endpoints(addresses);
    Some(Arc::new(ClusterEntry {
        id: ClusterId(id),
        cluster: Arc::new(cluster),
        endpoints,
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
    let listener = listener(FilterChains {
        default: Some(chain(manager)),
        ..FilterChains::default()
    });
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

// ------------------------------------------------------------------------------------------------------ proxy

/// A running proxy.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    pub(crate) snapshot: watch::Sender<Arc<Snapshot>>,
    pub(crate) sockets: watch::Sender<Arc<[Arc<BoundListener>]>>,
    pub(crate) drain: watch::Sender<Drain>,
    pub(crate) shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    ended: mpsc::Receiver<()>,
}

impl Proxy {
    pub(crate) fn start(config: Config) -> Self {
        let socket = StdListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.set_nonblocking(true).unwrap();
        let address = socket.local_addr().unwrap();
        // One socket is enough: workers that share it take turns, which is all that tests need.
        let sockets = (0..config.workers).map(|_| socket.try_clone().unwrap()).collect();
        drop(socket);
        let bound = Arc::new(BoundListener {
            listener: Arc::from("in"),
            address,
            sockets: ListeningSockets::Tcp(sockets),
        });
        let (snapshot, snapshot_receiver) = watch::channel(Arc::new(config.snapshot));
        let (sockets, sockets_receiver) = watch::channel(Arc::from([bound]));
        let (drain, drain_receiver) = watch::channel(Drain::Serving);
        let shared = Arc::new(Shared {
            workers: config.workers,
            snapshot: snapshot_receiver,
            sockets: sockets_receiver,
            drain: drain_receiver,
            flags: RuntimeFlags::default(),
            stats: Arc::new(ServerStats::new("", "", config.workers)),
            admin_address: None,
        });
        let (end, ended) = mpsc::channel();
        let threads = (0..config.workers)
            .map(|index| {
                let (shared, end) = (Arc::clone(&shared), end.clone());
                std::thread::spawn(move || {
                    worker::run(shared, WorkerIndex(index)).unwrap();
                    end.send(()).unwrap();
                })
            })
            .collect();
        Self {
            address,
            snapshot,
            sockets,
            drain,
            shared,
            threads,
            ended,
        }
    }

    /// Publishes a changed snapshot.
    pub(crate) fn publish(&self, change: impl FnOnce(&mut Snapshot)) {
        let now = Arc::clone(&self.snapshot.borrow());
        let mut next = Snapshot {
            version: now.version + 1,
            listeners: Arc::clone(&now.listeners),
            route_tables: Arc::clone(&now.route_tables),
            clusters: Arc::clone(&now.clusters),
            cluster_ids: Arc::clone(&now.cluster_ids),
        };
        change(&mut next);
        self.snapshot.send(Arc::new(next)).unwrap();
    }

    /// Waits until every worker has returned.
    pub(crate) fn wait_for_end(&self) {
        for _ in &self.threads {
            self.ended.recv_timeout(PATIENCE).expect("the worker goes on");
        }
    }

    /// A new HTTP/1 connection.
    pub(crate) async fn http1(&self) -> Http1 {
        Http1::connect(self.address).await
    }

    /// One GET on a connection of its own.
    pub(crate) async fn get(&self, host: &str, path: &str) -> Reply {
        self.http1().await.get(host, path).await
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.drain.send_replace(Drain::Stop);
        for thread in self.threads.drain(..) {
            let joined = thread.join();
            if !std::thread::panicking() {
                joined.unwrap();
            }
        }
    }
}

// ---------------------------------------------------------------------------------------------------- clients

/// A response with its whole body.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) trailers: Option<http::HeaderMap>,
}

impl Reply {
    pub(crate) async fn of(response: Response<Incoming>) -> hyper::Result<Self> {
        let (parts, body) = response.into_parts();
        let collected = body.collect().await?;
        let trailers = collected.trailers().cloned();
        Ok(Self {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body: collected.to_bytes(),
            trailers,
        })
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

pub(crate) type Sender1 = hyper::client::conn::http1::SendRequest<Full<Bytes>>;

/// An HTTP/1 connection to a proxy.
pub(crate) struct Http1(pub(crate) Sender1);

impl Http1 {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .unwrap();
        tokio::spawn(connection.with_upgrades());
        Self(sender)
    }

    pub(crate) async fn send(&mut self, request: Request<Full<Bytes>>) -> Reply {
        self.0.ready().await.unwrap();
        let response = self.0.send_request(request).await.unwrap();
        Reply::of(response).await.unwrap()
    }

    pub(crate) async fn get(&mut self, host: &str, path: &str) -> Reply {
        self.send(get(host, path)).await
    }
}

pub(crate) fn get(host: &str, path: &str) -> Request<Full<Bytes>> {
    Request::get(path).header("host", host).body(Full::default()).unwrap()
}

/// An HTTP/2 connection (prior knowledge) over any stream.
pub(crate) async fn http2<S>(stream: S) -> hyper::client::conn::http2::SendRequest<Full<Bytes>>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
        .await
        .unwrap();
    tokio::spawn(connection);
    sender
}

// --------------------------------------------------------------------------------------------------- backends

/// What a backend saw, with its whole body.
pub(crate) type Seen = Request<Bytes>;

/// A backend that answers with a function; counts connections and remembers requests.
#[derive(Clone)]
pub(crate) struct Backend {
    pub(crate) address: SocketAddr,
    pub(crate) connections: Arc<AtomicUsize>,
    seen: Arc<std::sync::RwLock<Vec<Seen>>>,
    arrived: Arc<tokio::sync::Notify>,
}

/// What a backend speaks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speaks {
    Http1,
    Http2,
}

impl Backend {
    /// A backend that answers 200 with its name.
    pub(crate) async fn named(name: &'static str) -> Self {
        Self::start(Speaks::Http1, move |_| Response::new(Full::from(name))).await
    }

    /// A backend that answers by a function.
    pub(crate) async fn start<F>(speaks: Speaks, answer: F) -> Self
    where
        F: Fn(&Seen) -> Response<Full<Bytes>> + Clone + Send + Sync + 'static,
    {
        Self::start_async(speaks, move |seen| {
            let response = answer(seen);
            async move { response }
        })
        .await
    }

    /// A backend that answers by an asynchronous function.
    pub(crate) async fn start_async<F, R>(speaks: Speaks, answer: F) -> Self
    where
        F: Fn(&Seen) -> R + Clone + Send + Sync + 'static,
        R: Future<Output = Response<Full<Bytes>>> + Send + 'static,
    {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let backend = Self {
            address: listener.local_addr().unwrap(),
            connections: Arc::default(),
            seen: Arc::default(),
            arrived: Arc::default(),
        };
        let this = backend.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                this.connections.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(this.clone().serve(stream, speaks, answer.clone()));
            }
        });
        backend
    }

    async fn serve<F, R>(self, stream: TcpStream, speaks: Speaks, answer: F)
    where
        F: Fn(&Seen) -> R + Clone + Send + Sync + 'static,
        R: Future<Output = Response<Full<Bytes>>> + Send + 'static,
    {
        let service = hyper::service::service_fn(move |request: Request<Incoming>| {
            let (this, answer) = (self.clone(), answer.clone());
            async move {
                let (parts, body) = request.into_parts();
                // A client that breaks off its body breaks off the request.
                let body = body.collect().await.map(http_body_util::Collected::to_bytes)?;
                let seen = Request::from_parts(parts, body);
                let response = answer(&seen);
                this.seen.write().unwrap().push(seen);
                this.arrived.notify_waiters();
                Ok::<_, hyper::Error>(response.await)
            }
        });
        let io = TokioIo::new(stream);
        // Errors are the other side's; tests look at what arrives.
        let _ = match speaks {
            Speaks::Http1 => {
                hyper::server::conn::http1::Builder::new()
                    .serve_connection(io, service)
                    .await
            }
            Speaks::Http2 => {
                hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                    .serve_connection(io, service)
                    .await
            }
        };
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn requests(&self) -> usize {
        self.seen.read().unwrap().len()
    }

    /// The last request.
    pub(crate) fn last(&self) -> Seen {
        self.seen.read().unwrap().last().expect("no request").clone()
    }

    /// Waits for the nth request.
    pub(crate) async fn wait_for(&self, n: usize) -> Seen {
        loop {
            let arrived = self.arrived.notified();
            tokio::pin!(arrived);
            arrived.as_mut().enable();
            if self.requests() >= n {
                return self.last();
            }
            arrived.await;
        }
    }
}

/// An address on which nobody listens.
pub(crate) fn nobody() -> SocketAddr {
    StdListener::bind((Ipv4Addr::LOCALHOST, 0))
        .unwrap()
        .local_addr()
        .unwrap()
}

/// Waits until a condition holds.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = std::time::Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "{what} never happens");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
