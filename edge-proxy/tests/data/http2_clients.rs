//! What clients of HTTP/2 hear of their requests.

use std::future::poll_fn;

use bytes::Bytes;
use edge_proxy::config::cluster::UpstreamProtocol;
use h2::ext::Protocol;
use http::{Request, Response};
use http_body_util::Full;
use tokio::net::TcpStream;

use crate::http1::scripted;
use crate::support::{
    Backend, Config, Proxy, Speaks, catch_all, cluster, entry, forward, run, simple, snapshot, table,
};

async fn connect(proxy: &Proxy) -> h2::client::SendRequest<Bytes> {
    let stream = TcpStream::connect(proxy.address).await.unwrap();
    let (client, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    client
}

/// RFC 9110 §10.1.1: a client that waits before it sends its content is told to go on, or has its answer.
#[test]
fn who_waits_for_a_100_gets_it_when_the_content_is_wanted() {
    run(async {
        for (speaks, protocol) in [
            (Speaks::Http1, UpstreamProtocol::Http1),
            (Speaks::Http2, UpstreamProtocol::Http2),
        ] {
            let backend = Backend::start(speaks, |_| Response::new(Full::from("seen"))).await;
            let mut settings = cluster(0);
            settings.protocol = protocol;
            let proxy = Proxy::start(Config {
                snapshot: snapshot(
                    table("h", vec![catch_all(forward(0))]),
                    vec![entry(0, settings, &[backend.address])],
                    |_| {},
                ),
                workers: 1,
            });
            let mut client = connect(&proxy).await;
            let mut ask = |uri: &str| {
                let request = Request::post(uri).header("expect", "100-continue");
                client.send_request(request.body(()).unwrap(), false).unwrap()
            };
            let (mut response, mut content) = ask("http://h/");
            let interim = poll_fn(|cx| response.poll_informational(cx)).await.unwrap().unwrap();
            assert_eq!(interim.status(), 100);
            content.send_data(Bytes::from_static(b"abc"), true).unwrap();
            assert_eq!(response.await.unwrap().status(), 200);
            let seen = backend.last();
            assert_eq!(seen.body(), "abc");
            assert!(!seen.headers().contains_key("expect"));
            // Nobody wants this one's.
            let (mut response, _content) = ask("http://other/");
            assert!(poll_fn(|cx| response.poll_informational(cx)).await.is_none());
            assert_eq!(response.await.unwrap().status(), 404);
        }
    });
}

/// RFC 9110 §8.6. Behind a CONNECT that is granted there is no content either (RFC 9113 §8.1.1): to a client that asks
/// for another protocol, a backend in HTTP/1 that doesn't switch grants it nothing.
#[test]
fn what_has_no_content_has_no_length() {
    run(async {
        let (backend, _) = scripted(&[
            "HTTP/1.1 204 No Content\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 304 Not Modified\r\ncontent-length: 9\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
        ])
        .await;
        let proxy = Proxy::start(simple(backend));
        let mut client = connect(&proxy).await;
        let get = || Request::get("http://h/").body(()).unwrap();
        // The setting that allows it comes before the first answer.
        let mut upgrade = Request::connect("http://h/ws").body(()).unwrap();
        upgrade.extensions_mut().insert(Protocol::from_static("websocket"));
        for (request, status, length) in [
            (get(), 204, None),
            (get(), 304, Some("9")),
            (get(), 200, Some("0")),
            (upgrade, 200, None),
        ] {
            let ends = request.method() == "GET";
            let (response, _content) = client.send_request(request, ends).unwrap();
            let (head, mut body) = response.await.unwrap().into_parts();
            let told = head
                .headers
                .get("content-length")
                .map(|length| length.to_str().unwrap());
            assert_eq!((head.status.as_u16(), told), (status, length));
            assert!(body.data().await.is_none());
        }
    });
}
