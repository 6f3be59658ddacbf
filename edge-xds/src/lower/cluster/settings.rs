//! Limits and habits of the connections of a cluster.

use super::super::{
    common::{duration, kept_case, number, pings, seconds},
    socket_options::bound_with_buffers,
};
use super::health;
use edge_ir::{
    AppProtocol, CircuitBreaker, Cluster, Discovery, HeaderCase, Http1Upstream, Http2Settings, HttpVersion, Preconnect,
    ProxyProtocol, ServerNaming, TcpKeepalive, Trailers, UpstreamTls,
};
use envoy_types::{
    pb::{
        envoy::{
            config::{
                cluster::v3::{
                    self as pb, CircuitBreakers, UpstreamConnectionOptions,
                    circuit_breakers::{Thresholds, thresholds::RetryBudget},
                    cluster::{CommonLbConfig, PreconnectPolicy},
                },
                core::v3::{
                    Http1ProtocolOptions, Http2ProtocolOptions, HttpProtocolOptions as Common, ProxyProtocolConfig,
                    TransportSocket, UpstreamHttpProtocolOptions, proxy_protocol_config::Version,
                    transport_socket::ConfigType,
                },
            },
            extensions::{
                transport_sockets::{proxy_protocol::v3::ProxyProtocolUpstreamTransport, raw_buffer::v3::RawBuffer},
                upstreams::http::v3::{
                    HttpProtocolOptions,
                    http_protocol_options::{
                        AutoHttpConfig, ExplicitHttpConfig, UpstreamProtocolOptions, UseDownstreamHttpConfig,
                        explicit_http_config::ProtocolConfig,
                    },
                },
            },
            r#type::v3::Percent,
        },
        google::protobuf::{BoolValue, DoubleValue},
    },
    util::pack_any,
};

/// Seconds that a connection may take to come about, where nothing says otherwise.
const CONNECT_SECONDS: i64 = 10;
/// Bytes that a connection may buffer then.
const CONNECTION_BUFFER: u32 = 32_768;

/// Puts into a cluster what its settings say.
pub(super) fn put(message: &mut pb::Cluster, cluster: &Cluster) {
    let settings = &*cluster.upstream;
    message.connect_timeout = Some(settings.connect_timeout.map_or(seconds(CONNECT_SECONDS), duration));
    message.per_connection_buffer_limit_bytes = number(settings.buffer_limit.unwrap_or(CONNECTION_BUFFER));
    message.upstream_bind_config = settings.system_buffer.map(bound_with_buffers);
    message.circuit_breakers = Some(limits(settings.circuit_breaker.as_ref()));
    let probes = settings.health_check.iter();
    message.health_checks = probes.filter_map(|check| health::probes(check, cluster)).collect();
    message.outlier_detection = settings.outlier_detection.as_ref().map(health::outliers);
    message.common_lb_config = settings.panic_threshold.map(|percent| CommonLbConfig {
        healthy_panic_threshold: Some(Percent { value: percent.into() }),
        ..Default::default()
    });
    message.upstream_connection_options = settings.keepalive.map(|keepalive| UpstreamConnectionOptions {
        tcp_keepalive: Some(lower_keepalive(keepalive)),
        ..Default::default()
    });
    message.preconnect_policy = settings.preconnect.map(preconnect);
    if let Some(version) = settings.proxy_protocol {
        message.transport_socket = Some(behind_proxy_header(version, message.transport_socket.take()));
        for one in &mut message.transport_socket_matches {
            one.transport_socket = Some(behind_proxy_header(version, one.transport_socket.take()));
        }
    }
}

fn limits(breaker: Option<&CircuitBreaker>) -> CircuitBreakers {
    let Some(breaker) = breaker else {
        return CircuitBreakers {
            thresholds: vec![Thresholds {
                max_retries: number(1024),
                ..Default::default()
            }],
            ..Default::default()
        };
    };
    let per_host = |connections| Thresholds {
        max_connections: number(connections),
        ..Default::default()
    };
    CircuitBreakers {
        thresholds: vec![Thresholds {
            max_connections: number(breaker.max_connections),
            max_pending_requests: number(breaker.max_pending_requests),
            max_requests: number(breaker.max_requests),
            max_retries: number(breaker.max_retries),
            retry_budget: breaker.retry_budget.map(|budget| RetryBudget {
                budget_percent: Some(Percent {
                    value: f64::from(budget.share) / 10_000.0,
                }),
                min_retry_concurrency: budget.min_concurrency.and_then(number),
                ..Default::default()
            }),
            ..Default::default()
        }],
        per_host_thresholds: breaker.max_connections_per_endpoint.map(per_host).into_iter().collect(),
    }
}

fn lower_keepalive(keepalive: TcpKeepalive) -> envoy_types::pb::envoy::config::core::v3::TcpKeepalive {
    envoy_types::pb::envoy::config::core::v3::TcpKeepalive {
        keepalive_probes: keepalive.probes.and_then(number),
        keepalive_time: keepalive.idle_seconds.and_then(number),
        keepalive_interval: keepalive.interval_seconds.and_then(number),
    }
}

fn preconnect(preconnect: Preconnect) -> PreconnectPolicy {
    let ratio = |percent: u32| DoubleValue {
        value: f64::from(percent) / 100.0,
    };
    PreconnectPolicy {
        per_upstream_preconnect_ratio: preconnect.per_endpoint_percent.map(ratio),
        predictive_preconnect_ratio: preconnect.predictive_percent.map(ratio),
        ..Default::default()
    }
}

/// No TLS.
pub(super) fn clear() -> TransportSocket {
    TransportSocket {
        name: "envoy.transport_sockets.raw_buffer".to_owned(),
        config_type: Some(ConfigType::TypedConfig(pack_any(RawBuffer {}))),
    }
}

/// The header goes in front of whatever the connection carries, TLS included.
fn behind_proxy_header(version: ProxyProtocol, inner: Option<TransportSocket>) -> TransportSocket {
    let version = match version {
        ProxyProtocol::V1 => Version::V1,
        ProxyProtocol::V2 => Version::V2,
    };
    let transport = ProxyProtocolUpstreamTransport {
        config: Some(ProxyProtocolConfig {
            version: version.into(),
            ..Default::default()
        }),
        transport_socket: Some(inner.unwrap_or_else(clear)),
        ..Default::default()
    };
    TransportSocket {
        name: "envoy.transport_sockets.upstream_proxy_protocol".to_owned(),
        config_type: Some(ConfigType::TypedConfig(pack_any(transport))),
    }
}

/// HTTP towards the backend; none where the proxy's defaults are meant.
pub(super) fn http_options(cluster: &Cluster) -> Option<HttpProtocolOptions> {
    let settings = &cluster.upstream;
    let max_requests = settings.max_requests_per_connection;
    let common = Common {
        idle_timeout: settings.idle_timeout.map(duration),
        max_connection_duration: settings.max_connection_duration.map(duration),
        max_requests_per_connection: max_requests.and_then(number),
        ..Default::default()
    };
    let common = (common != Common::default()).then_some(common);
    let of_request = cluster
        .tls
        .as_deref()
        .filter(|tls| tls.naming == ServerNaming::OfRequest);
    let explicit = |config| {
        UpstreamProtocolOptions::ExplicitHttpConfig(ExplicitHttpConfig {
            protocol_config: Some(config),
        })
    };
    let http1 = lower_http1(settings.http1);
    let protocol = match (settings.http_version, cluster.protocol) {
        (HttpVersion::Client, _) => UpstreamProtocolOptions::UseDownstreamProtocolConfig(UseDownstreamHttpConfig {
            http_protocol_options: Some(http1.clone()),
            http2_protocol_options: Some(http2(settings.http2.unwrap_or_default())),
            ..Default::default()
        }),
        (HttpVersion::Backend, AppProtocol::Http2) => explicit(ProtocolConfig::Http2ProtocolOptions(http2(
            settings.http2.unwrap_or_default(),
        ))),
        // What is agreed on is what is spoken.
        (HttpVersion::Backend, AppProtocol::Http1) if offers_http2(cluster) => {
            UpstreamProtocolOptions::AutoConfig(AutoHttpConfig {
                http_protocol_options: Some(http1.clone()),
                http2_protocol_options: Some(http2(settings.http2.unwrap_or_default())),
                ..Default::default()
            })
        }
        (HttpVersion::Backend, AppProtocol::Http1)
            if common.is_none()
                && of_request.is_none()
                && !is_named_in_tls(cluster)
                && http1 == Http1ProtocolOptions::default() =>
        {
            return None;
        }
        (HttpVersion::Backend, AppProtocol::Http1) => explicit(ProtocolConfig::HttpProtocolOptions(http1)),
    };
    Some(HttpProtocolOptions {
        common_http_protocol_options: common,
        upstream_protocol_options: Some(protocol),
        upstream_http_protocol_options: of_request.map(|tls| UpstreamHttpProtocolOptions {
            auto_sni: true,
            auto_san_validation: tls.authorities.is_some(),
            ..Default::default()
        }),
        ..Default::default()
    })
}

/// Whether requests name the hosts, which are spoken to in TLS. To say nothing of HTTP is to ask each for the name that
/// a request has, and to look for that in its certificate, whatever is said of TLS.
fn is_named_in_tls(cluster: &Cluster) -> bool {
    matches!(cluster.discovery, Discovery::OfRequest(_)) && cluster.tls.is_some()
}

/// Whether all endpoints are spoken to in TLS, and are told that HTTP/2 would do.
fn offers_http2(cluster: &Cluster) -> bool {
    let offers = |tls: Option<&UpstreamTls>| tls.is_some_and(UpstreamTls::offers_http2);
    let mut sockets = cluster.sockets.iter();
    offers(cluster.tls.as_deref()) && sockets.all(|socket| offers(socket.tls.as_ref()))
}

fn lower_http1(settings: Http1Upstream) -> Http1ProtocolOptions {
    Http1ProtocolOptions {
        enable_trailers: settings.trailers == Trailers::Passed,
        header_key_format: (settings.header_case == HeaderCase::Kept).then(kept_case),
        ..Default::default()
    }
}

fn http2(settings: Http2Settings) -> Http2ProtocolOptions {
    Http2ProtocolOptions {
        initial_stream_window_size: number(settings.stream_window.unwrap_or(65_536)),
        initial_connection_window_size: number(settings.connection_window.unwrap_or(1_048_576)),
        max_concurrent_streams: settings.max_concurrent_streams.and_then(number),
        override_stream_error_on_invalid_http_message: settings.override_stream_error.map(|value| BoolValue { value }),
        connection_keepalive: settings.keepalive.map(pings),
        ..Default::default()
    }
}
