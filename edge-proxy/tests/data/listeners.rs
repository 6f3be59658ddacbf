//! Listeners that change while connections are open: a connection follows its socket.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use edge_proxy::config::http_manager::{RouteSource, ServerHeader};
use edge_proxy::config::listener::{FilterChain, Listener};
use edge_proxy::config::{RouteTableId, Snapshot};
use http::{HeaderValue, Request};
use http_body_util::Full;
use tokio::net::TcpStream;

use crate::support::{
    Backend, Config, Proxy, Reply, catch_all, chain, cluster, entry, forward, http2, listener, manager, only, run,
    snapshot, table, until,
};

const WORKERS: usize = 2;

/// A chain whose routes are the table of this number; responses name it.
fn version(number: u32) -> Arc<FilterChain> {
    let mut settings = manager(RouteSource::Dynamic {
        name: Arc::from(format!("rt-{number}")),
        id: RouteTableId(number),
    });
    settings.server_header = ServerHeader::Overwrite(HeaderValue::from(number));
    chain(settings)
}

fn serving(chain: Arc<FilterChain>) -> Arc<Listener> {
    listener(only(chain))
}

/// The only listener under a name, and the only route table.
fn change(next: &mut Snapshot, name: &str, chain: Arc<FilterChain>, number: usize) {
    let mut tables = vec![None; number];
    tables.push(Some(table("*", vec![catch_all(forward(0))])));
    next.route_tables = Arc::new(tables);
    next.listeners = Arc::new(BTreeMap::from([(Arc::from(name), serving(chain))]));
}

async fn start() -> (Proxy, Backend) {
    let backend = Backend::named("a").await;
    let clusters = vec![entry(0, cluster(0), &[backend.address])];
    let proxy = Proxy::start(Config {
        snapshot: snapshot(table("*", vec![catch_all(forward(0))]), clusters, |_| {}),
        workers: WORKERS,
    });
    proxy.publish(|next| change(next, "in", version(0), 0));
    (proxy, backend)
}

#[test]
fn routes_under_another_name_cost_open_connections_nothing() {
    run(async {
        let (proxy, _backend) = start().await;
        let (served, stop) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
        let mut clients = Vec::new();
        for _ in 0..16 {
            let mut client = proxy.http1().await;
            let (served, stop) = (Arc::clone(&served), Arc::clone(&stop));
            clients.push(tokio::spawn(async move {
                while !stop.load(Ordering::SeqCst) {
                    let reply = client.get("h", "/").await;
                    assert_eq!((reply.status, reply.header("connection")), (200, ""));
                    served.fetch_add(1, Ordering::SeqCst);
                }
            }));
        }
        for _ in 0..2 {
            let mut client = http2(TcpStream::connect(proxy.address).await.unwrap()).await;
            let (served, stop) = (Arc::clone(&served), Arc::clone(&stop));
            clients.push(tokio::spawn(async move {
                while !stop.load(Ordering::SeqCst) {
                    let request = Request::get("http://h/").body(Full::default()).unwrap();
                    let reply = Reply::of(client.send_request(request).await.unwrap()).await.unwrap();
                    assert_eq!(reply.status, 200);
                    served.fetch_add(1, Ordering::SeqCst);
                }
                assert!(!client.is_closed(), "the connection was told to leave");
            }));
        }
        for number in (1..40).map(|step| step % 3) {
            let before = served.load(Ordering::SeqCst);
            proxy.publish(|next| change(next, "in", version(number), number as usize));
            until("requests go on", || served.load(Ordering::SeqCst) > before + 40).await;
        }
        stop.store(true, Ordering::SeqCst);
        for client in clients {
            client.await.unwrap();
        }
    });
}

#[test]
fn an_open_connection_takes_the_new_settings_over() {
    run(async {
        let (proxy, _backend) = start().await;
        let mut client = proxy.http1().await;
        assert_eq!(client.get("h", "/").await.header("server"), "0");
        proxy.publish(|next| change(next, "in", version(1), 1));
        let reply = client.get("h", "/").await;
        assert_eq!((reply.header("server"), reply.header("connection")), ("1", ""));
    });
}

#[test]
fn a_connection_that_was_let_in_by_other_rules_leaves_with_its_old_routes() {
    run(async {
        let (proxy, _backend) = start().await;
        let mut client = proxy.http1().await;
        assert_eq!(client.get("h", "/").await.status, 200);
        proxy.publish(|next| {
            let chain = version(1);
            let stricter = FilterChain {
                name: Arc::clone(&chain.name),
                tls: None,
                handshake_timeout: chain.handshake_timeout,
                network: chain.network.clone(),
                guards: Arc::default(),
                limits: Arc::default(),
                fingerprint: 1,
                settings: 1,
                transport: 1,
            };
            change(next, "in", Arc::new(stricter), 1);
        });
        let reply = client.get("h", "/").await;
        let seen = (reply.status, reply.header("server"), reply.header("connection"));
        assert_eq!(seen, (200, "0", "close"));
    });
}

#[test]
fn a_connection_whose_listener_has_gone_is_told_with_its_next_response() {
    run(async {
        let (proxy, _backend) = start().await;
        let (mut client, mut idle) = (proxy.http1().await, proxy.http1().await);
        assert_eq!(client.get("h", "/").await.status, 200);
        assert_eq!(idle.get("h", "/").await.status, 200);
        proxy.shared.flags.set_drain_time(std::time::Duration::from_millis(500));
        proxy.publish(|next| {
            next.listeners = Arc::default();
            next.route_tables = Arc::default();
        });
        let reply = client.get("h", "/").await;
        assert_eq!((reply.status, reply.header("connection")), (200, "close"));
        // Who asks for nothing is let go after the drain time.
        until("the idle connection ends", || idle.0.is_closed()).await;
    });
}
