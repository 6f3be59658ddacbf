//! How much may go on at a time: requests, connections, retries.

use std::sync::Arc;

use edge_proxy::config::cluster::{CircuitLimits, UpstreamProtocol};
use edge_proxy::config::route::RetryOn;
use edge_proxy::stats::WorkerIndex;
use http::{Response, StatusCode};
use http_body_util::Full;

use crate::resilience::{config, retry};
use crate::support::{Backend, Config, Proxy, Speaks, cluster, entry, forward, get, run, until};

#[test]
fn limits_on_requests_and_on_waiting_answer_503() {
    run(async {
        let backend = Backend::start_async(Speaks::Http1, |_| std::future::pending()).await;
        let mut limited = cluster(0);
        limited.limits = CircuitLimits {
            max_requests: 1,
            ..CircuitLimits::default()
        };
        let proxy = Proxy::start(config(vec![entry(0, limited, &[backend.address])], forward(0)));
        let mut first = proxy.http1().await;
        let waiting = tokio::spawn(async move { first.0.send_request(get("h", "/")).await.map(drop) });
        backend.wait_for(1).await;
        let reply = proxy.get("h", "/").await;
        assert_eq!((reply.status, reply.header("x-edge-overloaded")), (503, "true"));
        assert!(reply.text().ends_with("overflow"));
        waiting.abort();
    });
}

#[test]
fn a_full_pool_makes_requests_wait_for_a_connection() {
    run(async {
        // It answers two at a time, so that one connection would not do.
        let pair = Arc::new(tokio::sync::Barrier::new(2));
        let backend = Backend::start_async(Speaks::Http1, move |_| {
            let pair = Arc::clone(&pair);
            async move {
                pair.wait().await;
                Response::new(Full::from("a"))
            }
        })
        .await;
        let mut limited = cluster(0);
        limited.limits = CircuitLimits {
            max_connections: 2,
            ..CircuitLimits::default()
        };
        let proxy = Proxy::start(config(vec![entry(0, limited, &[backend.address])], forward(0)));
        let mut clients = Vec::new();
        for _ in 0..10 {
            let mut client = proxy.http1().await;
            clients.push(tokio::spawn(async move { client.get("h", "/").await.status }));
        }
        for client in clients {
            assert_eq!(client.await.unwrap(), 200);
        }
        assert_eq!(backend.connections(), 2);
    });
}

/// As in Envoy: it is counted with its last request, and closed after it, which makes room for another.
#[test]
fn a_connection_that_has_had_its_requests_is_closed() {
    for (speaks, protocol) in [
        (Speaks::Http1, UpstreamProtocol::Http1),
        (Speaks::Http2, UpstreamProtocol::Http2),
    ] {
        for max_connections in [CircuitLimits::default().max_connections, 2] {
            run(async {
                let backend = Backend::start(speaks, |_| Response::new(Full::from("ok"))).await;
                let mut limited = cluster(0);
                limited.protocol = protocol;
                limited.max_requests_per_connection = Some(3);
                limited.limits.max_connections = max_connections;
                let entry = entry(0, limited, &[backend.address]).unwrap();
                let cells = Arc::clone(&entry.cluster.stats);
                let cells = cells.cells(WorkerIndex(0));
                let proxy = Proxy::start(config(vec![Some(entry)], forward(0)));
                let mut client = proxy.http1().await;
                for _ in 0..12 {
                    assert_eq!(client.get("h", "/").await.status, 200);
                }
                assert_eq!(backend.connections(), 4);
                assert_eq!(cells.upstream_cx_max_requests.get(), 4);
                until("they close", || cells.upstream_cx_active.get() == 0).await;
            });
        }
    }
}

/// Those that share it get their answers.
#[test]
fn a_connection_in_http2_that_has_had_its_requests_ends_with_the_last_of_them() {
    run(async {
        let all = Arc::new(tokio::sync::Barrier::new(3));
        let meet = Arc::clone(&all);
        let backend = Backend::start_async(Speaks::Http2, move |_| {
            let meet = Arc::clone(&meet);
            async move {
                meet.wait().await;
                Response::new(Full::from("ok"))
            }
        })
        .await;
        let mut limited = cluster(0);
        limited.protocol = UpstreamProtocol::Http2;
        limited.max_requests_per_connection = Some(2);
        let entry = entry(0, limited, &[backend.address]).unwrap();
        let cells = Arc::clone(&entry.cluster.stats);
        let cells = cells.cells(WorkerIndex(0));
        let proxy = Proxy::start(config(vec![Some(entry)], forward(0)));
        let (mut one, mut two) = (proxy.http1().await, proxy.http1().await);
        let both = async { tokio::join!(one.get("h", "/"), two.get("h", "/")) };
        let counted = async {
            backend.wait_for(2).await;
            let counts = (&cells.upstream_cx_max_requests, &cells.upstream_cx_active);
            let counts = (counts.0.get(), counts.1.get());
            all.wait().await;
            counts
        };
        let ((one, two), counts) = tokio::join!(both, counted);
        assert_eq!((one.status, two.status, backend.connections()), (200, 200, 1));
        assert_eq!(counts, (1, 1));
        until("it closes", || cells.upstream_cx_active.get() == 0).await;
    });
}

#[test]
fn a_retry_that_there_is_no_room_for_leaves_the_client_the_answer() {
    run(async {
        let backend = Backend::start(Speaks::Http1, |_| {
            let mut response = Response::new(Full::from("the backend's own"));
            *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
            response
        })
        .await;
        let mut limited = cluster(0);
        limited.limits = CircuitLimits {
            max_retries: 0,
            ..CircuitLimits::default()
        };
        let mut settings = forward(0);
        let on = RetryOn {
            server_error: true,
            ..RetryOn::default()
        };
        settings.retry = retry(on, 3);
        let proxy = Proxy::start(config(vec![entry(0, limited, &[backend.address])], settings));
        let reply = proxy.get("h", "/").await;
        assert_eq!((reply.status, reply.text()), (503, "the backend's own"));
        assert_eq!(backend.requests(), 1);
    });
}

/// A retry counts from its back-off until it is answered: it is for slow backends that there is a limit.
#[test]
fn a_retry_that_waits_for_its_answer_leaves_no_room_for_another() {
    run(async {
        let release = Arc::new(tokio::sync::Notify::new());
        let held = Arc::clone(&release);
        let backend = Backend::start_async(Speaks::Http1, move |seen| {
            let held = Arc::clone(&held);
            let is_retry = seen
                .headers()
                .get("x-edge-attempt-count")
                .is_some_and(|count| count != "1");
            async move {
                if is_retry {
                    held.notified().await;
                    return Response::new(Full::from("at last"));
                }
                let mut response = Response::new(Full::from("busy"));
                *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
                response
            }
        })
        .await;
        let mut limited = cluster(0);
        limited.limits = CircuitLimits {
            max_retries: 1,
            ..CircuitLimits::default()
        };
        let mut settings = forward(0);
        settings.attempt_count_in_request = true;
        let on = RetryOn {
            server_error: true,
            ..RetryOn::default()
        };
        settings.retry = retry(on, 1);
        let proxy = Proxy::start(config(vec![entry(0, limited, &[backend.address])], settings));
        let mut first = proxy.http1().await;
        let first = tokio::spawn(async move { first.get("h", "/").await });
        backend.wait_for(2).await;
        let second = proxy.get("h", "/").await;
        assert_eq!((second.status, second.text()), (503, "busy"));
        release.notify_one();
        assert_eq!(first.await.unwrap().text(), "at last");
        assert_eq!(backend.requests(), 3);
    });
}

/// Requests that wait for connections are none in flight: they are counted again when they have one.
#[test]
fn no_more_requests_are_in_flight_than_may_be_though_they_come_at_once() {
    run(async {
        let backend = Backend::start_async(Speaks::Http1, |_| std::future::pending()).await;
        let mut limited = cluster(0);
        limited.limits = CircuitLimits {
            max_requests: 2,
            ..CircuitLimits::default()
        };
        let proxy = Proxy::start(config(vec![entry(0, limited, &[backend.address])], forward(0)));
        let mut clients = Vec::new();
        for _ in 0..12 {
            clients.push(proxy.http1().await);
        }
        let mut refused = tokio::task::JoinSet::new();
        for mut client in clients {
            refused.spawn(async move { client.get("h", "/").await.status });
        }
        for _ in 0..10 {
            assert_eq!(refused.join_next().await.unwrap().unwrap(), 503);
        }
        assert_eq!(backend.requests(), 2);
    });
}

#[test]
fn no_worker_waits_for_connections_of_others() {
    run(async {
        let backend = Backend::start_async(Speaks::Http1, |_| std::future::pending()).await;
        let mut limited = cluster(0);
        limited.limits = CircuitLimits {
            max_connections: 1,
            ..CircuitLimits::default()
        };
        let proxy = Proxy::start(Config {
            workers: 2,
            ..config(vec![entry(0, limited, &[backend.address])], forward(0))
        });
        // Which worker accepts is chance: sooner or later it is the other one.
        let mut waiting = Vec::new();
        while backend.connections() < 2 {
            let mut client = proxy.http1().await;
            waiting.push(tokio::spawn(async move {
                client.0.send_request(get("h", "/")).await.map(drop)
            }));
            // A file descriptor each.
            if waiting.len() > 64 {
                waiting.remove(0).abort();
            }
            tokio::task::yield_now().await;
        }
        waiting.iter().for_each(tokio::task::JoinHandle::abort);
    });
}
