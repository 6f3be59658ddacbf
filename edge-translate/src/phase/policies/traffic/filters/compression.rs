//! Compression of responses.

use super::Problems;
use crate::api::{
    BackendTrafficPolicySpec,
    edge_proxy::telemetry::{Compression, CompressorType},
};
use edge_ir::{Compressor, Encoding};

const AREA: &str = "Compression";

/// Smallest body that the proxy compresses.
const MIN_LENGTH: u32 = 30;

/// Compressors, the best liked first.
pub(super) fn compressors(spec: &BackendTrafficPolicySpec, problems: &mut Problems) -> Vec<Compressor> {
    if spec.compression.is_some() && spec.compressor.is_some() {
        problems.add(AREA, "either compression or compressor can be set, not both");
    }
    let list = spec.compressor.as_deref().or(spec.compression.as_deref());
    let mut all: Vec<Compressor> = Vec::new();
    for one in list.unwrap_or_default() {
        let Some(read) = compressor(one, problems) else {
            continue;
        };
        if all.iter().any(|known| known.encoding == read.encoding) {
            problems.add(AREA, format_args!("{} is listed twice", one.r#type));
            continue;
        }
        all.push(Compressor {
            preferred: all.is_empty(),
            ..read
        });
    }
    all
}

/// One compressor, of which it isn't known whether it is liked best.
pub(crate) fn compressor(one: &Compression, problems: &mut Problems) -> Option<Compressor> {
    let encoding = match &one.r#type {
        CompressorType::Gzip => Encoding::Gzip,
        CompressorType::Brotli => Encoding::Brotli,
        CompressorType::Zstd => Encoding::Zstd,
        CompressorType::Other(other) => {
            problems.add(AREA, format_args!("unsupported type {other}"));
            return None;
        }
    };
    let min_length = one.min_content_length.as_ref();
    let min_length = match min_length {
        Some(_) => problems.bytes(AREA, "minContentLength", min_length, MIN_LENGTH..=u32::MAX),
        None => Some(MIN_LENGTH),
    };
    Some(Compressor {
        preferred: false,
        encoding,
        min_length: min_length.unwrap_or(MIN_LENGTH),
    })
}
