use std::time::Duration;

use super::*;

fn merged(scope: &ClusterStats, want: &str) -> Option<Value> {
    let mut found = None;
    scope.merge(&mut |name, value| {
        if name == want {
            found = Some(value);
        }
    });
    found
}

#[test]
fn slots_are_summed_over_workers() {
    let scope = ClusterStats::new("cluster.a.", "a", 2);
    scope.cells(WorkerIndex(0)).upstream_rq_total.add(3);
    scope.cells(WorkerIndex(1)).upstream_rq_total.inc();
    scope.cells(WorkerIndex(0)).upstream_cx_active.inc();
    scope.cells(WorkerIndex(1)).upstream_cx_active.add(2);
    scope.cells(WorkerIndex(1)).upstream_cx_active.dec();
    scope.control().membership_total.set(7);
    assert_eq!(merged(&scope, "upstream_rq_total"), Some(Value::Counter(4)));
    assert_eq!(merged(&scope, "upstream_cx_active"), Some(Value::Gauge(2)));
    assert_eq!(merged(&scope, "membership_total"), Some(Value::Gauge(7)));
    assert_eq!(merged(&scope, "no_such_name"), None);
}

#[test]
fn what_is_told_is_asked_once_by_whole_names() {
    let scope = ClusterStats::new("cluster.a.", "a", 1);
    scope.cells(WorkerIndex(0)).upstream_rq_total.inc();
    let told = |is_told: &dyn Fn(&str) -> bool| {
        let mut all = Vec::new();
        scope.tell(is_told, &mut |name, value| all.push((name, value)));
        all
    };
    let is_told = |name: &str| matches!(name, "cluster.a.upstream_rq_total" | "cluster.a.udp.sess_tx_errors");
    let expected = [
        ("upstream_rq_total", Value::Counter(1)),
        ("udp.sess_tx_errors", Value::Counter(0)),
    ];
    assert_eq!(told(&is_told), expected);
    assert_eq!(told(&|_| panic!("asked again")), expected);
}

#[test]
fn histogram_counts_into_the_bucket_whose_bound_is_not_exceeded() {
    let scope = ClusterStats::new("cluster.a.", "a", 1);
    let cells = scope.cells(WorkerIndex(0));
    cells.upstream_rq_time.record(Duration::from_micros(500));
    cells.upstream_rq_time.record(Duration::from_micros(501));
    cells.upstream_rq_time.record(Duration::from_secs(7200));
    let Some(Value::Histogram(value)) = merged(&scope, "upstream_rq_time") else {
        panic!("no histogram")
    };
    assert_eq!(
        (value.buckets[0], value.buckets[1], value.buckets[BUCKETS.len()]),
        (1, 1, 1)
    );
    assert_eq!((value.count(), value.sum_us), (3, 7_200_001_001));
}

#[test]
fn slots_do_not_share_cache_lines() {
    assert_eq!(std::mem::align_of::<Slot<ServerCells>>(), 128);
}
