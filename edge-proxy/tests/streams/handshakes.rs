//! How long clients have for TLS: to say whom they want, and then for the handshake.

use std::net::SocketAddr;
use std::path::Path;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::passthrough::client_hello;
use crate::support::{Proxy, echo, run};
use crate::tcp::{certificate, client_over_tls, exchange};

const INSPECTOR: &str = r#"listener_filters: [{name: envoy.filters.listener.tls_inspector, typed_config: {
    "@type": type.googleapis.com/envoy.extensions.filters.listener.tls_inspector.v3.TlsInspector}}]"#;

/// A listener that ends TLS, with these times.
async fn listen(proxy: &Proxy, folder: &Path, listener: &str, chain: &str) -> SocketAddr {
    proxy.cluster("a", &[echo("").await]);
    let at = folder.display();
    let chain = format!(
        r#"{chain}
  transport_socket: {{name: tls, typed_config: {{
    "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext, common_tls_context: {{
    tls_certificates: [{{certificate_chain: {{filename: "{at}/tls.crt"}}, private_key: {{filename: "{at}/tls.key"}}}}]}}}}}}"#
    );
    proxy.tcp_listener("cluster: a", &chain, listener)
}

/// What a client may leave undone for ever: nothing said, half a hello, a hello and no more.
fn beginnings() -> [Vec<u8>; 3] {
    let hello = client_hello("stream.example");
    [Vec::new(), hello[..40].to_vec(), hello]
}

/// How many connections ended by the time of the chain, and by that of the listener.
fn ended(proxy: &Proxy) -> (i64, i64) {
    (
        proxy.of_listener("tcp", "downstream_cx_transport_socket_connect_timeout"),
        proxy.of_listener("tcp", "downstream_pre_cx_timeout"),
    )
}

#[test]
fn a_handshake_has_the_time_of_its_chain() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, _) = certificate(folder.path());
        let proxy = Proxy::start();
        let address = listen(&proxy, folder.path(), "", "transport_socket_connect_timeout: 0.3s").await;
        for (index, beginning) in beginnings().into_iter().enumerate() {
            let mut client = TcpStream::connect(address).await.unwrap();
            client.write_all(&beginning).await.unwrap();
            rest_of(&mut client).await;
            assert_eq!(ended(&proxy), (index as i64 + 1, 0));
        }
        assert_eq!(proxy.of_listener("tcp", "downstream_pre_cx_active"), 0);
        let mut client = client_over_tls(&certificate, address).await;
        assert_eq!(exchange(&mut client, "hello").await, "hello");
    });
}

#[test]
fn looking_for_a_chain_has_the_time_of_the_listener_and_no_part_of_the_handshake() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        certificate(folder.path());
        let proxy = Proxy::start();
        let listener = format!("listener_filters_timeout: 0.2s\n{INSPECTOR}");
        let address = listen(
            &proxy,
            folder.path(),
            &listener,
            "transport_socket_connect_timeout: 0.5s",
        )
        .await;
        let [nothing, half, hello] = beginnings();
        for (beginning, expected) in [(nothing, (0, 1)), (half, (0, 2)), (hello, (1, 2))] {
            let mut client = TcpStream::connect(address).await.unwrap();
            client.write_all(&beginning).await.unwrap();
            rest_of(&mut client).await;
            assert_eq!(ended(&proxy), expected);
        }
    });
}

/// Waits for the end, whatever is said before.
async fn rest_of(stream: &mut TcpStream) {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes).await;
}
