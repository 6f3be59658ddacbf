//! Copies of requests, whose answers nobody waits for.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use edge_proxy::config::ClusterId;
use edge_proxy::config::cluster::CircuitLimits;
use edge_proxy::config::collector::{Collector, Form};
use edge_proxy::config::route::{Fraction, Mirror};
use edge_proxy::config::tracing::{Node, Shares, SpanFormat, Tracer, Tracing};
use edge_proxy::stats::WorkerIndex;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::Full;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::resilience::config;
use crate::support::{Backend, Config, Proxy, Speaks, catch_all, cluster, entry, forward, run, snapshot, table, until};

fn to_all(cluster: u32) -> Box<[Mirror]> {
    let fraction = Fraction {
        numerator: 100,
        denominator: 100,
    };
    Box::new([Mirror {
        cluster: ClusterId(cluster),
        fraction,
        keep_host: true,
        is_sampled: None,
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

/// Traces all requests, for a collector of Zipkin that is cluster 2.
fn traces() -> Tracing {
    let all = Fraction {
        numerator: 100,
        denominator: 100,
    };
    Tracing {
        shares: Shares {
            client: all,
            random: all,
            overall: all,
        },
        spans: SpanFormat::default(),
        spawns: false,
        is_private: false,
        max_path: 256,
        tracer: Tracer::Zipkin {
            long_ids: true,
            shared: false,
        },
        collector: Arc::new(Collector {
            cluster: ClusterId(2),
            cluster_name: cluster(2).name,
            authority: HeaderValue::from_static("collector"),
            metadata: Box::default(),
            timeout: Duration::from_secs(5),
            patience: Duration::from_millis(1),
            full: 65_536,
            form: Form::ZipkinSpans {
                target: PathAndQuery::from_static("/api/v2/spans"),
            },
        }),
        node: Node {
            id: "proxy".into(),
            cluster: "fleet".into(),
            zone: "".into(),
        },
    }
}

/// What stock Envoy 1.40 does: whatever the attempts have, a copy has a span of its own below that of its request.
#[test]
fn a_copy_has_a_span_of_its_own_in_the_trace_of_its_request() {
    run(async {
        let (main, copy) = (Backend::named("main").await, Backend::named("copy").await);
        let (gathered, gathering) = std::sync::mpsc::channel();
        let collector = Backend::start(Speaks::Http1, move |batch: &Request<Bytes>| {
            gathered
                .send(String::from_utf8(batch.body().to_vec()).unwrap())
                .unwrap();
            Response::new(Full::default())
        })
        .await;
        let mut spans = String::new();
        for is_sampled in [None, Some(false)] {
            let mut settings = forward(0);
            settings.mirrors = to_all(1);
            settings.mirrors[0].is_sampled = is_sampled;
            let at = [main.address, copy.address, collector.address];
            let entries = (0..).zip(at).map(|(id, address)| entry(id, cluster(id), &[address]));
            let table = table("*", vec![catch_all(settings)]);
            let traced = snapshot(table, entries.collect(), |manager| {
                manager.tracing = Some(Arc::new(traces()))
            });
            let proxy = Proxy::start(Config {
                snapshot: traced,
                workers: 1,
            });
            let copies = copy.requests();
            assert_eq!(proxy.get("h", "/").await.text(), "main");
            let told = copy.wait_for(copies + 1).await;
            let field =
                |headers: &HeaderMap, name: &str| headers.get(name).map(|value| value.to_str().unwrap().to_owned());
            let (told, request) = (told.headers(), main.last());
            let of_request = |name: &str| field(request.headers(), name).unwrap();
            assert_eq!(field(told, "x-b3-traceid"), field(request.headers(), "x-b3-traceid"));
            assert_eq!(field(told, "x-b3-parentspanid"), Some(of_request("x-b3-spanid")));
            let own = field(told, "x-b3-spanid").unwrap();
            assert_ne!(own, of_request("x-b3-spanid"));
            let is_kept = is_sampled.unwrap_or(true);
            assert_eq!(
                field(told, "x-b3-sampled").as_deref(),
                Some(if is_kept { "1" } else { "0" })
            );
            assert_eq!(of_request("x-b3-sampled"), "1");
            if !is_kept {
                continue;
            }
            until("the span of the copy has come", || {
                spans.extend(gathering.try_iter());
                spans.contains("\"mirror\"")
            })
            .await;
            assert!(spans.contains(&format!("\"id\":\"{own}\"")), "{spans}");
            assert!(spans.contains("\"upstream_address\""), "{spans}");
        }
    });
}
