//! Which host of a cluster a request goes to.

use std::time::Duration;

use edge_proxy::config::address::{AddressFilter, AddressRange};
use edge_proxy::config::cluster::LbPolicy;
use edge_proxy::config::dynamic_forward_proxy::{DnsFamily, NamedOtherwise, Naming};
use edge_proxy::config::filter::{FilterKind, FilterSettings, HttpFilter, HttpFilters};
use edge_proxy::config::load::{HostSource, LoadWeights};
use edge_proxy::config::route::{HostRewrite, RetryOn};
use http::{HeaderName, HeaderValue, Response};
use http_body_util::Full;

use crate::resilience::retry;
use crate::support::{
    Backend, Config, Proxy, Speaks, catch_all, cluster, entry, forward, get, nobody, run, says, snapshot, table,
};

/// As stock Envoy has it: each attempt goes to the next host that is named, and where none is left the policy decides.
#[test]
fn requests_may_name_their_host_where_the_cluster_asks() {
    run(async {
        let (a, b) = (Backend::named("a").await, Backend::named("b").await);
        let mut asking = cluster(0);
        asking.named = [HostSource::Header(HeaderName::from_static("x-endpoint"))].into();
        let mut settings = forward(0);
        settings.retry = retry(
            RetryOn {
                server_error: true,
                ..RetryOn::default()
            },
            1,
        );
        let gone = nobody();
        let clusters = vec![entry(0, asking, &[a.address, b.address, gone])];
        let proxy = Proxy::start(Config {
            snapshot: snapshot(table("*", vec![catch_all(settings)]), clusters, |_| {}),
            workers: 1,
        });
        let mut client = proxy.http1().await;
        let stranger = "192.0.2.1:80";
        for (named, answers) in [
            (b.address.to_string(), "b"),
            (a.address.to_string(), "a"),
            (format!("{stranger}, {}", b.address), "b"),
            (format!("{gone},{}", a.address), "a"),
        ] {
            for _ in 0..4 {
                let mut request = get("h", "/");
                request.headers_mut().insert("x-endpoint", named.parse().unwrap());
                assert_eq!(client.send(request).await.text(), answers, "{named}");
            }
        }
        let mut seen = std::collections::BTreeSet::new();
        for named in [stranger, "", "b.example:80"].into_iter().cycle().take(12) {
            let mut request = get("h", "/");
            request.headers_mut().insert("x-endpoint", named.parse().unwrap());
            seen.insert(client.send(request).await.text().to_owned());
        }
        assert!(seen.contains("a") && seen.contains("b"), "{seen:?}");
    });
}

#[test]
fn hosts_that_report_more_load_get_less_of_it() {
    run(async {
        let reporting = |name: &'static str, load: &'static str| {
            Backend::start(Speaks::Http1, move |_| {
                let answer = Response::builder().header("endpoint-load-metrics", load);
                answer.body(Full::from(name)).unwrap()
            })
        };
        let calm = reporting("calm", "TEXT rps_fractional=90,cpu_utilization=0.1").await;
        let busy = reporting("busy", "JSON {\"rpsFractional\": 90, \"cpuUtilization\": 0.9}").await;
        let mut weighed = cluster(0);
        weighed.balancing.policy = LbPolicy::Reported;
        weighed.loads = Some(Box::new(LoadWeights {
            blackout: Duration::ZERO,
            expiration: Duration::from_secs(3600),
            update: Duration::ZERO,
            error_penalty: 0.0,
            metrics: Box::default(),
        }));
        let clusters = vec![entry(0, weighed, &[calm.address, busy.address])];
        let proxy = Proxy::start(Config {
            snapshot: snapshot(table("*", vec![catch_all(forward(0))]), clusters, |_| {}),
            workers: 1,
        });
        let mut client = proxy.http1().await;
        // Until both have reported.
        while calm.requests() == 0 || busy.requests() == 0 {
            client.get("h", "/").await;
        }
        let before = busy.requests();
        for _ in 0..100 {
            client.get("h", "/").await;
        }
        let share = busy.requests() - before;
        assert!((8..=12).contains(&share), "{share} of 100");
    });
}

/// How names are resolved, three of them at once.
fn naming() -> Naming {
    Naming {
        family: DnsFamily::V4,
        refresh: Duration::from_secs(60),
        unused: Duration::from_secs(300),
        most: 3,
        timeout: Duration::from_secs(1),
        refused: AddressFilter::default(),
    }
}

/// A proxy that sends requests to whom they ask for, if the filter allows it.
fn by_name(filters: Vec<HttpFilter>, other: Option<&str>, rewritten: Option<HostRewrite>) -> Proxy {
    by_name_as(naming(), filters, other, rewritten)
}

/// The same, with names resolved in another way.
fn by_name_as(naming: Naming, filters: Vec<HttpFilter>, other: Option<&str>, rewritten: Option<HostRewrite>) -> Proxy {
    let mut named = cluster(0);
    named.naming = Some(naming);
    let mut settings = forward(0);
    settings.host_rewrite = rewritten;
    let mut route = catch_all(settings);
    if let Some(other) = other {
        let rewrite = HostRewrite::Literal(other.parse().unwrap());
        route.filters = says("names", FilterSettings::Names(Some(NamedOtherwise(rewrite))));
    }
    let clusters = vec![entry(0, named, &[])];
    Proxy::start(Config {
        snapshot: snapshot(table("*", vec![route]), clusters, |manager| {
            manager.filters = HttpFilters::new(filters);
        }),
        workers: 1,
    })
}

#[test]
fn requests_go_to_the_host_that_they_ask_for() {
    run(async {
        let backend = Backend::named("a").await;
        let port = backend.address.port();
        let proxy = by_name(vec![HttpFilter::on("names", FilterKind::Names)], None, None);
        let mut client = proxy.http1().await;
        for host in ["127.0.0.1", "localhost", "LOCALHOST", "127.0.0.1"] {
            let host = format!("{host}:{port}");
            assert_eq!(client.get(&host, "/").await.text(), "a", "{host}");
        }
        assert_eq!(backend.connections(), 2, "one for each name");
        let reply = client.get("nobody.invalid", "/").await;
        assert_eq!((reply.status, reply.text()), (503, "DNS resolution failure"));
        // That keeps no place from others. A fourth name is one too many, and those that are known are served.
        let port_of_nobody = nobody().port();
        for (host, why) in [("127.0.0.2", "remote connection failure"), ("127.0.0.3", "overflow")] {
            let reply = client.get(&format!("{host}:{port_of_nobody}"), "/").await;
            assert!(reply.status == 503 && reply.text().contains(why), "{}", reply.text());
        }
        assert_eq!(client.get(&format!("localhost:{port}"), "/").await.text(), "a");
    });
}

#[test]
fn nothing_is_resolved_that_the_filter_does_not_allow() {
    run(async {
        let backend = Backend::named("a").await;
        let host = format!("127.0.0.1:{}", backend.address.port());
        let elsewhere = || Some(HostRewrite::Literal(HeaderValue::from_static("127.0.0.9")));
        let names = || vec![HttpFilter::on("names", FilterKind::Names)];
        // Nobody has allowed anything; and the router has another host than was allowed.
        for proxy in [by_name(Vec::new(), None, None), by_name(names(), None, elsewhere())] {
            let reply = proxy.get(&host, "/").await;
            assert_eq!((reply.status, reply.text()), (503, "no healthy upstream"));
        }
        assert_eq!(backend.requests(), 0);
        // A route may name the host in place of the client.
        let named = by_name(names(), Some(&host), None);
        assert_eq!(named.get("www.example.com", "/").await.text(), "a");
        assert_eq!(backend.last().headers()["host"], host);
    });
}

#[test]
fn nobody_is_found_at_addresses_that_are_refused() {
    run(async {
        let backend = Backend::named("a").await;
        let port = backend.address.port();
        let network = |address: &str, prefix_len| AddressRange {
            address: address.parse().unwrap(),
            prefix_len,
        };
        let names = || vec![HttpFilter::on("names", FilterKind::Names)];
        let without = |ranges: &[AddressRange]| {
            let naming = Naming {
                family: DnsFamily::All,
                most: 64,
                refused: AddressFilter {
                    ranges: ranges.into(),
                    inverted: false,
                },
                ..naming()
            };
            by_name_as(naming, names(), None, None)
        };
        let itself = [network("127.0.0.0", 8), network("0.0.0.0", 8), network("::", 127)];
        let proxy = without(&itself);
        let mut client = proxy.http1().await;
        for host in [
            "127.0.0.1",
            "127.0.0.1.",
            "localhost",
            "localhost.",
            "localhost..",
            "0.0.0.0",
            "0",
            "[::1]",
            "[::]",
            "[::ffff:127.0.0.1]",
            "[::ffff:0.0.0.0]",
            "127.1",
            "0x7f.1",
            "2130706433",
            "::1",
            "::",
            "127.0.0.1]",
            "[127.0.0.1",
            "[127.0.0.1]",
            "[[::1]]",
            "127.0.0.1..",
        ] {
            let reply = client.get(&format!("{host}:{port}"), "/").await;
            assert_eq!((reply.status, reply.text()), (503, "DNS resolution failure"), "{host}");
        }
        for host in [format!("localhost:+{port}"), format!("127.0.0.1:+{port}")] {
            assert_eq!(client.get(&host, "/").await.status, 503, "{host}");
        }
        assert_eq!(backend.requests(), 0);
        // Others are found, said in numbers as well.
        let proxy = without(&[network("127.0.0.2", 32)]);
        let mut client = proxy.http1().await;
        assert_eq!(client.get(&format!("127.0.0.2:{port}"), "/").await.status, 503);
        assert_eq!(client.get(&format!("127.0.0.1:{port}"), "/").await.text(), "a");
    });
}
