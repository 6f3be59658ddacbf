//! Compression of responses.

use super::super::common::{extension, number};
use edge_ir::{Compressor, Encoding};
use envoy_types::pb::envoy::extensions::{
    compression::{brotli::compressor::v3::Brotli, gzip::compressor::v3::Gzip, zstd::compressor::v3::Zstd},
    filters::http::compressor::v3::{
        self as pb,
        compressor::{CommonDirectionConfig, ResponseDirectionConfig},
    },
};

/// The filter, for the routes that switch it on.
pub(super) fn lower(settings: &Compressor) -> pb::Compressor {
    let name = format!("envoy.compression.{}.compressor", settings.encoding.word());
    let library = match settings.encoding {
        Encoding::Gzip => extension(&name, Gzip::default()),
        Encoding::Brotli => extension(&name, Brotli::default()),
        Encoding::Zstd => extension(&name, Zstd::default()),
    };
    pb::Compressor {
        compressor_library: Some(library),
        response_direction_config: Some(ResponseDirectionConfig {
            common_config: Some(CommonDirectionConfig {
                min_content_length: number(settings.min_length),
                ..Default::default()
            }),
            ..Default::default()
        }),
        choose_first: settings.preferred,
        ..Default::default()
    }
}
