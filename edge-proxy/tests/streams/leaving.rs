//! Streams and tunnels that have the drain time: their listener has gone, or would serve them by other rules.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use edge_proxy::xds::Kind;
use h2::ext::Protocol;
use h2::{RecvStream, SendStream};
use http::{Method, Request};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::passthrough::{self, client_hello};
use crate::support::{Proxy, echo, rest, run, until};
use crate::tcp::{certificate, client_over_tls, exchange};

const DRAIN_TIME: Duration = Duration::from_secs(1);

/// Two clusters that echo.
async fn proxy(workers: usize) -> Proxy {
    let proxy = Proxy::with_workers(workers);
    proxy.shared.flags.set_drain_time(DRAIN_TIME);
    proxy.cluster("a", &[echo("").await]);
    proxy.cluster("b", &[echo("").await]);
    proxy
}

/// A TCP proxy as a chain has it.
fn onward(cluster: &str) -> String {
    format!(
        r#"{{name: tcp_proxy, typed_config: {{
    "@type": type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy, stat_prefix: t, cluster: {cluster}}}}}"#
    )
}

/// The same for clients of one address.
fn guarded(client: &str, cluster: &str) -> String {
    let tcp_proxy = onward(cluster);
    format!(
        r#"filters: [{{name: rbac, typed_config: {{
    "@type": type.googleapis.com/envoy.extensions.filters.network.rbac.v3.RBAC, stat_prefix: r, rules: {{action: ALLOW,
    policies: {{p: {{permissions: [{{any: true}}],
                 principals: [{{direct_remote_ip: {{address_prefix: {client}, prefix_len: 32}}}}]}}}}}}}}}}, {tcp_proxy}]"#
    )
}

/// A listener with one chain for all, and what else is said of it.
fn listen(proxy: &Proxy, name: &str, chain: &str, extra: &str) -> SocketAddr {
    let yaml = format!(
        r#"
name: {name}
address: {{socket_address: {{address: 127.0.0.1, port_value: 0}}}}
{extra}
default_filter_chain: {{{chain}}}
"#
    );
    proxy.put(Kind::Listener, "listener.v3.Listener", name, &yaml);
    proxy.address(name)
}

/// Has a listener go, and waits until its stream has: whatever was to leave before has left by then, too.
async fn outlast(proxy: &Proxy) {
    let address = listen(proxy, "gone", &guarded("127.0.0.1", "b"), "");
    let mut stream = TcpStream::connect(address).await.unwrap();
    assert_eq!(exchange(&mut stream, "before").await, "before");
    let start = Instant::now();
    proxy.remove_listener("gone");
    assert_eq!(rest(&mut stream).await, "");
    assert!(start.elapsed() >= DRAIN_TIME);
}

#[test]
fn a_stream_has_the_drain_time_when_its_chain_lets_in_others_or_leads_elsewhere() {
    run(async {
        for workers in [1, 3] {
            let proxy = proxy(workers).await;
            let open = async |name: &str| {
                let address = listen(&proxy, name, &guarded("127.0.0.1", "a"), "");
                let mut stream = TcpStream::connect(address).await.unwrap();
                assert_eq!(exchange(&mut stream, "before").await, "before");
                (address, stream)
            };
            let ((guarded_at, mut refused), (led_at, mut led)) = (open("guarded").await, open("led").await);
            let start = Instant::now();
            listen(&proxy, "guarded", &guarded("127.9.9.9", "a"), "");
            listen(&proxy, "led", &guarded("127.0.0.1", "b"), "");
            assert_eq!(exchange(&mut refused, "after").await, "after");
            assert_eq!(exchange(&mut led, "after").await, "after");
            assert_eq!((proxy.address("guarded"), proxy.address("led")), (guarded_at, led_at));
            // Changes that go on don't put the end off.
            proxy.cluster("c", &[]);
            listen(&proxy, "guarded", &guarded("127.9.9.8", "a"), "");
            assert_eq!((rest(&mut refused).await, rest(&mut led).await), Default::default());
            assert!(start.elapsed() >= DRAIN_TIME);
            until("both have ended", || proxy.of_cluster("a", "upstream_cx_active") == 0).await;
        }
    });
}

#[test]
fn a_stream_has_the_drain_time_when_the_chain_of_its_name_has_gone() {
    run(async {
        let proxy = proxy(1).await;
        let address = passthrough::listen(&proxy, "server_names: [a.example]", "server_names: [b.example]");
        let open = async |name: &str| {
            let hello = client_hello(name);
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(&hello).await.unwrap();
            stream.read_exact(&mut vec![0; hello.len()]).await.unwrap();
            stream
        };
        let (mut of_a, mut of_b) = (open("a.example").await, open("b.example").await);
        let start = Instant::now();
        passthrough::listen(&proxy, "server_names: [c.example]", "server_names: [b.example]");
        assert_eq!(exchange(&mut of_a, "after").await, "after");
        assert_eq!(rest(&mut of_a).await, "");
        assert!(start.elapsed() >= DRAIN_TIME);
        assert_eq!(exchange(&mut of_b, "after").await, "after");
    });
}

#[test]
fn a_stream_stays_when_its_listener_changes_in_what_does_not_concern_it() {
    run(async {
        for workers in [1, 3] {
            let proxy = proxy(workers).await;
            let chain = guarded("127.0.0.1", "a");
            let address = listen(&proxy, "kept", &chain, "");
            let mut stream = TcpStream::connect(address).await.unwrap();
            assert_eq!(exchange(&mut stream, "before").await, "before");
            let others = format!(
                r#"
per_connection_buffer_limit_bytes: 50000
listener_filters: [{{name: inspector, typed_config: {{
  "@type": type.googleapis.com/envoy.extensions.filters.listener.tls_inspector.v3.TlsInspector}}}}]
filter_chains: [{{filter_chain_match: {{server_names: [x.example]}}, filters: [{}]}}]
"#,
                onward("b")
            );
            assert_eq!(listen(&proxy, "kept", &chain, &others), address);
            outlast(&proxy).await;
            assert_eq!(exchange(&mut stream, "after").await, "after");
        }
    });
}

#[test]
fn a_stream_stays_when_the_certificate_of_its_listener_is_renewed() {
    run(async {
        for workers in [1, 3] {
            let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
            let [(old, _), (new, _)] = folders.each_ref().map(|folder| certificate(folder.path()));
            let proxy = proxy(workers).await;
            let show = |folder: &tempfile::TempDir| {
                let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
                let yaml = format!(
                    "{{name: mine, tls_certificate: {{certificate_chain: {{inline_string: {:?}}}, \
                     private_key: {{inline_string: {:?}}}}}}}",
                    read("tls.crt"),
                    read("tls.key")
                );
                proxy.secret("mine", &yaml);
            };
            show(&folders[0]);
            let socket = r#"transport_socket: {name: tls, typed_config: {
    "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext,
    common_tls_context: {tls_certificate_sds_secret_configs: [{name: mine, sds_config: {ads: {}}}]}}}"#;
            let chain = format!("{socket}, {}", guarded("127.0.0.1", "a"));
            let address = listen(&proxy, "kept", &chain, "");
            let mut stream = client_over_tls(&old, address).await;
            assert_eq!(exchange(&mut stream, "before").await, "before");
            show(&folders[1]);
            let mut other = client_over_tls(&new, address).await;
            assert_eq!(exchange(&mut other, "renewed").await, "renewed");
            outlast(&proxy).await;
            assert_eq!(exchange(&mut stream, "after").await, "after");
        }
    });
}

/// A backend that grants a websocket to everybody and sends back what it hears.
async fn switching() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::task::spawn_local(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::task::spawn_local(async move {
                head(&mut stream).await;
                let answer = "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\r\n";
                stream.write_all(answer.as_bytes()).await.unwrap();
                let (mut read, mut write) = stream.split();
                let _ = tokio::io::copy(&mut read, &mut write).await;
            });
        }
    });
    address
}

async fn head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(head).unwrap()
}

/// A listener for websockets, by a table of routes.
fn listen_for_websockets(proxy: &Proxy, table: &str) -> SocketAddr {
    let chain = format!(
        r#"filters: [{{name: hcm, typed_config: {{
    "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager,
    stat_prefix: h, http2_protocol_options: {{allow_connect: true}}, upgrade_configs: [{{upgrade_type: websocket}}],
    route_config: {{name: {table}, virtual_hosts: [{{name: h, domains: ["*"],
                   routes: [{{match: {{prefix: /}}, route: {{cluster: ws}}}}]}}]}},
    http_filters: [{{name: router, typed_config: {{
    "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}}}]}}}}]"#
    );
    listen(proxy, "ws", &chain, "")
}

async fn websocket(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = "GET /ws HTTP/1.1\r\nhost: h\r\nconnection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-key: k\r\n\
                   sec-websocket-version: 13\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let answer = head(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 101 "), "{answer}");
    stream
}

/// A websocket as a stream of HTTP/2 (RFC 8441).
struct Stream {
    send: SendStream<Bytes>,
    receive: RecvStream,
}

impl Stream {
    async fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        let (mut requests, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::task::spawn_local(connection);
        until("it is allowed", || requests.is_extended_connect_protocol_enabled()).await;
        let request = Request::builder().method(Method::CONNECT).uri("http://h/ws");
        let request = request.extension(Protocol::from_static("websocket")).body(()).unwrap();
        let (response, send) = requests.send_request(request, false).unwrap();
        let response = response.await.unwrap();
        assert_eq!(response.status(), 200);
        let receive = response.into_body();
        Self { send, receive }
    }

    async fn exchange(&mut self, word: &'static str) -> String {
        self.send.send_data(word.into(), false).unwrap();
        let mut heard = Vec::new();
        while heard.len() < word.len() {
            heard.extend(self.receive.data().await.unwrap().unwrap());
        }
        String::from_utf8(heard).unwrap()
    }

    /// Waits for its end, however it ends.
    async fn end(&mut self) {
        while let Some(Ok(_)) = self.receive.data().await {}
    }
}

#[test]
fn a_websocket_whose_listener_has_gone_has_the_drain_time() {
    run(async {
        for workers in [1, 3] {
            let proxy = proxy(workers).await;
            proxy.cluster("ws", &[switching().await]);
            let address = listen_for_websockets(&proxy, "r");
            let (mut one, mut other) = (websocket(address).await, Stream::open(address).await);
            assert_eq!(exchange(&mut one, "before").await, "before");
            assert_eq!(other.exchange("before").await, "before");
            let start = Instant::now();
            proxy.remove_listener("ws");
            assert_eq!(exchange(&mut one, "after").await, "after");
            assert_eq!(other.exchange("after").await, "after");
            // Changes that go on don't put the end off.
            listen(&proxy, "another", &guarded("127.0.0.1", "a"), "");
            assert_eq!(rest(&mut one).await, "");
            other.end().await;
            assert!(start.elapsed() >= DRAIN_TIME);
            until("both have ended", || proxy.of_cluster("ws", "upstream_cx_active") == 0).await;
        }
    });
}

#[test]
fn a_websocket_stays_when_its_listener_gets_other_routes() {
    run(async {
        for workers in [1, 3] {
            let proxy = proxy(workers).await;
            proxy.cluster("ws", &[switching().await]);
            let address = listen_for_websockets(&proxy, "r");
            let (mut one, mut other) = (websocket(address).await, Stream::open(address).await);
            assert_eq!(exchange(&mut one, "before").await, "before");
            assert_eq!(other.exchange("before").await, "before");
            assert_eq!(listen_for_websockets(&proxy, "s"), address);
            outlast(&proxy).await;
            assert_eq!(exchange(&mut one, "after").await, "after");
            assert_eq!(other.exchange("after").await, "after");
        }
    });
}
