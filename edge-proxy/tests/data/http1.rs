//! HTTP/1 connections as they are on the wire, on both sides.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use edge_proxy::config::http_manager::{Codec, HttpManager};
use edge_proxy::stats::WorkerIndex;
use http::Response;
use http_body_util::Full;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{
    Backend, Config, Proxy, Speaks, catch_all, cluster, entry, forward, run, simple, snapshot, table, until,
};

fn with_manager(backend: SocketAddr, change: impl FnOnce(&mut HttpManager)) -> Config {
    let clusters = vec![entry(0, cluster(0), &[backend])];
    Config {
        snapshot: snapshot(table("*", vec![catch_all(forward(0))]), clusters, change),
        workers: 1,
    }
}

/// A backend that answers each head it reads (bodies are not looked at) with the next of these bytes, the last of them
/// again and again, and counts its connections.
pub(crate) async fn scripted(answers: &'static [&'static str]) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let connections = Arc::new(AtomicUsize::new(0));
    let (count, asked) = (Arc::clone(&connections), Arc::new(AtomicUsize::new(0)));
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::SeqCst);
            let asked = Arc::clone(&asked);
            tokio::spawn(async move {
                let mut read = Vec::new();
                while matches!(stream.read_buf(&mut read).await, Ok(1..)) {
                    if read.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
                        read.clear();
                        let n = asked.fetch_add(1, Ordering::SeqCst).min(answers.len() - 1);
                        let _ = stream.write_all(answers[n].as_bytes()).await;
                        if answers[n].contains("x-then: close") {
                            return;
                        }
                    }
                }
            });
        }
    });
    (address, connections)
}

struct Raw(TcpStream);

impl Raw {
    async fn connect(proxy: &Proxy) -> Self {
        Self(TcpStream::connect(proxy.address).await.unwrap())
    }

    async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.write_all(bytes.as_ref()).await.unwrap();
    }

    /// Reads up to and with `end`.
    async fn read_to(&mut self, end: &str) -> String {
        let mut read = Vec::new();
        while !read.ends_with(end.as_bytes()) {
            let byte = self.0.read_u8().await;
            read.push(byte.unwrap_or_else(|_| panic!("ended behind {:?}", String::from_utf8_lossy(&read))));
        }
        String::from_utf8(read).unwrap()
    }

    /// Reads until the proxy closes.
    async fn rest(&mut self) -> String {
        let mut read = Vec::new();
        let _ = self.0.read_to_end(&mut read).await;
        String::from_utf8(read).unwrap()
    }
}

const GET: &str = "GET / HTTP/1.1\r\nhost: h\r\n\r\n";

#[test]
fn responses_get_the_framing_that_the_client_knows() {
    run(async {
        let (backend, _) =
            scripted(&["HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nx-sum: 1\r\n\r\n"]).await;
        let proxy = Proxy::start(with_manager(backend, |manager| manager.http1.accept_http_10 = true));
        let mut client = Raw::connect(&proxy).await;
        client.send(GET).await;
        let head = client.read_to("\r\n\r\n").await;
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("\r\ntransfer-encoding: chunked\r\n"));
        // Trailers are off by default.
        assert_eq!(client.read_to("0\r\n\r\n").await, "2\r\nok\r\n0\r\n\r\n");
        // HTTP/1.0 does not know chunks: the connection ends with the body, asked to stay or not.
        for field in ["", "connection: keep-alive\r\n"] {
            let mut client = Raw::connect(&proxy).await;
            client.send(format!("GET / HTTP/1.0\r\nhost: h\r\n{field}\r\n")).await;
            let all = client.rest().await;
            assert!(all.starts_with("HTTP/1.0 200 OK\r\n"), "{all}");
            assert!(
                all.contains("\r\nconnection: close\r\n") && all.ends_with("\r\n\r\nok"),
                "{all}"
            );
            assert!(!all.contains("transfer-encoding"), "{all}");
        }
    });
}

#[test]
fn trailers_pass_where_the_listener_says_so() {
    run(async {
        let (backend, _) =
            scripted(&["HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nx-sum: 1\r\n\r\n"]).await;
        let proxy = Proxy::start(with_manager(backend, |manager| manager.http1.enable_trailers = true));
        let mut client = Raw::connect(&proxy).await;
        client.send(GET).await;
        client.read_to("\r\n\r\n").await;
        assert_eq!(client.read_to("1\r\n\r\n").await, "2\r\nok\r\n0\r\nx-sum: 1\r\n\r\n");
    });
}

#[test]
fn http_1_0_keeps_a_connection_when_both_say_so() {
    run(async {
        let backend = Backend::named("ok").await;
        let proxy = Proxy::start(with_manager(backend.address, |manager| {
            manager.http1.accept_http_10 = true;
        }));
        let mut client = Raw::connect(&proxy).await;
        for _ in 0..2 {
            client
                .send("GET / HTTP/1.0\r\nhost: h\r\nconnection: keep-alive\r\n\r\n")
                .await;
            let head = client.read_to("\r\n\r\nok").await;
            assert!(head.starts_with("HTTP/1.0 200 OK\r\n") && head.contains("\r\nconnection: keep-alive\r\n"));
        }
        client.send("GET / HTTP/1.0\r\nhost: h\r\n\r\n").await;
        assert!(client.rest().await.contains("\r\nconnection: close\r\n"));
    });
}

#[test]
fn responses_without_content_end_with_their_head() {
    run(async {
        let (backend, _) = scripted(&[
            "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n",
            "HTTP/1.1 304 Not Modified\r\ncontent-length: 9\r\n\r\n",
            "HTTP/1.1 204 No Content\r\ncontent-length: 9\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
        ])
        .await;
        let proxy = Proxy::start(simple(backend));
        let mut client = Raw::connect(&proxy).await;
        for (method, status, length) in [
            ("HEAD", "200 OK", "\r\ncontent-length: 9\r\n"),
            ("GET", "304 Not Modified", "\r\ncontent-length: 9\r\n"),
            ("GET", "204 No Content", ""),
            ("GET", "200 OK", "\r\ncontent-length: 0\r\n"),
        ] {
            client.send(format!("{method} / HTTP/1.1\r\nhost: h\r\n\r\n")).await;
            let head = client.read_to("\r\n\r\n").await;
            assert!(head.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{head}");
            assert!(head.contains(length) && head.contains("\r\ndate: "), "{head}");
            assert_eq!(head.contains("content-length"), !length.is_empty(), "{head}");
        }
    });
}

#[test]
fn bytes_behind_a_response_never_answer_another_request() {
    run(async {
        let (backend, connections) = scripted(&[
            "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\noneHTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\npoison",
            "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\ntwo",
        ])
        .await;
        let proxy = Proxy::start(simple(backend));
        let mut client = Raw::connect(&proxy).await;
        client.send(GET).await;
        client.read_to("\r\n\r\none").await;
        client.send(GET).await;
        client.read_to("\r\n\r\ntwo").await;
        assert_eq!(connections.load(Ordering::SeqCst), 2);
    });
}

#[test]
fn doubtful_responses_are_not_passed_on() {
    run(async {
        for answer in [
            &["HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"][..],
            &["HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nok"],
            &["HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"],
            &["HTTP/1.1 200 OK\r\nx: a\r\n b\r\ncontent-length: 2\r\n\r\nok"],
            &["HTTP/1.1 200 OK\r\nx : a\r\ncontent-length: 2\r\n\r\nok"],
            &["HTTP/1.1 101 Switching Protocols\r\n\r\n"],
        ] {
            let (backend, _) = scripted(answer).await;
            let proxy = Proxy::start(simple(backend));
            let reply = proxy.get("h", "/").await;
            assert_eq!(reply.status, 502, "{answer:?}");
            assert!(reply.text().ends_with("protocol error"), "{}", reply.text());
        }
    });
}

#[test]
fn a_response_that_ends_with_the_connection_is_whole() {
    run(async {
        let (backend, _) = scripted(&["HTTP/1.1 200 OK\r\nx-then: close\r\n\r\neverything"]).await;
        let proxy = Proxy::start(simple(backend));
        let mut client = proxy.http1().await;
        for _ in 0..2 {
            assert_eq!(client.get("h", "/").await.text(), "everything");
        }
    });
}

#[test]
fn a_chunked_response_that_breaks_off_has_no_last_chunk() {
    run(async {
        let (backend, _) =
            scripted(&["HTTP/1.1 200 OK\r\nx-then: close\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n"]).await;
        let proxy = Proxy::start(simple(backend));
        let mut client = Raw::connect(&proxy).await;
        client.send(GET).await;
        let all = client.rest().await;
        assert!(all.contains("200 OK") && !all.contains("\r\n0\r\n"), "{all}");
    });
}

#[test]
fn an_answer_before_the_body_keeps_the_connection_if_the_body_is_short_and_there() {
    run(async {
        let proxy = Proxy::start(Config {
            snapshot: snapshot(table("other.example", vec![]), vec![], |_| {}),
            workers: 1,
        });
        let mut client = Raw::connect(&proxy).await;
        client.send("POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 3\r\n\r\nabcPOST / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n").await;
        for _ in 0..2 {
            assert!(client.read_to("\r\n\r\n").await.starts_with("HTTP/1.1 404"));
        }
        // The rest of this one may never come: the connection ends, in good order.
        client
            .send("POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 30\r\n\r\nabc")
            .await;
        assert!(client.rest().await.starts_with("HTTP/1.1 404"));
    });
}

#[test]
fn who_waits_for_a_100_and_gets_an_answer_is_not_taken_for_sending() {
    run(async {
        let proxy = Proxy::start(Config {
            snapshot: snapshot(table("other.example", vec![]), vec![], |_| {}),
            workers: 1,
        });
        let mut client = Raw::connect(&proxy).await;
        client
            .send("POST / HTTP/1.1\r\nhost: h\r\nexpect: 100-continue\r\ncontent-length: 30\r\n\r\n")
            .await;
        let all = client.rest().await;
        assert!(
            all.starts_with("HTTP/1.1 404") && !all.contains("100 Continue"),
            "{all}"
        );
        // It is told, so that it sends its next request elsewhere.
        assert!(all.contains("\r\nconnection: close\r\n"), "{all}");
    });
}

#[test]
fn an_answer_while_the_body_is_still_sent_arrives() {
    run(async {
        let (backend, _) =
            scripted(&["HTTP/1.1 413 Too Large\r\nconnection: close\r\ncontent-length: 2\r\n\r\nno"]).await;
        let proxy = Proxy::start(simple(backend));
        let mut client = Raw::connect(&proxy).await;
        client
            .send("POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 1000000\r\n\r\nbegin")
            .await;
        let all = client.rest().await;
        assert!(all.starts_with("HTTP/1.1 413") && all.ends_with("\r\n\r\nno"), "{all}");
    });
}

#[test]
fn a_client_that_goes_away_takes_its_request_with_it() {
    run(async {
        let backend = Backend::start_async(Speaks::Http1, |_| std::future::pending()).await;
        let proxy = Proxy::start(simple(backend.address));
        let stats = &Arc::clone(&proxy.snapshot.borrow().clusters[0].as_ref().unwrap().endpoints).hosts[0].stats;
        let mut client = Raw::connect(&proxy).await;
        client.send(GET).await;
        backend.wait_for(1).await;
        assert_eq!(stats.rq_active.load(Ordering::SeqCst), 1);
        drop(client);
        until("the request ends", || stats.rq_active.load(Ordering::SeqCst) == 0).await;
        until("its connection closes", || stats.cx_active.load(Ordering::SeqCst) == 0).await;
    });
}

#[test]
fn a_slow_reader_gets_everything() {
    run(async {
        let body: Vec<u8> = (0..8_000_000_u32).map(|n| (n / 7) as u8).collect();
        let sent = Bytes::from(body.clone());
        let backend = Backend::start(Speaks::Http1, move |_| Response::new(Full::new(sent.clone()))).await;
        let proxy = Proxy::start(simple(backend.address));
        let mut client = Raw::connect(&proxy).await;
        client.send(GET).await;
        client.read_to("\r\n\r\n").await;
        let mut read = Vec::new();
        let mut piece = vec![0; 100_000];
        while read.len() < body.len() {
            let n = client.0.read(&mut piece).await.unwrap();
            assert!(n > 0);
            read.extend_from_slice(&piece[..n]);
            tokio::task::yield_now().await;
        }
        assert!(read == body);
    });
}

#[test]
fn a_head_of_any_size_up_to_the_limit_passes() {
    run(async {
        let backend = Backend::named("ok").await;
        let proxy = Proxy::start(with_manager(backend.address, |manager| {
            manager.max_request_headers_bytes = 4096;
            manager.max_request_headers = 20;
        }));
        for (fields, status) in [
            (format!("x: {}\r\n", "a".repeat(3900)), "200"),
            (format!("x: {}\r\n", "a".repeat(4096)), "431"),
            ("x: a\r\n".repeat(19), "200"),
            ("x: a\r\n".repeat(20), "431"),
        ] {
            let mut client = Raw::connect(&proxy).await;
            client.send(format!("GET / HTTP/1.1\r\nhost: h\r\n{fields}\r\n")).await;
            let head = client.read_to("\r\n\r\n").await;
            assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{head}");
            assert_eq!(head.contains("connection: close"), status == "431", "{head}");
        }
    });
}

/// A backend that tells the heads that it is sent.
async fn listening() -> (SocketAddr, tokio::sync::mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, heads) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut read = Vec::new();
            while !read.ends_with(b"\r\n\r\n") {
                assert_ne!(stream.read_buf(&mut read).await.unwrap(), 0);
            }
            sender.send(String::from_utf8(read).unwrap()).unwrap();
            stream
                .write_all(b"HTTP/1.1 204 No Content\r\nX-Back: 1\r\n\r\n")
                .await
                .unwrap();
        }
    });
    (address, heads)
}

/// As stock Envoy has it: the first form of a name counts, names that the proxy adds are small, and so are those of
/// responses.
#[test]
fn backends_see_names_as_clients_write_them_where_the_listener_says_so() {
    for keeps in [true, false] {
        run(async {
            let (backend, mut heads) = listening().await;
            let proxy = Proxy::start(with_manager(backend, |manager| manager.http1.keeps_names = keeps));
            let mut client = Raw::connect(&proxy).await;
            client
                .send("GET / HTTP/1.1\r\nHost: h\r\nX-MiXed: 1\r\nx-mixed: 2\r\nTE: trailers\r\nplain: 3\r\n\r\n")
                .await;
            assert!(client.read_to("\r\n\r\n").await.contains("\r\nx-back: 1\r\n"));
            let head = heads.recv().await.unwrap();
            let has = |line: &str| head.contains(&format!("\r\n{line}\r\n"));
            let names = match keeps {
                true => ["Host: h", "X-MiXed: 1", "X-MiXed: 2", "TE: trailers", "plain: 3"],
                false => ["host: h", "x-mixed: 1", "x-mixed: 2", "te: trailers", "plain: 3"],
            };
            assert!(names.into_iter().all(has), "{head}");
            assert!(has("x-forwarded-proto: http"), "{head}");
        });
    }
}

/// RFC 9112 §9.5: a client that is about to send finds no connection closed where the listener is asked to wait.
#[test]
fn an_old_connection_ends_with_its_next_response_or_after_the_drain_time() {
    for waits in [true, false] {
        run(async {
            let backend = Backend::named("a").await;
            let proxy = Proxy::start(with_manager(backend.address, |manager| {
                manager.http1.aged_wait_for_response = waits;
                manager.timeouts.max_connection_duration = Some(std::time::Duration::from_millis(300));
                manager.timeouts.drain = std::time::Duration::from_millis(1);
            }));
            let mut client = Raw::connect(&proxy).await;
            // By its first byte the proxy knows that it is no HTTP/2.
            client.send("G").await;
            let snapshot = Arc::clone(&proxy.snapshot.borrow());
            let stats = Arc::clone(&crate::support::manager_of(&snapshot).stats);
            until("the connection is old", || {
                stats.cells(WorkerIndex(0)).downstream_cx_max_duration_reached.get() == 1
            })
            .await;
            if waits {
                client.send("ET / HTTP/1.1\r\nHost: h\r\n\r\n").await;
                let rest = client.rest().await;
                assert!(
                    rest.starts_with("HTTP/1.1 200") && rest.contains("connection: close"),
                    "{rest}"
                );
            } else {
                assert_eq!(client.rest().await, "");
            }
        });
    }
}

/// As from stock Envoy 1.40: who has said nothing has nothing on its way, and need not be waited for.
#[test]
fn a_silent_connection_ends_when_it_is_old() {
    for codec in [Codec::Auto, Codec::Http1] {
        run(async {
            let backend = Backend::named("a").await;
            let proxy = Proxy::start(with_manager(backend.address, |manager| {
                manager.codec = codec;
                manager.http1.aged_wait_for_response = true;
                manager.timeouts.max_connection_duration = Some(std::time::Duration::from_millis(50));
            }));
            assert_eq!(Raw::connect(&proxy).await.rest().await, "");
            let stats = Arc::clone(&crate::support::manager_of(&proxy.snapshot.borrow()).stats);
            let cells = stats.cells(WorkerIndex(0));
            let counts = (
                &cells.downstream_cx_max_duration_reached,
                &cells.downstream_cx_idle_timeout,
            );
            assert_eq!((counts.0.get(), counts.1.get()), (1, 0));
        });
    }
}

/// All that is said on a connection whose request isn't sent to its end.
async fn answer_to_part(proxy: &Proxy, part: &str) -> String {
    let mut client = Raw::connect(proxy).await;
    client.send(format!("POST / HTTP/1.1\r\nhost: h\r\n{part}")).await;
    client.rest().await
}

/// What is left of a request can't be told from another one by who comes behind: the client is told before.
#[test]
fn an_answer_before_the_end_of_its_request_says_that_it_is_the_last() {
    run(async {
        let backend = Backend::named("a").await;
        let proxy = Proxy::start(Config {
            snapshot: snapshot(
                table("other.example", vec![catch_all(forward(0))]),
                vec![entry(0, cluster(0), &[backend.address])],
                |_| {},
            ),
            workers: 1,
        });
        let last = "\r\nconnection: close\r\n";
        for rest in [
            "content-length: 10\r\n\r\n",
            "transfer-encoding: chunked\r\n\r\n1\r\na\r\n",
            "transfer-encoding: chunked\r\n\r\nx\r\n",
        ] {
            let all = answer_to_part(&proxy, rest).await;
            assert!(all.starts_with("HTTP/1.1 404 ") && all.contains(last), "{all}");
        }
        // Of one that is there nothing is left.
        let mut client = Raw::connect(&proxy).await;
        for _ in 0..2 {
            client
                .send("POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 2\r\n\r\nab")
                .await;
            let head = client.read_to("\r\n\r\n").await;
            assert!(head.starts_with("HTTP/1.1 404 ") && !head.contains(last), "{head}");
        }
    });
}

/// As from stock Envoy 1.40 (RFC 9112 §9.6): nobody reads what comes of a request behind its answer.
#[test]
fn an_answer_of_a_backend_before_the_end_of_its_request_is_the_last_too() {
    run(async {
        let last = "\r\nconnection: close\r\n";
        let chunked = &["HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"];
        for (answer, end) in [
            (&["HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"], "\r\n\r\nok"),
            (chunked, "\r\n0\r\n\r\n"),
            (&["HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"], "\r\n\r\n"),
        ] {
            let (backend, _) = scripted(answer).await;
            let proxy = Proxy::start(simple(backend));
            for rest in [
                "content-length: 10\r\n\r\n",
                "content-length: 10\r\n\r\na",
                "transfer-encoding: chunked\r\n\r\n1\r\na\r\n",
            ] {
                let all = answer_to_part(&proxy, rest).await;
                assert!(all.starts_with("HTTP/1.1 200 ") && all.contains(last), "{all}");
            }
            // Of one that is there nothing is left.
            let mut client = Raw::connect(&proxy).await;
            for _ in 0..2 {
                client
                    .send("POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 2\r\n\r\nab")
                    .await;
                let all = client.read_to(end).await;
                assert!(all.starts_with("HTTP/1.1 200 ") && !all.contains(last), "{all}");
            }
        }
    });
}
