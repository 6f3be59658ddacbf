//! Hosts that are probed, and hosts that traffic shows to be ill: from Envoy's messages to where a connection ends.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::rc::Rc;

use edge_proxy::vitals::Flag;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{PATIENCE, Proxy, echo, nobody, rest, run, until};

/// Probes as fast as they come.
pub(crate) const CHECKS: &str = ", ignore_health_on_host_removal: true, health_checks: [{timeout: 5s, interval: 0.005s, \
                      no_traffic_interval: 0.005s, unhealthy_threshold: 2, healthy_threshold: 1, \
                      http_health_check: {path: /healthz}}]";

/// A host that answers every request with a status, and its name.
pub(crate) struct Host {
    pub(crate) address: SocketAddr,
    pub(crate) status: Rc<Cell<u16>>,
}

pub(crate) async fn host(name: &'static str, status: u16) -> Host {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let status = Rc::new(Cell::new(status));
    let answers = Rc::clone(&status);
    tokio::task::spawn_local(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let answers = Rc::clone(&answers);
            tokio::task::spawn_local(async move {
                let mut head = [0; 4096];
                if stream.read(&mut head).await.is_ok_and(|length| length > 0) {
                    let status = answers.get();
                    let answer = format!("HTTP/1.1 {status} x\r\nconnection: close\r\ncontent-length: 1\r\n\r\n{name}");
                    // Who has left wants no answer.
                    let _ = stream.write_all(answer.as_bytes()).await;
                }
            });
        }
    });
    Host { address, status }
}

/// Who answers of several connections.
async fn reached(listener: SocketAddr) -> BTreeSet<char> {
    let mut reached = BTreeSet::new();
    for _ in 0..6 {
        let mut client = TcpStream::connect(listener).await.unwrap();
        client.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        reached.extend(rest(&mut client).await.chars().last());
    }
    reached
}

async fn until_reached(listener: SocketAddr, hosts: &[char]) {
    let wanted: BTreeSet<char> = hosts.iter().copied().collect();
    let waiting = async { while reached(listener).await != wanted {} };
    tokio::time::timeout(PATIENCE, waiting)
        .await
        .expect("other hosts answer");
}

fn flagged(proxy: &Proxy, flag: Flag) -> Vec<bool> {
    let snapshot = proxy.shared.snapshot.borrow().clone();
    let Some(entry) = snapshot.cluster_by_name("a") else {
        return Vec::new();
    };
    entry.endpoints.hosts.iter().map(|host| host.vitals.has(flag)).collect()
}

#[test]
fn a_cluster_is_used_when_its_hosts_have_been_probed_and_then_by_their_health() {
    run(async {
        let proxy = Proxy::start();
        let (a, b, c) = (host("a", 200).await, host("b", 503).await, host("c", 200).await);
        proxy.cluster_with("a", &[a.address, b.address], CHECKS);
        assert!(
            flagged(&proxy, Flag::FailedCheck).is_empty(),
            "nothing is known of its hosts"
        );
        until("the first probes", || {
            flagged(&proxy, Flag::FailedCheck) == [false, true]
        })
        .await;
        let listener = proxy.tcp("cluster: a", "");
        assert_eq!(reached(listener).await, BTreeSet::from(['a']));
        assert_eq!(proxy.of_cluster("a", "membership_healthy"), 1);
        b.status.set(200);
        until_reached(listener, &['a', 'b']).await;
        // A host that comes is probed before it is sent anything, and one that goes is gone.
        proxy.endpoints("a", &[a.address, c.address]);
        until_reached(listener, &['a', 'c']).await;
        a.status.set(404);
        until_reached(listener, &['c']).await;
        assert!(proxy.of_cluster("a", "health_check.failure") > 1);
        // When all are ill they are all used.
        c.status.set(404);
        until_reached(listener, &['a', 'c']).await;
        assert_eq!(proxy.of_cluster("a", "health_check.healthy"), 0);
    });
}

#[test]
fn new_settings_of_a_cluster_wait_for_probes_while_the_old_ones_serve() {
    run(async {
        let proxy = Proxy::start();
        let (a, b) = (host("a", 200).await, host("b", 200).await);
        proxy.cluster("a", &[a.address]);
        let listener = proxy.tcp("cluster: a", "");
        assert_eq!(reached(listener).await, BTreeSet::from(['a']));
        // Nobody answers this one's probes, until somebody does.
        a.status.set(500);
        proxy.cluster_with("a", &[a.address, b.address], CHECKS);
        assert!(!reached(listener).await.is_empty());
        until_reached(listener, &['b']).await;
    });
}

#[test]
fn a_host_that_takes_no_connections_is_ejected() {
    run(async {
        let proxy = Proxy::start();
        let dead = nobody();
        let detection = ", outlier_detection: {consecutive_5xx: 2, max_ejection_percent: 50, base_ejection_time: 60s}";
        proxy.cluster_with("a", &[echo("").await, dead], detection);
        let listener = proxy.tcp("cluster: a, max_connect_attempts: 2", "");
        // Each client finds the good host at the second attempt, if not at once.
        while flagged(&proxy, Flag::Ejected) != [false, true] {
            let mut client = TcpStream::connect(listener).await.unwrap();
            client.write_all(b"x").await.unwrap();
            let mut answer = [0];
            client.read_exact(&mut answer).await.unwrap();
        }
        let count = |name: &str| proxy.of_cluster("a", &format!("outlier_detection.{name}"));
        until("the count", || count("ejections_active") == 1).await;
        assert_eq!(count("ejections_enforced_consecutive_5xx"), 1);
        assert_eq!(proxy.of_cluster("a", "membership_healthy"), 1);
    });
}
