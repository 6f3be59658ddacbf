//! What happens when backends are slow, broken, full or gone.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use edge_proxy::config::cluster::{Balancing, LbPolicy, UpstreamProtocol};
use edge_proxy::config::header::{HeaderCondition, HeaderField, HeaderTest, StringCondition};
use edge_proxy::config::route::{RetryOn, RetryPolicy};
use edge_proxy::stats::WorkerIndex;
use edge_proxy::vitals::Flag;
use http::{HeaderName, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{
    Backend, Config, Proxy, Speaks, catch_all, cluster, entry, forward, get, http2, nobody, run, simple, snapshot,
    table, until, with_forward,
};

pub(crate) fn retry(on: RetryOn, max_retries: u32) -> Option<Box<RetryPolicy>> {
    Some(Box::new(RetryPolicy {
        on,
        status_codes: [StatusCode::SERVICE_UNAVAILABLE].into_iter().collect(),
        headers: Box::default(),
        requests: Box::default(),
        rate_limited: HeaderName::from_static("x-edge-ratelimited"),
        max_retries,
        per_try_timeout: None,
        backoff_base: Duration::from_millis(1),
        backoff_max: Duration::from_millis(5),
        avoid_previous_hosts: true,
        host_selection_attempts: 5,
        attempts_per_priority: None,
    }))
}

pub(crate) fn config(
    clusters: Vec<Option<Arc<edge_proxy::config::cluster::ClusterEntry>>>,
    settings: edge_proxy::config::route::Forward,
) -> Config {
    Config {
        snapshot: snapshot(table("*", vec![catch_all(settings)]), clusters, |_| {}),
        workers: 1,
    }
}

/// A backend that answers every connection's first bytes with these and closes.
async fn raw(answer: &'static [u8]) -> std::net::SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut buffer = [0; 4096];
            let _ = stream.read(&mut buffer).await;
            let _ = stream.write_all(answer).await;
        }
    });
    address
}

#[test]
fn no_endpoint_is_503_and_so_is_a_refused_connection() {
    run(async {
        let proxy = Proxy::start(config(vec![entry(0, cluster(0), &[])], forward(0)));
        let reply = proxy.get("h", "/").await;
        assert_eq!((reply.status, reply.text()), (503, "no healthy upstream"));
        let proxy = Proxy::start(simple(nobody()));
        let reply = proxy.get("h", "/").await;
        assert_eq!(reply.status, 503);
        assert!(reply.text().contains("remote connection failure"), "{}", reply.text());
        assert_eq!(reply.header("content-type"), "text/plain");
    });
}

#[test]
fn a_missing_cluster_answers_with_the_code_of_the_route() {
    run(async {
        let mut settings = forward(7);
        settings.cluster_not_found = StatusCode::INTERNAL_SERVER_ERROR;
        let proxy = Proxy::start(config(Vec::new(), settings));
        let reply = proxy.get("h", "/").await;
        assert_eq!((reply.status, reply.text()), (500, ""));
    });
}

#[test]
fn a_backend_that_closes_or_talks_nonsense_is_told_apart() {
    run(async {
        let proxy = Proxy::start(simple(raw(b"").await));
        let reply = proxy.get("h", "/").await;
        assert_eq!(reply.status, 503);
        assert!(reply.text().ends_with("connection termination"), "{}", reply.text());
        let proxy = Proxy::start(simple(raw(b"SSH-2.0-x\r\n\r\n").await));
        let reply = proxy.get("h", "/").await;
        assert_eq!(reply.status, 502);
        assert!(reply.text().ends_with("protocol error"), "{}", reply.text());
    });
}

#[test]
fn a_response_that_breaks_off_breaks_off_at_the_client() {
    run(async {
        let proxy = Proxy::start(simple(raw(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf").await));
        let mut client = proxy.http1().await;
        // What had come may be cut off with the rest; a complete response must not be made of it.
        if let Ok(response) = client.0.send_request(get("h", "/")).await {
            assert_eq!(response.status(), 200);
            assert!(crate::support::Reply::of(response).await.is_err());
        }
    });
}

#[test]
fn a_slow_backend_meets_the_routes_timeout() {
    run(async {
        let backend = Backend::start_async(Speaks::Http1, |_| std::future::pending()).await;
        let mut settings = forward(0);
        settings.timeout = Some(Duration::from_millis(50));
        let proxy = Proxy::start(with_forward(backend.address, settings));
        let reply = proxy.get("h", "/").await;
        assert_eq!((reply.status, reply.text()), (504, "upstream request timeout"));
        assert_eq!(backend.last().headers()["x-edge-expected-rq-timeout-ms"], "50");
    });
}

#[test]
fn a_trusted_caller_may_shorten_the_timeout() {
    run(async {
        let backend = Backend::start_async(Speaks::Http1, |_| std::future::pending()).await;
        let proxy = Proxy::start(simple(backend.address));
        let mut request = get("h", "/");
        request
            .headers_mut()
            .insert("x-edge-upstream-rq-timeout-ms", http::HeaderValue::from_static("30"));
        assert_eq!(proxy.http1().await.send(request).await.status, 504);
        assert!(!backend.last().headers().contains_key("x-edge-upstream-rq-timeout-ms"));
    });
}

#[test]
fn a_stream_in_which_nothing_moves_ends() {
    run(async {
        let backend = Backend::start_async(Speaks::Http1, |_| std::future::pending()).await;
        let mut settings = forward(0);
        settings.timeout = None;
        settings.idle_timeout = Some(Some(Duration::from_millis(50)));
        let proxy = Proxy::start(with_forward(backend.address, settings));
        let reply = proxy.get("h", "/").await;
        assert_eq!((reply.status, reply.text()), (504, "stream timeout"));
    });
}

#[test]
fn a_try_that_takes_too_long_is_tried_elsewhere() {
    run(async {
        let slow = Backend::start_async(Speaks::Http1, |_| std::future::pending()).await;
        let fast = Backend::named("fast").await;
        let mut settings = forward(0);
        settings.retry = retry(
            RetryOn {
                server_error: true,
                ..RetryOn::default()
            },
            2,
        );
        settings.retry.as_mut().unwrap().per_try_timeout = Some(Duration::from_millis(50));
        settings.attempt_count_in_response = true;
        let proxy = Proxy::start(config(
            vec![entry(0, cluster(0), &[slow.address, fast.address])],
            settings,
        ));
        let mut client = proxy.http1().await;
        let mut attempts = Vec::new();
        for _ in 0..2 {
            let reply = client.get("h", "/").await;
            assert_eq!(reply.text(), "fast");
            attempts.push(reply.header("x-edge-attempt-count").to_owned());
        }
        // Round robin meets the slow one first in one of two requests at least.
        assert!(attempts.contains(&"2".to_owned()), "{attempts:?}");
    });
}

#[test]
fn refused_connections_are_retried_on_another_host_with_the_body() {
    run(async {
        let good = Backend::named("good").await;
        let mut settings = forward(0);
        settings.retry = retry(
            RetryOn {
                connect_failure: true,
                ..RetryOn::default()
            },
            2,
        );
        let proxy = Proxy::start(config(vec![entry(0, cluster(0), &[nobody(), good.address])], settings));
        let mut client = proxy.http1().await;
        for n in 1..=4 {
            let request = Request::post("/")
                .header("host", "h")
                .body(Full::from("payload"))
                .unwrap();
            assert_eq!(client.send(request).await.text(), "good");
            assert_eq!(good.wait_for(n).await.body(), "payload");
        }
    });
}

#[test]
fn statuses_are_retried_until_the_retries_are_used_up() {
    run(async {
        let count = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&count);
        let backend = Backend::start(Speaks::Http1, move |_| {
            let n = counter.fetch_add(1, Ordering::SeqCst);
            let status = if n == 1 { 200 } else { 503 };
            Response::builder()
                .status(status)
                .body(Full::from(format!("try {n}")))
                .unwrap()
        })
        .await;
        let mut settings = forward(0);
        settings.retry = retry(
            RetryOn {
                status_codes: true,
                ..RetryOn::default()
            },
            2,
        );
        let proxy = Proxy::start(with_forward(backend.address, settings));
        let mut client = proxy.http1().await;
        assert_eq!(client.get("h", "/").await.text(), "try 1");
        let reply = client.get("h", "/").await;
        assert_eq!((reply.status, reply.text()), (503, "try 4"));
        assert_eq!(count.load(Ordering::SeqCst), 5);
    });
}

/// As much is kept as the listener buffers (32 KiB here), unless the route says otherwise.
#[test]
fn content_is_sent_again_if_it_was_kept() {
    run(async {
        for (limit, len, tries) in [
            (None, 20_000, 3),
            (None, 100_000, 1),
            (Some(200_000), 100_000, 3),
            (Some(1_000), 20_000, 1),
        ] {
            let backend = Backend::start(Speaks::Http1, move |_| {
                Response::builder().status(503).body(Full::default()).unwrap()
            })
            .await;
            let mut settings = forward(0);
            settings.body_limit = limit;
            settings.retry = retry(
                RetryOn {
                    status_codes: true,
                    ..RetryOn::default()
                },
                2,
            );
            let proxy = Proxy::start(with_forward(backend.address, settings));
            let request = Request::post("/").header("host", "h");
            let request = request.body(Full::from(vec![b'x'; len])).unwrap();
            assert_eq!(proxy.http1().await.send(request).await.status, 503);
            assert_eq!(backend.requests(), tries, "{limit:?} {len}");
        }
    });
}

fn named(name: &'static str, value: &str) -> Box<[HeaderCondition]> {
    Box::new([HeaderCondition {
        field: HeaderField::Named(HeaderName::from_static(name)),
        test: HeaderTest::Value(StringCondition::Exact(value.into())),
        invert: false,
        missing_as_empty: false,
    }])
}

#[test]
fn headers_of_responses_and_of_requests_decide_what_is_retried() {
    run(async {
        let count = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&count);
        let backend = Backend::start(Speaks::Http1, move |_| {
            counter.fetch_add(1, Ordering::SeqCst);
            Response::builder()
                .header("x-again", "yes")
                .body(Full::from("a"))
                .unwrap()
        })
        .await;
        let mut settings = forward(0);
        settings.retry = retry(
            RetryOn {
                headers: true,
                ..RetryOn::default()
            },
            2,
        );
        let policy = settings.retry.as_mut().unwrap();
        policy.headers = named("x-again", "yes");
        policy.requests = named("x-try", "hard");
        let proxy = Proxy::start(with_forward(backend.address, settings));
        assert_eq!(proxy.get("h", "/").await.status, 200);
        assert_eq!(count.load(Ordering::SeqCst), 1);
        let mut hard = get("h", "/");
        hard.headers_mut().insert("x-try", "hard".parse().unwrap());
        let reply = proxy.http1().await.0.send_request(hard).await.unwrap();
        assert_eq!(reply.status(), 200);
        assert_eq!(count.load(Ordering::SeqCst), 4);
    });
}

/// RFC 9113 §8.2.2: such a field would make the response malformed, and cost the client all of it.
#[test]
fn trailers_about_a_connection_stay_on_it() {
    run(async {
        const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n\
            1\r\na\r\n0\r\nconnection: close\r\nproxy-connection: close\r\nx-sum: 1\r\n\r\n";
        let proxy = Proxy::start(simple(raw(ANSWER).await));
        let mut client = http2(TcpStream::connect(proxy.address).await.unwrap()).await;
        let request = Request::get("http://h/").body(Full::<Bytes>::default()).unwrap();
        let whole = client.send_request(request).await.unwrap().collect().await.unwrap();
        let trailers = whole.trailers().unwrap();
        assert_eq!((trailers.len(), &trailers["x-sum"]), (1, &"1".parse().unwrap()));
    });
}

/// As in Envoy: whoever sends slowly takes none of the backend's time.
#[test]
fn the_time_of_a_try_begins_when_the_request_was_sent() {
    run(async {
        let backend = Backend::start_async(Speaks::Http1, |seen| {
            let answers = seen.uri().path() == "/";
            async move {
                match answers {
                    true => Response::new(Full::from("ok")),
                    false => std::future::pending().await,
                }
            }
        })
        .await;
        let mut settings = forward(0);
        let on = RetryOn {
            server_error: true,
            ..RetryOn::default()
        };
        settings.retry = retry(on, 1);
        settings.retry.as_mut().unwrap().per_try_timeout = Some(Duration::from_millis(50));
        let proxy = Proxy::start(with_forward(backend.address, settings));
        let upload = async |path: &str| {
            let mut stream = TcpStream::connect(proxy.address).await.unwrap();
            let head = format!("POST {path} HTTP/1.1\r\nhost: h\r\nconnection: close\r\ncontent-length: 6\r\n\r\nabc");
            stream.write_all(head.as_bytes()).await.unwrap();
            stream
        };
        let end = async |mut stream: TcpStream| {
            stream.write_all(b"def").await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            answer.lines().next().unwrap().to_owned()
        };
        let (answered, silent) = (upload("/").await, upload("/silent").await);
        until("both are on their way", || backend.connections() == 2).await;
        // Both tries of one that is complete are over.
        let reply = proxy.get("h", "/silent").await;
        assert_eq!((reply.status, backend.connections()), (504, 4));
        assert_eq!(end(answered).await, "HTTP/1.1 200 OK");
        assert_eq!(end(silent).await, "HTTP/1.1 504 Gateway Timeout");
        assert_eq!(
            backend.connections(),
            4,
            "its other try is on a connection that has become free"
        );
    });
}

#[test]
fn a_connection_that_is_too_old_is_not_used_again() {
    for speaks in [Speaks::Http1, Speaks::Http2] {
        run(async {
            let backend = Backend::start(speaks, |_| Response::new(Full::from("ok"))).await;
            let mut aging = cluster(0);
            let age = Duration::from_millis(200);
            aging.max_connection_duration = Some(age);
            if speaks == Speaks::Http2 {
                aging.protocol = UpstreamProtocol::Http2;
            }
            let entry = entry(0, aging, &[backend.address]);
            let stats = Arc::clone(&entry.as_ref().unwrap().cluster.stats);
            let proxy = Proxy::start(config(vec![entry], forward(0)));
            assert_eq!(proxy.get("h", "/").await.text(), "ok");
            let opened = std::time::Instant::now();
            until("it is old", || opened.elapsed() > age).await;
            assert_eq!(proxy.get("h", "/").await.text(), "ok");
            assert_eq!(backend.connections(), 2);
            let cells = stats.cells(WorkerIndex(0));
            let counts = (&cells.upstream_cx_max_duration_reached, &cells.upstream_cx_idle_timeout);
            assert_eq!((counts.0.get(), counts.1.get()), (1, 0));
        });
    }
}

/// As in Envoy.
#[test]
fn another_try_is_told_what_is_left_of_the_time() {
    run(async {
        let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
        let backend = Backend::start(Speaks::Http1, move |seen| {
            let time = seen.headers()["x-edge-expected-rq-timeout-ms"].to_str().unwrap();
            tell.send(time.parse::<u64>().unwrap()).unwrap();
            Response::builder().status(503).body(Full::default()).unwrap()
        })
        .await;
        let mut settings = forward(0);
        settings.timeout = Some(Duration::from_secs(20));
        let on = RetryOn {
            server_error: true,
            ..RetryOn::default()
        };
        settings.retry = retry(on, 2);
        let proxy = Proxy::start(with_forward(backend.address, settings));
        assert_eq!(proxy.get("h", "/").await.status, 503);
        let told: Vec<u64> = std::iter::from_fn(|| told.try_recv().ok()).collect();
        assert_eq!(told.len(), 3);
        assert_eq!(told[0], 20_000);
        assert!(told.is_sorted_by(|one, next| one > next), "{told:?}");
    });
}

#[test]
fn bodies_beyond_the_buffer_limit_are_sent_but_not_again() {
    run(async {
        let backend = Backend::start(Speaks::Http1, |seen| {
            Response::builder()
                .status(503)
                .body(Full::from(seen.body().len().to_string()))
                .unwrap()
        })
        .await;
        let mut settings = forward(0);
        settings.retry = retry(
            RetryOn {
                status_codes: true,
                ..RetryOn::default()
            },
            2,
        );
        let proxy = Proxy::start(with_forward(backend.address, settings));
        let body = Bytes::from(vec![b'x'; 300_000]);
        let request = Request::post("/").header("host", "h").body(Full::from(body)).unwrap();
        let reply = proxy.http1().await.send(request).await;
        assert_eq!((reply.status, reply.text()), (503, "300000"));
        assert_eq!(backend.requests(), 1);
        // What tiny pieces cost beside their bytes counts too: 1,000 bytes are 64 kB of memory here.
        let mut stream = TcpStream::connect(proxy.address).await.unwrap();
        let head = "POST / HTTP/1.1\r\nhost: h\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n";
        let body = "1\r\nx\r\n".repeat(1000) + "0\r\n\r\n";
        stream.write_all((head.to_owned() + &body).as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(
            answer.starts_with("HTTP/1.1 503") && answer.ends_with("1000"),
            "{answer}"
        );
        assert_eq!(backend.requests(), 2);
    });
}

#[test]
fn connections_are_reused_and_idle_ones_that_were_closed_are_not() {
    run(async {
        let backend = Backend::named("a").await;
        let proxy = Proxy::start(simple(backend.address));
        let mut client = proxy.http1().await;
        for _ in 0..20 {
            assert_eq!(client.get("h", "/").await.status, 200);
        }
        assert_eq!(backend.connections(), 1);
        // A backend that closes after every response without saying so: the next request must not meet the old
        // connection, not even right after.
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let proxy = Proxy::start(simple(listener.local_addr().unwrap()));
        let closed = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&closed);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut buffer = [0; 4096];
                let _ = stream.read(&mut buffer).await;
                stream
                    .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
                    .await
                    .unwrap();
                drop(stream);
                count.fetch_add(1, Ordering::SeqCst);
            }
        });
        let mut client = proxy.http1().await;
        for n in 1..=20 {
            assert_eq!(client.get("h", "/").await.text(), "ok");
            until("the backend closes", || closed.load(Ordering::SeqCst) == n).await;
        }
    });
}

#[test]
fn large_bodies_pass_both_ways() {
    run(async {
        let backend = Backend::start(Speaks::Http1, |seen| Response::new(Full::from(seen.body().clone()))).await;
        let proxy = Proxy::start(simple(backend.address));
        let body: Vec<u8> = (0..3_000_000_u32).map(|n| n as u8).collect();
        let request = Request::put("/")
            .header("host", "h")
            .body(Full::from(body.clone()))
            .unwrap();
        let reply = proxy.http1().await.send(request).await;
        assert!(reply.body == body);
    });
}

#[test]
fn round_robin_takes_turns_and_least_request_avoids_the_busy() {
    run(async {
        let (a, b) = (Backend::named("a").await, Backend::named("b").await);
        let proxy = Proxy::start(config(vec![entry(0, cluster(0), &[a.address, b.address])], forward(0)));
        let mut client = proxy.http1().await;
        for _ in 0..10 {
            client.get("h", "/").await;
        }
        assert_eq!((a.requests(), b.requests()), (5, 5));

        let stuck = Backend::start_async(Speaks::Http1, |_| std::future::pending()).await;
        let free = Backend::named("free").await;
        let mut least = cluster(0);
        least.balancing = Balancing {
            policy: LbPolicy::LeastRequest { choices: 16, bias: 1.0 },
            locality_weighted: false,
            zones: None,
            slow_start: None,
        };
        let entry = entry(0, least, &[stuck.address, free.address]).unwrap();
        entry.endpoints.hosts[0].stats.rq_active.fetch_add(5, Ordering::SeqCst);
        let proxy = Proxy::start(config(vec![Some(entry)], forward(0)));
        let mut client = proxy.http1().await;
        for _ in 0..20 {
            assert_eq!(client.get("h", "/").await.text(), "free");
        }
    });
}

#[test]
fn a_client_that_goes_away_frees_the_backend() {
    run(async {
        let backend = Backend::start_async(Speaks::Http1, |_| std::future::pending()).await;
        let entry = entry(0, cluster(0), &[backend.address]).unwrap();
        let stats = Arc::clone(&entry.endpoints.hosts[0].stats);
        let proxy = Proxy::start(config(vec![Some(entry)], forward(0)));
        let mut client = proxy.http1().await;
        let request = tokio::spawn(async move { client.0.send_request(get("h", "/")).await.map(drop) });
        backend.wait_for(1).await;
        assert_eq!(stats.rq_active.load(Ordering::SeqCst), 1);
        request.abort();
        until("the request ends", || stats.rq_active.load(Ordering::SeqCst) == 0).await;
        until("the connection closes", || stats.cx_active.load(Ordering::SeqCst) == 0).await;
    });
}

#[test]
fn connections_in_http2_are_closed_when_they_are_idle() {
    run(async {
        let backend = Backend::start(Speaks::Http2, |_| Response::new(Full::from("ok"))).await;
        let mut brief = cluster(0);
        brief.protocol = UpstreamProtocol::Http2;
        brief.idle_timeout = Some(Duration::from_millis(10));
        let entry = entry(0, brief, &[backend.address]).unwrap();
        let stats = Arc::clone(&entry.endpoints.hosts[0].stats);
        let proxy = Proxy::start(config(vec![Some(entry)], forward(0)));
        assert_eq!(proxy.get("h", "/").await.text(), "ok");
        until("the connection closes", || stats.cx_active.load(Ordering::SeqCst) == 0).await;
    });
}

/// The connection may be what is ill: stock Envoy empties the pools of a host that a check or outlier detection finds
/// ill.
#[test]
fn connections_from_before_their_host_failed_are_used_no_more() {
    run(async {
        for (speaks, protocol) in [
            (Speaks::Http1, UpstreamProtocol::Http1),
            (Speaks::Http2, UpstreamProtocol::Http2),
        ] {
            let backend = Backend::start(speaks, |_| Response::new(Full::from("ok"))).await;
            let mut settings = cluster(0);
            settings.protocol = protocol;
            let of_one = entry(0, settings, &[backend.address]);
            let vitals = Arc::clone(&of_one.as_ref().unwrap().endpoints.hosts[0].vitals);
            let proxy = Proxy::start(config(vec![of_one], forward(0)));
            for (flag, connections) in [(Flag::DegradedCheck, 1), (Flag::Ejected, 1), (Flag::FailedCheck, 2)] {
                for _ in 0..2 {
                    assert_eq!(proxy.get("h", "/").await.text(), "ok");
                }
                assert_eq!(backend.connections(), connections, "before {flag:?}");
                vitals.set(flag);
                vitals.clear(flag);
            }
        }
    });
}
