//! Configuration changes and drains while connections are open.

use std::sync::Arc;
use std::time::Duration;

use edge_proxy::config::filter::{FilterKind, HealthCheckFilter, HttpFilter, HttpFilters};
use edge_proxy::config::header::{HeaderCondition, HeaderField, HeaderTest, StringCondition};
use edge_proxy::config::route::{Action, DirectResponse, PathCondition};
use edge_proxy::shared::Drain;
use edge_proxy::stats::WorkerIndex;
use http::StatusCode;
use http_body_util::Full;
use tokio::net::TcpStream;

use crate::support::{
    Backend, Config, PATIENCE, Proxy, Reply, Speaks, catch_all, cluster, entry, forward, get, http2, manager_of, route,
    run, simple, snapshot, table, until,
};

#[test]
fn a_new_route_table_serves_the_next_request_of_an_open_connection() {
    run(async {
        let (a, b) = (Backend::named("a").await, Backend::named("b").await);
        let clusters = vec![entry(0, cluster(0), &[a.address]), entry(1, cluster(1), &[b.address])];
        let proxy = Proxy::start(Config {
            snapshot: snapshot(table("*", vec![catch_all(forward(0))]), clusters, |_| {}),
            workers: 1,
        });
        let mut client = proxy.http1().await;
        assert_eq!(client.get("h", "/").await.text(), "a");
        proxy.publish(|next| next.route_tables = Arc::new(vec![Some(table("*", vec![catch_all(forward(1))]))]));
        assert_eq!(client.get("h", "/").await.text(), "b");
        proxy.publish(|next| next.route_tables = Arc::new(vec![None]));
        assert_eq!(client.get("h", "/").await.status, 404);
    });
}

#[test]
fn connections_to_endpoints_that_are_gone_are_closed() {
    run(async {
        let (a, b) = (Backend::named("a").await, Backend::named("b").await);
        let old = entry(0, cluster(0), &[a.address]).unwrap();
        let gone = Arc::clone(&old.endpoints.hosts[0].stats);
        let snapshot = snapshot(table("*", vec![catch_all(forward(0))]), vec![Some(old)], |_| {});
        let proxy = Proxy::start(Config { snapshot, workers: 1 });
        let mut client = proxy.http1().await;
        assert_eq!(client.get("h", "/").await.text(), "a");
        proxy.publish(|next| next.clusters = Arc::new(vec![entry(0, cluster(0), &[b.address])]));
        assert_eq!(client.get("h", "/").await.text(), "b");
        until("the idle connection closes", || {
            gone.cx_active.load(std::sync::atomic::Ordering::SeqCst) == 0
        })
        .await;
    });
}

#[test]
fn draining_refuses_new_connections_and_finishes_open_requests() {
    run(async {
        let (backend, go) = Backend::held().await;
        let proxy = Proxy::start(simple(backend.address));
        let (mut idle, mut busy, mut late) = (proxy.http1().await, proxy.http1().await, proxy.http1().await);
        let reply = tokio::spawn(async move { busy.get("h", "/").await });
        backend.wait_for(1).await;
        proxy.drain.send(Drain::Draining).unwrap();
        // Nobody gets in any more, once the socket is gone …
        proxy.sockets.send(Arc::from([])).unwrap();
        loop {
            match TcpStream::connect(proxy.address).await {
                Err(_) => break,
                Ok(stream) => drop(stream),
            }
        }
        // … and who is in and asks now is answered, as well as who has asked before.
        let other = tokio::spawn(async move { late.get("h", "/").await });
        backend.wait_for(2).await;
        for reply in [reply, other] {
            go.notify_one();
            let reply = reply.await.unwrap();
            assert_eq!(
                (reply.status, reply.text(), reply.header("connection")),
                (200, "late", "close")
            );
        }
        // An idle connection is closed after a while.
        while idle.0.ready().await.is_ok() {
            tokio::task::yield_now().await;
        }
        until("all connections end", || {
            proxy
                .shared
                .stats
                .cells(edge_proxy::stats::WorkerIndex(0))
                .total_connections
                .get()
                == 0
        })
        .await;
        proxy.drain.send(Drain::Stop).unwrap();
        proxy.wait_for_end();
    });
}

#[test]
fn http2_connections_get_a_goaway_and_finish_their_streams() {
    run(async {
        let (backend, go) = Backend::held().await;
        let proxy = Proxy::start(simple(backend.address));
        let mut client = http2(TcpStream::connect(proxy.address).await.unwrap()).await;
        let response = client.send_request(get_http2("http://h/"));
        let reply = tokio::spawn(async move { Reply::of(response.await.unwrap()).await.unwrap() });
        backend.wait_for(1).await;
        proxy.drain.send(Drain::Draining).unwrap();
        go.notify_one();
        assert_eq!(reply.await.unwrap().text(), "late");
        until("the connection ends by itself", || client.is_closed()).await;
    });
}

fn get_http2(uri: &str) -> http::Request<Full<bytes::Bytes>> {
    http::Request::get(uri).body(Full::default()).unwrap()
}

#[test]
fn the_health_check_filter_answers_by_the_state_of_the_process() {
    run(async {
        let not_ready = Action::Direct(Box::new(DirectResponse {
            status: StatusCode::INTERNAL_SERVER_ERROR,
            body: edge_proxy::config::route::DirectBody::Constant(bytes::Bytes::new()),
            content_type: None,
        }));
        let config = Config {
            snapshot: snapshot(
                table("*", vec![route(PathCondition::Prefix("/".into()), not_ready)]),
                Vec::new(),
                |manager| {
                    let check = FilterKind::HealthCheck(HealthCheckFilter {
                        conditions: vec![HeaderCondition {
                            field: HeaderField::Path,
                            test: HeaderTest::Value(StringCondition::Exact("/ready".into())),
                            invert: false,
                            missing_as_empty: false,
                        }],
                    });
                    manager.filters = HttpFilters::new(vec![HttpFilter::on("health_check", check)]);
                },
            ),
            workers: 1,
        };
        let proxy = Proxy::start(config);
        assert_eq!(proxy.get("h", "/ready").await.status, 200);
        assert_eq!(proxy.get("h", "/other").await.status, 500);
        proxy.shared.flags.fail_health();
        let reply = proxy.get("h", "/ready").await;
        assert_eq!((reply.status, reply.header("connection")), (503, "close"));
        proxy.shared.flags.restore_health();
        assert_eq!(proxy.get("h", "/ready").await.status, 200);
    });
}

#[test]
fn an_idle_connection_is_closed_after_its_time() {
    run(async {
        let backend = Backend::named("a").await;
        let clusters = vec![entry(0, cluster(0), &[backend.address])];
        let proxy = Proxy::start(Config {
            snapshot: snapshot(table("*", vec![catch_all(forward(0))]), clusters, |manager| {
                manager.timeouts.idle = Some(Duration::from_millis(50));
            }),
            workers: 1,
        });
        let mut client = proxy.http1().await;
        assert_eq!(client.send(get("h", "/")).await.status, 200);
        until("the connection closes", || client.0.is_closed()).await;
    });
}

#[test]
fn a_head_that_never_ends_meets_the_first_of_its_deadlines() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    run(async {
        let backend = Backend::named("a").await;
        let (soon, late) = (Some(Duration::from_millis(50)), Some(PATIENCE));
        for (head, request, idle, text, counted) in [
            (soon, None, None, "request header timeout", [1, 0, 0]),
            (soon, late, late, "request header timeout", [1, 0, 0]),
            (late, soon, None, "request timeout", [0, 1, 0]),
            (None, soon, late, "request timeout", [0, 1, 0]),
            (None, None, soon, "stream timeout", [0, 0, 1]),
        ] {
            let clusters = vec![entry(0, cluster(0), &[backend.address])];
            let proxy = Proxy::start(Config {
                snapshot: snapshot(table("*", vec![catch_all(forward(0))]), clusters, |manager| {
                    let timeouts = &mut manager.timeouts;
                    (timeouts.request_headers, timeouts.request, timeouts.stream_idle) = (head, request, idle);
                }),
                workers: 1,
            });
            let mut stream = TcpStream::connect(proxy.address).await.unwrap();
            stream.write_all(b"GET / HTTP/1.1\r\nhost: h\r\nx: ").await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
            assert!(answer.contains("\r\nconnection: close\r\n"), "{answer}");
            assert!(answer.ends_with(&format!("\r\n\r\n{text}")), "{answer}");
            let stats = Arc::clone(&manager_of(&proxy.snapshot.borrow()).stats);
            let cells = stats.cells(WorkerIndex(0));
            let counts = [
                &cells.downstream_rq_header_timeout,
                &cells.downstream_rq_timeout,
                &cells.downstream_rq_idle_timeout,
            ];
            assert_eq!(counts.map(|count| count.get()), counted);
        }
        assert_eq!(backend.requests(), 0);
    });
}

/// As from stock Envoy 1.40: a request is active from the first byte of its head on, also when the settings change
/// while that comes in. An empty line is no part of one (RFC 9112 §2.2).
#[test]
fn who_sends_a_head_is_not_idle() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    run(async {
        let backend = Backend::named("a").await;
        let configured = || {
            let clusters = vec![entry(0, cluster(0), &[backend.address])];
            snapshot(table("*", vec![catch_all(forward(0))]), clusters, |manager| {
                manager.timeouts.idle = Some(Duration::from_millis(500));
                manager.timeouts.stream_idle = Some(Duration::from_secs(1));
            })
        };
        let proxy = Proxy::start(Config {
            snapshot: configured(),
            workers: 1,
        });
        let (whole, begun) = ("GET / HTTP/1.1\r\nhost: h\r\n\r\n", "GET / HTTP/1.1\r\nhost: h\r\nx: ");
        let send = async |bytes: String| {
            let mut stream = TcpStream::connect(proxy.address).await.unwrap();
            stream.write_all(bytes.as_bytes()).await.unwrap();
            stream
        };
        let mut first = send(begun.to_owned()).await;
        let mut second = send(format!("{whole}{begun}")).await;
        let mut idle = send(format!("{whole}\r\n")).await;
        let stats = Arc::clone(&manager_of(&proxy.snapshot.borrow()).stats);
        let cells = stats.cells(WorkerIndex(0));
        until("all are served", || cells.downstream_cx_http1_total.get() == 3).await;
        proxy.publish(|next| next.listeners = configured().listeners);
        let mut answers = [const { String::new() }; 3];
        for (stream, answer) in [&mut first, &mut second, &mut idle].into_iter().zip(&mut answers) {
            stream.read_to_string(answer).await.unwrap();
        }
        let [first, second, idle] = answers;
        assert!(first.starts_with("HTTP/1.1 408 "), "{first}");
        assert!(
            second.starts_with("HTTP/1.1 200 ") && second.contains("aHTTP/1.1 408 "),
            "{second}"
        );
        assert!(
            idle.starts_with("HTTP/1.1 200 ") && idle.ends_with("\r\n\r\na"),
            "{idle}"
        );
        assert_eq!(cells.downstream_cx_idle_timeout.get(), 1);
    });
}

/// Two clients leave the ends of their bodies out. Which one began first counts, and of each connection the request in
/// hand.
#[test]
fn a_request_has_its_time_from_the_first_byte_of_its_head_on() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    run(async {
        let backend = Backend::start_async(Speaks::Http1, |seen| {
            let is_slow = seen.uri().path() == "/slow";
            async move {
                if is_slow {
                    std::future::pending::<()>().await;
                }
                http::Response::new(Full::default())
            }
        })
        .await;
        let mut settings = forward(0);
        settings.timeout = Some(Duration::from_millis(300));
        let clusters = vec![entry(0, cluster(0), &[backend.address])];
        let proxy = Proxy::start(Config {
            snapshot: snapshot(table("*", vec![catch_all(settings)]), clusters, |manager| {
                manager.timeouts.request = Some(Duration::from_secs(1));
            }),
            workers: 1,
        });
        let connect = async || TcpStream::connect(proxy.address).await.unwrap();
        let (mut early, mut late) = (connect().await, connect().await);
        late.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
        early.write_all(b"POST / HTTP/1.1\r\n").await.unwrap();
        // So much later.
        assert_eq!(proxy.get("h", "/slow").await.status, 504);
        late.write_all(b"host: h\r\n\r\n").await.unwrap();
        let mut answer = vec![0; 12];
        late.read_exact(&mut answer).await.unwrap();
        assert_eq!(answer, b"HTTP/1.1 200");
        let rest = b"host: h\r\ncontent-length: 5\r\n\r\nab";
        late.write_all(&[b"POST / HTTP/1.1\r\n", &rest[..]].concat())
            .await
            .unwrap();
        early.write_all(rest).await.unwrap();
        let (mut first, mut second) = (String::new(), String::new());
        tokio::select! {
            _ = early.read_to_string(&mut first) => {}
            _ = late.read_to_string(&mut second) => panic!("the later one ends first"),
        }
        assert!(first.starts_with("HTTP/1.1 408 "), "{first}");
        assert!(first.ends_with("request timeout"), "{first}");
    });
}
