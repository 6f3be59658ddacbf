use std::net::SocketAddr;

use super::*;
use crate::config::endpoint::{Health, HostAddress};
use crate::config::health::{FailurePercentage, Streaks, SuccessRate};

fn settings() -> OutlierDetection {
    let always = |limit| Streaks { limit, enforcing: 100 };
    OutlierDetection {
        interval: Duration::from_secs(10),
        base_time: Duration::from_secs(30),
        max_time: Duration::from_secs(60),
        max_jitter: Duration::ZERO,
        max_percent: 50,
        always_one: false,
        splits_local: false,
        server_errors: always(5),
        gateway_errors: Streaks { limit: 5, enforcing: 0 },
        local_failures: always(5),
        success_rate: SuccessRate {
            min_hosts: 4,
            min_requests: 10,
            deviations: 1.0,
            enforcing: 100,
            enforcing_local: 100,
        },
        failure_percentage: FailurePercentage {
            threshold: 85,
            min_hosts: 2,
            min_requests: 50,
            enforcing: 100,
            enforcing_local: 0,
        },
        ends_with_check: true,
    }
}

fn hosts(count: u64) -> Vec<Arc<Host>> {
    let host = |id: u64| {
        Arc::new(Host {
            id: HostId(id),
            address: HostAddress::Socket(SocketAddr::from(([127, 0, 0, 1], 80))),
            hostname: "".into(),
            weight: 1,
            health: Health::Healthy,
            stats: Arc::default(),
            vitals: Arc::default(),
            check: None,
            socket: None,
        })
    };
    (0..count).map(host).collect()
}

struct Scene {
    detector: Detector,
    hosts: Vec<Arc<Host>>,
    stats: ClusterStats,
    random: Random,
    now: Instant,
}

impl Scene {
    fn new(settings: OutlierDetection, count: u64) -> Self {
        let (mut detector, hosts) = (Detector::new(settings), hosts(count));
        detector.follow(&hosts);
        Self {
            detector,
            hosts,
            stats: ClusterStats::new("", "", 1),
            random: Random::new(),
            now: Instant::now(),
        }
    }

    fn suspect(&mut self, host: usize) -> bool {
        let host = self.hosts[host].clone();
        let streak = Streak::ServerError;
        self.detector
            .suspect(&host, streak, self.now, &self.random, &self.stats)
    }

    /// So many seconds later.
    fn look(&mut self, seconds: u64) -> bool {
        self.now += Duration::from_secs(seconds);
        self.detector.look(&self.hosts, self.now, &self.random, &self.stats)
    }

    fn ejected(&self) -> Vec<usize> {
        let is_out = |at: &usize| self.hosts[*at].vitals.has(Flag::Ejected);
        (0..self.hosts.len()).filter(is_out).collect()
    }

    /// Requests of a host in this interval.
    fn traffic(&self, host: usize, successes: u32, failures: u32) {
        let vitals = &self.hosts[host].vitals;
        for number in 0..successes + failures {
            let status = if number < successes { 200 } else { 500 };
            vitals.answered(status, (u32::MAX, u32::MAX));
        }
    }
}

#[test]
fn ejections_grow_with_each_one_and_fall_with_time() {
    let mut scene = Scene::new(settings(), 2);
    assert!(scene.suspect(0) && !scene.suspect(0), "it is out already");
    assert_eq!((scene.look(29), scene.look(1)), (false, true));
    assert!(scene.suspect(0));
    assert_eq!((scene.look(59), scene.look(1)), (false, true), "twice the time");
    assert!(scene.suspect(0));
    assert_eq!(
        (scene.look(59), scene.look(1)),
        (false, true),
        "and no more than the longest"
    );
    // A look without an ejection takes one off.
    for _ in 0..3 {
        assert!(!scene.look(10));
    }
    assert!(scene.suspect(0));
    assert_eq!((scene.look(29), scene.look(1)), (false, true));
}

#[test]
fn so_many_hosts_are_ejected_and_no_more() {
    let mut scene = Scene::new(settings(), 5);
    assert!(scene.suspect(0) && scene.suspect(1) && !scene.suspect(2));
    assert_eq!(scene.stats.control().outlier_ejections_overflow.get(), 1);
    let few = OutlierDetection {
        max_percent: 10,
        ..settings()
    };
    assert!(!Scene::new(few.clone(), 5).suspect(0));
    let one = OutlierDetection {
        always_one: true,
        ..few
    };
    let mut scene = Scene::new(one, 5);
    assert!(scene.suspect(0) && !scene.suspect(1));
    assert_eq!(scene.ejected(), [0]);
}

#[test]
fn a_host_far_below_the_others_is_ejected() {
    let mut scene = Scene::new(settings(), 5);
    for host in 0..4 {
        scene.traffic(host, 20, 0);
    }
    scene.traffic(4, 10, 10);
    assert!(scene.look(10));
    assert_eq!(scene.ejected(), [4]);
    // With too few requests nothing is said.
    let mut scene = Scene::new(settings(), 5);
    scene.traffic(0, 0, 9);
    assert!(!scene.look(10));
}

#[test]
fn a_share_of_failures_ejects_whatever_the_others_do() {
    let mut scene = Scene::new(settings(), 3);
    scene.traffic(0, 0, 60);
    scene.traffic(1, 10, 50);
    assert!(scene.look(10));
    assert_eq!(scene.ejected(), [0], "83 per cent of failures are not enough");
}

#[test]
fn what_is_not_enforced_is_only_counted() {
    let lenient = OutlierDetection {
        server_errors: Streaks { limit: 5, enforcing: 0 },
        ..settings()
    };
    let mut scene = Scene::new(lenient, 2);
    assert!(!scene.suspect(0));
    let cells = scene.stats.control();
    assert_eq!(
        (cells.outlier_detected_5xx.get(), cells.outlier_enforced_total.get()),
        (1, 0)
    );
}
