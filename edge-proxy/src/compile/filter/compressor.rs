//! Compressor → [`Compressor`]: responses alone, by libraries without dictionaries.

use envoy_types::pb::envoy::config::core::v3::TypedExtensionConfig;
use envoy_types::pb::envoy::extensions::compression::brotli::compressor::v3::Brotli;
use envoy_types::pb::envoy::extensions::compression::gzip::compressor::v3::Gzip;
use envoy_types::pb::envoy::extensions::compression::zstd::compressor::v3::Zstd;
use envoy_types::pb::envoy::extensions::filters::http::compressor::v3::compressor::{
    CommonDirectionConfig, ResponseDirectionConfig,
};
use envoy_types::pb::envoy::extensions::filters::http::compressor::v3::{
    Compressor as ProtoCompressor, CompressorPerRoute, compressor_per_route::Override,
};
use envoy_types::pb::google::protobuf::Any;

use crate::compile::Context;
use crate::compile::field::{At, Rejection, fields, is, number, type_name, unpack};
use crate::config::filter::compressor::{Compressor, Encoding};
use crate::config::filter::{FilterKind, FilterSettings};

/// Shorter responses stay as they are where nothing is said.
const USUAL_LENGTH: u32 = 30;

/// The media types of responses that are compressed where nothing is said: those of Envoy.
const USUAL_TYPES: [&str; 20] = [
    "application/ecmascript",
    "application/grpc-web",
    "application/grpc-web+proto",
    "application/javascript",
    "application/json",
    "application/x-javascript",
    "application/x-json",
    "application/xhtml+xml",
    "application/xml",
    "image/svg+xml",
    "text/css",
    "text/ecmascript",
    "text/html",
    "text/javascript",
    "text/js",
    "text/jscript",
    "text/plain",
    "text/x-javascript",
    "text/x-js",
    "text/xml",
];

/// Compiles the filter of a chain.
pub(super) fn on_chain(at: &At<'_>, config: &Any, _: &mut Context) -> Result<FilterKind, Rejection> {
    let message: ProtoCompressor = unpack(at, config)?;
    fields!(at, &message => ProtoCompressor {
        compressor_library, response_direction_config, choose_first;
        ignore;
        refuse content_length, content_type, disable_on_etag_header, remove_accept_encoding_header, runtime_enabled,
               request_direction_config
    });
    let nothing = ResponseDirectionConfig::default();
    let response = response_direction_config.as_ref().unwrap_or(&nothing);
    let at_response = at.field("response_direction_config");
    fields!(at_response, response => ResponseDirectionConfig {
        common_config, disable_on_etag_header, remove_accept_encoding_header;
        ignore;
        refuse weaken_etag_on_compress, uncompressible_response_codes, status_header_enabled
    });
    let nothing = CommonDirectionConfig::default();
    let common = common_config.as_ref().unwrap_or(&nothing);
    fields!(at_response.field("common_config"), common => CommonDirectionConfig {
        min_content_length, content_type; ignore; refuse enabled, content_type_matcher
    });
    // As in Envoy: no length is the usual one.
    let length = number(min_content_length.as_ref()).filter(|length| *length > 0);
    let media_types = match content_type.as_slice() {
        [] => USUAL_TYPES.map(Into::into).into(),
        own => own.iter().map(|one| one.as_str().into()).collect(),
    };
    Ok(FilterKind::Compressor(Compressor {
        encoding: encoding(&at.field("compressor_library"), compressor_library.as_ref())?,
        min_length: length.unwrap_or(USUAL_LENGTH).into(),
        media_types,
        is_first: *choose_first,
        keeps_tagged: *disable_on_etag_header,
        hides_accepted: *remove_accept_encoding_header,
    }))
}

/// Compiles what a route says.
pub(super) fn of_route(at: &At<'_>, config: &Any, _: &mut Context) -> Result<FilterSettings, Rejection> {
    let message: CompressorPerRoute = unpack(at, config)?;
    match &message.r#override {
        Some(Override::Disabled(true)) => Ok(FilterSettings::NoCompression),
        Some(Override::Disabled(false)) => Err(at.field("disabled").error("must be true")),
        Some(Override::Overrides(_)) => Err(at.unsupported("overrides")),
        None => Err(at.error("disabled or overrides is required")),
    }
}

fn encoding(at: &At<'_>, library: Option<&TypedExtensionConfig>) -> Result<Encoding, Rejection> {
    let at = at.field("typed_config");
    let Some(config) = library.and_then(|library| library.typed_config.as_ref()) else {
        return Err(at.error("is required"));
    };
    if is::<Gzip>(config) {
        fields!(at, &unpack::<Gzip>(&at, config)? => Gzip {
            ;
            // Trade-offs of time, memory and size.
            ignore memory_level, compression_level, compression_strategy, window_bits, chunk_size;
            refuse
        });
        Ok(Encoding::Gzip)
    } else if is::<Brotli>(config) {
        fields!(at, &unpack::<Brotli>(&at, config)? => Brotli {
            ;
            // Trade-offs of time, memory and size.
            ignore quality, encoder_mode, window_bits, input_block_bits, chunk_size, disable_literal_context_modeling;
            refuse
        });
        Ok(Encoding::Brotli)
    } else if is::<Zstd>(config) {
        fields!(at, &unpack::<Zstd>(&at, config)? => Zstd {
            ;
            // Trade-offs of time, memory and size.
            ignore compression_level, strategy, chunk_size;
            refuse enable_checksum, dictionary
        });
        Ok(Encoding::Zstd)
    } else {
        Err(at.error(format!("type {:?} is not supported by this proxy", type_name(config))))
    }
}
