//! HTTP/2, TLS, upgrades, trailers.

use std::net::Ipv4Addr;
use std::sync::Arc;

use bytes::Bytes;
use edge_proxy::config::RouteTableId;
use edge_proxy::config::cluster::UpstreamProtocol;
use edge_proxy::config::http_manager::{ForwardClientCert, RouteSource, ServerHeader};
use edge_proxy::config::listener::{FilterChain, FilterChains, Listener, Network};
use edge_proxy::config::tls::{DownstreamTls, Sni, TlsReports, UpstreamTls};
use http::{HeaderMap, HeaderValue, Request, Response, Version};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{
    Backend, Config, Proxy, Reply, Speaks, catch_all, cluster, entry, forward, get, http2, listener, manager, only,
    run, simple, snapshot, snapshot_with, table, tunnelled,
};

fn get_http2(uri: &str) -> Request<Full<Bytes>> {
    Request::get(uri).body(Full::default()).unwrap()
}

#[test]
fn http2_clients_are_served_on_the_same_port() {
    run(async {
        let backend = Backend::named("a").await;
        let proxy = Proxy::start(simple(backend.address));
        let mut client = http2(TcpStream::connect(proxy.address).await.unwrap()).await;
        let requests: Vec<_> = (0..50)
            .map(|n| client.send_request(get_http2(&format!("http://h/{n}"))))
            .collect();
        for request in requests {
            let reply = Reply::of(request.await.unwrap()).await.unwrap();
            assert_eq!((reply.status, reply.text()), (200, "a"));
        }
        let seen = backend.last();
        assert_eq!(
            (seen.version(), seen.headers()["host"].to_str().unwrap()),
            (Version::HTTP_11, "h")
        );
        assert_eq!(proxy.get("h", "/").await.status, 200);
    });
}

/// RFC 9113 §8.2.3: browsers send a cookie in crumbs, and most servers read the first field only.
#[test]
fn crumbs_of_a_cookie_reach_every_backend_as_one_field() {
    for speaks in [Speaks::Http1, Speaks::Http2] {
        run(async {
            let backend = Backend::start(speaks, |_| Response::new(Full::from("a"))).await;
            let mut cluster = cluster(0);
            if speaks == Speaks::Http2 {
                cluster.protocol = UpstreamProtocol::Http2;
            }
            let clusters = vec![entry(0, cluster, &[backend.address])];
            let proxy = Proxy::start(Config {
                snapshot: snapshot(table("*", vec![catch_all(forward(0))]), clusters, |_| {}),
                workers: 1,
            });
            let mut client = http2(TcpStream::connect(proxy.address).await.unwrap()).await;
            let mut request = get_http2("http://h/");
            for crumb in ["a=b", "c=d", "e=f; g=h"] {
                request.headers_mut().append("cookie", HeaderValue::from_static(crumb));
            }
            let reply = Reply::of(client.send_request(request).await.unwrap()).await.unwrap();
            assert_eq!(reply.status, 200);
            let seen = backend.last();
            let cookies: Vec<_> = seen.headers().get_all("cookie").iter().collect();
            assert_eq!(cookies, ["a=b; c=d; e=f; g=h"]);
        });
    }
}

#[test]
fn a_cluster_that_speaks_http2_shares_one_connection() {
    run(async {
        let backend = Backend::start(Speaks::Http2, |seen| Response::new(Full::from(seen.body().clone()))).await;
        let mut h2c = cluster(0);
        h2c.protocol = UpstreamProtocol::Http2;
        let clusters = vec![entry(0, h2c, &[backend.address])];
        let proxy = Proxy::start(Config {
            snapshot: snapshot(table("*", vec![catch_all(forward(0))]), clusters, |_| {}),
            workers: 1,
        });
        let mut tasks = Vec::new();
        for n in 0..20 {
            let mut client = proxy.http1().await;
            tasks.push(tokio::spawn(async move {
                let body = format!("body {n}");
                let request = Request::post("/p")
                    .header("host", "h.example")
                    .body(Full::from(body.clone()))
                    .unwrap();
                assert_eq!(client.send(request).await.text(), body);
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(backend.connections(), 1);
        let seen = backend.last();
        assert_eq!(
            (seen.version(), seen.uri().to_string().as_str()),
            (Version::HTTP_2, "http://h.example/p")
        );
        assert!(!seen.headers().contains_key("host") && !seen.headers().contains_key("connection"));
    });
}

/// A backend that answers gRPC: HTTP/2 with trailers.
async fn grpc_backend() -> std::net::SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = hyper::service::service_fn(|request: Request<hyper::body::Incoming>| async move {
                assert_eq!(
                    request.headers().get("te").map(HeaderValue::as_bytes),
                    Some(&b"trailers"[..])
                );
                let data = request.into_body().collect().await?.to_bytes();
                let mut trailers = HeaderMap::new();
                trailers.insert("grpc-status", HeaderValue::from_static("0"));
                let frames = [Ok::<_, hyper::Error>(Frame::data(data)), Ok(Frame::trailers(trailers))];
                let body = StreamBody::new(tokio_stream::iter(frames));
                Ok::<_, hyper::Error>(
                    Response::builder()
                        .header("content-type", "application/grpc")
                        .body(body)
                        .unwrap(),
                )
            });
            tokio::spawn(
                hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(stream), service),
            );
        }
    });
    address
}

#[test]
fn grpc_passes_with_its_trailers_and_gets_local_replies_it_understands() {
    run(async {
        let backend = grpc_backend().await;
        let mut grpc = cluster(0);
        grpc.protocol = UpstreamProtocol::Http2;
        let clusters = vec![entry(0, grpc, &[backend])];
        let table = table("h.example", vec![catch_all(forward(0))]);
        let proxy = Proxy::start(Config {
            snapshot: snapshot(table, clusters, |_| {}),
            workers: 1,
        });
        let mut client = http2(TcpStream::connect(proxy.address).await.unwrap()).await;
        let request = |host: &str| {
            Request::post(format!("http://{host}/pkg.Service/Call"))
                .header("content-type", "application/grpc")
                .header("te", "trailers")
                .body(Full::from("message"))
                .unwrap()
        };
        let reply = Reply::of(client.send_request(request("h.example")).await.unwrap())
            .await
            .unwrap();
        assert_eq!((reply.status, reply.text()), (200, "message"));
        assert_eq!(reply.trailers.unwrap()["grpc-status"], "0");
        let reply = Reply::of(client.send_request(request("nobody.example")).await.unwrap())
            .await
            .unwrap();
        assert_eq!((reply.status, reply.header("grpc-status")), (200, "12"));
    });
}

struct Identity {
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
}

fn identity(name: &str) -> Identity {
    let made = rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    Identity {
        certificate: made.cert.der().clone(),
        key,
    }
}

fn server_config(identity: &Identity, alpn: &[&[u8]]) -> rustls::ServerConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![identity.certificate.clone()], identity.key.clone_key())
        .unwrap();
    config.alpn_protocols = alpn.iter().map(|one| one.to_vec()).collect();
    config
}

fn client_config(trusted: &[&Identity], alpn: &[&[u8]]) -> Arc<rustls::ClientConfig> {
    let mut roots = rustls::RootCertStore::empty();
    for identity in trusted {
        roots.add(identity.certificate.clone()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|one| one.to_vec()).collect();
    Arc::new(config)
}

fn tls_chain(name: &str, identity: &Identity) -> Arc<FilterChain> {
    let mut http = manager(RouteSource::Dynamic {
        name: Arc::from("rt"),
        id: RouteTableId(0),
    });
    http.server_header = ServerHeader::Overwrite(HeaderValue::from_str(name).unwrap());
    let tls = server_config(identity, &[b"h2", b"http/1.1"]);
    Arc::new(FilterChain {
        name: Arc::from(name),
        tls: Some(Arc::new(DownstreamTls::new(tls, Vec::new()))),
        handshake_timeout: edge_proxy::config::timeouts::UNTIL_SERVED,
        network: Network::Http(Arc::new(http)),
        fingerprint: 0,
        settings: 0,
        guards: Arc::default(),
        limits: Arc::default(),
        transport: 0,
    })
}

async fn handshake(
    proxy: &Proxy,
    config: &Arc<rustls::ClientConfig>,
    name: &'static str,
) -> std::io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
    let stream = TcpStream::connect(proxy.address).await.unwrap();
    let name = ServerName::try_from(name).unwrap();
    tokio_rustls::TlsConnector::from(Arc::clone(config))
        .connect(name, stream)
        .await
}

/// Sends a request in HTTP/1.1.
async fn over_http1(stream: tokio_rustls::client::TlsStream<TcpStream>, request: http::Request<Full<Bytes>>) -> Reply {
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .unwrap();
    tokio::spawn(connection);
    Reply::of(sender.send_request(request).await.unwrap()).await.unwrap()
}

#[test]
fn the_server_name_chooses_the_chain_and_alpn_the_protocol() {
    run(async {
        let backend = Backend::named("a").await;
        let (exact, wild) = (identity("www.example.com"), identity("*.example.com"));
        let mut chains = FilterChains::default();
        chains.enter(Some("www.example.com"), &[], &tls_chain("exact", &exact));
        chains.enter(Some("*.example.com"), &[], &tls_chain("wild", &wild));
        let base = Arc::try_unwrap(listener(chains)).unwrap();
        let listener = Arc::new(Listener {
            proxy_protocol: None,
            inspects_tls: true,
            ..base
        });
        let clusters = vec![entry(0, cluster(0), &[backend.address])];
        let snapshot = snapshot_with(listener, table("*", vec![catch_all(forward(0))]), clusters);
        let proxy = Proxy::start(Config { snapshot, workers: 1 });
        let http1_only = client_config(&[&exact, &wild], &[b"http/1.1"]);
        let both = client_config(&[&exact, &wild], &[b"h2", b"http/1.1"]);

        let stream = handshake(&proxy, &http1_only, "www.example.com").await.unwrap();
        let reply = over_http1(stream, get("www.example.com", "/")).await;
        assert_eq!((reply.status, reply.header("server")), (200, "exact"));
        assert_eq!(backend.last().headers()["x-forwarded-proto"], "https");

        let stream = handshake(&proxy, &both, "other.example.com").await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        let mut client = http2(stream).await;
        let reply = Reply::of(
            client
                .send_request(get_http2("https://other.example.com/"))
                .await
                .unwrap(),
        )
        .await
        .unwrap();
        assert_eq!((reply.status, reply.header("server")), (200, "wild"));

        // Who offers nothing that we have is served as one who offers nothing, as BoringSSL does it.
        for offers in [&[&b"http/1.0"[..]][..], &[]] {
            let config = client_config(&[&exact, &wild], offers);
            let stream = handshake(&proxy, &config, "other.example.com").await.unwrap();
            assert_eq!(stream.get_ref().1.alpn_protocol(), None);
            let reply = over_http1(stream, get("other.example.com", "/")).await;
            assert_eq!((reply.status, reply.header("server")), (200, "wild"));
        }

        // No chain for this name, nor for cleartext.
        assert!(handshake(&proxy, &both, "example.org").await.is_err());
        let mut plain = TcpStream::connect(proxy.address).await.unwrap();
        plain.write_all(b"GET / HTTP/1.1\r\nhost: h\r\n\r\n").await.unwrap();
        let mut read = Vec::new();
        let _ = plain.read_to_end(&mut read).await;
        assert!(read.is_empty());
    });
}

/// Envoy's FORWARD_ONLY: what the client says of certificates passes where it has shown one itself.
#[test]
fn a_forwarded_certificate_passes_over_mutual_tls_only() {
    run(async {
        let backend = Backend::named("a").await;
        let (server, client) = (identity("www.example.com"), identity("client.example.com"));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = rustls::RootCertStore::empty();
        roots.add(client.certificate.clone()).unwrap();
        let verifier = rustls::server::WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
            .allow_unauthenticated()
            .build()
            .unwrap();
        let tls = rustls::ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier)
            .with_single_cert(vec![server.certificate.clone()], server.key.clone_key())
            .unwrap();
        let mut http = manager(RouteSource::Dynamic {
            name: Arc::from("rt"),
            id: RouteTableId(0),
        });
        http.forward_client_cert = ForwardClientCert::ForwardOnly;
        let chain = Arc::new(FilterChain {
            name: Arc::from("mutual"),
            tls: Some(Arc::new(DownstreamTls::new(tls, Vec::new()))),
            handshake_timeout: edge_proxy::config::timeouts::UNTIL_SERVED,
            network: Network::Http(Arc::new(http)),
            fingerprint: 0,
            settings: 0,
            guards: Arc::default(),
            limits: Arc::default(),
            transport: 0,
        });
        let listener = listener(only(chain));
        let clusters = vec![entry(0, cluster(0), &[backend.address])];
        let snapshot = snapshot_with(listener, table("*", vec![catch_all(forward(0))]), clusters);
        let proxy = Proxy::start(Config { snapshot, workers: 1 });
        let mut trusted = rustls::RootCertStore::empty();
        trusted.add(server.certificate.clone()).unwrap();
        let with_certificate = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(trusted)
            .with_client_auth_cert(vec![client.certificate.clone()], client.key.clone_key())
            .unwrap();
        for (config, passes) in [
            (Arc::new(with_certificate), true),
            (client_config(&[&server], &[]), false),
        ] {
            let stream = handshake(&proxy, &config, "www.example.com").await.unwrap();
            let mut request = get("www.example.com", "/");
            let field = "x-forwarded-client-cert";
            request.headers_mut().insert(field, HeaderValue::from_static("Hash=1"));
            let reply = over_http1(stream, request).await;
            assert_eq!(reply.status, 200);
            assert_eq!(backend.last().headers().contains_key(field), passes);
        }
    });
}

#[test]
fn tls_to_the_backend_checks_its_name_and_negotiates_the_protocol() {
    run(async {
        let identity = identity("backend.internal");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(server_config(&identity, &[b"h2"])));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let Ok(stream) = acceptor.accept(stream).await else {
                    continue;
                };
                let service = hyper::service::service_fn(|request: Request<hyper::body::Incoming>| async move {
                    Ok::<_, std::convert::Infallible>(Response::new(Full::<Bytes>::from(request.uri().to_string())))
                });
                tokio::spawn(
                    hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                        .serve_connection(TokioIo::new(stream), service),
                );
            }
        });
        let with = |sni: &'static str| {
            let mut secure = cluster(0);
            secure.protocol = UpstreamProtocol::Auto;
            secure.tls = Some(Arc::new(UpstreamTls {
                config: client_config(&[&identity], &[]),
                sni: Sni::Fixed(ServerName::try_from(sni).unwrap()),
                fixed_alpn: false,
                reports: TlsReports::default(),
            }));
            let clusters = vec![entry(0, secure, &[address])];
            Config {
                snapshot: snapshot(table("*", vec![catch_all(forward(0))]), clusters, |_| {}),
                workers: 1,
            }
        };
        let proxy = Proxy::start(with("backend.internal"));
        assert_eq!(proxy.get("h", "/x").await.text(), "http://h/x");
        let proxy = Proxy::start(with("wrong.internal"));
        let reply = proxy.get("h", "/x").await;
        // Why is in logs: clients are strangers.
        let text = "upstream connect error or disconnect/reset before headers. reset reason: remote connection failure";
        assert_eq!((reply.status, reply.text()), (503, text));
    });
}

#[test]
fn connections_are_opened_side_by_side_once_a_backend_has_chosen_http1() {
    run(async {
        let identity = identity("backend.internal");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(server_config(&identity, &[b"http/1.1"])));
        let pair = Arc::new(tokio::sync::Barrier::new(2));
        tokio::spawn(async move {
            let mut number = 0;
            while let Ok((mut stream, _)) = listener.accept().await {
                number += 1;
                let (acceptor, pair) = (acceptor.clone(), Arc::clone(&pair));
                tokio::spawn(async move {
                    // Every handshake but the first one waits for another.
                    if number > 1 {
                        pair.wait().await;
                    }
                    let mut stream = acceptor.accept(&mut stream).await.unwrap();
                    let mut head = Vec::new();
                    while !head.ends_with(b"\r\n\r\n") {
                        head.push(stream.read_u8().await.unwrap());
                    }
                    let answer = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok";
                    stream.write_all(answer.as_bytes()).await.unwrap();
                    stream.shutdown().await.unwrap();
                });
            }
        });
        let mut secure = cluster(0);
        secure.protocol = UpstreamProtocol::Auto;
        secure.tls = Some(Arc::new(UpstreamTls {
            config: client_config(&[&identity], &[]),
            sni: Sni::Fixed(ServerName::try_from("backend.internal").unwrap()),
            fixed_alpn: false,
            reports: TlsReports::default(),
        }));
        let clusters = vec![entry(0, secure, &[address])];
        let proxy = Proxy::start(Config {
            snapshot: snapshot(table("*", vec![catch_all(forward(0))]), clusters, |_| {}),
            workers: 1,
        });
        assert_eq!(proxy.get("h", "/").await.text(), "ok");
        let (one, other) = tokio::join!(proxy.get("h", "/"), proxy.get("h", "/"));
        assert_eq!((one.text(), other.text()), ("ok", "ok"));
    });
}

/// A backend that switches to an echo.
async fn echo_backend() -> std::net::SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await.unwrap());
                }
                let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
                assert!(head.contains("\r\nupgrade: websocket\r\n") && head.contains("\r\nconnection: upgrade\r\n"));
                let answer = "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
                              sec-websocket-accept: yes\r\n\r\nearly ";
                stream.write_all(answer.as_bytes()).await.unwrap();
                let (mut read, mut write) = stream.split();
                let _ = tokio::io::copy(&mut read, &mut write).await;
            });
        }
    });
    address
}

#[test]
fn websockets_are_tunnelled() {
    run(async {
        let proxy = Proxy::start(simple(echo_backend().await));
        let mut client = proxy.http1().await;
        let mut request = get("h", "/ws");
        for (name, value) in [
            ("connection", "keep-alive, Upgrade"),
            ("upgrade", "WebSocket"),
            ("sec-websocket-key", "k"),
        ] {
            request.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        let response = client.0.send_request(request).await.unwrap();
        assert_eq!(response.status(), 101);
        assert_eq!(response.headers()["sec-websocket-accept"], "yes");
        assert_eq!(response.headers()["upgrade"], "websocket");
        assert_eq!(tunnelled(response, b"hello").await, "early hello");
    });
}

#[test]
fn websockets_over_http2_are_tunnelled_by_extended_connect() {
    run(async {
        let proxy = Proxy::start(simple(echo_backend().await));
        let mut client = http2(TcpStream::connect(proxy.address).await.unwrap()).await;
        // The setting that allows it comes with the server's first frame: one request makes sure that it has arrived.
        let _ = client.send_request(get_http2("http://h/")).await;
        let mut request = Request::connect("http://h/ws").body(Full::default()).unwrap();
        request
            .extensions_mut()
            .insert(hyper::ext::Protocol::from_static("websocket"));
        let response = client.send_request(request).await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(tunnelled(response, b"hello").await, "early hello");
    });
}

#[test]
fn upgrades_that_no_route_allows_are_forbidden() {
    run(async {
        let backend = Backend::named("a").await;
        let proxy = Proxy::start(simple(backend.address));
        let mut request = get("h", "/");
        request
            .headers_mut()
            .insert("connection", HeaderValue::from_static("upgrade"));
        request
            .headers_mut()
            .insert("upgrade", HeaderValue::from_static("irc/6.9"));
        assert_eq!(proxy.http1().await.send(request).await.status, 403);
        assert_eq!(backend.requests(), 0);
    });
}

#[test]
fn nothing_behind_a_refused_upgrade_is_a_request() {
    run(async {
        let backend = Backend::named("a").await;
        let proxy = Proxy::start(simple(backend.address));
        for asking in [
            "GET / HTTP/1.1\r\nhost: h\r\nconnection: upgrade\r\nupgrade: irc/6.9\r\n\r\n",
            "CONNECT h:80 HTTP/1.1\r\nhost: h:80\r\n\r\n",
        ] {
            let mut stream = TcpStream::connect(proxy.address).await.unwrap();
            let behind = format!("{asking}GET /behind HTTP/1.1\r\nhost: h\r\n\r\n");
            stream.write_all(behind.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{answer}");
            assert!(answer.contains("\r\nconnection: close\r\n"), "{answer}");
        }
        assert_eq!(backend.requests(), 0);
    });
}

#[test]
fn expect_continue_is_answered_by_the_proxy() {
    run(async {
        let backend = Backend::named("seen").await;
        let proxy = Proxy::start(simple(backend.address));
        let mut stream = TcpStream::connect(proxy.address).await.unwrap();
        stream
            .write_all(b"POST / HTTP/1.1\r\nhost: h\r\nexpect: 100-continue\r\ncontent-length: 3\r\n\r\n")
            .await
            .unwrap();
        let mut interim = [0; 25];
        stream.read_exact(&mut interim).await.unwrap();
        assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
        stream.write_all(b"abc").await.unwrap();
        let seen = backend.wait_for(1).await;
        assert_eq!(seen.body(), "abc");
        assert!(!seen.headers().contains_key("expect"));
    });
}
