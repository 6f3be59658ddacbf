//! UDP proxies.

use std::net::SocketAddr;

use edge_proxy::xds::Kind;
use tokio::net::UdpSocket;

use crate::health::{CHECKS, Host, host};
use crate::support::{Proxy, answering, run, until};

async fn client(proxy: SocketAddr) -> UdpSocket {
    client_at(proxy, [127, 0, 0, 1]).await
}

async fn client_at(proxy: SocketAddr, address: [u8; 4]) -> UdpSocket {
    let socket = UdpSocket::bind(SocketAddr::from((address, 0))).await.unwrap();
    socket.connect(proxy).await.unwrap();
    socket
}

/// Asks until there is an answer that was meant; the name of the backend and whom it saw.
async fn ask(socket: &UdpSocket, word: &str) -> (String, String) {
    socket.send(word.as_bytes()).await.unwrap();
    let mut buffer = [0; 2048];
    let length = socket.recv(&mut buffer).await.unwrap();
    let text = std::str::from_utf8(&buffer[..length]).unwrap();
    let [name, seen, said] = text.splitn(3, ' ').collect::<Vec<_>>()[..] else {
        panic!("{text}")
    };
    assert_eq!(said, word);
    (name.to_owned(), seen.to_owned())
}

#[test]
fn a_session_keeps_its_socket_and_two_clients_have_two() {
    run(async {
        let proxy = Proxy::start();
        proxy.cluster("dns", &[answering("one").await]);
        let address = proxy.udp("dns", "");
        let (a, b) = (client(address).await, client(address).await);
        let first = ask(&a, "q1").await;
        assert_eq!(first.0, "one");
        assert_eq!(ask(&a, "q2").await, first);
        let other = ask(&b, "q3").await;
        assert!(other.0 == "one" && other.1 != first.1, "{first:?} {other:?}");
        assert_eq!(ask(&a, "q4").await, first);
        assert_eq!(proxy.of_udp("downstream_sess_total"), 2);
        assert_eq!(proxy.of_udp("downstream_sess_active"), 2);
        assert_eq!(proxy.of_udp("downstream_sess_rx_datagrams"), 4);
        assert_eq!(proxy.of_udp("downstream_sess_rx_bytes"), 8);
        until("the last answer is counted", || {
            proxy.of_udp("downstream_sess_tx_datagrams") == 4
        })
        .await;
        assert_eq!(proxy.of_cluster("dns", "udp.sess_tx_datagrams"), 4);
    });
}

#[test]
fn sessions_are_spread_over_hosts_and_stay_with_theirs() {
    run(async {
        let proxy = Proxy::start();
        let hosts = [answering("one").await, answering("two").await];
        proxy.cluster("dns", &hosts);
        let address = proxy.udp("dns", "");
        let mut names = std::collections::BTreeSet::new();
        // Each worker takes turns of its own: of three clients two are on one worker.
        for _ in 0..3 {
            let socket = client(address).await;
            let (name, _) = ask(&socket, "q").await;
            for _ in 0..3 {
                assert_eq!(ask(&socket, "again").await.0, name);
            }
            names.insert(name);
        }
        assert_eq!(names.len(), 2);
    });
}

#[test]
fn sessions_of_an_address_are_at_one_host() {
    run(async {
        let proxy = Proxy::start();
        let hosts = [answering("a").await, answering("b").await, answering("c").await];
        proxy.cluster_with("dns", &hosts, ", lb_policy: MAGLEV");
        let address = proxy.udp("dns", "hash_policies: [{source_ip: true}]");
        let mut names = std::collections::BTreeSet::new();
        for last in 1..=16 {
            let (name, _) = ask(&client_at(address, [127, 0, 0, last]).await, "q").await;
            for _ in 0..3 {
                let another = client_at(address, [127, 0, 0, last]).await;
                assert_eq!(ask(&another, "q").await.0, name);
            }
            names.insert(name);
        }
        assert!(names.len() > 1, "{names:?}");
    });
}

#[test]
fn a_session_moves_when_its_host_leaves_and_stays_when_another_comes() {
    run(async {
        let proxy = Proxy::start();
        let (one, two) = (answering("one").await, answering("two").await);
        proxy.cluster("dns", &[one]);
        let address = proxy.udp("dns", "");
        let socket = client(address).await;
        let first = ask(&socket, "q").await;
        assert_eq!(first.0, "one");
        proxy.endpoints("dns", &[one, two]);
        for _ in 0..4 {
            assert_eq!(ask(&socket, "q").await, first);
        }
        proxy.endpoints("dns", &[two]);
        until("the session ends", || proxy.of_udp("downstream_sess_active") == 0).await;
        assert_eq!(ask(&socket, "q").await.0, "two");
        assert_eq!(proxy.of_udp("downstream_sess_total"), 2);
    });
}

#[test]
fn a_datagram_for_nobody_is_dropped_and_counted() {
    run(async {
        let proxy = Proxy::start();
        let address = proxy.udp("EmptyCluster", "");
        let socket = client(address).await;
        socket.send(b"q").await.unwrap();
        until("no route", || proxy.of_udp("downstream_sess_no_route") == 1).await;
        proxy.cluster("EmptyCluster", &[]);
        socket.send(b"q").await.unwrap();
        until("no host", || {
            proxy.of_cluster("EmptyCluster", "upstream_cx_none_healthy") == 1
        })
        .await;
        assert_eq!(proxy.of_udp("downstream_sess_total"), 0);
        proxy.endpoints("EmptyCluster", &[answering("one").await]);
        assert_eq!(ask(&socket, "q").await.0, "one");
    });
}

#[test]
fn the_limit_of_the_cluster_bounds_sessions() {
    run(async {
        let proxy = Proxy::start();
        let limit = ", circuit_breakers: {thresholds: [{max_connections: 1}]}";
        proxy.cluster_with("dns", &[answering("one").await], limit);
        let address = proxy.udp("dns", "");
        let (a, b) = (client(address).await, client(address).await);
        ask(&a, "q").await;
        b.send(b"q").await.unwrap();
        until("overflow", || proxy.of_cluster("dns", "upstream_cx_overflow") == 1).await;
        ask(&a, "q").await;
        assert_eq!(proxy.of_udp("downstream_sess_total"), 1);
    });
}

#[test]
fn a_silent_session_ends() {
    run(async {
        let proxy = Proxy::start();
        proxy.cluster("dns", &[answering("one").await]);
        let address = proxy.udp("dns", "idle_timeout: 0.3s");
        let socket = client(address).await;
        ask(&socket, "q").await;
        until("it ends", || proxy.of_udp("downstream_sess_active") == 0).await;
        assert_eq!(proxy.of_udp("idle_timeout"), 1);
        assert_eq!(proxy.of_cluster("dns", "upstream_cx_active"), 0);
        ask(&socket, "q").await;
    });
}

#[test]
fn a_datagram_that_is_too_large_is_dropped_whole() {
    run(async {
        let proxy = Proxy::start();
        proxy.cluster("dns", &[answering("one").await]);
        let settings = "upstream_socket_config: {max_rx_datagram_size: 40}";
        let socket = client(proxy.udp("dns", settings)).await;
        ask(&socket, "short").await;
        socket.send(&[b'x'; 100]).await.unwrap();
        until("it is dropped", || {
            proxy.of_cluster("dns", "udp.sess_rx_datagrams_dropped") == 1
        })
        .await;
        ask(&socket, "short").await;
    });
}

#[test]
fn sessions_end_with_their_listener() {
    run(async {
        let proxy = Proxy::start();
        proxy.cluster("dns", &[answering("one").await]);
        let address = proxy.udp("dns", "");
        let socket = client(address).await;
        ask(&socket, "q").await;
        proxy.remove_listener("udp");
        until("the session ends", || {
            proxy.of_cluster("dns", "upstream_cx_active") == 0
        })
        .await;
        // The port is free again: no session holds it.
        until("the port is free", || std::net::UdpSocket::bind(address).is_ok()).await;
    });
}

/// Whoever asks again and again would else stay with a host that is dead.
#[test]
fn a_session_moves_when_its_host_is_said_to_be_ill() {
    run(async {
        for workers in [1, 3] {
            let proxy = Proxy::with_workers(workers);
            let hosts = [("one", answering("one").await), ("two", answering("two").await)];
            proxy.cluster("dns", &hosts.map(|(_, address)| address));
            let socket = client(proxy.udp("dns", "")).await;
            let first = ask(&socket, "q").await;
            let say = |of_first, of_other| {
                let health = |name| if name == first.0 { of_first } else { of_other };
                proxy.endpoints_by_health("dns", &hosts.map(|(name, address)| (address, health(name))));
            };
            // It is good enough where there is none that is better.
            say("UNHEALTHY", "UNHEALTHY");
            for _ in 0..6 {
                assert_eq!(ask(&socket, "q").await, first);
            }
            say("UNHEALTHY", "HEALTHY");
            let mut second = ask(&socket, "q").await;
            while second.0 == first.0 {
                second = ask(&socket, "q").await;
            }
            // There it stays, also when the other is well again.
            say("HEALTHY", "HEALTHY");
            for _ in 0..6 {
                assert_eq!(ask(&socket, "q").await, second);
            }
            assert_eq!(proxy.of_udp("downstream_sess_total"), 2);
            assert_eq!(proxy.of_udp("downstream_sess_active"), 1);
            assert_eq!(proxy.of_cluster("dns", "upstream_cx_active"), 1);
        }
    });
}

#[test]
fn a_session_moves_when_its_host_fails_its_probes() {
    run(async {
        for workers in [1, 3] {
            let proxy = Proxy::with_workers(workers);
            let hosts = [("one", answering("one").await), ("two", answering("two").await)];
            let probed = [host("one", 200).await, host("two", 200).await];
            proxy.cluster_with("dns", &[], CHECKS);
            let endpoint = |(host, probed): (&(&str, SocketAddr), &Host)| {
                format!(
                    "{{endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {}}}}}, \
                     health_check_config: {{port_value: {}}}}}}}",
                    host.1.port(),
                    probed.address.port()
                )
            };
            let list: Vec<String> = hosts.iter().zip(&probed).map(endpoint).collect();
            let yaml = format!(
                "{{cluster_name: dns, endpoints: [{{lb_endpoints: [{}]}}]}}",
                list.join(", ")
            );
            proxy.put(Kind::Assignment, "endpoint.v3.ClusterLoadAssignment", "dns", &yaml);
            until("both are well", || {
                let snapshot = proxy.shared.snapshot.borrow().clone();
                snapshot.cluster_by_name("dns").is_some() && proxy.of_cluster("dns", "membership_healthy") == 2
            })
            .await;
            let socket = client(proxy.udp("dns", "")).await;
            let (first, seen) = ask(&socket, "q").await;
            assert_eq!(ask(&socket, "q").await.1, seen);
            probed[usize::from(first == "two")].status.set(503);
            while ask(&socket, "q").await.0 == first {}
            assert_eq!(proxy.of_udp("downstream_sess_active"), 1);
        }
    });
}
