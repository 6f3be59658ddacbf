//! What clients may do over HTTP, in the words of a connection manager.

use super::{
    common::{duration, extension, kept_case, number, pings, text_matcher, yes},
    mutation,
};
use edge_ir::{
    AgedConnection, AppendsPeer, CertificateDetail, ClientAddress, ClientHeaders, ClientLimits, ClientSettings,
    EscapedSlashes, ForwardedCertificate, ForwardedCertificateMode, HeaderCase, Http1Settings, Http2Settings, Http10,
    MissingAddress, RequestId, Scheme, Slashes, Trailers, TrailingDot, Underscores,
};
use envoy_types::pb::{
    envoy::{
        config::core::v3::{
            CidrRange, Http1ProtocolOptions, Http2ProtocolOptions, HttpProtocolOptions, SchemeHeaderTransformation,
            http_protocol_options::HeadersWithUnderscoresAction,
        },
        extensions::{
            filters::network::http_connection_manager::v3::{
                HttpConnectionManager,
                http_connection_manager::{
                    ForwardClientCertDetails, PathWithEscapedSlashesAction, SetCurrentClientCertDetails,
                },
            },
            http::{
                early_header_mutation::header_mutation::v3::HeaderMutation,
                original_ip_detection::{
                    custom_header::v3::CustomHeaderConfig,
                    xff::v3::{XffConfig, XffTrustedCidrs},
                },
            },
        },
        r#type::v3::{HttpStatus, StatusCode},
    },
    google::protobuf::BoolValue,
};

/// Puts what clients may do into a manager.
pub(super) fn apply(client: &ClientSettings, manager: HttpConnectionManager) -> HttpConnectionManager {
    let ClientLimits {
        request,
        request_headers,
        stream_idle,
        ..
    } = client.limits;
    let manager = HttpConnectionManager {
        common_http_protocol_options: Some(common(client)),
        http_protocol_options: http1(&client.http1),
        http2_protocol_options: Some(http2(client.http2)),
        // A connection that is too old ends when it harms nobody, unless that is not wanted.
        http1_safe_max_connection_duration: client.limits.connection.is_some()
            && client.http1.aged == AgedConnection::AfterResponse,
        request_timeout: request.map(duration),
        request_headers_timeout: request_headers.map(duration),
        stream_idle_timeout: stream_idle.map(duration),
        merge_slashes: client.slashes == Slashes::Merged,
        path_with_escaped_slashes_action: escaped_slashes(client.escaped_slashes).into(),
        scheme_header_transformation: (client.scheme == Scheme::Backend).then(|| SchemeHeaderTransformation {
            match_upstream: true,
            ..Default::default()
        }),
        ..manager
    };
    address(&client.address, headers(&client.headers, manager))
}

fn common(client: &ClientSettings) -> HttpProtocolOptions {
    let limits = &client.limits;
    let underscores = match client.headers.underscores {
        Underscores::Refused => HeadersWithUnderscoresAction::RejectRequest,
        Underscores::Dropped => HeadersWithUnderscoresAction::DropHeader,
        Underscores::Allowed => HeadersWithUnderscoresAction::Allow,
    };
    HttpProtocolOptions {
        idle_timeout: limits.idle.map(duration),
        max_connection_duration: limits.connection.map(duration),
        max_stream_duration: limits.stream.map(duration),
        max_requests_per_connection: limits.requests_per_connection.and_then(number),
        headers_with_underscores_action: underscores.into(),
        ..Default::default()
    }
}

/// HTTP/1; none where nobody asks for anything.
fn http1(settings: &Http1Settings) -> Option<Http1ProtocolOptions> {
    let (accept_http_10, default_host) = match &settings.http10 {
        Http10::Refused => (false, String::new()),
        Http10::Taken => (true, String::new()),
        Http10::TakenFor(host) => (true, host.to_string()),
    };
    let options = Http1ProtocolOptions {
        accept_http_10,
        default_host_for_http_10: default_host,
        header_key_format: (settings.header_case == HeaderCase::Kept).then(kept_case),
        enable_trailers: settings.trailers == Trailers::Passed,
        ignore_http_11_upgrade: settings.ignored_upgrades.iter().map(text_matcher).collect(),
        ..Default::default()
    };
    (options != Http1ProtocolOptions::default()).then_some(options)
}

fn http2(settings: Http2Settings) -> Http2ProtocolOptions {
    Http2ProtocolOptions {
        max_concurrent_streams: number(settings.max_concurrent_streams.unwrap_or(100)),
        initial_stream_window_size: number(settings.stream_window.unwrap_or(65_536)),
        initial_connection_window_size: number(settings.connection_window.unwrap_or(1_048_576)),
        override_stream_error_on_invalid_http_message: settings.override_stream_error.map(|value| BoolValue { value }),
        connection_keepalive: settings.keepalive.map(pings),
        ..Default::default()
    }
}

fn escaped_slashes(slashes: EscapedSlashes) -> PathWithEscapedSlashesAction {
    match slashes {
        EscapedSlashes::Redirected => PathWithEscapedSlashesAction::UnescapeAndRedirect,
        EscapedSlashes::Unescaped => PathWithEscapedSlashesAction::UnescapeAndForward,
        EscapedSlashes::Kept => PathWithEscapedSlashesAction::KeepUnchanged,
        EscapedSlashes::Refused => PathWithEscapedSlashesAction::RejectRequest,
    }
}

fn headers(headers: &ClientHeaders, manager: HttpConnectionManager) -> HttpConnectionManager {
    let no = || Some(BoolValue { value: false });
    let (generate, preserve) = match headers.request_id {
        RequestId::Generated => (None, false),
        RequestId::KeptOrGenerated => (None, true),
        RequestId::Kept => (no(), true),
        RequestId::Disabled => (no(), false),
    };
    let early = (!headers.early_request.is_empty()).then(|| {
        let edits = HeaderMutation {
            mutations: mutation::lower(&headers.early_request),
        };
        extension("envoy.http.early_header_mutation.header_mutation", edits)
    });
    let certificate = &headers.client_certificate;
    HttpConnectionManager {
        max_request_headers_kb: headers.max_request_kib.and_then(number),
        generate_request_id: generate,
        preserve_external_request_id: preserve,
        strip_trailing_host_dot: headers.trailing_host_dot == TrailingDot::Stripped,
        early_header_mutation_extensions: early.into_iter().collect(),
        forward_client_cert_details: forwarding(certificate.mode).into(),
        set_current_client_cert_details: details(certificate),
        ..manager
    }
}

fn forwarding(mode: ForwardedCertificateMode) -> ForwardClientCertDetails {
    match mode {
        ForwardedCertificateMode::Removed => ForwardClientCertDetails::Sanitize,
        ForwardedCertificateMode::Forwarded => ForwardClientCertDetails::ForwardOnly,
        ForwardedCertificateMode::Appended => ForwardClientCertDetails::AppendForward,
        ForwardedCertificateMode::Replaced => ForwardClientCertDetails::SanitizeSet,
        ForwardedCertificateMode::AlwaysForwarded => ForwardClientCertDetails::AlwaysForwardOnly,
    }
}

fn details(certificate: &ForwardedCertificate) -> Option<SetCurrentClientCertDetails> {
    let has = |detail| certificate.details.contains(&detail);
    (!certificate.details.is_empty()).then(|| SetCurrentClientCertDetails {
        subject: has(CertificateDetail::Subject).then_some(BoolValue { value: true }),
        cert: has(CertificateDetail::Certificate),
        chain: has(CertificateDetail::Chain),
        dns: has(CertificateDetail::Dns),
        uri: has(CertificateDetail::Uri),
        ..Default::default()
    })
}

/// Where the address of the client is found. Left to itself the proxy takes the other end of the connection, and what
/// the client says about forwarding is not believed.
fn address(address: &ClientAddress, manager: HttpConnectionManager) -> HttpConnectionManager {
    let found_by = |extension| HttpConnectionManager {
        use_remote_address: Some(BoolValue { value: false }),
        original_ip_detection_extensions: vec![extension],
        ..manager.clone()
    };
    match address {
        ClientAddress::Connection => HttpConnectionManager {
            use_remote_address: yes(),
            ..manager
        },
        ClientAddress::Hops { proxies, append } => HttpConnectionManager {
            use_remote_address: yes(),
            xff_num_trusted_hops: *proxies,
            skip_xff_append: *append == AppendsPeer::No,
            ..manager
        },
        ClientAddress::Networks { trusted, append } => {
            let config = XffConfig {
                xff_trusted_cidrs: Some(XffTrustedCidrs {
                    cidrs: trusted.iter().filter_map(|network| cidr(network)).collect(),
                }),
                skip_xff_append: Some(BoolValue {
                    value: *append == AppendsPeer::No,
                }),
                ..Default::default()
            };
            found_by(extension("envoy.http.original_ip_detection.xff", config))
        }
        ClientAddress::Header { name, missing } => {
            let config = CustomHeaderConfig {
                header_name: name.to_string(),
                allow_extension_to_set_address_as_trusted: true,
                reject_with_status: (*missing == MissingAddress::Refused).then(|| HttpStatus {
                    code: StatusCode::Forbidden.into(),
                }),
            };
            found_by(extension("envoy.http.original_ip_detection.custom_header", config))
        }
    }
}

fn cidr(network: &str) -> Option<CidrRange> {
    let (address, bits) = network.split_once('/')?;
    Some(CidrRange {
        address_prefix: address.to_owned(),
        prefix_len: number(bits.parse().ok()?),
    })
}
