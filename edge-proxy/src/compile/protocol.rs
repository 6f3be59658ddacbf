//! HTTP protocol options that listeners and clusters share.

use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::http1_protocol_options::HeaderKeyFormat;
use envoy_types::pb::envoy::config::core::v3::http1_protocol_options::header_key_format::HeaderFormat;
use envoy_types::pb::envoy::config::core::v3::{
    Http1ProtocolOptions, Http2ProtocolOptions, HttpProtocolOptions, KeepaliveSettings,
};
use envoy_types::pb::envoy::extensions::http::header_formatters::preserve_case::v3::PreserveCaseFormatterConfig;
use envoy_types::pb::envoy::extensions::http::header_formatters::preserve_case::v3::preserve_case_formatter_config::FormatterTypeOnEnvoyHeaders;
use http::HeaderValue;

use crate::compile::field::{At, Rejection, deadline, duration_or, fields, number, unpack};
use crate::compile::header::string_condition;
use crate::config::http_manager::UnderscoreAction;
use crate::config::protocol::KeepaliveTimes;
use crate::config::protocol::{Http1Options, Http2Options};

/// The version-independent options.
pub(super) struct CommonOptions {
    pub(super) idle_timeout: Option<Duration>,
    pub(super) max_connection_duration: Option<Duration>,
    pub(super) max_headers: usize,
    pub(super) max_stream_duration: Option<Duration>,
    pub(super) underscores: UnderscoreAction,
    pub(super) max_requests_per_connection: Option<u32>,
}

/// Compiles the version-independent options.
pub(super) fn common(at: &At<'_>, message: Option<&HttpProtocolOptions>) -> Result<CommonOptions, Rejection> {
    use envoy_types::pb::envoy::config::core::v3::http_protocol_options::HeadersWithUnderscoresAction as Action;
    let default = HttpProtocolOptions::default();
    let message = message.unwrap_or(&default);
    fields!(at, message => HttpProtocolOptions {
        idle_timeout, max_connection_duration, max_headers_count, max_stream_duration,
        headers_with_underscores_action, max_requests_per_connection;
        // Jitter only spreads; the size of response heads is bounded by the codec.
        ignore max_connection_duration_jitter, max_response_headers_kb;
        refuse
    });
    let underscores = match Action::try_from(*headers_with_underscores_action) {
        Ok(Action::Allow) => UnderscoreAction::Allow,
        Ok(Action::RejectRequest) => UnderscoreAction::Reject,
        Ok(Action::DropHeader) => UnderscoreAction::Drop,
        Err(_) => return Err(at.unsupported("headers_with_underscores_action")),
    };
    let hour = Some(Duration::from_secs(3600));
    Ok(CommonOptions {
        idle_timeout: deadline(&at.field("idle_timeout"), idle_timeout.as_ref(), hour)?,
        max_connection_duration: deadline(
            &at.field("max_connection_duration"),
            max_connection_duration.as_ref(),
            None,
        )?,
        max_headers: number(max_headers_count.as_ref()).unwrap_or(100) as usize,
        max_stream_duration: deadline(&at.field("max_stream_duration"), max_stream_duration.as_ref(), None)?,
        underscores,
        max_requests_per_connection: number(max_requests_per_connection.as_ref()).filter(|number| *number > 0),
    })
}

/// Compiles HTTP/1 options.
pub(super) fn http1(at: &At<'_>, message: Option<&Http1ProtocolOptions>) -> Result<Http1Options, Rejection> {
    let Some(message) = message else {
        return Ok(Http1Options::default());
    };
    fields!(at, message => Http1ProtocolOptions {
        accept_http_10, default_host_for_http_10, enable_trailers, allow_custom_methods, header_key_format,
        ignore_http_11_upgrade;
        // Absolute URLs are always taken (RFC 9112 §3.2.2); parser choices are Envoy's own.
        ignore allow_absolute_url, use_balsa_parser, override_stream_error_on_invalid_http_message;
        refuse allow_chunked_length, send_fully_qualified_url
    });
    let default_host = default_host_for_http_10.as_str();
    let default_host = (!default_host.is_empty()).then(|| HeaderValue::from_str(default_host));
    Ok(Http1Options {
        accept_http_10: *accept_http_10,
        default_host: default_host
            .transpose()
            .map_err(|_| at.field("default_host_for_http_10").error("is not a host"))?,
        enable_trailers: *enable_trailers,
        allow_custom_methods: *allow_custom_methods,
        keeps_names: match header_key_format {
            None => false,
            Some(format) => keeps_names(&at.field("header_key_format"), format)?,
        },
        ignored_upgrades: {
            let at = at.field("ignore_http_11_upgrade");
            let list = ignore_http_11_upgrade.iter().enumerate();
            list.map(|(index, matcher)| string_condition(&at.index(index), matcher))
                .collect::<Result<_, _>>()?
        },
        aged_wait_for_response: false,
    })
}

/// Whether names of fields go on as they were written.
fn keeps_names(at: &At<'_>, message: &HeaderKeyFormat) -> Result<bool, Rejection> {
    let Some(HeaderFormat::StatefulFormatter(extension)) = &message.header_format else {
        return Err(at.error("only a stateful formatter is supported by this proxy"));
    };
    let at = at.field("stateful_formatter");
    let at = at.field("typed_config");
    let Some(config) = &extension.typed_config else {
        return Err(at.error("is required"));
    };
    let message: PreserveCaseFormatterConfig = unpack(&at, config)?;
    fields!(&at, &message => PreserveCaseFormatterConfig {
        formatter_type_on_envoy_headers;
        // Phrases of responses are never passed on.
        ignore forward_reason_phrase;
        refuse
    });
    if *formatter_type_on_envoy_headers != FormatterTypeOnEnvoyHeaders::Default as i32 {
        return Err(at.unsupported("formatter_type_on_envoy_headers"));
    }
    Ok(true)
}

/// Compiles HTTP/2 options.
pub(super) fn http2(at: &At<'_>, message: Option<&Http2ProtocolOptions>) -> Result<Http2Options, Rejection> {
    let default = Http2ProtocolOptions::default();
    let message = message.unwrap_or(&default);
    fields!(at, message => Http2ProtocolOptions {
        max_concurrent_streams, initial_stream_window_size, initial_connection_window_size, allow_connect,
        connection_keepalive;
        // Limits on floods are built in: a client may send a thousand frames that move nothing (PING, SETTINGS,
        // PRIORITY, WINDOW_UPDATE, RST_STREAM, unknown kinds, no content) within a second, and twenty more for each
        // stream that it opens and each frame of content that it is sent; of five hundred streams it may reset half
        // within a second of their request. Beyond that the connection ends (ENHANCE_YOUR_CALM). Sizes of tables are
        // built in, too; the rest chooses between Envoy's own codecs.
        ignore hpack_table_size, max_outbound_frames, max_outbound_control_frames,
               max_consecutive_inbound_frames_with_empty_payload, max_inbound_priority_frames_per_stream,
               max_inbound_window_update_frames_per_data_frame_sent, stream_error_on_invalid_http_messaging,
               override_stream_error_on_invalid_http_message, use_oghttp2_codec, max_metadata_size,
               enable_huffman_encoding, max_header_field_size_kb, disallow_obs_text, stream_reset_burst,
               stream_reset_rate;
        refuse allow_metadata, custom_settings_parameters
    });
    let keepalive = match connection_keepalive {
        None => None,
        Some(settings) => keepalive(&at.field("connection_keepalive"), settings)?,
    };
    let usual = Http2Options::default();
    Ok(Http2Options {
        max_concurrent_streams: number(max_concurrent_streams.as_ref()).unwrap_or(usual.max_concurrent_streams),
        initial_stream_window: number(initial_stream_window_size.as_ref())
            .unwrap_or(usual.initial_stream_window)
            .max(65_535),
        initial_connection_window: number(initial_connection_window_size.as_ref())
            .unwrap_or(usual.initial_connection_window)
            .max(65_535),
        keepalive,
        allow_connect: *allow_connect,
    })
}

/// An interval of zero is no keepalive.
fn keepalive(at: &At<'_>, message: &KeepaliveSettings) -> Result<Option<KeepaliveTimes>, Rejection> {
    fields!(at, message => KeepaliveSettings {
        interval, timeout;
        // Jitter only spreads; to ask before a stream on a connection that was idle only finds out sooner.
        ignore interval_jitter, connection_idle_interval;
        refuse
    });
    let interval = duration_or(&at.field("interval"), interval.as_ref(), Duration::ZERO)?;
    let timeout = duration_or(&at.field("timeout"), timeout.as_ref(), Duration::from_secs(20))?;
    Ok((!interval.is_zero()).then_some(KeepaliveTimes { interval, timeout }))
}
