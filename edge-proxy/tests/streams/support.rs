//! A proxy that is configured with Envoy messages, and backends.

use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use edge_proxy::compile::{Context, files::Disk, prefixed_headers};
use edge_proxy::config::Snapshot;
use edge_proxy::control::{Binding, Control};
use edge_proxy::shared::{Drain, Publishers, RuntimeFlags, Shared};
use edge_proxy::stats::{Merge, Scope, ServerStats, Value, WorkerIndex};
use edge_proxy::worker;
use edge_proxy::xds::Kind;
use edge_proxy::xds::assembly::{Assembly, Origin};
use edge_proxy::xds::delta::Incoming;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::watch;
use tokio::task::LocalSet;

/// How long a test waits for what must happen. Only a failing test reaches it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Runs a test with the runtime of its clients, its backends and the control half.
pub(crate) fn run<F: Future>(test: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let patient = async { tokio::time::timeout(PATIENCE, test).await.expect("the test hangs") };
    LocalSet::new().block_on(&runtime, patient)
}

/// A running proxy: workers, two if nobody says otherwise, and the control half.
pub(crate) struct Proxy {
    pub(crate) shared: Arc<Shared>,
    control: Rc<Control>,
    threads: Vec<JoinHandle<()>>,
}

impl Proxy {
    pub(crate) fn start() -> Self {
        Self::with_workers(2)
    }

    /// With as many workers.
    pub(crate) fn with_workers(workers: usize) -> Self {
        let (snapshot, snapshot_reader) = watch::channel(Arc::new(Snapshot::default()));
        let (sockets, sockets_reader) = watch::channel(Arc::from([]));
        let (drain, drain_reader) = watch::channel(Drain::Serving);
        let shared = Arc::new(Shared {
            workers,
            snapshot: snapshot_reader,
            sockets: sockets_reader,
            drain: drain_reader,
            flags: RuntimeFlags::default(),
            logs: edge_proxy::log_files::writer::LogWriter::default(),
            stats: Arc::new(ServerStats::new("", "", workers)),
            secrets: edge_proxy::stats::SecretScopes::default(),
            admin_address: None,
        });
        let publishers = Publishers {
            snapshot,
            sockets,
            drain,
        };
        let context = Context::new(Box::new(Disk), prefixed_headers("x-edge").unwrap(), workers);
        let control = Control::new(Assembly::new(context), Arc::clone(&shared), publishers, Binding::Bound);
        let start = |index| {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || worker::run(shared, WorkerIndex(index)).unwrap())
        };
        let threads = (0..workers).map(start).collect();
        Self {
            shared,
            control,
            threads,
        }
    }

    /// Takes a resource and publishes.
    pub(crate) fn put(&self, kind: Kind, type_url: &str, name: &str, yaml: &str) {
        self.take(
            kind,
            &format!("type.googleapis.com/envoy.config.{type_url}"),
            name,
            yaml,
        );
    }

    /// The same for a secret.
    pub(crate) fn secret(&self, name: &str, yaml: &str) {
        self.take(Kind::Secret, Kind::Secret.type_url(), name, yaml);
    }

    fn take(&self, kind: Kind, type_url: &str, name: &str, yaml: &str) {
        let codec = edge_xds::json::Codec::cached().unwrap();
        let json = serde_yaml::from_str(yaml).unwrap_or_else(|error| panic!("{error}: {yaml}"));
        let resource = Incoming {
            name: name.to_owned(),
            version: String::new(),
            body: codec.bytes_from_json(type_url, json).unwrap().into(),
            parts: None,
        };
        let rejected = self.control.apply(kind, Origin::Dynamic, &[resource], &[]);
        assert!(rejected.is_empty(), "{rejected:?}");
        self.control.settle();
    }

    /// A cluster with these endpoints.
    pub(crate) fn cluster(&self, name: &str, endpoints: &[SocketAddr]) {
        self.cluster_with(name, endpoints, "");
    }

    /// The same with further fields.
    pub(crate) fn cluster_with(&self, name: &str, endpoints: &[SocketAddr], extra: &str) {
        let yaml = format!("{{name: {name}, type: EDS, eds_cluster_config: {{eds_config: {{ads: {{}}}}}}{extra}}}");
        self.put(Kind::Cluster, "cluster.v3.Cluster", name, &yaml);
        self.endpoints(name, endpoints);
    }

    /// The endpoints of a cluster.
    pub(crate) fn endpoints(&self, name: &str, endpoints: &[SocketAddr]) {
        let list: Vec<_> = endpoints.iter().map(|address| (*address, "UNKNOWN")).collect();
        self.endpoints_by_health(name, &list);
    }

    /// The same with what is said about their health.
    pub(crate) fn endpoints_by_health(&self, name: &str, endpoints: &[(SocketAddr, &str)]) {
        let one = |(address, health): &(SocketAddr, &str)| {
            let socket = format!("{{address: {}, port_value: {}}}", address.ip(), address.port());
            format!("{{health_status: {health}, endpoint: {{address: {{socket_address: {socket}}}}}}}")
        };
        let list: Vec<String> = endpoints.iter().map(one).collect();
        let yaml = format!(
            "{{cluster_name: {name}, endpoints: [{{lb_endpoints: [{}]}}]}}",
            list.join(", ")
        );
        self.put(Kind::Assignment, "endpoint.v3.ClusterLoadAssignment", name, &yaml);
    }

    /// A listener with a TCP proxy as its default chain; returns where it listens.
    pub(crate) fn tcp(&self, settings: &str, chain: &str) -> SocketAddr {
        self.tcp_listener(settings, chain, "")
    }

    /// The same with further fields of the listener.
    pub(crate) fn tcp_listener(&self, settings: &str, chain: &str, extra: &str) -> SocketAddr {
        let yaml = format!(
            r#"
name: tcp
address: {{socket_address: {{address: 127.0.0.1, port_value: 0}}}}
{extra}
default_filter_chain:
  {chain}
  filters:
  - name: envoy.filters.network.tcp_proxy
    typed_config: {{"@type": type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy,
                   stat_prefix: t, {settings}}}
"#
        );
        self.put(Kind::Listener, "listener.v3.Listener", "tcp", &yaml);
        self.address("tcp")
    }

    /// A listener with a UDP proxy to a cluster; returns where it listens.
    pub(crate) fn udp(&self, cluster: &str, settings: &str) -> SocketAddr {
        let yaml = format!(
            r#"
name: udp
address: {{socket_address: {{address: 127.0.0.1, port_value: 0, protocol: UDP}}}}
udp_listener_config: {{downstream_socket_config: {{}}}}
listener_filters:
- name: envoy.filters.udp_listener.udp_proxy
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.filters.udp.udp_proxy.v3.UdpProxyConfig
    stat_prefix: u
    {settings}
    matcher: {{on_no_match: {{action: {{name: route, typed_config: {{
      "@type": type.googleapis.com/envoy.extensions.filters.udp.udp_proxy.v3.Route, cluster: {cluster}}}}}}}}}
"#
        );
        self.put(Kind::Listener, "listener.v3.Listener", "udp", &yaml);
        self.address("udp")
    }

    pub(crate) fn address(&self, listener: &str) -> SocketAddr {
        let sockets = self.shared.sockets.borrow();
        let bound = sockets.iter().find(|bound| &*bound.listener == listener);
        bound.expect("it listens").address
    }

    /// Takes a listener away.
    pub(crate) fn remove_listener(&self, name: &str) {
        self.control
            .apply(Kind::Listener, Origin::Dynamic, &[], &[name.to_owned()]);
        self.control.settle();
    }

    /// Begins the end.
    pub(crate) fn drain(&self) {
        self.control.drain(Drain::Draining);
        self.control.stop_accepting();
    }

    /// A counter or gauge of a cluster.
    pub(crate) fn of_cluster(&self, cluster: &str, name: &str) -> i64 {
        let snapshot = self.shared.snapshot.borrow().clone();
        read(&*snapshot.cluster_by_name(cluster).unwrap().cluster.stats, name)
    }

    /// A counter or gauge of a listener.
    pub(crate) fn of_listener(&self, listener: &str, name: &str) -> i64 {
        let snapshot = self.shared.snapshot.borrow().clone();
        read(&*snapshot.listeners[listener].stats, name)
    }

    /// A counter of the TCP proxy.
    pub(crate) fn of_tcp(&self, name: &str) -> i64 {
        let snapshot = self.shared.snapshot.borrow().clone();
        let chains = snapshot.listeners["tcp"].chains.all();
        match &chains[0].network {
            edge_proxy::config::listener::Network::Tcp(proxy)
            | edge_proxy::config::listener::Network::Passthrough(proxy) => read(&*proxy.stats, name),
            edge_proxy::config::listener::Network::Http(_) => panic!("not a TCP proxy"),
        }
    }

    /// A counter or gauge of the UDP proxy.
    pub(crate) fn of_udp(&self, name: &str) -> i64 {
        let snapshot = self.shared.snapshot.borrow().clone();
        read(&*snapshot.listeners["udp"].udp.as_ref().unwrap().stats, name)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.control.drain(Drain::Stop);
        for thread in self.threads.drain(..) {
            let joined = thread.join();
            if !std::thread::panicking() {
                joined.unwrap();
            }
        }
    }
}

fn read<C>(scope: &Scope<C>, wanted: &str) -> i64
where
    Scope<C>: Merge,
{
    let mut found = None;
    scope.merge(&mut |name, value| {
        if name == wanted {
            found = match value {
                Value::Counter(value) => i64::try_from(value).ok(),
                Value::Gauge(value) => Some(value),
                Value::Histogram(_) => None,
            };
        }
    });
    found.unwrap_or_else(|| panic!("no number {wanted}"))
}

/// Waits until a condition holds.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "{what} never happens");
        tokio::task::yield_now().await;
    }
}

/// A backend that greets with its name (if it has one), sends back what it receives, and says how it ended when the
/// client has ended its direction.
pub(crate) async fn echo(name: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::task::spawn_local(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::task::spawn_local(echo_one(stream, name));
        }
    });
    address
}

async fn echo_one(mut stream: TcpStream, name: &'static str) -> std::io::Result<()> {
    stream.write_all(name.as_bytes()).await?;
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer).await? {
            0 => break,
            read => stream.write_all(&buffer[..read]).await?,
        }
    }
    stream.write_all(b" bye").await?;
    stream.shutdown().await
}

/// Everything until the other side ends; a reset is an end, too.
pub(crate) async fn rest<S: tokio::io::AsyncRead + Unpin>(stream: &mut S) -> String {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes).await;
    String::from_utf8(bytes).unwrap()
}

/// An address on which nobody listens. It stays taken until this program ends, so that no other test listens there.
pub(crate) fn nobody() -> SocketAddr {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let address = socket.local_addr().unwrap();
    std::mem::forget(socket);
    address
}

/// A backend that answers datagrams with its name, who asks, and what was asked.
pub(crate) async fn answering(name: &'static str) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    tokio::task::spawn_local(async move {
        let mut buffer = [0; 2048];
        while let Ok((length, peer)) = socket.recv_from(&mut buffer).await {
            let text = format!("{name} {peer} {}", String::from_utf8_lossy(&buffer[..length]));
            let _ = socket.send_to(text.as_bytes(), peer).await;
        }
    });
    address
}
