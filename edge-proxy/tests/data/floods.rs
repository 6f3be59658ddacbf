//! Clients of HTTP/2 that send frames which move nothing: as many as they have cause for, and no more.

use bytes::Bytes;
use edge_proxy::config::route::{Action, DirectBody, DirectResponse, PathCondition};
use edge_proxy::stats::WorkerIndex;
use http::StatusCode;

use crate::support::frames::{DATA, PING, PRIORITY, Raw, SETTINGS, WIDE, WINDOW_UPDATE, frame, request, reset};
use crate::support::{
    Backend, Config, Proxy, catch_all, cluster, entry, forward, manager_of, route, run, snapshot, table,
};

const LARGE: usize = 16 << 20;

/// A proxy with one worker, whose path `/large` is answered at length.
async fn stage() -> (Proxy, Backend) {
    let backend = Backend::named("here").await;
    let large = DirectResponse {
        status: StatusCode::OK,
        body: DirectBody::Constant(Bytes::from(vec![b'x'; LARGE])),
        content_type: None,
    };
    let routes = vec![
        route(PathCondition::Exact("/large".into()), Action::Direct(Box::new(large))),
        catch_all(forward(0)),
    ];
    let clusters = vec![entry(0, cluster(0), &[backend.address])];
    let proxy = Proxy::start(Config {
        snapshot: snapshot(table("*", routes), clusters, |manager| {
            // Nobody waits for clients that are told to go.
            manager.timeouts.delayed_close = std::time::Duration::from_millis(200);
        }),
        workers: 1,
    });
    (proxy, backend)
}

/// What a client can send without end, each as one frame on a connection whose first stream is over.
fn idle_frames() -> [(&'static str, Vec<u8>); 7] {
    [
        ("PING", frame(PING, 0, 0, b"01234567")),
        ("an answer to PING", frame(PING, 1, 0, b"01234567")),
        ("SETTINGS", frame(SETTINGS, 0, 0, &[0, 4, 0, 1, 0, 0])),
        ("PRIORITY", frame(PRIORITY, 0, 3, &[0, 0, 0, 0, 16])),
        ("WINDOW_UPDATE", frame(WINDOW_UPDATE, 0, 1, &1u32.to_be_bytes())),
        ("RST_STREAM", reset(1)),
        ("an unknown kind", frame(0x77, 0, 0, b"")),
    ]
}

#[test]
fn a_flood_of_frames_that_move_nothing_ends_the_connection() {
    run(async {
        let (proxy, _backend) = stage().await;
        for (name, idle) in idle_frames() {
            let mut client = Raw::connect(proxy.address, WIDE).await;
            client.send(&request(1, "/")).await;
            assert_eq!(client.next_of(DATA).await, (1, b"here".to_vec()), "{name}");
            // The proxy stops to read where it has had enough.
            client.send(&idle.repeat(1100)).await;
            // ENHANCE_YOUR_CALM
            assert_eq!(client.until_the_end().await, [11], "{name}");
            assert_eq!(proxy.get("h", "/").await.text(), "here");
        }
        let snapshot = proxy.snapshot.borrow().clone();
        let cells = manager_of(&snapshot)
            .stats
            .cells(WorkerIndex(0))
            .downstream_cx_protocol_error
            .get();
        assert_eq!(cells, idle_frames().len() as u64);
    });
}

#[test]
fn a_client_that_sends_some_is_served_on() {
    run(async {
        let (proxy, _backend) = stage().await;
        let mut client = Raw::connect(proxy.address, WIDE).await;
        client.send(&request(1, "/")).await;
        client.next_of(DATA).await;
        let some: Vec<u8> = idle_frames()
            .into_iter()
            .flat_map(|(_, idle)| idle.repeat(100))
            .collect();
        client.send(&some).await;
        client.send(&request(3, "/")).await;
        assert_eq!(client.next_of(DATA).await, (3, b"here".to_vec()));
    });
}

/// A window of a frame at a time, given back in four pieces: far more than a thousand frames within a second.
#[test]
fn a_client_may_open_windows_for_all_that_it_is_sent() {
    run(async {
        let (proxy, _backend) = stage().await;
        let mut client = Raw::connect(proxy.address, 65_535).await;
        client.send(&request(1, "/large")).await;
        let mut received = 0;
        while received < LARGE {
            let (stream, content) = client.next_of(DATA).await;
            received += content.len();
            let mut windows = Vec::new();
            for piece in content.chunks(content.len().div_ceil(4)) {
                let size = (piece.len() as u32).to_be_bytes();
                windows.extend(frame(WINDOW_UPDATE, 0, stream, &size));
            }
            client.send(&windows).await;
        }
    });
}

/// A client that resets each of many streams has opened them.
#[test]
fn a_client_may_end_each_stream_that_it_opens() {
    run(async {
        let (proxy, _backend) = stage().await;
        let mut client = Raw::connect(proxy.address, WIDE).await;
        for number in 0..600 {
            let stream = 2 * number + 1;
            // In one piece: each write waits for an answer to the one before.
            let mut sent = request(stream, "/");
            if number > 0 {
                sent.extend(reset(stream - 2));
                sent.extend(frame(PING, 0, 0, b"01234567"));
            }
            client.send(&sent).await;
            assert_eq!(client.next_of(DATA).await.0, stream);
        }
    });
}
