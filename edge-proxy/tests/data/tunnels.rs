//! CONNECT that ends at the proxy: what is in the tunnel goes on as bytes. And tunnels through backends that speak
//! HTTP/2.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use edge_proxy::config::cluster::UpstreamProtocol;
use edge_proxy::config::http_manager::{Connect, HttpManager, Upgrade};
use edge_proxy::config::route::{Action, PathCondition};
use edge_proxy::stats::WorkerIndex;
use h2::ext::Protocol;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::support::{
    Backend, Config, Proxy, catch_all, cluster, entry, forward, get, http2, manager_of, nobody, route, run, snapshot,
    table, tunnelled, until,
};

/// A backend that sends everything back, with a word before it.
async fn echo() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                stream.write_all(b"heard ").await.unwrap();
                let (mut read, mut write) = stream.split();
                let _ = tokio::io::copy(&mut read, &mut write).await;
                let _ = stream.shutdown().await;
            });
        }
    });
    address
}

/// A proxy whose one route for CONNECT goes to a backend; another route is for all paths.
fn proxy(backend: SocketAddr, others: SocketAddr) -> Proxy {
    proxy_with(backend, others, |_| {})
}

fn proxy_with(backend: SocketAddr, others: SocketAddr, change: impl FnOnce(&mut HttpManager)) -> Proxy {
    let mut ends_here = forward(0);
    ends_here.upgrades = [Upgrade {
        protocol: Upgrade::CONNECT.into(),
        enabled: true,
        connect: Connect::Here,
    }]
    .into();
    let routes = vec![
        catch_all(forward(1)),
        route(PathCondition::Connect, Action::Forward(Box::new(ends_here))),
    ];
    let clusters = vec![entry(0, cluster(0), &[backend]), entry(1, cluster(1), &[others])];
    Proxy::start(Config {
        snapshot: snapshot(table("*", routes), clusters, change),
        workers: 1,
    })
}

#[test]
fn a_tunnel_in_http1_begins_behind_the_answer() {
    run(async {
        let other = Backend::named("other").await;
        let proxy = proxy(echo().await, other.address);
        let mut stream = TcpStream::connect(proxy.address).await.unwrap();
        // The client need not wait for the answer.
        let sent = b"CONNECT db.example:5432 HTTP/1.1\r\nhost: db.example:5432\r\n\r\nGET / HTTP/1.1\r\n\r\n";
        stream.write_all(sent).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (head, content) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK"), "{answer}");
        for absent in ["content-length", "transfer-encoding", "connection:"] {
            assert!(!head.contains(absent), "{head}");
        }
        assert_eq!(content, "heard GET / HTTP/1.1\r\n\r\n");
        assert_eq!(other.requests(), 0);
    });
}

#[test]
fn a_tunnel_in_http2_is_a_stream() {
    run(async {
        let proxy = proxy(echo().await, nobody());
        let mut client = http2(TcpStream::connect(proxy.address).await.unwrap()).await;
        let request = Request::connect("db.example:5432")
            .body(Full::<Bytes>::default())
            .unwrap();
        let response = client.send_request(request).await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(tunnelled(response, b"hello").await, "heard hello");
    });
}

/// RFC 9110 §9.3.6: nothing that came behind such a head may be taken for a request.
#[test]
fn what_does_not_become_a_tunnel_ends_the_connection() {
    run(async {
        let other = Backend::named("other").await;
        let proxy = proxy(nobody(), other.address);
        let nowhere = Proxy::start(Config {
            snapshot: snapshot(
                table("*", vec![catch_all(forward(0))]),
                vec![entry(0, cluster(0), &[other.address])],
                |_| {},
            ),
            workers: 1,
        });
        for (proxy, fields, status) in [
            (&proxy, "", 503),
            (&proxy, "content-length: 5\r\n", 400),
            (&proxy, "transfer-encoding: chunked\r\n", 501),
            // The route for all paths is none for a request without one.
            (&nowhere, "", 404),
        ] {
            let mut stream = TcpStream::connect(proxy.address).await.unwrap();
            let sent =
                format!("CONNECT h:80 HTTP/1.1\r\nhost: h:80\r\n{fields}\r\nGET /behind HTTP/1.1\r\nhost: h\r\n\r\n");
            stream.write_all(sent.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{fields}: {answer}");
            assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{answer}");
        }
        // A token of an upgrade is no CONNECT.
        let mut stream = TcpStream::connect(proxy.address).await.unwrap();
        let sent = "GET / HTTP/1.1\r\nhost: h\r\nconnection: upgrade\r\nupgrade: CONNECT\r\n\r\n";
        stream.write_all(sent.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
        assert_eq!(other.requests(), 0);
    });
}

/// A tunnel in HTTP/1 whose streams may be idle for ever, with a little time for what is left of them.
struct Stage {
    proxy: Proxy,
    client: TcpStream,
    backend: TcpStream,
}

impl Stage {
    async fn new() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let proxy = proxy_with(listener.local_addr().unwrap(), nobody(), |manager| {
            manager.timeouts.stream_idle = None;
            manager.timeouts.delayed_close = Duration::from_millis(300);
        });
        let mut client = TcpStream::connect(proxy.address).await.unwrap();
        let sent = b"CONNECT db.example:5432 HTTP/1.1\r\nhost: db.example:5432\r\n\r\n";
        client.write_all(sent).await.unwrap();
        let (mut backend, _) = listener.accept().await.unwrap();
        backend.write_all(b"hi").await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\nhi") {
            head.push(client.read_u8().await.unwrap());
        }
        let stage = Self { proxy, client, backend };
        assert_eq!((stage.open(), stage.requests()), (1, 1));
        stage
    }

    /// Tunnels of clients.
    fn open(&self) -> i64 {
        let snapshot = self.proxy.snapshot.borrow();
        let cells = manager_of(&snapshot);
        cells.stats.cells(WorkerIndex(0)).downstream_cx_upgrades_active.get()
    }

    /// Requests that count as the backend's.
    fn requests(&self) -> i64 {
        let snapshot = self.proxy.snapshot.borrow();
        let entry = snapshot.clusters[0].as_ref().unwrap();
        entry.cluster.stats.cells(WorkerIndex(0)).upstream_rq_active.get()
    }
}

#[test]
fn a_tunnel_whose_backend_has_gone_ends_though_its_client_stays() {
    run(async {
        let mut stage = Stage::new().await;
        stage.backend.write_all(b"bye").await.unwrap();
        stage.backend.shutdown().await.unwrap();
        let mut heard = String::new();
        stage.client.read_to_string(&mut heard).await.unwrap();
        assert_eq!(heard, "bye");
        // Without the client's end; what it sends makes no difference.
        until("the tunnel ends", || {
            let _ = stage.client.try_write(b"x");
            stage.open() == 0
        })
        .await;
        assert_eq!(stage.requests(), 0);
    });
}

#[test]
fn a_tunnel_whose_client_has_gone_ends_though_its_backend_stays() {
    run(async {
        let mut stage = Stage::new().await;
        stage.client.shutdown().await.unwrap();
        let mut heard = String::new();
        stage.backend.read_to_string(&mut heard).await.unwrap();
        assert_eq!(heard, "");
        // What is on its way still comes.
        stage.backend.write_all(b"late").await.unwrap();
        let mut heard = [0; 4];
        stage.client.read_exact(&mut heard).await.unwrap();
        until("the tunnel ends", || stage.open() == 0).await;
        assert_eq!(stage.requests(), 0);
    });
}

/// RFC 9113 §8.5, and RFC 8441 §5 where another protocol is spoken in the tunnel. What came before arrives.
#[test]
fn a_client_in_http2_hears_that_its_backend_broke_off() {
    run(async {
        let bind = async || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let (raw, http) = (bind().await, bind().await);
        let proxy = proxy(raw.local_addr().unwrap(), http.local_addr().unwrap());
        let stream = TcpStream::connect(proxy.address).await.unwrap();
        let (mut client, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        let connect = Request::connect("db.example:5432").body(()).unwrap();
        let mut websocket = Request::connect("http://h/ws").body(()).unwrap();
        websocket.extensions_mut().insert(Protocol::from_static("websocket"));
        let switched = &b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n"[..];
        for (request, backend, answer, reason) in [
            (connect, &raw, &b""[..], Reason::CONNECT_ERROR),
            (websocket, &http, switched, Reason::CANCEL),
        ] {
            let (response, _content): (_, SendStream<Bytes>) = client.send_request(request, false).unwrap();
            let (mut backend, _) = backend.accept().await.unwrap();
            if !answer.is_empty() {
                while backend.read_u8().await.unwrap() != b'\n' {}
                backend.write_all(answer).await.unwrap();
            }
            let response = response.await.unwrap();
            assert_eq!(response.status(), 200);
            backend.write_all(b"bye").await.unwrap();
            SockRef::from(&backend).set_linger(Some(Duration::ZERO)).unwrap();
            drop(backend);
            let mut body = response.into_body();
            assert_eq!(body.data().await.unwrap().unwrap(), "bye");
            let error = body.data().await.unwrap().unwrap_err();
            assert_eq!(error.reason(), Some(reason));
        }
    });
}

/// The head of a request as a backend has seen it.
struct Seen {
    method: Method,
    protocol: Option<String>,
    uri: String,
    headers: HeaderMap,
}

/// A backend that speaks HTTP/2 alone and answers with this status. Where that grants a tunnel it sends everything
/// back, with a word before it.
async fn echo_in_streams(status: StatusCode, takes_protocols: bool) -> (SocketAddr, mpsc::UnboundedReceiver<Seen>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, seen) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let sender = sender.clone();
            tokio::spawn(async move {
                let mut builder = h2::server::Builder::new();
                if takes_protocols {
                    builder.enable_connect_protocol();
                }
                let mut connection = builder.handshake::<_, Bytes>(stream).await.unwrap();
                while let Some(Ok((request, mut respond))) = connection.accept().await {
                    let (parts, body) = request.into_parts();
                    let protocol = parts.extensions.get::<Protocol>();
                    let _ = sender.send(Seen {
                        protocol: protocol.map(|protocol| protocol.as_str().to_owned()),
                        method: parts.method,
                        uri: parts.uri.to_string(),
                        headers: parts.headers,
                    });
                    let mut response = Response::new(());
                    *response.status_mut() = status;
                    let answer = respond.send_response(response, false).unwrap();
                    tokio::spawn(send_back(body, answer));
                }
            });
        }
    });
    (address, seen)
}

async fn send_back(mut body: RecvStream, mut answer: SendStream<Bytes>) {
    answer.send_data(Bytes::from_static(b"heard "), false).unwrap();
    while let Some(Ok(data)) = body.data().await {
        let _ = body.flow_control().release_capacity(data.len());
        if answer.send_data(data, false).is_err() {
            return;
        }
    }
    let _ = answer.send_data(Bytes::new(), true);
}

/// A proxy that passes CONNECT and other upgrades on to a backend that speaks HTTP/2.
fn proxy_to_streams(backend: SocketAddr) -> Proxy {
    let mut h2c = cluster(0);
    h2c.protocol = UpstreamProtocol::Http2;
    let mut onward = forward(0);
    onward.upgrades = [Upgrade {
        protocol: Upgrade::CONNECT.into(),
        enabled: true,
        connect: Connect::Beyond,
    }]
    .into();
    let routes = vec![
        catch_all(forward(0)),
        route(PathCondition::Connect, Action::Forward(Box::new(onward))),
    ];
    Proxy::start(Config {
        snapshot: snapshot(table("*", routes), vec![entry(0, h2c, &[backend])], |_| {}),
        workers: 1,
    })
}

fn websocket() -> Request<Full<Bytes>> {
    let mut request = get("h", "/ws?a");
    for (name, value) in [
        ("connection", "Upgrade"),
        ("upgrade", "WebSocket"),
        ("sec-websocket-version", "13"),
    ] {
        request.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    request
}

/// RFC 8441 §4.
fn is_extended_connect(seen: &Seen) {
    assert_eq!(
        (&seen.method, seen.protocol.as_deref()),
        (&Method::CONNECT, Some("websocket"))
    );
    assert_eq!(seen.uri, "http://h/ws?a");
    let fields = ["connection", "upgrade", "content-length"];
    assert!(
        fields.iter().all(|name| !seen.headers.contains_key(*name)),
        "{:?}",
        seen.headers
    );
}

#[test]
fn a_websocket_to_a_backend_in_http2_is_an_extended_connect() {
    run(async {
        let (backend, mut seen) = echo_in_streams(StatusCode::OK, true).await;
        let proxy = proxy_to_streams(backend);
        let response = proxy.http1().await.0.send_request(websocket()).await.unwrap();
        assert_eq!(response.status(), 101);
        assert_eq!(
            (&response.headers()["upgrade"], &response.headers()["connection"]),
            (
                &HeaderValue::from_static("websocket"),
                &HeaderValue::from_static("upgrade")
            )
        );
        // More than a window.
        let said = "x".repeat(300_000);
        assert_eq!(tunnelled(response, said.as_bytes()).await, format!("heard {said}"));
        let seen = seen.recv().await.unwrap();
        is_extended_connect(&seen);
        assert_eq!(seen.headers["sec-websocket-version"], "13");
    });
}

/// As kubectl opens its streams. A tunnel that said so would end at its first byte.
#[test]
fn the_length_of_an_empty_request_for_an_upgrade_is_none_of_the_tunnel() {
    run(async {
        let (backend, mut seen) = echo_in_streams(StatusCode::OK, true).await;
        let proxy = proxy_to_streams(backend);
        for method in [Method::GET, Method::POST] {
            let mut request = websocket();
            *request.method_mut() = method;
            request
                .headers_mut()
                .insert("content-length", HeaderValue::from_static("0"));
            let response = proxy.http1().await.0.send_request(request).await.unwrap();
            assert_eq!(response.status(), 101);
            assert_eq!(tunnelled(response, b"hello").await, "heard hello");
            assert!(!seen.recv().await.unwrap().headers.contains_key("content-length"));
        }
    });
}

#[test]
fn streams_of_clients_become_streams_to_backends() {
    run(async {
        let (backend, mut seen) = echo_in_streams(StatusCode::OK, true).await;
        let proxy = proxy_to_streams(backend);
        let mut client = http2(TcpStream::connect(proxy.address).await.unwrap()).await;
        // The setting that allows it comes with the server's first frame: one request makes sure that it has arrived.
        let first = Request::get("http://h/").body(Full::default()).unwrap();
        let _ = client.send_request(first).await;
        assert_eq!(seen.recv().await.unwrap().method, Method::GET);
        let mut request = Request::connect("http://h/ws?a").body(Full::default()).unwrap();
        let protocol = hyper::ext::Protocol::from_static("websocket");
        request.extensions_mut().insert(protocol);
        let response = client.send_request(request).await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(tunnelled(response, b"hello").await, "heard hello");
        is_extended_connect(&seen.recv().await.unwrap());
    });
}

#[test]
fn connect_goes_on_to_a_backend_in_http2() {
    run(async {
        let (backend, mut seen) = echo_in_streams(StatusCode::OK, false).await;
        let proxy = proxy_to_streams(backend);
        let mut stream = TcpStream::connect(proxy.address).await.unwrap();
        let sent = b"CONNECT db.example:5432 HTTP/1.1\r\nhost: db.example:5432\r\n\r\nhello";
        stream.write_all(sent).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.ends_with("\r\n\r\nheard hello"), "{answer}");
        let seen = seen.recv().await.unwrap();
        // RFC 9113 §8.5: neither scheme nor path.
        assert_eq!(
            (seen.method, seen.protocol, &*seen.uri),
            (Method::CONNECT, None, "db.example:5432")
        );
    });
}

#[test]
fn a_backend_in_http2_may_refuse_a_tunnel() {
    run(async {
        let (backend, mut seen) = echo_in_streams(StatusCode::FORBIDDEN, true).await;
        let proxy = proxy_to_streams(backend);
        let answer = proxy.http1().await.send(websocket()).await;
        // Our direction ends at once, so that the answer does.
        assert_eq!((answer.status, answer.text()), (403, "heard "));
        is_extended_connect(&seen.recv().await.unwrap());
    });
}

#[test]
fn a_backend_that_takes_no_other_protocols_resets_their_streams() {
    run(async {
        let (backend, mut seen) = echo_in_streams(StatusCode::OK, false).await;
        let proxy = proxy_to_streams(backend);
        assert_eq!(proxy.http1().await.send(websocket()).await.status, 503);
        assert!(seen.try_recv().is_err());
    });
}

/// RFC 9110 §7.8: the client would speak another protocol than the backend.
#[test]
fn a_backend_switches_to_what_it_was_asked_for_or_not_at_all() {
    run(async {
        for (asked, granted, status) in [
            ("WebSocket", "upgrade: WebSocket\r\n", 101),
            ("WebSocket", "upgrade: websocket/13\r\n", 101),
            ("WebSocket", "", 101),
            ("WebSocket", "upgrade: h2c\r\n", 502),
            ("SPDY/3.1", "upgrade: SPDY/3.1\r\n", 101),
            ("spdy/3.1", "upgrade: SPDY/3.1\r\n", 101),
            ("SPDY/3.1", "upgrade: SPDY/3\r\n", 502),
            ("SPDY/3.1", "upgrade: SPDY\r\n", 502),
        ] {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            let clusters = vec![entry(0, cluster(0), &[listener.local_addr().unwrap()])];
            let protocols = ["websocket", "spdy/3.1"].map(|protocol| Upgrade {
                protocol: protocol.into(),
                enabled: true,
                connect: Connect::Beyond,
            });
            let routes = table("*", vec![catch_all(forward(0))]);
            let proxy = Proxy::start(Config {
                snapshot: snapshot(routes, clusters, |manager| manager.upgrades = protocols.into()),
                workers: 1,
            });
            let answering = tokio::spawn(async move {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await.unwrap());
                }
                let answer = format!("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\n{granted}\r\n");
                stream.write_all(answer.as_bytes()).await.unwrap();
                stream
            });
            let mut request = websocket();
            request.headers_mut().insert("upgrade", HeaderValue::from_static(asked));
            let response = proxy.http1().await.0.send_request(request).await.unwrap();
            assert_eq!(response.status(), status, "{asked}, {granted}");
            drop(answering.await.unwrap());
        }
    });
}
