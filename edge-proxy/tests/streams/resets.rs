//! Connections that break: whoever is at the other end must not take what came for all there is.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{Proxy, rest, run, until};
use crate::tcp::{certificate, client_over_tls};

/// Has a connection end by a reset (RFC 9293 §3.10.4).
fn reset(stream: TcpStream) {
    SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
}

/// What breaks a stream; `None` when it ends as it should.
async fn breaks<S: AsyncRead + Unpin>(stream: &mut S) -> Option<ErrorKind> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.err().map(|error| error.kind())
}

async fn hears<S: AsyncRead + Unpin>(stream: &mut S, length: usize) {
    stream.read_exact(&mut vec![0; length]).await.unwrap();
}

/// A proxy with a log of flags, a backend, and where clients connect.
async fn proxy(workers: usize, log: &Path, chain: &str) -> (Proxy, TcpListener, SocketAddr) {
    let proxy = Proxy::with_workers(workers);
    let backend = TcpListener::bind("127.0.0.1:0").await.unwrap();
    proxy.cluster("a", &[backend.local_addr().unwrap()]);
    let settings = format!(
        r#"cluster: a, access_log: [{{name: file, typed_config: {{
    "@type": type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog, path: "{}",
    log_format: {{text_format_source: {{inline_string: "%RESPONSE_FLAGS%\n"}}}}}}}}]"#,
        log.display()
    );
    let address = proxy.tcp(&settings, chain);
    (proxy, backend, address)
}

async fn until_logged(log: &Path, lines: &str) {
    let read = || std::fs::read_to_string(log).unwrap_or_default();
    until("as many lines", || read().len() >= lines.len()).await;
    assert_eq!(read(), lines);
}

#[test]
fn a_client_hears_that_its_backend_broke_off() {
    run(async {
        for workers in [1, 3] {
            let folder = tempfile::tempdir().unwrap();
            let log = folder.path().join("log");
            let (proxy, backend, address) = proxy(workers, &log, "").await;
            let mut client = TcpStream::connect(address).await.unwrap();
            let (mut server, _) = backend.accept().await.unwrap();
            server.write_all(&[b'x'; 200_000]).await.unwrap();
            hears(&mut client, 200_000).await;
            reset(server);
            assert_eq!(breaks(&mut client).await, Some(ErrorKind::ConnectionReset));
            until_logged(&log, "UR\n").await;

            // Also one that has said all it had to say.
            let mut client = TcpStream::connect(address).await.unwrap();
            let (mut server, _) = backend.accept().await.unwrap();
            client.shutdown().await.unwrap();
            assert_eq!(rest(&mut server).await, "");
            server.write_all(b"half").await.unwrap();
            hears(&mut client, 4).await;
            reset(server);
            assert_eq!(breaks(&mut client).await, Some(ErrorKind::ConnectionReset));
            until_logged(&log, "UR\nUR\n").await;

            // What ends as it should isn't taken for broken.
            let mut client = TcpStream::connect(address).await.unwrap();
            let (server, _) = backend.accept().await.unwrap();
            drop(server);
            assert_eq!(breaks(&mut client).await, None);
            drop(client);
            until_logged(&log, "UR\nUR\n-\n").await;
            until("all have ended", || proxy.of_cluster("a", "upstream_cx_active") == 0).await;
        }
    });
}

#[test]
fn a_backend_hears_that_its_client_broke_off() {
    run(async {
        for workers in [1, 3] {
            let folder = tempfile::tempdir().unwrap();
            let log = folder.path().join("log");
            let (proxy, backend, address) = proxy(workers, &log, "").await;
            let mut client = TcpStream::connect(address).await.unwrap();
            let (mut server, _) = backend.accept().await.unwrap();
            client.write_all(b"half").await.unwrap();
            hears(&mut server, 4).await;
            reset(client);
            assert_eq!(breaks(&mut server).await, Some(ErrorKind::ConnectionReset));
            until_logged(&log, "-\n").await;
            until("it has ended", || proxy.of_cluster("a", "upstream_cx_active") == 0).await;
        }
    });
}

/// Neither does TLS say that all is well.
#[test]
fn a_client_in_tls_hears_that_its_backend_broke_off() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, _) = certificate(folder.path());
        let at = folder.path().display();
        let socket = format!(
            r#"transport_socket: {{name: tls, typed_config: {{
    "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext, common_tls_context: {{
    tls_certificates: [{{certificate_chain: {{filename: "{at}/tls.crt"}}, private_key: {{filename: "{at}/tls.key"}}}}]}}}}}}"#
        );
        let log = folder.path().join("log");
        let (_proxy, backend, address) = proxy(1, &log, &socket).await;
        let mut client = client_over_tls(&certificate, address).await;
        let (mut server, _) = backend.accept().await.unwrap();
        server.write_all(b"half").await.unwrap();
        hears(&mut client, 4).await;
        reset(server);
        assert_eq!(breaks(&mut client).await, Some(ErrorKind::ConnectionReset));
        until_logged(&log, "UR\n").await;
    });
}
