//! What workers tell of hosts: how they answered, or that they could not be reached (Envoy's outlier detection), and
//! that they asked to be left out.

use http::{HeaderMap, StatusCode};

use crate::config::cluster::Cluster;
use crate::config::endpoint::Host;
use crate::config::health::OutlierDetection;
use crate::config::tls::Sni;
use crate::fault::{Fault, TlsFailure};
use crate::vitals::Flag;

/// A host has asked to be left out. Only one that is probed can be: nothing else lets it in again.
pub(crate) fn asked_to_leave(cluster: &Cluster, host: &Host) {
    if cluster.health.check.is_some() && host.vitals.set(Flag::Excluded) {
        cluster.health.bell.notify_one();
    }
}

/// A host has answered.
pub(crate) fn answered(cluster: &Cluster, host: &Host, status: StatusCode, headers: &HeaderMap) {
    let Some(outliers) = &cluster.health.outliers else {
        return;
    };
    if outliers.splits_local {
        host.vitals.reached();
    }
    let code = grpc_code(headers).unwrap_or_else(|| status.as_u16());
    if host.vitals.answered(code, limits(outliers)) {
        cluster.health.bell.notify_one();
    }
}

/// A stream stands.
pub(crate) fn connected(cluster: &Cluster, host: &Host) {
    let Some(outliers) = &cluster.health.outliers else {
        return;
    };
    // Successes complete no streak.
    if outliers.splits_local {
        host.vitals.reached();
    } else {
        host.vitals.answered(200, limits(outliers));
    }
}

/// A host could not be reached, or did not answer.
pub(crate) fn failed(cluster: &Cluster, host: &Host, fault: Fault) {
    let Some(outliers) = &cluster.health.outliers else {
        return;
    };
    let code = match fault {
        // Clients have chosen the name, or they would choose which hosts are ejected.
        Fault::TlsFailure(TlsFailure::WrongName) if asks_for_hosts_of_clients(cluster) => return,
        Fault::ConnectFailure
        | Fault::ConnectRefused
        | Fault::ConnectTimeout
        | Fault::TlsFailure(_)
        | Fault::ConnectionTermination
        | Fault::RemoteReset
        | Fault::RefusedStream
        | Fault::ProtocolError => 503,
        Fault::RouteTimeout | Fault::PerTryTimeout => 504,
        // Of the client, or of the limits of this proxy.
        _ => return,
    };
    let rings = if outliers.splits_local {
        host.vitals.missed(outliers.local_failures.limit)
    } else {
        host.vitals.answered(code, limits(outliers))
    };
    if rings {
        cluster.health.bell.notify_one();
    }
}

fn asks_for_hosts_of_clients(cluster: &Cluster) -> bool {
    cluster.tls.as_ref().is_some_and(|tls| tls.sni == Sni::Authority)
}

fn limits(outliers: &OutlierDetection) -> (u32, u32) {
    (outliers.server_errors.limit, outliers.gateway_errors.limit)
}

/// What the status of a call that failed at once would be in HTTP (the table of the gRPC gateway, as Envoy has it).
fn grpc_code(headers: &HeaderMap) -> Option<u16> {
    let status: u8 = headers.get("grpc-status")?.to_str().ok()?.parse().ok()?;
    Some(match status {
        0 => 200,
        1 => 499,
        3 | 9 | 11 => 400,
        4 => 504,
        5 => 404,
        6 | 10 => 409,
        7 => 403,
        8 => 429,
        12 => 501,
        14 => 503,
        16 => 401,
        _ => 500,
    })
}
