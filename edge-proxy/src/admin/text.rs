//! `/clusters`, `/listeners`, `/server_info` and `/memory`.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use crate::admin::{Admin, Answer, parameter};
use crate::config::endpoint::{Health, Host, HostAddress};
use crate::control::Control;
use crate::vitals::Flag;

/// An address as the admin interface prints it.
fn address(host: &Host) -> String {
    match &host.address {
        HostAddress::Socket(address) => address.to_string(),
        HostAddress::Pipe(path) => path.display().to_string(),
        HostAddress::Internal(name) => name.to_string(),
    }
}

fn counters(host: &Host) -> [(&'static str, i64); 8] {
    let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let stats = &host.stats;
    [
        ("cx_active", stats.cx_active.load(Ordering::Relaxed)),
        ("cx_connect_fail", number(stats.cx_connect_fail.load(Ordering::Relaxed))),
        ("cx_total", number(stats.cx_total.load(Ordering::Relaxed))),
        ("rq_active", stats.rq_active.load(Ordering::Relaxed)),
        ("rq_error", number(stats.rq_error.load(Ordering::Relaxed))),
        ("rq_success", number(stats.rq_success.load(Ordering::Relaxed))),
        ("rq_timeout", number(stats.rq_timeout.load(Ordering::Relaxed))),
        ("rq_total", number(stats.rq_total.load(Ordering::Relaxed))),
    ]
}

/// `/clusters`
pub(super) fn clusters(control: &Control, query: &str) -> Answer {
    let snapshot = control.shared.snapshot.borrow().clone();
    let mut entries: Vec<_> = snapshot.clusters.iter().flatten().collect();
    entries.sort_by(|a, b| a.cluster.name.cmp(&b.cluster.name));
    if parameter(query, "format") == Some("json") {
        let statuses: Vec<Value> = entries
            .iter()
            .map(|entry| {
                let hosts: Vec<Value> = entry.endpoints.hosts.iter().map(|host| host_json(host)).collect();
                json!({ "name": &*entry.cluster.name, "host_statuses": hosts })
            })
            .collect();
        return Answer::json(json!({ "cluster_statuses": statuses }).to_string());
    }
    let mut text = String::new();
    for entry in entries {
        let name = &entry.cluster.name;
        let limits = &entry.cluster.limits;
        // Writing to a String can't fail.
        let _ = writeln!(text, "{name}::observability_name::{name}");
        for (limit, value) in [
            ("max_connections", limits.max_connections),
            ("max_pending_requests", limits.max_pending_requests),
            ("max_requests", limits.max_requests),
            ("max_retries", limits.max_retries),
        ] {
            let _ = writeln!(text, "{name}::default_priority::{limit}::{value}");
        }
        for host in &entry.endpoints.hosts {
            let address = address(host);
            for (counter, value) in counters(host) {
                let _ = writeln!(text, "{name}::{address}::{counter}::{value}");
            }
            let health = flags(host);
            let _ = writeln!(text, "{name}::{address}::hostname::{}", host.hostname);
            let _ = writeln!(text, "{name}::{address}::health_flags::{health}");
            let _ = writeln!(text, "{name}::{address}::weight::{}", host.weight);
        }
    }
    Answer::text(text)
}

/// Everything that keeps a host from being plainly healthy.
fn flags(host: &Host) -> String {
    let vital = |flag| host.vitals.has(flag);
    let flags = [
        (vital(Flag::FailedCheck), "/failed_active_hc"),
        (vital(Flag::Ejected), "/failed_outlier_check"),
        (host.health == Health::Unhealthy, "/failed_eds_health"),
        (host.health == Health::Draining, "/eds_status_draining"),
        (vital(Flag::DegradedCheck), "/degraded_active_hc"),
        (host.health == Health::Degraded, "/degraded_eds_health"),
        (vital(Flag::PendingCheck), "/pending_active_hc"),
        (vital(Flag::Excluded), "/excluded_via_immediate_hc_fail"),
        (vital(Flag::CheckTimeout), "/active_hc_timeout"),
    ];
    let text: String = flags.iter().filter(|(set, _)| *set).map(|(_, name)| *name).collect();
    if text.is_empty() { "healthy".to_owned() } else { text }
}

fn health_json(host: &Host) -> Value {
    let health = match host.health {
        Health::Healthy => "HEALTHY",
        Health::Degraded => "DEGRADED",
        Health::Unhealthy => "UNHEALTHY",
        Health::Draining => "DRAINING",
    };
    let mut status = json!({ "eds_health_status": health });
    for (flag, name) in [
        (Flag::FailedCheck, "failed_active_health_check"),
        (Flag::Ejected, "failed_outlier_check"),
        (Flag::DegradedCheck, "failed_active_degraded_check"),
        (Flag::PendingCheck, "pending_active_hc"),
        (Flag::Excluded, "excluded_via_immediate_hc_fail"),
        (Flag::CheckTimeout, "active_hc_timeout"),
    ] {
        if host.vitals.has(flag) {
            status[name] = true.into();
        }
    }
    status
}

fn host_json(host: &Host) -> Value {
    let stats: Vec<Value> = counters(host)
        .iter()
        .map(|(name, value)| json!({ "name": name, "value": value.to_string() }))
        .collect();
    let address = match &host.address {
        HostAddress::Socket(address) => {
            json!({ "socket_address": { "address": address.ip().to_string(), "port_value": address.port() } })
        }
        other => json!({ "pipe": { "path": format!("{other:?}") } }),
    };
    json!({
        "address": address,
        "stats": stats,
        "health_status": health_json(host),
        "weight": host.weight,
        "hostname": &*host.hostname,
    })
}

/// `/listeners`
pub(super) fn listeners(control: &Control, query: &str) -> Answer {
    let open = control.shared.sockets.borrow().clone();
    if parameter(query, "format") == Some("json") {
        let statuses: Vec<Value> = open
            .iter()
            .map(|bound| {
                let (address, port) = (bound.address.ip().to_string(), bound.address.port());
                let local = json!({ "socket_address": { "address": address, "port_value": port } });
                json!({ "name": &*bound.listener, "local_address": local })
            })
            .collect();
        return Answer::json(json!({ "listener_statuses": statuses }).to_string());
    }
    Answer::text(
        open.iter()
            .map(|bound| format!("{}::{}\n", bound.listener, bound.address))
            .collect::<String>(),
    )
}

/// `/server_info`
pub(super) fn server_info(admin: &Admin, state: &str) -> Answer {
    let uptime = format!("{}s", admin.control.started.elapsed().as_secs());
    let arguments = &admin.arguments;
    let node = &admin.bootstrap.node;
    let options = json!({
        "concurrency": admin.control.shared.workers,
        "config_path": arguments.config_path,
        "config_yaml": arguments.config_yaml,
        "log_level": arguments.log_level,
        "service_cluster": node.cluster,
        "service_node": node.id,
        "drain_time": format!("{}s", arguments.drain_time_s),
        "mode": format!("{:?}", arguments.mode),
    });
    let info = json!({
        "version": concat!("edge-proxy/", env!("CARGO_PKG_VERSION")),
        "state": state,
        "uptime_current_epoch": uptime,
        "uptime_all_epochs": uptime,
        "hot_restart_version": "disabled",
        "command_line_options": options,
        "node": { "id": node.id, "cluster": node.cluster },
    });
    Answer::json(serde_json::to_string_pretty(&info).unwrap_or_else(|_| info.to_string()))
}

/// `/memory`, from what the kernel says about the process.
pub(super) fn memory() -> Answer {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        let kib: u64 = line
            .trim_start_matches(':')
            .trim()
            .trim_end_matches("kB")
            .trim()
            .parse()
            .ok()?;
        Some((kib * 1024).to_string())
    };
    Answer::json(
        json!({
            "allocated": field("RssAnon"),
            "heap_size": field("VmData"),
            "total_physical_bytes": field("VmRSS"),
        })
        .to_string(),
    )
}
