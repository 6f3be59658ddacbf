//! HTTP connection manager → [`HttpManager`].

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::config_source::ConfigSourceSpecifier;
use envoy_types::pb::envoy::config::core::v3::scheme_header_transformation::Transformation;
use envoy_types::pb::envoy::config::core::v3::{CidrRange, SchemeHeaderTransformation, TypedExtensionConfig};
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::{
    CodecType, ForwardClientCertDetails, InternalAddressConfig, PathWithEscapedSlashesAction, RouteSpecifier,
    ServerHeaderTransformation, SetCurrentClientCertDetails, StripPortMode, UpgradeConfig,
};
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpConnectionManager, RequestIdExtension,
};
use envoy_types::pb::envoy::extensions::http::early_header_mutation::header_mutation::v3::HeaderMutation as EarlyHeaderMutation;
use envoy_types::pb::envoy::extensions::request_id::uuid::v3::UuidRequestIdConfig;
use envoy_types::pb::envoy::r#type::matcher::v3::AddressMatcher;
use envoy_types::pb::google::protobuf::Duration as ProtoDuration;
use http::HeaderValue;

use crate::compile::Context;
use crate::compile::field::{At, Rejection, deadline, duration_or, fields, number, truth, unpack};
use crate::compile::protocol;
use crate::compile::{access_log, client_address, filter, route_table, tracing};
use crate::config::RouteTableId;
use crate::config::address::{AddressFilter, AddressRange};
use crate::config::header::HeaderSteps;
use crate::config::http_manager::{
    CertificateDetails, Codec, Connect, EscapedSlashes, ForwardClientCert, HttpManager, PathNormalization, RouteSource,
    SchemeOverride, ServerHeader, StripPort, Upgrade,
};
use crate::config::request_id::{RequestId, TracesInIds};
use crate::config::timeouts::DownstreamTimeouts;

/// What `server` says when the configuration gives no name.
const DEFAULT_SERVER_NAME: &str = "edge";

/// Compiles an HTTP connection manager.
pub(super) fn manager(
    context: &mut Context,
    at: &At<'_>,
    message: &HttpConnectionManager,
) -> Result<HttpManager, Rejection> {
    fields!(at, message => HttpConnectionManager {
        codec_type, stat_prefix, http_filters, common_http_protocol_options, http_protocol_options,
        http2_protocol_options, server_name, server_header_transformation, scheme_header_transformation,
        max_request_headers_kb, stream_idle_timeout, request_timeout, request_headers_timeout, drain_timeout,
        delayed_close_timeout, stream_flush_timeout, via, http1_safe_max_connection_duration,
        generate_request_id, preserve_external_request_id, always_set_request_id_in_response,
        forward_client_cert_details, set_current_client_cert_details, upgrade_configs, normalize_path, merge_slashes, path_with_escaped_slashes_action,
        strip_matching_host_port, strip_trailing_host_dot, route_specifier, strip_port_mode, access_log,
        access_log_options, early_header_mutation_extensions, tracing, request_id_extension;
        // Read in client_address.rs; observation, HTTP/3, and what only shapes Envoy's own codecs.
        ignore use_remote_address, xff_num_trusted_hops, internal_address_config, skip_xff_append,
               original_ip_detection_extensions, http3_protocol_options, drain_timeout_jitter,
               stream_error_on_invalid_http_message, append_local_overload, add_proxy_protocol_connection_state;
        refuse proxy_100_continue, access_log_flush_interval, flush_access_log_on_new_request, add_user_agent,
               forward_client_cert_matcher,
               represent_ipv4_remote_address_as_ipv4_mapped_ipv6, local_reply_config, path_normalization_options,
               proxy_status_config, typed_header_validation_config, append_x_forwarded_port, forward_proto_config
    });
    let common = protocol::common(
        &at.field("common_http_protocol_options"),
        common_http_protocol_options.as_ref(),
    )?;
    let (filters, router) = filter::chain(&at.field("http_filters"), http_filters, context)?;
    let mut http1 = protocol::http1(&at.field("http_protocol_options"), http_protocol_options.as_ref())?;
    http1.aged_wait_for_response = *http1_safe_max_connection_duration;
    let details = set_current_client_cert_details.as_ref();
    let timeouts = ProtoTimeouts {
        stream_idle: stream_idle_timeout.as_ref(),
        stream_flush: stream_flush_timeout.as_ref(),
        request: request_timeout.as_ref(),
        request_headers: request_headers_timeout.as_ref(),
        drain: drain_timeout.as_ref(),
        delayed_close: delayed_close_timeout.as_ref(),
    };
    let timeouts = self::timeouts(at, &common, &timeouts)?;
    access_log::options(&at.field("access_log_options"), access_log_options.as_ref())?;
    Ok(HttpManager {
        access_logs: access_log::access_logs(context, &at.field("access_log"), access_log),
        codec: codec(at, *codec_type)?,
        routes: routes(context, at, route_specifier.as_ref())?,
        filters,
        router,
        prefixed: context.prefixed.clone(),
        early_edits: early_edits(at, early_header_mutation_extensions)?,
        client_address: client_address::client_address(at, message)?,
        server_header: server_header(at, server_name, *server_header_transformation)?,
        via: self::via(at, via)?,
        path: PathNormalization {
            normalize: truth(normalize_path.as_ref()),
            merge_slashes: *merge_slashes,
            escaped_slashes: escaped_slashes(at, *path_with_escaped_slashes_action)?,
        },
        underscores: common.underscores,
        request_id: RequestId {
            generate: generate_request_id.as_ref().is_none_or(|generate| generate.value),
            preserve_external: *preserve_external_request_id,
            in_response: *always_set_request_id_in_response,
            traces: traces_in_ids(&at.field("request_id_extension"), request_id_extension.as_ref())?,
        },
        tracing: tracing::manager(context, &at.field("tracing"), tracing.as_ref()),
        strip_port: strip_port(*strip_matching_host_port, strip_port_mode.as_ref()),
        strip_trailing_host_dot: *strip_trailing_host_dot,
        max_request_headers_bytes: number(max_request_headers_kb.as_ref()).unwrap_or(60) as usize * 1024,
        max_request_headers: common.max_headers,
        http1,
        http2: protocol::http2(&at.field("http2_protocol_options"), http2_protocol_options.as_ref())?,
        timeouts,
        max_requests_per_connection: common.max_requests_per_connection,
        upgrades: upgrades(at, upgrade_configs)?,
        scheme: scheme(at, scheme_header_transformation.as_ref())?,
        forward_client_cert: client_cert(at, *forward_client_cert_details, details)?,
        stats: context.scopes.http(stat_prefix),
    })
}

/// The deadlines of a manager.
struct ProtoTimeouts<'a> {
    /// Of a stream that stands still.
    stream_idle: Option<&'a ProtoDuration>,
    /// The same, when only the client's reading is missing.
    stream_flush: Option<&'a ProtoDuration>,
    request: Option<&'a ProtoDuration>,
    request_headers: Option<&'a ProtoDuration>,
    /// Of a connection that has been told to end.
    drain: Option<&'a ProtoDuration>,
    /// Of one whose last response has been sent.
    delayed_close: Option<&'a ProtoDuration>,
}

fn timeouts(
    at: &At<'_>,
    common: &protocol::CommonOptions,
    timeouts: &ProtoTimeouts<'_>,
) -> Result<DownstreamTimeouts, Rejection> {
    let five_minutes = Some(Duration::from_secs(300));
    Ok(DownstreamTimeouts {
        idle: common.idle_timeout,
        stream_idle: deadline(&at.field("stream_idle_timeout"), timeouts.stream_idle, five_minutes)?,
        flush: timeouts
            .stream_flush
            .map(|flush| deadline(&at.field("stream_flush_timeout"), Some(flush), None))
            .transpose()?,
        request: deadline(&at.field("request_timeout"), timeouts.request, None)?,
        request_headers: deadline(&at.field("request_headers_timeout"), timeouts.request_headers, None)?,
        max_connection_duration: common.max_connection_duration,
        max_stream_duration: common.max_stream_duration,
        drain: duration_or(&at.field("drain_timeout"), timeouts.drain, Duration::from_secs(5))?,
        delayed_close: duration_or(
            &at.field("delayed_close_timeout"),
            timeouts.delayed_close,
            Duration::from_secs(1),
        )?,
    })
}

fn via(at: &At<'_>, text: &str) -> Result<Option<HeaderValue>, Rejection> {
    if text.is_empty() {
        return Ok(None);
    }
    let value = HeaderValue::from_str(text);
    value
        .map(Some)
        .map_err(|_| at.field("via").error("is not a header value"))
}

/// What ids say of traces.
fn traces_in_ids(at: &At<'_>, message: Option<&RequestIdExtension>) -> Result<TracesInIds, Rejection> {
    let Some(config) = message.and_then(|message| message.typed_config.as_ref()) else {
        return Ok(TracesInIds::default());
    };
    let at = at.field("typed_config");
    let message: UuidRequestIdConfig = unpack(&at, config)?;
    fields!(&at, &message => UuidRequestIdConfig {
        pack_trace_reason, use_request_id_for_trace_sampling; ignore; refuse
    });
    Ok(TracesInIds {
        packs_reason: pack_trace_reason.as_ref().is_none_or(|pack| pack.value),
        decide: use_request_id_for_trace_sampling
            .as_ref()
            .is_none_or(|decide| decide.value),
    })
}

/// Edits before anything else looks at a request.
fn early_edits(at: &At<'_>, list: &[TypedExtensionConfig]) -> Result<HeaderSteps, Rejection> {
    let at_list = at.field("early_header_mutation_extensions");
    let mut steps = Vec::new();
    for (index, extension) in list.iter().enumerate() {
        let at = at_list.index(index);
        let at = at.field("typed_config");
        let Some(config) = &extension.typed_config else {
            return Err(at.error("is required"));
        };
        let message: EarlyHeaderMutation = unpack(&at, config)?;
        fields!(&at, &message => EarlyHeaderMutation { mutations; ignore; refuse });
        let edits = filter::header_mutation::rendered(&at.field("mutations"), mutations)?;
        steps.extend(edits.iter().cloned());
    }
    Ok(steps.into())
}

pub(super) fn internal_ranges(
    at: &At<'_>,
    message: Option<&InternalAddressConfig>,
) -> Result<Vec<AddressRange>, Rejection> {
    let Some(config) = message else {
        return Ok(Vec::new());
    };
    let at = at.field("internal_address_config");
    address_ranges(&at.field("cidr_ranges"), &config.cidr_ranges)
}

fn strip_port(matching: bool, mode: Option<&StripPortMode>) -> StripPort {
    match (matching, mode) {
        (false, None) | (_, Some(StripPortMode::StripAnyHostPort(false))) => StripPort::Keep,
        (true, None) => StripPort::Matching,
        (_, Some(StripPortMode::StripAnyHostPort(true))) => StripPort::Any,
    }
}

fn codec(at: &At<'_>, value: i32) -> Result<Codec, Rejection> {
    match CodecType::try_from(value) {
        Ok(CodecType::Auto) => Ok(Codec::Auto),
        Ok(CodecType::Http1) => Ok(Codec::Http1),
        Ok(CodecType::Http2) => Ok(Codec::Http2),
        Ok(CodecType::Http3) | Err(_) => Err(at.unsupported("codec_type")),
    }
}

fn routes(context: &mut Context, at: &At<'_>, message: Option<&RouteSpecifier>) -> Result<RouteSource, Rejection> {
    match message {
        Some(RouteSpecifier::RouteConfig(message)) => {
            let table = route_table::inline(context, &at.field("route_config"), message)?;
            Ok(RouteSource::Inline(Arc::new(table)))
        }
        Some(RouteSpecifier::Rds(rds)) => {
            let at = at.field("rds");
            match rds
                .config_source
                .as_ref()
                .and_then(|source| source.config_source_specifier.as_ref())
            {
                Some(ConfigSourceSpecifier::Ads(_) | ConfigSourceSpecifier::Self_(_)) => {}
                _ => {
                    return Err(at
                        .field("config_source")
                        .error("only ads and self are supported by this proxy"));
                }
            }
            let id = RouteTableId(context.route_tables.intern(&rds.route_config_name));
            Ok(RouteSource::Dynamic {
                name: rds.route_config_name.as_str().into(),
                id,
            })
        }
        Some(RouteSpecifier::ScopedRoutes(_)) => Err(at.unsupported("scoped_routes")),
        None => Err(at.error("route_config or rds is required")),
    }
}

fn server_header(at: &At<'_>, name: &str, transformation: i32) -> Result<ServerHeader, Rejection> {
    let name = if name.is_empty() { DEFAULT_SERVER_NAME } else { name };
    let value =
        HeaderValue::from_str(name).map_err(|_| at.field("server_name").error(format!("{name:?} is not a value")))?;
    match ServerHeaderTransformation::try_from(transformation) {
        Ok(ServerHeaderTransformation::Overwrite) => Ok(ServerHeader::Overwrite(value)),
        Ok(ServerHeaderTransformation::AppendIfAbsent) => Ok(ServerHeader::AppendIfAbsent(value)),
        Ok(ServerHeaderTransformation::PassThrough) => Ok(ServerHeader::PassThrough),
        Err(_) => Err(at.unsupported("server_header_transformation")),
    }
}

fn escaped_slashes(at: &At<'_>, value: i32) -> Result<EscapedSlashes, Rejection> {
    match PathWithEscapedSlashesAction::try_from(value) {
        Ok(
            PathWithEscapedSlashesAction::ImplementationSpecificDefault | PathWithEscapedSlashesAction::KeepUnchanged,
        ) => Ok(EscapedSlashes::Keep),
        Ok(PathWithEscapedSlashesAction::RejectRequest) => Ok(EscapedSlashes::Reject),
        Ok(PathWithEscapedSlashesAction::UnescapeAndRedirect) => Ok(EscapedSlashes::UnescapeAndRedirect),
        Ok(PathWithEscapedSlashesAction::UnescapeAndForward) => Ok(EscapedSlashes::UnescapeAndForward),
        Err(_) => Err(at.unsupported("path_with_escaped_slashes_action")),
    }
}

fn client_cert(
    at: &At<'_>,
    value: i32,
    details: Option<&SetCurrentClientCertDetails>,
) -> Result<ForwardClientCert, Rejection> {
    let details = || match details {
        None => Ok(CertificateDetails::default()),
        Some(details) => certificate_details(&at.field("set_current_client_cert_details"), details),
    };
    match ForwardClientCertDetails::try_from(value) {
        Ok(ForwardClientCertDetails::Sanitize) => Ok(ForwardClientCert::Sanitize),
        Ok(ForwardClientCertDetails::ForwardOnly) => Ok(ForwardClientCert::ForwardOnly),
        Ok(ForwardClientCertDetails::AlwaysForwardOnly) => Ok(ForwardClientCert::AlwaysForwardOnly),
        Ok(ForwardClientCertDetails::AppendForward) => Ok(ForwardClientCert::AppendForward(details()?)),
        Ok(ForwardClientCertDetails::SanitizeSet) => Ok(ForwardClientCert::SanitizeSet(details()?)),
        Err(_) => Err(at.unsupported("forward_client_cert_details")),
    }
}

fn certificate_details(at: &At<'_>, message: &SetCurrentClientCertDetails) -> Result<CertificateDetails, Rejection> {
    fields!(at, message => SetCurrentClientCertDetails {
        subject, cert, chain, dns, uri; ignore; refuse issuer, format
    });
    Ok(CertificateDetails {
        subject: truth(subject.as_ref()),
        certificate: *cert,
        chain: *chain,
        uri: *uri,
        dns: *dns,
    })
}

fn scheme(at: &At<'_>, message: Option<&SchemeHeaderTransformation>) -> Result<SchemeOverride, Rejection> {
    let Some(message) = message else {
        return Ok(SchemeOverride::Downstream);
    };
    if message.match_upstream {
        return Ok(SchemeOverride::MatchUpstream);
    }
    match &message.transformation {
        None => Ok(SchemeOverride::Downstream),
        Some(Transformation::SchemeToOverwrite(scheme)) => match scheme.as_str() {
            "http" => Ok(SchemeOverride::Fixed("http")),
            "https" => Ok(SchemeOverride::Fixed("https")),
            _ => Err(at
                .field("scheme_header_transformation")
                .error("scheme must be http or https")),
        },
    }
}

fn upgrades(at: &At<'_>, list: &[UpgradeConfig]) -> Result<Vec<Upgrade>, Rejection> {
    let at_list = at.field("upgrade_configs");
    list.iter()
        .enumerate()
        .map(|(index, message)| {
            if !message.filters.is_empty() {
                return Err(at_list.index(index).unsupported("filters"));
            }
            if message.upgrade_type.eq_ignore_ascii_case(Upgrade::CONNECT) {
                // What becomes of it a route says.
                return Err(at_list.index(index).unsupported("upgrade_type"));
            }
            Ok(Upgrade {
                protocol: message.upgrade_type.to_ascii_lowercase().into(),
                enabled: message.enabled.as_ref().is_none_or(|enabled| enabled.value),
                connect: Connect::default(),
            })
        })
        .collect()
}

/// Networks in CIDR form.
pub(super) fn address_ranges(at: &At<'_>, list: &[CidrRange]) -> Result<Vec<AddressRange>, Rejection> {
    let ranges = list
        .iter()
        .map(|range| (&*range.address_prefix, number(range.prefix_len.as_ref())));
    all_networks(at, ranges)
}

/// Those of all addresses that a matcher means.
pub(super) fn address_filter(at: &At<'_>, message: &AddressMatcher) -> Result<AddressFilter, Rejection> {
    fields!(at, message => AddressMatcher { ranges, invert_match; ignore; refuse });
    let networks = ranges
        .iter()
        .map(|range| (&*range.address_prefix, number(range.prefix_len.as_ref())));
    Ok(AddressFilter {
        ranges: all_networks(&at.field("ranges"), networks)?.into(),
        inverted: *invert_match,
    })
}

fn all_networks<'a>(
    at: &At<'_>,
    ranges: impl Iterator<Item = (&'a str, Option<u32>)>,
) -> Result<Vec<AddressRange>, Rejection> {
    let network = |(index, (prefix, len)): (usize, (&str, Option<u32>))| {
        let at = at.index(index);
        let address: IpAddr = prefix.parse().map_err(|_| {
            at.field("address_prefix")
                .error(format!("{prefix:?} is not an address"))
        })?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let len = len.unwrap_or(0);
        if len > bits {
            return Err(at.field("prefix_len").error(format!("must be at most {bits}")));
        }
        // Addresses of IPv4 are looked at as such, in whatever form they come: so are networks of them.
        let (address, len) = match address {
            IpAddr::V6(v6) if len >= 96 && v6.to_ipv4_mapped().is_some() => (address.to_canonical(), len - 96),
            _ => (address, len),
        };
        Ok(AddressRange {
            address,
            prefix_len: len as u8,
        })
    };
    ranges.enumerate().map(network).collect()
}
