//! TCP proxies.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use edge_proxy::xds::Kind;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_rustls::client::TlsStream;
use tokio_rustls::{LazyConfigAcceptor, TlsConnector};

use crate::support::{Proxy, echo, nobody, rest, run, until};

/// Says a word to an echo and hears it again.
pub(crate) async fn exchange<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S, word: &str) -> String {
    stream.write_all(word.as_bytes()).await.unwrap();
    let mut answer = vec![0; word.len()];
    stream.read_exact(&mut answer).await.unwrap();
    String::from_utf8(answer).unwrap()
}

#[test]
fn bytes_go_both_ways_and_are_counted() {
    run(async {
        let proxy = Proxy::start();
        proxy.cluster("a", &[echo("").await]);
        let mut client = TcpStream::connect(proxy.tcp("cluster: a", "")).await.unwrap();
        assert_eq!(exchange(&mut client, "hello").await, "hello");
        assert_eq!(exchange(&mut client, "again").await, "again");
        assert_eq!(proxy.of_cluster("a", "upstream_cx_active"), 1);
        drop(client);
        until("the stream ends", || proxy.of_cluster("a", "upstream_cx_active") == 0).await;
        assert_eq!(proxy.of_tcp("downstream_cx_total"), 1);
        assert_eq!(proxy.of_tcp("downstream_cx_rx_bytes_total"), 10);
        assert_eq!(proxy.of_cluster("a", "upstream_cx_tx_bytes_total"), 10);
        assert_eq!(proxy.of_cluster("a", "upstream_cx_total"), 1);
    });
}

#[test]
fn a_large_stream_arrives_whole_though_the_reader_is_late() {
    run(async {
        let proxy = Proxy::start();
        proxy.cluster("a", &[echo("").await]);
        let client = TcpStream::connect(proxy.tcp("cluster: a", "")).await.unwrap();
        let (mut read, mut write) = client.into_split();
        let sent: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
        let expected = sent.clone();
        let writing = tokio::task::spawn_local(async move {
            write.write_all(&sent).await.unwrap();
            write.shutdown().await.unwrap();
        });
        let mut got = Vec::new();
        read.read_to_end(&mut got).await.unwrap();
        writing.await.unwrap();
        assert_eq!(got.len(), expected.len() + " bye".len());
        assert!(got.starts_with(&expected) && got.ends_with(b" bye"));
    });
}

#[test]
fn either_side_may_end_its_direction_first() {
    run(async {
        let proxy = Proxy::start();
        // The client ends first: the answer to its end still arrives.
        proxy.cluster("a", &[echo("").await]);
        let address = proxy.tcp("cluster: a", "");
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(b"last").await.unwrap();
        client.shutdown().await.unwrap();
        assert_eq!(rest(&mut client).await, "last bye");
        // The backend ends first: what the client says afterwards still arrives.
        let backend = TcpListener::bind("127.0.0.1:0").await.unwrap();
        proxy.endpoints("a", &[backend.local_addr().unwrap()]);
        let mut client = TcpStream::connect(address).await.unwrap();
        let (mut server, _) = backend.accept().await.unwrap();
        server.shutdown().await.unwrap();
        assert_eq!(rest(&mut client).await, "");
        client.write_all(b"afterwards").await.unwrap();
        client.shutdown().await.unwrap();
        assert_eq!(rest(&mut server).await, "afterwards");
        until("both streams end", || proxy.of_cluster("a", "upstream_cx_active") == 0).await;
    });
}

#[test]
fn shares_are_by_weight_and_the_share_of_nobody_is_closed() {
    run(async {
        let proxy = Proxy::start();
        proxy.cluster("a", &[echo("a").await]);
        proxy.cluster("b", &[echo("b").await]);
        let shares = "weighted_clusters: {clusters: [{name: a, weight: 2}, {name: b, weight: 1}, \
                      {name: invalid-backend-cluster, weight: 1}]}";
        let address = proxy.tcp(shares, "");
        let (mut a, mut b, mut closed) = (0, 0, 0);
        for _ in 0..200 {
            let mut client = TcpStream::connect(address).await.unwrap();
            client.shutdown().await.ok();
            match rest(&mut client).await.as_str() {
                "a bye" => a += 1,
                "b bye" => b += 1,
                "" => closed += 1,
                other => panic!("{other}"),
            }
        }
        // Six standard deviations around a half and a quarter of 200.
        assert!((58..=142).contains(&a), "{a}");
        assert!((14..=86).contains(&b) && (14..=86).contains(&closed), "{b} {closed}");
        assert_eq!(proxy.of_tcp("downstream_cx_no_route"), closed);
    });
}

/// The name that a client of another address is greeted with.
async fn greeting(proxy: SocketAddr, client: [u8; 4]) -> String {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((client, 0).into()).unwrap();
    let mut stream = socket.connect(proxy).await.unwrap();
    stream.shutdown().await.ok();
    rest(&mut stream).await
}

#[test]
fn connections_of_an_address_stay_at_a_host() {
    run(async {
        let proxy = Proxy::start();
        let hosts = [echo("a").await, echo("b").await, echo("c").await];
        proxy.cluster_with("hashed", &hosts, ", lb_policy: MAGLEV");
        let address = proxy.tcp("cluster: hashed, hash_policy: [{source_ip: {}}]", "");
        let mut names = BTreeSet::new();
        for last in 1..=16 {
            let name = greeting(address, [127, 0, 0, last]).await;
            for _ in 0..3 {
                assert_eq!(greeting(address, [127, 0, 0, last]).await, name);
            }
            names.insert(name);
        }
        assert!(names.len() > 1, "{names:?}");
    });
}

#[test]
fn without_a_cluster_or_an_endpoint_the_connection_is_closed() {
    run(async {
        let proxy = Proxy::start();
        let mut client = TcpStream::connect(proxy.tcp("cluster: EmptyCluster", ""))
            .await
            .unwrap();
        assert_eq!(rest(&mut client).await, "");
        assert_eq!(proxy.of_tcp("downstream_cx_no_route"), 1);
        proxy.remove_listener("tcp");
        proxy.cluster("a", &[]);
        let address = proxy.tcp("cluster: a", "");
        let mut client = TcpStream::connect(address).await.unwrap();
        assert_eq!(rest(&mut client).await, "");
        assert_eq!(proxy.of_cluster("a", "upstream_cx_none_healthy"), 1);
        // One appears: the next connection gets it.
        proxy.endpoints("a", &[echo("a").await]);
        let mut client = TcpStream::connect(address).await.unwrap();
        client.shutdown().await.unwrap();
        assert_eq!(rest(&mut client).await, "a bye");
    });
}

#[test]
fn another_host_is_tried_as_often_as_the_proxy_may() {
    run(async {
        let proxy = Proxy::start();
        proxy.cluster("a", &[nobody(), nobody()]);
        let address = proxy.tcp("cluster: a, max_connect_attempts: 2", "");
        let mut client = TcpStream::connect(address).await.unwrap();
        assert_eq!(rest(&mut client).await, "");
        assert_eq!(proxy.of_cluster("a", "upstream_cx_connect_fail"), 2);
        assert_eq!(proxy.of_cluster("a", "upstream_cx_connect_attempts_exceeded"), 1);
        proxy.endpoints("a", &[nobody(), echo("a").await]);
        for _ in 0..4 {
            let mut client = TcpStream::connect(address).await.unwrap();
            client.shutdown().await.unwrap();
            assert_eq!(rest(&mut client).await, "a bye");
        }
    });
}

#[test]
fn the_limit_of_the_cluster_closes_what_is_too_much() {
    run(async {
        let proxy = Proxy::start();
        let limit = ", circuit_breakers: {thresholds: [{max_connections: 1}]}";
        proxy.cluster_with("a", &[echo("").await], limit);
        let address = proxy.tcp("cluster: a", "");
        let mut first = TcpStream::connect(address).await.unwrap();
        assert_eq!(exchange(&mut first, "x").await, "x");
        let mut second = TcpStream::connect(address).await.unwrap();
        assert_eq!(rest(&mut second).await, "");
        assert_eq!(proxy.of_cluster("a", "upstream_cx_overflow"), 1);
        drop(first);
        until("the first has gone", || {
            proxy.of_cluster("a", "upstream_cx_active") == 0
        })
        .await;
        let mut third = TcpStream::connect(address).await.unwrap();
        assert_eq!(exchange(&mut third, "y").await, "y");
    });
}

#[test]
fn a_silent_stream_is_closed() {
    run(async {
        let proxy = Proxy::start();
        proxy.cluster("a", &[echo("").await]);
        let address = proxy.tcp("cluster: a, idle_timeout: 0.3s", "");
        let mut client = TcpStream::connect(address).await.unwrap();
        assert_eq!(exchange(&mut client, "x").await, "x");
        assert_eq!(rest(&mut client).await, "");
        until("it is counted", || proxy.of_tcp("idle_timeout") == 1).await;
    });
}

#[test]
fn an_open_stream_goes_on_while_the_proxy_drains() {
    run(async {
        let proxy = Proxy::start();
        proxy.cluster("a", &[echo("").await]);
        let address = proxy.tcp("cluster: a", "");
        let mut client = TcpStream::connect(address).await.unwrap();
        assert_eq!(exchange(&mut client, "before").await, "before");
        proxy.drain();
        while TcpStream::connect(address).await.is_ok() {
            tokio::task::yield_now().await;
        }
        assert_eq!(exchange(&mut client, "while").await, "while");
        drop(proxy);
        assert_eq!(rest(&mut client).await, "");
    });
}

/// A certificate of `stream.example` that vouches for itself, with its key; as files, too.
pub(crate) fn certificate(folder: &Path) -> (rcgen::Certificate, rcgen::KeyPair) {
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["stream.example".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    std::fs::write(folder.join("tls.crt"), certificate.pem()).unwrap();
    std::fs::write(folder.join("tls.key"), key.serialize_pem()).unwrap();
    (certificate, key)
}

/// A client of `stream.example` that trusts this certificate.
pub(crate) async fn client_over_tls(certificate: &rcgen::Certificate, address: SocketAddr) -> TlsStream<TcpStream> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.der().clone()).unwrap();
    let config = rustls::ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("stream.example").unwrap();
    let connector = TlsConnector::from(Arc::new(config));
    connector.connect(name, stream).await.unwrap()
}

/// A backend that sends back one message over TLS and says which protocols the client offered.
pub(crate) async fn echo_over_tls(certificate: &rcgen::Certificate, key: &rcgen::KeyPair) -> SocketAddr {
    let private = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], private)
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::task::spawn_local(async move {
        let (stream, _) = listener.accept().await?;
        let start = LazyConfigAcceptor::new(rustls::server::Acceptor::default(), stream).await?;
        let offered = start.client_hello().alpn().map_or(0, Iterator::count);
        let name = start.client_hello().server_name().map(str::to_owned);
        let mut stream = start.into_stream(Arc::new(config)).await?;
        let mut buffer = [0; 64];
        let read = stream.read(&mut buffer).await?;
        let text = format!("{name:?} {offered} {}", String::from_utf8_lossy(&buffer[..read]));
        stream.write_all(text.as_bytes()).await?;
        stream.shutdown().await
    });
    address
}

#[test]
fn a_stream_whose_listener_has_gone_may_stay_for_the_drain_time() {
    run(async {
        let proxy = Proxy::start();
        proxy.shared.flags.set_drain_time(Duration::from_millis(300));
        proxy.cluster("a", &[echo("").await]);
        let address = proxy.tcp("cluster: a", "");
        let mut client = TcpStream::connect(address).await.unwrap();
        assert_eq!(exchange(&mut client, "before").await, "before");
        proxy.cluster("b", &[]);
        let start = std::time::Instant::now();
        proxy.remove_listener("tcp");
        assert_eq!(exchange(&mut client, "after").await, "after");
        assert_eq!(rest(&mut client).await, "");
        assert!(start.elapsed() >= Duration::from_millis(300));
        until("the stream ends", || proxy.of_cluster("a", "upstream_cx_active") == 0).await;
    });
}

#[test]
fn a_stream_to_a_cluster_with_tls_is_encrypted_and_offers_no_http() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = certificate(folder.path());
        let proxy = Proxy::start();
        let socket = format!(
            r#", transport_socket: {{name: tls, typed_config: {{
  "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext, sni: stream.example,
  common_tls_context: {{validation_context: {{trusted_ca: {{filename: "{}"}}}}}}}}}}"#,
            folder.path().join("tls.crt").display()
        );
        let backend = echo_over_tls(&certificate, &key).await;
        proxy.cluster_with("a", &[backend], &socket);
        let mut client = TcpStream::connect(proxy.tcp("cluster: a", "")).await.unwrap();
        client.write_all(b"plain").await.unwrap();
        assert_eq!(rest(&mut client).await, "Some(\"stream.example\") 0 plain");
    });
}

#[test]
fn hosts_are_spoken_to_as_their_metadata_says() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = certificate(folder.path());
        let proxy = Proxy::start();
        let matches = format!(
            r#", transport_socket_matches: [{{name: sealed, match: {{sort: sealed}}, transport_socket: {{name: tls, typed_config: {{
 "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext, sni: stream.example,
 common_tls_context: {{validation_context: {{trusted_ca: {{filename: "{}"}}}}}}}}}}}}]"#,
            folder.path().join("tls.crt").display()
        );
        proxy.cluster_with("a", &[], &matches);
        let sorted = |hosts: &[(SocketAddr, &str)]| {
            let one = |(address, sort): &(SocketAddr, &str)| {
                format!(
                    "{{endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {}}}}}}}, metadata: \
                     {{filter_metadata: {{envoy.transport_socket_match: {{sort: {sort}, other: any}}}}}}}}",
                    address.port()
                )
            };
            let list: Vec<String> = hosts.iter().map(one).collect();
            let yaml = format!(
                "{{cluster_name: a, endpoints: [{{lb_endpoints: [{}]}}]}}",
                list.join(", ")
            );
            proxy.put(Kind::Assignment, "endpoint.v3.ClusterLoadAssignment", "a", &yaml);
        };
        let (sealed, clear) = (echo_over_tls(&certificate, &key).await, echo("clear ").await);
        let address = proxy.tcp("cluster: a", "");
        let answer = async || {
            let mut client = TcpStream::connect(address).await.unwrap();
            client.write_all(b"word").await.unwrap();
            client.shutdown().await.unwrap();
            rest(&mut client).await
        };
        sorted(&[(sealed, "sealed")]);
        assert_eq!(answer().await, "Some(\"stream.example\") 0 word");
        sorted(&[(clear, "clear")]);
        assert_eq!(answer().await, "clear word bye");

        // A host of which something else is said is spoken to otherwise from then on.
        sorted(&[(clear, "sealed")]);
        assert_eq!(answer().await, "", "words in clear were taken for TLS");
        sorted(&[(clear, "clear")]);
        assert_eq!(answer().await, "clear word bye");
    });
}

#[test]
fn tls_of_the_client_ends_at_the_proxy() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, _) = certificate(folder.path());
        let (chain, private) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
        let proxy = Proxy::start();
        proxy.cluster("a", &[echo("").await]);
        let socket = format!(
            r#"transport_socket: {{name: tls, typed_config: {{
    "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext,
    common_tls_context: {{tls_certificates: [{{certificate_chain: {{filename: "{}"}}, private_key: {{filename: "{}"}}}}]}}}}}}"#,
            chain.display(),
            private.display()
        );
        let address = proxy.tcp("cluster: a", &socket);
        let mut client = client_over_tls(&certificate, address).await;
        client.write_all(b"secret").await.unwrap();
        client.shutdown().await.unwrap();
        assert_eq!(rest(&mut client).await, "secret bye");
        // Cleartext on the same port is not handed on.
        let mut plain = TcpStream::connect(address).await.unwrap();
        plain.write_all(b"not a client hello\r\n\r\n").await.unwrap();
        let answer = tokio::time::timeout(Duration::from_secs(10), async {
            let mut bytes = Vec::new();
            let _ = plain.read_to_end(&mut bytes).await;
            bytes
        });
        let answer = answer.await.expect("it is closed");
        assert!(!answer.starts_with(b"not a client hello"));
        assert_eq!(proxy.of_cluster("a", "upstream_cx_total"), 1);
    });
}
