//! What backends do with streams and connections of HTTP/2.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use edge_proxy::config::cluster::{Cluster, ClusterEntry, UpstreamProtocol};
use edge_proxy::config::route::RetryOn;
use edge_proxy::stats::WorkerIndex;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{mpsc, watch};

use crate::resilience::{config, retry};
use crate::support::frames::{GOAWAY, HEADERS, Raw, SETTINGS, frame};
use crate::support::{Proxy, cluster, entry, forward, get, run, until};

/// A stream of a backend that was answered with a head, for the test to go on with.
pub(crate) struct Answered {
    pub(crate) request: Request<RecvStream>,
    pub(crate) answer: SendStream<Bytes>,
}

/// A backend with two streams a connection, all of which leave when told to.
pub(crate) async fn backend(leave: watch::Receiver<()>) -> (SocketAddr, UnboundedReceiver<Answered>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, answered) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // Connections that come after it was told stay.
            let mut leave = leave.clone();
            leave.mark_unchanged();
            tokio::spawn(serve(stream, leave, sender.clone()));
        }
    });
    (address, answered)
}

async fn serve(stream: TcpStream, mut leave: watch::Receiver<()>, sender: mpsc::UnboundedSender<Answered>) {
    let mut builder = h2::server::Builder::new();
    builder.max_concurrent_streams(2);
    let mut connection = builder.handshake::<_, Bytes>(stream).await.unwrap();
    loop {
        tokio::select! {
            // What was written after it was told to leave goes behind its GOAWAY.
            biased;
            Ok(()) = leave.changed() => connection.graceful_shutdown(),
            accepted = connection.accept() => {
                let Some(Ok((request, mut respond))) = accepted else { return };
                let answer = respond.send_response(Response::new(()), false).unwrap();
                let _ = sender.send(Answered { request, answer });
            }
        }
    }
}

fn h2c() -> Cluster {
    let mut h2c = cluster(0);
    h2c.protocol = UpstreamProtocol::Http2;
    h2c
}

fn proxy(backend: SocketAddr) -> Proxy {
    proxy_of(entry(0, h2c(), &[backend]).unwrap())
}

fn proxy_of(entry: Arc<ClusterEntry>) -> Proxy {
    Proxy::start(config(vec![Some(entry)], forward(0)))
}

async fn ask(proxy: &Proxy) -> Response<Incoming> {
    proxy.http1().await.0.send_request(get("h", "/")).await.unwrap()
}

#[test]
fn a_response_that_is_reset_does_not_look_complete() {
    run(async {
        let (_leave, leaves) = watch::channel(());
        let (address, mut answered) = backend(leaves).await;
        let proxy = proxy(address);
        for reason in [Reason::NO_ERROR, Reason::CANCEL, Reason::INTERNAL_ERROR] {
            let mut response = ask(&proxy).await;
            let mut stream = answered.recv().await.unwrap();
            stream.answer.send_data(Bytes::from_static(b"half"), false).unwrap();
            let frame = response.body_mut().frame().await.unwrap().unwrap();
            assert_eq!(frame.into_data().unwrap(), "half");
            stream.answer.send_reset(reason);
            assert!(response.collect().await.is_err(), "{reason}");
        }
    });
}

#[test]
fn a_response_begins_while_content_is_sent_and_both_end_with_trailers() {
    run(async {
        let (_leave, leaves) = watch::channel(());
        let (address, mut answered) = backend(leaves).await;
        let proxy = proxy(address);
        let stream = TcpStream::connect(proxy.address).await.unwrap();
        let (mut client, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        let request = Request::post("http://h/").body(()).unwrap();
        let (response, mut content) = client.send_request(request, false).unwrap();
        content.send_data(Bytes::from_static(b"a"), false).unwrap();
        let Answered { request, mut answer } = answered.recv().await.unwrap();
        let mut seen = request.into_body();
        assert_eq!(seen.data().await.unwrap().unwrap(), "a");
        answer.send_data(Bytes::from_static(b"early"), false).unwrap();
        let mut response = response.await.unwrap().into_body();
        assert_eq!(response.data().await.unwrap().unwrap(), "early");
        // The response has begun, and the rest of the content still passes.
        content.send_data(Bytes::from_static(b"b"), false).unwrap();
        assert_eq!(seen.data().await.unwrap().unwrap(), "b");
        content.send_trailers(trailers("of the client")).unwrap();
        assert!(seen.data().await.is_none());
        assert_eq!(seen.trailers().await.unwrap(), Some(trailers("of the client")));
        answer.send_trailers(trailers("of the backend")).unwrap();
        assert!(response.data().await.is_none());
        assert_eq!(response.trailers().await.unwrap(), Some(trailers("of the backend")));
    });
}

fn trailers(from: &'static str) -> HeaderMap {
    HeaderMap::from_iter([(HeaderName::from_static("x-from"), HeaderValue::from_static(from))])
}

#[test]
fn a_client_that_leaves_resets_its_stream() {
    run(async {
        let (_leave, leaves) = watch::channel(());
        let (address, mut answered) = backend(leaves).await;
        let proxy = proxy(address);
        let response = ask(&proxy).await;
        let mut stream = answered.recv().await.unwrap();
        drop(response);
        let reason = std::future::poll_fn(|cx| stream.answer.poll_reset(cx)).await.unwrap();
        assert_eq!(reason, Reason::CANCEL);
    });
}

#[test]
fn connections_that_leave_get_nothing_new_however_many_they_are() {
    run(async {
        let (leave, leaves) = watch::channel(());
        let (address, mut answered) = backend(leaves).await;
        let entry = entry(0, h2c(), &[address]).unwrap();
        let stats = Arc::clone(&entry.endpoints.hosts[0].stats);
        let proxy = proxy_of(entry);
        // Two fill a connection, another opens one more; then both have room.
        let mut held = Vec::new();
        for _ in 0..3 {
            let response = ask(&proxy).await;
            held.push((response, answered.recv().await.unwrap()));
        }
        let (response, mut stream) = held.remove(0);
        stream.answer.send_data(Bytes::new(), true).unwrap();
        response.collect().await.unwrap();
        leave.send(()).unwrap();
        // What comes behind GOAWAY says that it was heard.
        for (response, stream) in &mut held {
            stream.answer.send_data(Bytes::from_static(b"on"), false).unwrap();
            response.body_mut().frame().await.unwrap().unwrap();
        }
        let response = ask(&proxy).await;
        let mut stream = answered.recv().await.unwrap();
        assert_eq!(response.status(), 200);
        stream.answer.send_data(Bytes::new(), true).unwrap();
        response.collect().await.unwrap();
        // And those that were begun are served to their end, and the connections with them.
        for (response, mut stream) in held {
            stream.answer.send_data(Bytes::new(), true).unwrap();
            response.collect().await.unwrap();
        }
        until("they close", || stats.cx_active.load(Ordering::SeqCst) == 1).await;
    });
}

/// The settings of its cluster have changed meanwhile: what was to be opened under the old ones serves it, and ends.
#[test]
fn whoever_waits_for_a_connection_gets_one_though_its_pool_is_closed() {
    run(async {
        let (_leave, leaves) = watch::channel(());
        let (address, mut answered) = backend(leaves).await;
        let mut single = h2c();
        single.limits.max_connections = 1;
        let entry_before = entry(0, single, &[address]).unwrap();
        let stats = Arc::clone(&entry_before.cluster.stats);
        let cells = stats.cells(WorkerIndex(0));
        let proxy = proxy_of(entry_before);
        let mut held = Vec::new();
        for _ in 0..2 {
            let response = ask(&proxy).await;
            held.push((response, answered.recv().await.unwrap()));
        }
        let mut client = proxy.http1().await;
        let waits = async { client.get("h", "/").await.status };
        let others = async {
            until("one waits", || cells.upstream_rq_pending_active.get() == 1).await;
            proxy.publish(|snapshot| snapshot.clusters = Arc::new(vec![entry(0, h2c(), &[address])]));
            // Whoever asks now has the new settings.
            let response = ask(&proxy).await;
            held.push((response, answered.recv().await.unwrap()));
            for (response, mut stream) in held {
                stream.answer.send_data(Bytes::new(), true).unwrap();
                response.collect().await.unwrap();
            }
            let mut stream = answered.recv().await.unwrap();
            stream.answer.send_data(Bytes::new(), true).unwrap();
        };
        let (status, ()) = tokio::join!(waits, others);
        assert_eq!(status, 200);
        until("what was opened before closes", || cells.upstream_cx_active.get() == 0).await;
    });
}

/// A backend that leaves with its second stream, which it doesn't look at; each stream that it does look at is told.
async fn leaving() -> (SocketAddr, UnboundedReceiver<u32>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, looked_at) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        // END_STREAM and END_HEADERS, and `:status: 200` of the static table (RFC 7541 appendix A).
        let answer = |stream| frame(HEADERS, 5, stream, &[0x88]);
        let mut first = Raw(accept(&listener).await);
        let (one, _) = first.next_of(HEADERS).await;
        sender.send(one).unwrap();
        first.next_of(HEADERS).await;
        first
            .send(&frame(GOAWAY, 0, 0, &[one.to_be_bytes(), [0; 4]].concat()))
            .await;
        let mut second = Raw(accept(&listener).await);
        let (again, _) = second.next_of(HEADERS).await;
        sender.send(again).unwrap();
        second.send(&answer(again)).await;
        first.send(&answer(one)).await;
        // Until the proxy is gone.
        while second.next().await.is_some() {}
    });
    (address, looked_at)
}

async fn accept(listener: &TcpListener) -> TcpStream {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut preface = [0; 24];
    stream.read_exact(&mut preface).await.unwrap();
    let mut raw = Raw(stream);
    raw.send(&frame(SETTINGS, 0, 0, &[])).await;
    raw.0
}

/// RFC 9113 §6.8: a backend hasn't looked at streams above the last one that its GOAWAY names.
#[test]
fn streams_that_a_leaving_backend_has_not_looked_at_are_refused_ones() {
    run(async {
        let (address, mut looked_at) = leaving().await;
        let mut settings = forward(0);
        settings.retry = retry(
            RetryOn {
                refused_stream: true,
                ..RetryOn::default()
            },
            1,
        );
        let proxy = Proxy::start(config(vec![entry(0, h2c(), &[address])], settings));
        let mut first = proxy.http1().await;
        let one = async {
            let reply = first.0.send_request(get("h", "/")).await.unwrap();
            reply.status()
        };
        let two = async {
            looked_at.recv().await.unwrap();
            ask(&proxy).await.status()
        };
        let (one, two) = tokio::join!(one, two);
        assert_eq!((one.as_u16(), two.as_u16()), (200, 200));
        assert_eq!(looked_at.recv().await, Some(1));
    });
}

/// As from stock Envoy 1.40 (RFC 9113 §8.6): no other protocol follows a 101 here, and no answer need.
#[test]
fn a_101_of_a_backend_in_http2_is_no_answer_to_wait_behind() {
    run(async {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let proxy = proxy(listener.local_addr().unwrap());
        tokio::spawn(async move {
            let mut raw = Raw(accept(&listener).await);
            // END_HEADERS, and `:status` by its name in the static table.
            let interim = |stream, status: &[u8; 3]| frame(HEADERS, 4, stream, &[&[8, 3], &status[..]].concat());
            let (one, _) = raw.next_of(HEADERS).await;
            raw.send(&interim(one, b"103")).await;
            raw.send(&frame(HEADERS, 5, one, &[0x88])).await;
            let (two, _) = raw.next_of(HEADERS).await;
            raw.send(&interim(two, b"101")).await;
            // Until the proxy is gone.
            while raw.next().await.is_some() {}
        });
        assert_eq!(ask(&proxy).await.status(), 200);
        assert_eq!(ask(&proxy).await.status(), 502);
    });
}
