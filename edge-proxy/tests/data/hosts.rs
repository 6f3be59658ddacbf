//! Which host of a cluster a request goes to.

use std::time::Duration;

use edge_proxy::config::cluster::LbPolicy;
use edge_proxy::config::load::{HostSource, LoadWeights};
use edge_proxy::config::route::RetryOn;
use http::{HeaderName, Response};
use http_body_util::Full;

use crate::resilience::retry;
use crate::support::{
    Backend, Config, Proxy, Speaks, catch_all, cluster, entry, forward, get, nobody, run, snapshot, table,
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
