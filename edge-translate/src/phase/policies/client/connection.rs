//! Sockets and connections of clients.

use super::Problems;
use crate::api::{
    ClientTrafficPolicySpec, TlsFingerprint,
    client_traffic::{ClientConnection, ClientConnectionLimit},
    cluster_settings::TcpKeepalive as Keepalive,
};
use crate::phase::policies::traffic::{KEEPALIVE_PROBES, SYSTEM_BUFFERS, keepalive_seconds};
use edge_ir::{Accepts, ConnectionLimit, ConnectionSettings, Fingerprint, ProxyHeader, SocketSettings, TcpKeepalive};

const AREA: &str = "Connection";

/// What holds for all connections of a socket.
pub(super) fn socket(spec: &ClientTrafficPolicySpec, problems: &mut Problems) -> SocketSettings {
    let connection = spec.connection.as_deref();
    let tcp = spec.timeout.as_deref().and_then(|timeout| timeout.tcp.as_ref());
    let inspection = tcp.and_then(|tcp| tcp.connection_inspection_timeout.as_ref());
    SocketSettings {
        buffer_limit: problems.bytes(
            AREA,
            "BufferLimit",
            connection.and_then(|connection| connection.buffer_limit.as_ref()),
            0..=u32::MAX,
        ),
        system_buffer: problems.bytes(
            AREA,
            "SocketBufferLimit",
            connection.and_then(|connection| connection.socket_buffer_limit.as_ref()),
            SYSTEM_BUFFERS,
        ),
        accepts: accepts(connection),
        keepalive: spec.tcp_keepalive.as_deref().map(|it| keepalive(it, problems)),
        proxy_header: proxy_header(spec),
        inspection_timeout: problems.millis("Timeout", "TCP ConnectionInspectionTimeout", inspection),
        fingerprints: fingerprints(spec, problems),
    }
}

fn accepts(connection: Option<&ClientConnection>) -> Accepts {
    match connection.and_then(|connection| connection.max_accept_per_socket_event) {
        None => Accepts::default(),
        Some(0) => Accepts::All,
        Some(connections) => Accepts::UpTo(connections),
    }
}

/// Keepalive of the system, which counts in seconds.
fn keepalive(keepalive: &Keepalive, problems: &mut Problems) -> TcpKeepalive {
    let mut of = |field, text| {
        let time = problems.positive("TCPKeepalive", field, text)?;
        Some(keepalive_seconds(field, time, problems))
    };
    let (idle_seconds, interval_seconds) = (
        of("IdleTime", keepalive.idle_time.as_ref()),
        of("Interval", keepalive.interval.as_ref()),
    );
    TcpKeepalive {
        probes: keepalive
            .probes
            .map(|n| problems.number("TCPKeepalive", "Probes", n, 1..=KEEPALIVE_PROBES)),
        idle_seconds,
        interval_seconds,
    }
}

/// The older form counts where the newer one is absent.
fn proxy_header(spec: &ClientTrafficPolicySpec) -> ProxyHeader {
    match (&spec.proxy_protocol, spec.enable_proxy_protocol) {
        (Some(header), _) if header.optional => ProxyHeader::Optional,
        (Some(_), _) | (None, Some(true)) => ProxyHeader::Required,
        (None, Some(false) | None) => ProxyHeader::Unread,
    }
}

fn fingerprints(spec: &ClientTrafficPolicySpec, problems: &mut Problems) -> Vec<Fingerprint> {
    let asked = spec.tls.iter().flat_map(|tls| &tls.fingerprints);
    let mut prints: Vec<Fingerprint> = asked
        .filter_map(|print| match print {
            TlsFingerprint::Ja3 => Some(Fingerprint::Ja3),
            TlsFingerprint::Ja4 => Some(Fingerprint::Ja4),
            TlsFingerprint::Other(other) => {
                problems.add("TLS", format_args!("unsupported fingerprint {other}"));
                None
            }
        })
        .collect();
    prints.sort_unstable();
    prints.dedup();
    prints
}

/// What holds for the connections of a chain.
pub(super) fn connections(spec: &ClientTrafficPolicySpec, problems: &mut Problems) -> ConnectionSettings {
    let limit = spec
        .connection
        .as_deref()
        .and_then(|connection| connection.connection_limit.as_deref());
    let tcp = spec.timeout.as_deref().and_then(|timeout| timeout.tcp.as_ref());
    ConnectionSettings {
        limit: limit.and_then(|limit| open(limit, problems)),
        handshake_timeout: problems.millis(
            "Timeout",
            "TCP TLSHandshakeTimeout",
            tcp.and_then(|tcp| tcp.tls_handshake_timeout.as_ref()),
        ),
        idle_timeout: problems.millis(
            "Timeout",
            "TCP IdleTimeout",
            tcp.and_then(|tcp| tcp.idle_timeout.as_ref()),
        ),
    }
}

fn open(limit: &ClientConnectionLimit, problems: &mut Problems) -> Option<ConnectionLimit> {
    let delay = problems.millis(AREA, "CloseDelay", limit.close_delay.as_ref());
    let Some(value) = limit.value else {
        if delay.is_some() {
            problems.add(AREA, "closeDelay can only be configured when value is set");
        }
        return None;
    };
    let connections = u64::try_from(value).ok().filter(|connections| *connections > 0);
    if connections.is_none() {
        problems.add(AREA, format_args!("invalid Value {value}"));
    }
    Some(ConnectionLimit {
        connections: connections?,
        delay,
    })
}
