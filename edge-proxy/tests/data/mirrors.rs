//! Copies of requests, whose answers nobody waits for.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use edge_proxy::config::ClusterId;
use edge_proxy::config::cluster::CircuitLimits;
use edge_proxy::config::route::{Fraction, Mirror};
use edge_proxy::stats::WorkerIndex;
use http::Response;
use http_body_util::Full;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::resilience::config;
use crate::support::{Backend, Proxy, Speaks, cluster, entry, forward, run, until};

fn to_all(cluster: u32) -> Box<[Mirror]> {
    let fraction = Fraction {
        numerator: 100,
        denominator: 100,
    };
    Box::new([Mirror {
        cluster: ClusterId(cluster),
        fraction,
        keep_host: true,
    }])
}

#[test]
fn a_copy_on_a_connection_that_is_closed_by_now_is_sent_on_another() {
    run(async {
        let backend = Backend::named("a").await;
        // It keeps a connection after its first answer, and closes it when the next request has come.
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let shadow = listener.local_addr().unwrap();
        let answered = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&answered);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let count = Arc::clone(&count);
                tokio::spawn(async move {
                    let mut buffer = [0; 4096];
                    let _ = stream.read(&mut buffer).await;
                    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
                    stream.write_all(answer).await.unwrap();
                    count.fetch_add(1, Ordering::SeqCst);
                    let _ = stream.read(&mut buffer).await;
                });
            }
        });
        let mirrored = cluster(1);
        let stats = Arc::clone(&mirrored.stats);
        let mut settings = forward(0);
        settings.mirrors = to_all(1);
        let clusters = vec![entry(0, cluster(0), &[backend.address]), entry(1, mirrored, &[shadow])];
        let proxy = Proxy::start(config(clusters, settings));
        let is_over =
            |n| answered.load(Ordering::SeqCst) == n && stats.cells(WorkerIndex(0)).upstream_rq_active.get() == 0;
        assert_eq!(proxy.get("h", "/").await.text(), "a");
        until("the first copy is answered", || is_over(1)).await;
        let rested = Instant::now();
        until("the connection has rested", || {
            rested.elapsed() > Duration::from_millis(200)
        })
        .await;
        assert_eq!(proxy.get("h", "/").await.text(), "a");
        until("the second copy is answered", || is_over(2)).await;
    });
}

#[test]
fn answers_to_copies_are_counted_and_connections_that_have_rested_are_used() {
    run(async {
        let backend = Backend::named("a").await;
        let shadow = Backend::start(Speaks::Http1, |_| {
            Response::builder().status(500).body(Full::default()).unwrap()
        })
        .await;
        let mirrored = cluster(1);
        let stats = Arc::clone(&mirrored.stats);
        let mut settings = forward(0);
        settings.mirrors = to_all(1);
        let clusters = vec![
            entry(0, cluster(0), &[backend.address]),
            entry(1, mirrored, &[shadow.address]),
        ];
        let proxy = Proxy::start(config(clusters, settings));
        for copies in 1..=2 {
            assert_eq!(proxy.get("h", "/").await.text(), "a");
            let cells = stats.cells(WorkerIndex(0));
            until("a copy is answered", || {
                cells.upstream_rq_5xx.get() == copies && cells.upstream_rq_active.get() == 0
            })
            .await;
            assert_eq!(cells.upstream_rq_completed.get(), copies);
            let rested = Instant::now();
            until("the connection has rested", || {
                rested.elapsed() > Duration::from_millis(200)
            })
            .await;
        }
        assert_eq!(shadow.connections(), 1);
    });
}

#[test]
fn mirrors_keep_to_the_limit_on_requests() {
    run(async {
        let (backend, shadow) = (Backend::named("a").await, Backend::named("shadow").await);
        let mut full = cluster(1);
        full.limits = CircuitLimits {
            max_requests: 0,
            ..CircuitLimits::default()
        };
        let stats = Arc::clone(&full.stats);
        let mut settings = forward(0);
        settings.mirrors = to_all(1);
        let clusters = vec![
            entry(0, cluster(0), &[backend.address]),
            entry(1, full, &[shadow.address]),
        ];
        let proxy = Proxy::start(config(clusters, settings));
        assert_eq!(proxy.get("h", "/").await.text(), "a");
        let overflown = || stats.cells(WorkerIndex(0)).upstream_rq_pending_overflow.get() == 1;
        until("the mirror is refused", overflown).await;
        assert_eq!(shadow.requests(), 0);
    });
}
