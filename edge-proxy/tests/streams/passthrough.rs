//! TLS that stays closed: connections are told apart by the server name of their client hello and handed on whole.

use std::net::SocketAddr;

use edge_proxy::xds::Kind;
use rustls::pki_types::ServerName;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{Proxy, echo, rest, run};
use crate::tcp::{certificate, client_over_tls, echo_over_tls};

/// A listener that hands TLS on by server name: the first chain's names to cluster `a`, the second's to `b`.
pub(crate) fn listen(proxy: &Proxy, first: &str, second: &str) -> SocketAddr {
    let chain = |matches: &str, cluster: &str| {
        format!(
            r#"
- filter_chain_match: {{{matches}}}
  filters:
  - name: envoy.filters.network.tcp_proxy
    typed_config: {{"@type": type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy,
                   stat_prefix: t, cluster: {cluster}}}"#
        )
    };
    let yaml = format!(
        r#"
name: tls
address: {{socket_address: {{address: 127.0.0.1, port_value: 0}}}}
listener_filters:
- name: envoy.filters.listener.tls_inspector
  typed_config: {{"@type": type.googleapis.com/envoy.extensions.filters.listener.tls_inspector.v3.TlsInspector}}
filter_chains:{}{}
"#,
        chain(first, "a"),
        chain(second, "b")
    );
    proxy.put(Kind::Listener, "listener.v3.Listener", "tls", &yaml);
    proxy.address("tls")
}

/// The bytes with which a client begins.
pub(crate) fn client_hello(name: &str) -> Vec<u8> {
    let config = rustls::ClientConfig::builder()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut client = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).unwrap();
    bytes
}

#[test]
fn the_backend_makes_the_handshake() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = certificate(folder.path());
        let proxy = Proxy::start();
        proxy.cluster("a", &[echo_over_tls(&certificate, &key).await]);
        proxy.cluster("b", &[echo("b").await]);
        let address = listen(&proxy, "server_names: [stream.example]", "transport_protocol: tls");
        let mut client = client_over_tls(&certificate, address).await;
        client.write_all(b"secret").await.unwrap();
        let mut answer = Vec::new();
        // The backend closes without a word of TLS once it has answered.
        let _ = client.read_to_end(&mut answer).await;
        assert_eq!(String::from_utf8(answer).unwrap(), r#"Some("stream.example") 0 secret"#);
        assert_eq!(proxy.of_listener("tls", "ssl.handshake"), 0);
    });
}

#[test]
fn the_hello_arrives_as_it_was_sent_also_in_pieces() {
    run(async {
        let proxy = Proxy::start();
        proxy.cluster("a", &[echo("a").await]);
        proxy.cluster("b", &[echo("b").await]);
        let address = listen(&proxy, "server_names: ['*.a.example']", "server_names: [b.example]");
        for (name, backend) in [("x.a.example", b'a'), ("b.example", b'b')] {
            let hello = client_hello(name);
            let mut client = TcpStream::connect(address).await.unwrap();
            client.set_nodelay(true).unwrap();
            for piece in hello.chunks(64) {
                client.write_all(piece).await.unwrap();
                tokio::task::yield_now().await;
            }
            let mut answer = vec![0; hello.len() + 1];
            client.read_exact(&mut answer).await.unwrap();
            assert_eq!((answer[0], &answer[1..]), (backend, &hello[..]), "{name}");
        }
    });
}

#[test]
fn other_names_and_cleartext_are_closed() {
    run(async {
        let proxy = Proxy::start();
        proxy.cluster("a", &[echo("a").await]);
        proxy.cluster("b", &[echo("b").await]);
        let address = listen(&proxy, "server_names: [a.example]", "server_names: [b.example]");
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(&client_hello("other.example")).await.unwrap();
        assert_eq!(rest(&mut client).await, "");
        // A chain for any name is still one for TLS.
        let address = listen(&proxy, "server_names: [a.example]", "transport_protocol: tls");
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        assert_eq!(rest(&mut client).await, "");
        assert_eq!(proxy.of_listener("tls", "no_filter_chain_match"), 2);
        assert_eq!(proxy.of_cluster("a", "upstream_cx_total"), 0);
        assert_eq!(proxy.of_cluster("b", "upstream_cx_total"), 0);
    });
}

/// A listener that takes connections to a port of whoever they ask for, one name at a time, unless they are found at
/// addresses that are `refused` (ranges). `own`: its own port.
fn listen_for_names(proxy: &Proxy, own: u16, port: u16, refused: &str) -> SocketAddr {
    let cache = format!(
        "dns_cache_config: {{name: c, dns_lookup_family: V4_ONLY, max_hosts: 1, dns_query_timeout: 0.5s, \
         resolved_address_filter: {{ranges: [{refused}]}}}}"
    );
    let cluster = format!(
        r#"
name: names
lb_policy: CLUSTER_PROVIDED
cluster_type:
  name: envoy.clusters.dynamic_forward_proxy
  typed_config: {{"@type": type.googleapis.com/envoy.extensions.clusters.dynamic_forward_proxy.v3.ClusterConfig, {cache}}}
"#
    );
    proxy.put(Kind::Cluster, "cluster.v3.Cluster", "names", &cluster);
    let filters = "type.googleapis.com/envoy.extensions.filters.network";
    let yaml = format!(
        r#"
name: tls
address: {{socket_address: {{address: 127.0.0.1, port_value: {own}}}}}
listener_filters:
- name: envoy.filters.listener.tls_inspector
  typed_config: {{"@type": type.googleapis.com/envoy.extensions.filters.listener.tls_inspector.v3.TlsInspector}}
filter_chains:
- filters:
  - name: names
    typed_config: {{"@type": {filters}.sni_dynamic_forward_proxy.v3.FilterConfig, port_value: {port}, {cache}}}
  - name: tcp
    typed_config: {{"@type": {filters}.tcp_proxy.v3.TcpProxy, stat_prefix: t, cluster: names}}
"#
    );
    proxy.put(Kind::Listener, "listener.v3.Listener", "tls", &yaml);
    proxy.address("tls")
}

#[test]
fn a_name_that_leads_back_to_the_listener_is_closed() {
    run(async {
        let proxy = Proxy::start();
        let [port] = e2e::ports::free().unwrap();
        let address = listen_for_names(&proxy, port, port, "");
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(&client_hello("localhost")).await.unwrap();
        assert_eq!(rest(&mut client).await, "");
        assert_eq!(proxy.of_cluster("names", "upstream_cx_total"), 0);
    });
}

#[test]
fn a_name_that_nobody_has_takes_no_place_from_others() {
    run(async {
        let proxy = Proxy::start();
        let backend = echo("a").await;
        let address = listen_for_names(&proxy, 0, backend.port(), "");
        for _ in 0..8 {
            // Each worker has places of its own.
            let mut client = TcpStream::connect(address).await.unwrap();
            client.write_all(&client_hello("nobody.invalid")).await.unwrap();
            assert_eq!(rest(&mut client).await, "");
            let mut client = TcpStream::connect(address).await.unwrap();
            client.write_all(&client_hello("localhost")).await.unwrap();
            assert_eq!(client.read_u8().await.unwrap(), b'a');
        }
    });
}

#[test]
fn names_of_refused_addresses_lead_nowhere() {
    run(async {
        let proxy = Proxy::start();
        let backend = echo("a").await;
        let own = "{address_prefix: 127.0.0.0, prefix_len: 8}, {address_prefix: 0.0.0.0, prefix_len: 8}";
        let address = listen_for_names(&proxy, 0, backend.port(), own);
        for name in ["localhost", "LocalHost", "localhost.", "0x7f000001"] {
            let mut client = TcpStream::connect(address).await.unwrap();
            client.write_all(&client_hello(name)).await.unwrap();
            assert_eq!(rest(&mut client).await, "", "{name}");
        }
        assert_eq!(proxy.of_cluster("names", "upstream_cx_total"), 0);
        let address = listen_for_names(&proxy, 0, backend.port(), "");
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(&client_hello("localhost")).await.unwrap();
        assert_eq!(client.read_u8().await.unwrap(), b'a');
    });
}
