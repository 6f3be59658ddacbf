//! What a client gets when a backend has to be asked again, or doesn't answer: as from stock Envoy 1.40.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use edge_proxy::config::header::{
    HeaderField, HeaderFieldRef, HeaderStep, HeaderSteps, HeaderTemplate, PutAction, TemplatePart,
};
use edge_proxy::config::route::RetryOn;
use edge_proxy::stats::WorkerIndex;
use http::{HeaderName, Response};
use http_body_util::Full;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::resilience::retry;
use crate::support::{
    Backend, Config, Proxy, Speaks, catch_all, cluster, entry, forward, nobody, run, snapshot, table, with_forward,
    with_routes,
};

/// A backend that answers 503 to every second request, having read it whole, and what it got otherwise.
async fn every_second_time() -> Backend {
    let count = Arc::new(AtomicUsize::new(0));
    Backend::start(Speaks::Http1, move |seen| {
        let status = [503, 200][count.fetch_add(1, Ordering::SeqCst) % 2];
        let length = seen.headers().get("content-length");
        let length = length.map_or("chunked", |length| length.to_str().unwrap());
        let text = format!("{length} {}", String::from_utf8_lossy(seen.body()));
        Response::builder().status(status).body(Full::from(text)).unwrap()
    })
    .await
}

#[test]
fn a_body_that_was_read_is_sent_again_as_it_was() {
    run(async {
        let backend = every_second_time().await;
        let mut settings = forward(0);
        settings.retry = retry(
            RetryOn {
                status_codes: true,
                ..RetryOn::default()
            },
            1,
        );
        let proxy = Proxy::start(with_forward(backend.address, settings));
        let whole = "POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 10\r\n\r\n0123456789";
        let pieces = "POST / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n\
            4\r\n0123\r\n6\r\n456789\r\n0\r\nx-sum: 1\r\n\r\n";
        for (sent, length) in [(whole, "10"), (pieces, "chunked")] {
            let mut client = TcpStream::connect(proxy.address).await.unwrap();
            client
                .write_all(sent.replace("\r\nhost", "\r\nconnection: close\r\nhost").as_bytes())
                .await
                .unwrap();
            let mut reply = String::new();
            client.read_to_string(&mut reply).await.unwrap();
            assert!(reply.starts_with("HTTP/1.1 200 "), "{reply}");
            assert!(reply.contains(&format!("{length} 0123456789")), "{reply}");
        }
        assert_eq!(backend.requests(), 4);
    });
}

/// As from Envoy: what a route says of responses is said of those that the proxy makes in its backend's place.
#[test]
fn answers_in_place_of_a_backend_are_edited_like_its_own() {
    run(async {
        let edits = |name: &'static str| -> HeaderSteps {
            [HeaderStep::Put {
                name: HeaderName::from_static(name),
                value: HeaderTemplate::Parts(
                    [TemplatePart::Request(HeaderFieldRef {
                        field: HeaderField::Path,
                        alternative: None,
                        max_len: None,
                    })]
                    .into(),
                ),
                action: PutAction::Append,
                keep_empty: false,
            }]
            .into()
        };
        for retries in [0, 1] {
            let mut settings = forward(0);
            settings.attempt_count_in_response = true;
            settings.retry = retry(
                RetryOn {
                    connect_failure: true,
                    ..RetryOn::default()
                },
                retries,
            );
            let mut route = catch_all(settings);
            route.response_headers = edits("x-path");
            let config = with_routes(nobody(), vec![route]);
            let stats = config.snapshot.clusters[0]
                .as_ref()
                .map(|entry| Arc::clone(&entry.cluster.stats));
            let reply = Proxy::start(config).get("h", "/a").await;
            assert_eq!((reply.status, reply.header("x-path")), (503, "/a"));
            assert_eq!(reply.header("x-edge-attempt-count"), (retries + 1).to_string());
            // Of a cluster whose hosts are all down clients see these.
            let stats = stats.expect("a cluster");
            let cells = stats.cells(WorkerIndex(0));
            assert_eq!((cells.upstream_rq_5xx.get(), cells.upstream_rq_completed.get()), (1, 1));
        }
    });
}

/// As in Envoy, whose router hears nothing of it.
#[test]
fn what_a_client_fails_to_send_is_no_answer_of_a_cluster() {
    run(async {
        let backend = Backend::named("a").await;
        let config = Config {
            snapshot: snapshot(
                table("*", vec![catch_all(forward(0))]),
                vec![entry(0, cluster(0), &[backend.address])],
                |manager| manager.timeouts.request = Some(Duration::from_millis(50)),
            ),
            workers: 1,
        };
        let stats = config.snapshot.clusters[0]
            .as_ref()
            .map(|entry| Arc::clone(&entry.cluster.stats));
        let proxy = Proxy::start(config);
        for (sent, status) in [
            ("content-length: 10\r\n\r\n012", "408"),
            ("transfer-encoding: chunked\r\n\r\nx\r\n", "400"),
        ] {
            let mut client = TcpStream::connect(proxy.address).await.unwrap();
            let sent = format!("POST / HTTP/1.1\r\nhost: h\r\n{sent}");
            client.write_all(sent.as_bytes()).await.unwrap();
            let mut reply = String::new();
            client.read_to_string(&mut reply).await.unwrap();
            assert!(reply.starts_with(&format!("HTTP/1.1 {status} ")), "{reply}");
        }
        let stats = stats.expect("a cluster");
        let cells = stats.cells(WorkerIndex(0));
        assert_eq!((cells.upstream_rq_4xx.get(), cells.upstream_rq_completed.get()), (0, 0));
    });
}
