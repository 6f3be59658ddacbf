//! The end of connections in HTTP/2: announced, and kept, whatever the client does.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use edge_proxy::config::http_manager::{Codec, HttpManager};
use edge_proxy::config::route::{Action, DirectResponse, PathCondition};
use edge_proxy::shared::Drain;
use edge_proxy::stats::WorkerIndex;
use http::StatusCode;

use crate::support::frames::{self, DATA, GOAWAY, HEADERS, RST_STREAM, Raw, WIDE};
use crate::support::{
    Backend, Config, Proxy, catch_all, cluster, entry, forward, manager_of, route, run, snapshot, table, until,
};

const SHORT: Duration = Duration::from_millis(100);

/// A proxy whose backend answers when it is told to; `/direct` is answered at once.
async fn stage(change: impl FnOnce(&mut HttpManager)) -> (Proxy, Backend, Arc<tokio::sync::Notify>) {
    let (backend, go) = Backend::held().await;
    let direct = DirectResponse {
        status: StatusCode::OK,
        body: edge_proxy::config::route::DirectBody::Constant(Bytes::new()),
        content_type: None,
    };
    let routes = vec![
        route(PathCondition::Exact("/direct".into()), Action::Direct(Box::new(direct))),
        catch_all(forward(0)),
    ];
    let clusters = vec![entry(0, cluster(0), &[backend.address])];
    let proxy = Proxy::start(Config {
        snapshot: snapshot(table("*", routes), clusters, change),
        workers: 2,
    });
    (proxy, backend, go)
}

fn briefly(manager: &mut HttpManager) {
    manager.timeouts.drain = SHORT;
    manager.timeouts.delayed_close = SHORT;
}

#[test]
fn an_idle_connection_ends_after_the_drain_time_whatever_the_client_does() {
    let head = frames::head("/direct");
    // Nothing; a head without its end; a frame without its end; half the header of a frame.
    let partial_head = frames::frame(HEADERS, 1, 1, &head);
    let partial_frame = frames::request(1, "/direct")[..12].to_vec();
    let partial_header = frames::request(1, "/direct")[..5].to_vec();
    for sent in [Vec::new(), partial_head, partial_frame, partial_header] {
        run(async {
            let (proxy, ..) = stage(|manager| {
                manager.timeouts.idle = Some(SHORT);
                briefly(manager);
            })
            .await;
            let mut client = Raw::connect(proxy.address, WIDE).await;
            client.send(&sent).await;
            // NO_ERROR, first as a warning, then for good. PING is never answered.
            assert_eq!(client.until_the_end().await, [0, 0]);
        });
    }
}

#[test]
fn an_old_connection_finishes_its_streams_and_takes_no_new_ones() {
    run(async {
        let (proxy, backend, go) = stage(|manager| {
            manager.timeouts.max_connection_duration = Some(SHORT);
            briefly(manager);
        })
        .await;
        let mut client = Raw::connect(proxy.address, WIDE).await;
        client.send(&frames::request(1, "/")).await;
        backend.wait_for(1).await;
        let (_, payload) = client.next_of(GOAWAY).await;
        assert_eq!(
            payload[..4],
            WIDE.to_be_bytes(),
            "streams on their way are still welcome"
        );
        // Until the drain time is over, whenever that is.
        let mut stream = 1;
        loop {
            stream += 2;
            client.send(&frames::request(stream, "/direct")).await;
            let answer = loop {
                let (kind, of, payload) = client.next().await.expect("a stream is open");
                if of == stream {
                    break (kind, payload);
                }
            };
            if answer.0 == RST_STREAM {
                assert_eq!(
                    answer.1,
                    7u32.to_be_bytes(),
                    "REFUSED_STREAM: it may be sent again elsewhere"
                );
                break;
            }
            assert_eq!(answer.0, HEADERS);
        }
        go.notify_one();
        assert_eq!(client.next_of(HEADERS).await.0, 1);
        assert_eq!(client.next_of(DATA).await, (1, b"late".to_vec()));
        assert_eq!(client.until_the_end().await, [0]);
    });
}

#[test]
fn a_connection_that_has_just_been_opened_is_told_and_answered() {
    run(async {
        let (proxy, ..) = stage(|manager| {
            manager.codec = Codec::Http2;
            manager.timeouts.max_connection_duration = Some(SHORT);
        })
        .await;
        let mut client = Raw::silent(proxy.address).await;
        let stats = Arc::clone(&manager_of(&proxy.snapshot.borrow()).stats);
        until("it is to leave", || {
            let old = |index| stats.cells(WorkerIndex(index)).downstream_cx_max_duration_reached.get();
            old(0) + old(1) == 1
        })
        .await;
        client.open(WIDE).await;
        client.send(&frames::request(1, "/direct")).await;
        assert_eq!(
            client.next_of(GOAWAY).await.1[..4],
            WIDE.to_be_bytes(),
            "streams on their way are still welcome"
        );
        assert_eq!(client.next_of(HEADERS).await.0, 1);
        // One that goes on saying nothing has the drain time.
        let (proxy, ..) = stage(|manager| {
            manager.codec = Codec::Http2;
            manager.timeouts.idle = Some(SHORT);
            briefly(manager);
        })
        .await;
        let mut silent = Raw::silent(proxy.address).await;
        silent.until_the_end().await;
    });
}

#[test]
fn draining_ends_connections_whose_client_hears_nothing() {
    run(async {
        let (proxy, backend, go) = stage(briefly).await;
        let (mut idle, mut busy) = (
            Raw::connect(proxy.address, WIDE).await,
            Raw::connect(proxy.address, WIDE).await,
        );
        busy.send(&frames::request(1, "/")).await;
        backend.wait_for(1).await;
        proxy.drain.send(Drain::Draining).unwrap();
        assert_eq!(idle.until_the_end().await.last(), Some(&0));
        go.notify_one();
        assert_eq!(busy.next_of(DATA).await, (1, b"late".to_vec()));
        assert_eq!(busy.until_the_end().await.last(), Some(&0));
        until("no connection is left", || {
            let cells = |index| proxy.shared.stats.cells(WorkerIndex(index)).total_connections.get();
            cells(0) + cells(1) == 0
        })
        .await;
    });
}

#[test]
fn a_client_that_takes_its_requests_back_at_once_is_cut_off() {
    run(async {
        let (proxy, backend, _) = stage(|_| {}).await;
        let mut client = Raw::connect(proxy.address, WIDE).await;
        let served = || {
            let snapshot = proxy.snapshot.borrow();
            let stats = Arc::clone(&manager_of(&snapshot).stats);
            move |count: fn(&edge_proxy::stats::ConnectionManagerCells) -> u64| -> u64 {
                (0..2).map(|index| count(stats.cells(WorkerIndex(index)))).sum()
            }
        };
        let count = served();
        for request in 0..250 {
            client.send(&frames::request(2 * request + 1, "/")).await;
            // It has gone to the backend before it is taken back.
            backend.wait_for(request as usize + 1).await;
            client.send(&frames::reset(2 * request + 1)).await;
        }
        // ENHANCE_YOUR_CALM
        assert_eq!(client.until_the_end().await, [11]);
        assert_eq!(count(|cells| cells.downstream_rq_too_many_premature_resets.get()), 1);
    });
}
