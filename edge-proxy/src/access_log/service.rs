//! Entries for Envoy's access log service.
//!
//! Deliberately absent: sizes of heads and bytes on the wire, the proxy's own certificate, metadata and state of
//! filters, and when a byte was the first or last one in a direction, where nothing here keeps it.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::SystemTime;

use envoy_types::pb::envoy::config::core::v3::address::Address as Kind;
use envoy_types::pb::envoy::config::core::v3::socket_address::PortSpecifier;
use envoy_types::pb::envoy::config::core::v3::{Address, Pipe, RequestMethod, SocketAddress};
use envoy_types::pb::envoy::data::accesslog::v3::response_flags::Unauthorized;
use envoy_types::pb::envoy::data::accesslog::v3::response_flags::unauthorized::Reason;
use envoy_types::pb::envoy::data::accesslog::v3::tls_properties::certificate_properties::SubjectAltName;
use envoy_types::pb::envoy::data::accesslog::v3::tls_properties::certificate_properties::subject_alt_name::San;
use envoy_types::pb::envoy::data::accesslog::v3::tls_properties::{CertificateProperties, TlsVersion};
use envoy_types::pb::envoy::data::accesslog::v3::{
    AccessLogCommon, AccessLogType, ConnectionProperties, HttpAccessLogEntry, HttpRequestProperties,
    HttpResponseProperties, ResponseFlags, TcpAccessLogEntry, TlsProperties, http_access_log_entry::HttpVersion,
};
use envoy_types::pb::google::protobuf::{Duration, Timestamp, UInt32Value};
use http::HeaderValue;

use crate::access_log::record::Values;
use crate::access_log::value::Entry;
use crate::access_log::{Client, Spoken};
use crate::config::access_log::{AddressOf, Flags, HttpEntries, Moment, PeerPart};
use crate::config::endpoint::HostAddress;
use crate::connection::peer::PeerCertificate;

/// Of an exchange.
pub(super) fn http(wanted: &HttpEntries, entry: &Entry<'_>) -> HttpAccessLogEntry {
    let record = entry.record;
    HttpAccessLogEntry {
        common_properties: Some(common(entry)),
        protocol_version: match entry.protocol() {
            Some("HTTP/1.0") => HttpVersion::Http10,
            Some("HTTP/1.1") => HttpVersion::Http11,
            Some("HTTP/2") => HttpVersion::Http2,
            _ => HttpVersion::ProtocolUnspecified,
        }
        .into(),
        request: Some(request(wanted, entry)),
        response: Some(HttpResponseProperties {
            response_code: (record.status > 0).then(|| UInt32Value {
                value: record.status.into(),
            }),
            response_body_bytes: record.sent,
            response_headers: fields(&wanted.response_headers, &record.response),
            response_trailers: fields(&wanted.response_trailers, &record.trailers),
            response_code_details: record.details.to_string(),
            ..HttpResponseProperties::default()
        }),
    }
}

/// Of a connection, or an exchange as if it were one.
pub(super) fn stream(entry: &Entry<'_>) -> TcpAccessLogEntry {
    TcpAccessLogEntry {
        common_properties: Some(common(entry)),
        connection_properties: Some(ConnectionProperties {
            received_bytes: entry.record.received,
            sent_bytes: entry.record.sent,
        }),
    }
}

fn request(wanted: &HttpEntries, entry: &Entry<'_>) -> HttpRequestProperties {
    let record = entry.record;
    let Some(request) = &record.request else {
        return HttpRequestProperties::default();
    };
    let text = |at: usize| {
        request
            .values
            .get(at)
            .and_then(Option::as_ref)
            .map(text)
            .unwrap_or_default()
    };
    let original = text(wanted.original_path);
    HttpRequestProperties {
        request_method: RequestMethod::from_str_name(request.method.as_str())
            .unwrap_or_default()
            .into(),
        scheme: request.scheme.to_owned(),
        authority: self::text(&request.authority),
        path: request.target.to_string(),
        user_agent: text(wanted.user_agent),
        referer: text(wanted.referer),
        forwarded_for: text(wanted.forwarded_for),
        request_id: text(wanted.request_id),
        original_path: original,
        request_body_bytes: record.received,
        request_headers: fields(&wanted.request_headers, &request.values),
        ..HttpRequestProperties::default()
    }
}

fn common(entry: &Entry<'_>) -> AccessLogCommon {
    let Entry { client, record, .. } = entry;
    let upstream = &record.upstream;
    let since = |moment| entry.between(Moment::Begun, moment, 1_000_000_000).map(duration);
    let socket = |of| entry.socket(of).map(address);
    AccessLogCommon {
        downstream_remote_address: socket(AddressOf::Client),
        downstream_local_address: socket(AddressOf::Local),
        downstream_direct_remote_address: socket(AddressOf::Peer),
        tls_properties: tls(client),
        start_time: Some(timestamp(record.times.calendar)),
        time_to_last_rx_byte: since(Moment::RequestRead),
        time_to_first_upstream_tx_byte: since(Moment::Sent),
        time_to_first_upstream_rx_byte: since(Moment::Answered),
        time_to_last_downstream_tx_byte: since(Moment::Over).filter(|_| client.spoken.is_http()),
        duration: since(Moment::Over),
        upstream_remote_address: upstream.host.as_ref().map(|host| host_address(&host.address)),
        upstream_local_address: socket(AddressOf::ToBackend),
        upstream_cluster: upstream
            .cluster
            .as_ref()
            .map(|cluster| cluster.name.to_string())
            .unwrap_or_default(),
        response_flags: Some(flags(record.flags)).filter(|_| !record.flags.is_empty()),
        upstream_transport_failure_reason: record.failure.to_owned(),
        route_name: record.route.as_deref().unwrap_or_default().to_owned(),
        upstream_request_attempt_count: upstream.attempts,
        access_log_type: match client.spoken {
            Spoken::Http1 | Spoken::Http2 => AccessLogType::DownstreamEnd,
            Spoken::Attempt => AccessLogType::UpstreamEnd,
            Spoken::Stream => AccessLogType::TcpConnectionEnd,
            Spoken::Datagrams => AccessLogType::UdpSessionEnd,
            Spoken::Nothing => AccessLogType::NotSet,
        }
        .into(),
        ..AccessLogCommon::default()
    }
}

/// What was spoken below; nothing of what isn't TLS, and of TLS that stays closed only the name.
fn tls(client: &Client<'_>) -> Option<TlsProperties> {
    if client.agreed.is_none() && client.server_name.is_none() {
        return None;
    }
    let version = client.agreed.map(|agreed| match agreed.version_name() {
        Some("TLSv1.2") => TlsVersion::TlSv12,
        Some("TLSv1.3") => TlsVersion::TlSv13,
        _ => TlsVersion::VersionUnspecified,
    });
    let names = |certificate: &PeerCertificate| {
        let split = |part| {
            certificate
                .says(part)
                .into_iter()
                .flat_map(|all| all.split(',').map(str::to_owned).collect::<Vec<_>>())
        };
        let name = |san| SubjectAltName { san: Some(san) };
        let uris = split(PeerPart::Uris).map(|uri| name(San::Uri(uri)));
        CertificateProperties {
            subject_alt_name: uris
                .chain(split(PeerPart::Hosts).map(|host| name(San::Dns(host))))
                .collect(),
            subject: certificate.says(PeerPart::Subject).unwrap_or_default(),
            issuer: certificate.says(PeerPart::Issuer).unwrap_or_default(),
        }
    };
    Some(TlsProperties {
        tls_version: version.unwrap_or_default().into(),
        tls_cipher_suite: client.agreed.map(|agreed| UInt32Value {
            value: u16::from(agreed.suite).into(),
        }),
        tls_sni_hostname: client.server_name.unwrap_or_default().to_owned(),
        peer_certificate_properties: client.certificate.map(names),
        ..TlsProperties::default()
    })
}

fn text(value: &HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).into_owned()
}

fn fields(wanted: &[(Box<str>, usize)], values: &Values) -> HashMap<String, String> {
    let there = wanted.iter().filter_map(|(name, at)| {
        let value = values.get(*at)?.as_ref()?;
        Some((name.to_string(), text(value)))
    });
    there.collect()
}

fn address(socket: SocketAddr) -> Address {
    Address {
        address: Some(Kind::SocketAddress(SocketAddress {
            address: socket.ip().to_canonical().to_string(),
            port_specifier: Some(PortSpecifier::PortValue(socket.port().into())),
            ..SocketAddress::default()
        })),
    }
}

fn host_address(host: &HostAddress) -> Address {
    match host {
        HostAddress::Socket(socket) => address(*socket),
        HostAddress::Pipe(path) => Address {
            address: Some(Kind::Pipe(Pipe {
                path: path.display().to_string(),
                mode: 0,
            })),
        },
        HostAddress::Internal(_) => Address::default(),
    }
}

fn duration(nanos: u64) -> Duration {
    Duration {
        seconds: i64::try_from(nanos / 1_000_000_000).unwrap_or(i64::MAX),
        nanos: i32::try_from(nanos % 1_000_000_000).unwrap_or_default(),
    }
}

fn timestamp(time: SystemTime) -> Timestamp {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp {
        seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(since.subsec_nanos()).unwrap_or_default(),
    }
}

fn flags(set: Flags) -> ResponseFlags {
    let mut flags = ResponseFlags::default();
    for (short, _) in set.names() {
        let flag = match short {
            "LH" => &mut flags.failed_local_healthcheck,
            "UH" => &mut flags.no_healthy_upstream,
            "UT" => &mut flags.upstream_request_timeout,
            "LR" => &mut flags.local_reset,
            "UR" => &mut flags.upstream_remote_reset,
            "UF" => &mut flags.upstream_connection_failure,
            "UC" => &mut flags.upstream_connection_termination,
            "UO" => &mut flags.upstream_overflow,
            "NR" => &mut flags.no_route_found,
            "DI" => &mut flags.delay_injected,
            "FI" => &mut flags.fault_injected,
            "RL" => &mut flags.rate_limited,
            "UAEX" => {
                let reason = Reason::ExternalService.into();
                flags.unauthorized_details = Some(Unauthorized { reason });
                continue;
            }
            "RLSE" => &mut flags.rate_limit_service_error,
            "DC" => &mut flags.downstream_connection_termination,
            "URX" => &mut flags.upstream_retry_limit_exceeded,
            "SI" => &mut flags.stream_idle_timeout,
            "IH" => &mut flags.invalid_envoy_request_headers,
            "DPE" => &mut flags.downstream_protocol_error,
            "UMSDR" => &mut flags.upstream_max_stream_duration_reached,
            "RFCF" => &mut flags.response_from_cache_filter,
            "NFCF" => &mut flags.no_filter_config_found,
            "DT" => &mut flags.duration_timeout,
            "UPE" => &mut flags.upstream_protocol_error,
            "NC" => &mut flags.no_cluster_found,
            "OM" => &mut flags.overload_manager,
            "DF" => &mut flags.dns_resolution_failure,
            "DR" => &mut flags.downstream_remote_reset,
            // Envoy's message has no place for the others.
            _ => continue,
        };
        *flag = true;
    }
    flags
}
