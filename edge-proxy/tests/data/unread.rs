//! Clients that do not read: deadlines hold, and what they held of the backend is free again.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use edge_proxy::config::cluster::{CircuitLimits, Cluster, ClusterEntry, UpstreamProtocol};
use edge_proxy::config::http_manager::HttpManager;
use edge_proxy::config::route::{Action, DirectResponse, Forward, PathCondition, Route};
use edge_proxy::stats::WorkerIndex;
use http::{Response, StatusCode};
use http_body_util::Full;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::support::frames::{self, RST_STREAM, Raw, WIDE};
use crate::support::{
    Backend, Config, Proxy, Speaks, catch_all, cluster, entry, forward, manager_of, route, run, snapshot, table, until,
};

const WORKERS: usize = 2;
const SHORT: Duration = Duration::from_millis(500);
/// For a response to begin, on a machine that has much else to do.
const LONG_ENOUGH: Duration = Duration::from_secs(3);

/// A backend whose responses do not end.
async fn endless() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut head = [0; 4096];
                if stream.read(&mut head).await.is_err() {
                    return;
                }
                let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n";
                let mut sent = stream.write_all(answer).await;
                while sent.is_ok() {
                    sent = stream.write_all(&[b'x'; 64 * 1024]).await;
                }
            });
        }
    });
    address
}

/// A proxy in front of an endless backend, with few connections to it.
struct Stage {
    proxy: Proxy,
    entry: Arc<ClusterEntry>,
}

const CONNECTIONS: u32 = 8;

async fn stage(settings: Forward, change: impl FnOnce(&mut HttpManager)) -> Stage {
    let limits = CircuitLimits {
        max_connections: CONNECTIONS,
        ..CircuitLimits::default()
    };
    let cluster = Cluster { limits, ..cluster(0) };
    let entry = entry(0, cluster, &[endless().await]).unwrap();
    let other = Backend::named("other").await;
    let routes = vec![
        direct("/direct", 10),
        direct("/large", 16 << 20),
        route(
            PathCondition::Exact("/other".into()),
            Action::Forward(Box::new(forward(1))),
        ),
        catch_all(settings),
    ];
    let clusters = vec![Some(Arc::clone(&entry)), entry_of(1, &other)];
    let snapshot = snapshot(table("*", routes), clusters, change);
    let proxy = Proxy::start(Config {
        snapshot,
        workers: WORKERS,
    });
    Stage { proxy, entry }
}

fn entry_of(id: u32, backend: &Backend) -> Option<Arc<ClusterEntry>> {
    entry(id, cluster(id), &[backend.address])
}

fn direct(path: &str, size: usize) -> Route {
    let response = DirectResponse {
        status: StatusCode::OK,
        body: edge_proxy::config::route::DirectBody::Constant(Bytes::from(vec![b'x'; size])),
        content_type: None,
    };
    route(PathCondition::Exact(path.into()), Action::Direct(Box::new(response)))
}

impl Stage {
    fn connections(&self) -> i64 {
        let cells = |index| self.entry.cluster.stats.cells(WorkerIndex(index));
        (0..WORKERS).map(|index| cells(index).upstream_cx_active.get()).sum()
    }

    fn opened(&self) -> u64 {
        let cells = |index| self.entry.cluster.stats.cells(WorkerIndex(index));
        (0..WORKERS).map(|index| cells(index).upstream_cx_total.get()).sum()
    }

    /// All clients have been served, and nothing is left of it on the backend's side.
    async fn is_freed(&self, clients: u32) {
        until("every client reaches the backend", || {
            self.opened() >= u64::from(clients)
        })
        .await;
        until("the backend's connections are free", || self.connections() == 0).await;
    }

    fn sum(&self, cell: impl Fn(&edge_proxy::stats::ConnectionManagerCells) -> i64) -> i64 {
        let snapshot = self.proxy.snapshot.borrow();
        let stats = &manager_of(&snapshot).stats;
        (0..WORKERS).map(|index| cell(stats.cells(WorkerIndex(index)))).sum()
    }
}

/// Clients of HTTP/1 that ask and never read.
async fn ask_and_wait(stage: &Stage, path: &str, clients: u32) -> Vec<tokio::net::TcpStream> {
    let mut open = Vec::new();
    for _ in 0..clients {
        let mut stream = frames::narrow(stage.proxy.address).await;
        let request = format!("GET {path} HTTP/1.1\r\nhost: h\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        open.push(stream);
    }
    open
}

type Setting = (&'static str, fn(&mut Forward), fn(&mut HttpManager));

/// Each deadline by itself.
const DEADLINES: [Setting; 4] = [
    ("route", |settings| settings.timeout = Some(SHORT), |_| {}),
    ("idle", |_| {}, |manager| manager.timeouts.stream_idle = Some(SHORT)),
    (
        "route's idle",
        |settings| settings.idle_timeout = Some(Some(SHORT)),
        |_| {},
    ),
    (
        "duration",
        |_| {},
        |manager| manager.timeouts.max_stream_duration = Some(SHORT),
    ),
];

async fn with_deadline((_, route, listener): Setting) -> Stage {
    let mut settings = Forward {
        timeout: None,
        ..forward(0)
    };
    route(&mut settings);
    stage(settings, |manager| {
        manager.timeouts.stream_idle = None;
        listener(manager);
    })
    .await
}

#[test]
fn deadlines_hold_for_clients_of_http1_that_do_not_read() {
    for setting in DEADLINES {
        run(async {
            let stage = with_deadline(setting).await;
            let open = ask_and_wait(&stage, "/", CONNECTIONS).await;
            stage.is_freed(CONNECTIONS).await;
            // Others are served meanwhile, and again.
            let again = ask_and_wait(&stage, "/", 1).await;
            stage.is_freed(CONNECTIONS + 1).await;
            drop((open, again));
        });
    }
}

#[test]
fn deadlines_hold_for_clients_of_http2_that_open_no_window() {
    for setting in DEADLINES {
        run(async {
            let stage = with_deadline(setting).await;
            let mut client = Raw::connect(stage.proxy.address, 0).await;
            for stream in 0..CONNECTIONS {
                client.send(&frames::request(2 * stream + 1, "/")).await;
            }
            stage.is_freed(CONNECTIONS).await;
            for _ in 0..CONNECTIONS {
                let (_, code) = client.next_of(RST_STREAM).await;
                assert_eq!(
                    code,
                    2u32.to_be_bytes(),
                    "INTERNAL_ERROR, so that nobody takes it for complete"
                );
            }
        });
    }
}

#[test]
fn deadlines_hold_for_clients_of_http2_that_do_not_read() {
    for setting in DEADLINES {
        run(async {
            let stage = with_deadline(setting).await;
            let mut client = Raw::connect(stage.proxy.address, WIDE).await;
            for stream in 0..CONNECTIONS {
                client.send(&frames::request(2 * stream + 1, "/")).await;
            }
            stage.is_freed(CONNECTIONS).await;
        });
    }
}

#[test]
fn streams_to_a_backend_in_http2_are_given_up_too() {
    run(async {
        let backend = Backend::start(Speaks::Http2, |_| Response::new(Full::from(vec![b'x'; 16 << 20]))).await;
        let cluster = Cluster {
            protocol: UpstreamProtocol::Http2,
            ..cluster(0)
        };
        let entry = entry(0, cluster, &[backend.address]).unwrap();
        let settings = Forward {
            timeout: Some(LONG_ENOUGH),
            ..forward(0)
        };
        let routes = vec![catch_all(settings)];
        let snapshot = snapshot(table("*", routes), vec![Some(Arc::clone(&entry))], |_| {});
        let proxy = Proxy::start(Config {
            snapshot,
            workers: WORKERS,
        });
        let stage = Stage { proxy, entry };
        let mut client = Raw::connect(stage.proxy.address, 0).await;
        client.send(&frames::request(1, "/")).await;
        let open = ask_and_wait(&stage, "/", 2).await;
        backend.wait_for(3).await;
        assert_eq!(client.next_of(RST_STREAM).await.0, 1);
        until("no stream is left", || {
            let cells = |index| stage.entry.cluster.stats.cells(WorkerIndex(index));
            (0..WORKERS).all(|index| cells(index).upstream_rq_active.get() == 0)
        })
        .await;
        // The connections are not the streams'.
        assert!(stage.connections() > 0);
        drop(open);
    });
}

#[test]
fn a_client_has_its_time_to_take_the_rest_of_a_response() {
    let flush = |manager: &mut HttpManager| {
        manager.timeouts.stream_idle = None;
        manager.timeouts.flush = Some(Some(SHORT));
    };
    run(async {
        let stage = stage(forward(0), flush).await;
        let open = ask_and_wait(&stage, "/large", 2).await;
        until("the streams end", || {
            stage.sum(|cells| cells.downstream_rq_idle_timeout.get() as i64) == 2
        })
        .await;
        until("the connections end", || {
            stage.sum(|cells| cells.downstream_cx_active.get()) == 0
        })
        .await;
        drop(open);
    });
    run(async {
        let stage = stage(forward(0), flush).await;
        let mut client = Raw::connect(stage.proxy.address, 0).await;
        client.send(&frames::request(1, "/direct")).await;
        assert_eq!(client.next_of(RST_STREAM).await.0, 1);
        assert_eq!(stage.sum(|cells| cells.downstream_rq_active.get()), 0);
    });
}

#[test]
fn streams_without_a_window_leave_room_for_the_others() {
    run(async {
        let stage = stage(
            Forward {
                timeout: None,
                ..forward(0)
            },
            |_| {},
        )
        .await;
        let tcp = tokio::net::TcpStream::connect(stage.proxy.address).await.unwrap();
        let mut builder = h2::client::Builder::new();
        builder
            .initial_window_size(65_535)
            .initial_connection_window_size(16 << 20);
        let (mut client, connection) = builder.handshake::<_, Bytes>(tcp).await.unwrap();
        tokio::spawn(connection);
        let mut stalled = Vec::new();
        let get = |path: &str| http::Request::get(format!("http://h{path}")).body(()).unwrap();
        // More than the connection's limit in all, and none of it is read.
        for _ in 0..CONNECTIONS {
            client = client.ready().await.unwrap();
            let (response, _) = client.send_request(get("/"), true).unwrap();
            stalled.push(response.await.unwrap().into_body());
        }
        client = client.ready().await.unwrap();
        let (response, _) = client.send_request(get("/large"), true).unwrap();
        let mut body = response.await.unwrap().into_body();
        let mut read = 0;
        while let Some(data) = body.data().await {
            let data = data.unwrap();
            read += data.len();
            body.flow_control().release_capacity(data.len()).unwrap();
        }
        assert_eq!(read, 16 << 20);
        assert_eq!(stage.connections(), i64::from(CONNECTIONS));
        drop(stalled);
        until("the backend's connections are free", || stage.connections() == 0).await;
    });
}

#[test]
fn others_are_served_while_stalled_clients_hold_every_connection_to_a_backend() {
    run(async {
        let settings = Forward {
            timeout: None,
            ..forward(0)
        };
        let stage = stage(settings, |manager| manager.timeouts.stream_idle = None).await;
        let stalled = ask_and_wait(&stage, "/", CONNECTIONS).await;
        until("they hold all that there are", || {
            stage.connections() >= i64::from(CONNECTIONS)
        })
        .await;
        let waiting = ask_and_wait(&stage, "/", 2).await;
        until("two more wait for one", || {
            stage.sum(|cells| cells.downstream_rq_active.get()) == i64::from(CONNECTIONS) + 2
        })
        .await;
        for _ in 0..2 * WORKERS {
            assert_eq!(stage.proxy.get("h", "/direct").await.status, 200);
            assert_eq!(stage.proxy.get("h", "/other").await.text(), "other");
        }
        // A worker with less than half of its share doesn't ask the others before it opens one.
        let most = CONNECTIONS as usize + (WORKERS - 1) * CONNECTIONS as usize / (2 * WORKERS);
        assert!(
            stage.connections() <= most as i64,
            "{} connections",
            stage.connections()
        );
        drop((stalled, waiting));
        until("the backend's connections are free", || stage.connections() == 0).await;
        let before = stage.opened();
        let later = ask_and_wait(&stage, "/", 1).await;
        until("its backend is reached again", || stage.opened() > before).await;
        drop(later);
    });
}
