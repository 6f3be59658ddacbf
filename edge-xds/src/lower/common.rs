//! Small messages that many resources use.

use edge_ir::{
    AddressRange, ClusterName, Fraction, Http2Keepalive, RetryPolicy, SecretName, SecretSource, TextMatcher, Timeout,
};
use envoy_types::{
    pb::{
        envoy::{
            config::core::v3::{
                self as service, Address, AggregatedConfigSource, ApiConfigSource, ApiVersion, ConfigSource,
                GrpcService, KeepaliveSettings, PathConfigSource, RuntimeFractionalPercent, SocketAddress,
                TypedExtensionConfig,
                address::Address as AddressKind,
                api_config_source::ApiType,
                config_source::ConfigSourceSpecifier,
                grpc_service::{EnvoyGrpc, TargetSpecifier},
                http1_protocol_options::{HeaderKeyFormat, header_key_format::HeaderFormat},
                socket_address::PortSpecifier,
            },
            extensions::{
                http::header_formatters::preserve_case::v3::PreserveCaseFormatterConfig,
                transport_sockets::tls::v3::SdsSecretConfig,
            },
            r#type::{
                matcher::v3::{RegexMatcher, StringMatcher, string_matcher::MatchPattern},
                v3::{FractionalPercent, Percent, fractional_percent::DenominatorType},
            },
        },
        google::protobuf::{Any, BoolValue, Duration, UInt32Value},
        xds::core::v3::CidrRange,
    },
    util::pack_any,
};
use prost::{Message, Name};

/// From the same stream that brought the resource, waiting for as long as it takes: a proxy that gave up waiting
/// would serve half a configuration.
pub(super) fn from_ads() -> ConfigSource {
    ConfigSource {
        initial_fetch_timeout: Some(Duration::default()),
        resource_api_version: ApiVersion::V3.into(),
        config_source_specifier: Some(ConfigSourceSpecifier::Ads(AggregatedConfigSource {})),
        ..Default::default()
    }
}

/// A secret from the same stream.
pub(super) fn secret_from_ads(name: &SecretName) -> SdsSecretConfig {
    SdsSecretConfig {
        name: name.to_string(),
        sds_config: Some(from_ads()),
    }
}

/// A secret from wherever it is.
pub(super) fn secret_from(source: &SecretSource) -> SdsSecretConfig {
    match source {
        SecretSource::Fleet(name) => secret_from_ads(name),
        SecretSource::File { file, secret } => SdsSecretConfig {
            name: secret.to_string(),
            sds_config: Some(from_file(file)),
        },
        SecretSource::Server { server, secret } => SdsSecretConfig {
            name: secret.to_string(),
            sds_config: Some(from_server(server)),
        },
    }
}

/// From a file that the proxy follows.
fn from_file(file: &str) -> ConfigSource {
    let source = PathConfigSource {
        path: file.to_owned(),
        ..Default::default()
    };
    ConfigSource {
        resource_api_version: ApiVersion::V3.into(),
        config_source_specifier: Some(ConfigSourceSpecifier::PathConfigSource(source)),
        ..Default::default()
    }
}

/// From a server of its own, in the form that all servers of secrets know. Connections are closed, not answered without
/// a certificate, until it has said something.
fn from_server(server: &ClusterName) -> ConfigSource {
    let service = GrpcService {
        target_specifier: Some(TargetSpecifier::EnvoyGrpc(EnvoyGrpc {
            cluster_name: server.to_string(),
            ..Default::default()
        })),
        ..Default::default()
    };
    let source = ApiConfigSource {
        api_type: ApiType::Grpc.into(),
        transport_api_version: ApiVersion::V3.into(),
        grpc_services: vec![service],
        set_node_on_first_message_only: true,
        ..Default::default()
    };
    ConfigSource {
        resource_api_version: ApiVersion::V3.into(),
        config_source_specifier: Some(ConfigSourceSpecifier::ApiConfigSource(source)),
        ..Default::default()
    }
}

/// A TCP address.
pub(super) fn socket(address: impl Into<String>, port: u16) -> SocketAddress {
    SocketAddress {
        address: address.into(),
        port_specifier: Some(PortSpecifier::PortValue(port.into())),
        ..Default::default()
    }
}

/// Wraps a socket address.
pub(super) fn address(socket: SocketAddress) -> Address {
    Address {
        address: Some(AddressKind::SocketAddress(socket)),
    }
}

/// Milliseconds as a protobuf duration.
pub(super) fn duration(timeout: Timeout) -> Duration {
    let millis = i64::try_from(timeout.0).unwrap_or(i64::MAX);
    // Less than 10^9, so it fits.
    let nanos = i32::try_from(millis % 1000 * 1_000_000).unwrap_or(0);
    Duration {
        seconds: millis / 1000,
        nanos,
    }
}

/// Whole seconds as a protobuf duration.
pub(super) fn seconds(seconds: i64) -> Duration {
    Duration { seconds, nanos: 0 }
}

/// Parts in a million.
pub(super) fn fractional(fraction: Fraction) -> FractionalPercent {
    FractionalPercent {
        numerator: fraction.0,
        denominator: DenominatorType::Million.into(),
    }
}

/// The same where a value of runtime could stand in its place.
pub(super) fn portion(fraction: Fraction) -> RuntimeFractionalPercent {
    RuntimeFractionalPercent {
        default_value: Some(fractional(fraction)),
        ..Default::default()
    }
}

/// Tries of what a filter asks by itself.
pub(super) fn retries(retry: &RetryPolicy) -> service::RetryPolicy {
    service::RetryPolicy {
        num_retries: number(retry.retries),
        retry_on: retry.triggers.join(","),
        retry_back_off: retry.backoff.map(|base| service::BackoffStrategy {
            base_interval: Some(duration(base)),
            max_interval: retry.max_backoff.map(duration),
        }),
        ..Default::default()
    }
}

/// A range of addresses.
pub(super) fn range(range: AddressRange) -> CidrRange {
    CidrRange {
        address_prefix: range.address.to_string(),
        prefix_len: number(range.bits.into()),
    }
}

/// A present number.
pub(super) fn number(value: u32) -> Option<UInt32Value> {
    Some(UInt32Value { value })
}

/// A present truth value.
pub(super) fn yes() -> Option<BoolValue> {
    Some(BoolValue { value: true })
}

/// An extension with its configuration.
pub(super) fn extension<M: Message + Name>(name: &str, config: M) -> TypedExtensionConfig {
    TypedExtensionConfig {
        name: name.to_owned(),
        typed_config: Some(pack_any(config)),
    }
}

/// A type URL and bytes that are encoded already.
pub(super) fn any<M: Name>(value: Vec<u8>) -> Any {
    Any {
        type_url: M::type_url(),
        value,
    }
}

/// What a text must be.
pub(super) fn text_matcher(text: &TextMatcher) -> StringMatcher {
    let pattern = match text {
        TextMatcher::Exact(text) => MatchPattern::Exact(text.to_string()),
        TextMatcher::Prefix(text) => MatchPattern::Prefix(text.to_string()),
        TextMatcher::Suffix(text) => MatchPattern::Suffix(text.to_string()),
        TextMatcher::Regex(regex) => MatchPattern::SafeRegex(RegexMatcher {
            regex: regex.to_string(),
            ..Default::default()
        }),
    };
    StringMatcher {
        match_pattern: Some(pattern),
        ignore_case: false,
    }
}

/// Names of headers go on as they came.
pub(super) fn kept_case() -> HeaderKeyFormat {
    let formatter = PreserveCaseFormatterConfig::default();
    HeaderKeyFormat {
        header_format: Some(HeaderFormat::StatefulFormatter(extension(
            "envoy.http.stateful_header_formatters.preserve_case",
            formatter,
        ))),
    }
}

/// Pings of HTTP/2.
pub(super) fn pings(keepalive: Http2Keepalive) -> KeepaliveSettings {
    KeepaliveSettings {
        interval: keepalive.interval.map(duration),
        timeout: Some(duration(keepalive.timeout)),
        interval_jitter: keepalive
            .jitter_percent
            .map(|percent| Percent { value: percent.into() }),
        connection_idle_interval: keepalive.idle_interval.map(duration),
    }
}
