//! CONNECT that ends at the proxy: what is in the tunnel goes on as bytes.

use std::net::{Ipv4Addr, SocketAddr};

use bytes::Bytes;
use edge_proxy::config::listener::{Connect, Upgrade};
use edge_proxy::config::route::{Action, PathCondition};
use http::Request;
use http_body_util::Full;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{
    Backend, Config, Proxy, catch_all, cluster, entry, forward, http2, nobody, route, run, snapshot, table, tunnelled,
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
        snapshot: snapshot(table("*", routes), clusters, |_| {}),
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
