//! The set-up: a backend that keeps what it is sent, a proxy in front of it with a listener for each set of settings,
//! and a client that sends bytes as they are.

use e2e::{
    http::{self, Request},
    ports,
    process::{Process, wait_for},
    stack::{DataPlane, PATIENCE, program},
};
use serde_json::{Map, Value, json};
use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    process::Command,
    sync::{Arc, mpsc},
    thread,
};
use tempfile::TempDir;

const HTTP: &str = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3";
const ROUTER: &str = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router";

/// The data planes by name.
pub(crate) fn data_planes() -> [(&'static str, DataPlane); 2] {
    [
        ("edge-proxy", DataPlane::EdgeProxy),
        ("Envoy", DataPlane::envoy().unwrap()),
    ]
}

/// What a request led to.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The status that the client got.
    pub(crate) status: u16,
    /// Its `location`.
    pub(crate) location: Option<String>,
    /// The lines of the request's head as the backend got it; none if it got none.
    pub(crate) seen: Option<Vec<String>>,
}

impl Outcome {
    /// The target that the backend got.
    pub(crate) fn target(&self) -> Option<&str> {
        self.seen.as_ref()?.first()?.split(' ').nth(1)
    }

    /// All values of a field that the backend got, one a line.
    pub(crate) fn fields(&self, name: &str) -> Vec<&str> {
        let lines = self
            .seen
            .iter()
            .flatten()
            .skip(1)
            .filter_map(|line| line.split_once(": "));
        lines
            .filter(|(n, _)| *n == name)
            .map(|(_, value)| value.trim())
            .collect()
    }
}

/// A listener and what its configuration says beside the usual.
pub(crate) struct Socket {
    /// Its name.
    pub(crate) name: &'static str,
    /// Fields of the connection manager.
    pub(crate) manager: Value,
    /// Fields of the filter chain.
    pub(crate) chain: Value,
    /// Fields of the listener.
    pub(crate) listener: Value,
}

impl Socket {
    /// Nothing beside the usual.
    pub(crate) fn of(name: &'static str) -> Self {
        Self {
            name,
            manager: json!({}),
            chain: json!({}),
            listener: json!({}),
        }
    }
}

/// A proxy with its backend.
pub(crate) struct Bench {
    proxy: Process,
    _folder: TempDir,
    admin: SocketAddr,
    listeners: BTreeMap<&'static str, SocketAddr>,
    seen: mpsc::Receiver<Vec<String>>,
}

impl Bench {
    /// Starts a data plane with a listener for each set of settings of the connection manager; the prefix is that of
    /// `x-envoy-` headers.
    pub(crate) fn start(plane: &DataPlane, prefix: &str, settings: &[(&'static str, Value)]) -> Self {
        let (backend, seen) = backend("ok");
        let bench = Self::in_front_of(backend, plane, prefix, settings);
        Self { seen, ..bench }
    }

    /// The same in front of another backend, of which nothing is reported.
    pub(crate) fn in_front_of(
        backend: SocketAddr,
        plane: &DataPlane,
        prefix: &str,
        settings: &[(&'static str, Value)],
    ) -> Self {
        Self::with_clusters(&[cluster("backend", &[endpoint(backend)])], plane, prefix, settings)
    }

    /// The same with these clusters.
    pub(crate) fn with_clusters(
        clusters: &[Value],
        plane: &DataPlane,
        prefix: &str,
        settings: &[(&'static str, Value)],
    ) -> Self {
        let chains: Vec<_> = settings
            .iter()
            .map(|(name, settings)| (*name, settings.clone(), json!({})))
            .collect();
        Self::with_chains(clusters, plane, prefix, &chains)
    }

    /// The same, for each listener with further fields of its filter chain.
    pub(crate) fn with_chains(
        clusters: &[Value],
        plane: &DataPlane,
        prefix: &str,
        settings: &[(&'static str, Value, Value)],
    ) -> Self {
        let sockets: Vec<_> = settings
            .iter()
            .map(|(name, manager, chain)| Socket {
                manager: manager.clone(),
                chain: chain.clone(),
                ..Socket::of(name)
            })
            .collect();
        Self::with_sockets(clusters, plane, prefix, &sockets)
    }

    /// The same, for each listener with fields of its own too.
    pub(crate) fn with_sockets(clusters: &[Value], plane: &DataPlane, prefix: &str, sockets: &[Socket]) -> Self {
        let listeners: Vec<_> = sockets.iter().map(|socket| (socket.name, listener(socket))).collect();
        let bench = Self::with_listeners(clusters, plane, prefix, &listeners);
        for (name, address) in &bench.listeners {
            let open = wait_for(&format!("listener {name}"), PATIENCE, || {
                Ok(TcpStream::connect(address).ok())
            });
            if let Err(error) = open {
                panic!("{error:#}; it printed:\n{}", bench.proxy.output());
            }
        }
        bench
    }

    /// The same with listeners of any kind, which are given an address and a name. Nobody has connected to them.
    pub(crate) fn with_listeners(
        clusters: &[Value],
        plane: &DataPlane,
        prefix: &str,
        settings: &[(&'static str, Value)],
    ) -> Self {
        Self::with_bootstrap(clusters, plane, prefix, settings, &json!({}))
    }

    /// The same with further fields of the bootstrap.
    pub(crate) fn with_bootstrap(
        clusters: &[Value],
        plane: &DataPlane,
        prefix: &str,
        settings: &[(&'static str, Value)],
        more: &Value,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ports = ports::free::<32>().unwrap();
        let address = |index: usize| SocketAddr::from((Ipv4Addr::LOCALHOST, ports[index]));
        let (mut listeners, mut list) = (BTreeMap::new(), Vec::new());
        for (index, (name, listener)) in settings.iter().enumerate() {
            let mut listener = listener.clone();
            listener["name"] = (*name).into();
            listener["address"] = socket_address(address(index));
            if listener.get("udp_listener_config").is_some() {
                listener["address"]["socket_address"]["protocol"] = "UDP".into();
            }
            listeners.insert(*name, address(index));
            list.push(listener);
        }
        let admin = address(settings.len());
        let mut bootstrap = json!({
            "node": {"id": "bench", "cluster": "benches"},
            "admin": {"address": socket_address(admin)},
            "header_prefix": prefix,
            "static_resources": {"listeners": list, "clusters": clusters},
        });
        bootstrap
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let file = folder.path().join("bootstrap.json");
        fs::write(&file, bootstrap.to_string()).unwrap();
        let mut command = match plane {
            DataPlane::EdgeProxy => Command::new(program("edge-proxy").unwrap()),
            DataPlane::Envoy(path) => Command::new(path),
        };
        command.arg("-c").arg(&file).args(["--concurrency", "1"]);
        // Clients are told at once, and have longer than any test.
        command.args(["--drain-strategy", "immediate", "--drain-time-s", "600"]);
        if matches!(plane, DataPlane::Envoy(_)) {
            command.arg("--use-dynamic-base-id");
        }
        let proxy = Process::start("proxy", folder.path(), &mut command).unwrap();
        let ready = wait_for("a proxy that is ready", PATIENCE, || {
            let answer = http::send(admin, &Request::get("admin", "/ready"));
            Ok(answer.ok().filter(|answer| answer.status == 200).map(drop))
        });
        if let Err(error) = ready {
            panic!("{error:#}; it printed:\n{}", proxy.output());
        }
        Self {
            proxy,
            _folder: folder,
            admin,
            listeners,
            seen: mpsc::channel().1,
        }
    }

    /// The same with what its backend reports.
    pub(crate) fn reporting(self, seen: mpsc::Receiver<Vec<String>>) -> Self {
        Self { seen, ..self }
    }

    /// What the backend got last, behind an answer of 200.
    pub(crate) fn seen(&self) -> Outcome {
        Outcome {
            status: 200,
            location: None,
            seen: self.seen.try_recv().ok(),
        }
    }

    /// Orders something of the admin interface.
    pub(crate) fn order(&self, path: &str) {
        let order = Request {
            method: "POST",
            ..Request::get("admin", path)
        };
        assert_eq!(http::send(self.admin, &order).unwrap().status, 200, "{path}");
    }

    /// All statistics as text.
    pub(crate) fn stats(&self) -> String {
        let answer = http::send(self.admin, &Request::get("admin", "/stats")).unwrap();
        String::from_utf8_lossy(&answer.body).into_owned()
    }

    /// Where a listener listens.
    pub(crate) fn address(&self, listener: &str) -> SocketAddr {
        self.listeners[listener]
    }

    /// A connection to a listener.
    pub(crate) fn connect(&self, listener: &str) -> TcpStream {
        http::connect(self.listeners[listener]).unwrap()
    }

    /// Sends a request as it is. The backend answers at once, so what it got is known when the client has its answer.
    pub(crate) fn send(&self, listener: &str, request: &str) -> Outcome {
        let mut stream = self.connect(listener);
        stream.write_all(request.as_bytes()).unwrap();
        let response = http::read_response(&mut BufReader::new(stream)).unwrap();
        Outcome {
            status: response.status,
            location: response.header("location").map(str::to_owned),
            seen: self.seen.try_recv().ok(),
        }
    }
}

/// A listener with a connection manager.
pub(crate) fn listener(socket: &Socket) -> Value {
    let name = socket.name;
    let mut manager = json!({
        "@type": format!("{HTTP}.HttpConnectionManager"),
        "stat_prefix": name,
        "use_remote_address": true,
        "http_filters": [{"name": "router", "typed_config": {"@type": ROUTER}}],
        "route_config": {"name": name, "virtual_hosts": [
            {"name": "all", "domains": ["*"], "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "backend"}}]},
        ]},
    });
    let fields: &mut Map<String, Value> = manager.as_object_mut().unwrap();
    fields.extend(socket.manager.as_object().unwrap().clone());
    let mut chain = socket.chain.clone();
    chain["filters"] = json!([{"name": "http", "typed_config": manager}]);
    let mut listener = socket.listener.clone();
    listener["filter_chains"] = json!([chain]);
    listener
}

fn socket_address(address: SocketAddr) -> Value {
    json!({"socket_address": {"address": address.ip().to_string(), "port_value": address.port()}})
}

/// An endpoint of a cluster.
pub(crate) fn endpoint(address: SocketAddr) -> Value {
    json!({"endpoint": {"address": socket_address(address)}})
}

/// A cluster with these endpoints.
pub(crate) fn cluster(name: &str, endpoints: &[Value]) -> Value {
    json!({
        "name": name,
        "type": "STATIC",
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": endpoints}]},
    })
}

/// A backend that answers every request with this text and reports its head first.
pub(crate) fn backend(text: &'static str) -> (SocketAddr, mpsc::Receiver<Vec<String>>) {
    let (report, seen) = mpsc::channel();
    (listen(move |stream| serve(&stream, text, &report)), seen)
}

/// Has every connection served on a thread of its own.
pub(crate) fn listen(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let serve = Arc::new(serve);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let serve = Arc::clone(&serve);
            thread::spawn(move || serve(stream.unwrap()));
        }
    });
    address
}

fn serve(stream: &TcpStream, text: &str, report: &mpsc::Sender<Vec<String>>) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            if reader.by_ref().read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            match line.trim_end_matches(['\r', '\n']) {
                "" => break,
                line => head.push(line.to_owned()),
            }
        }
        // A test that has ended listens no longer.
        if report.send(head).is_err() {
            return;
        }
        let mut writer = stream;
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{text}", text.len());
        if writer.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}
