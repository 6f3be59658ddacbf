//! What goes through a route: bytes in a time, requests while too many fail, and bodies made smaller.

use crate::Timeout;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A limit of bytes in one direction, for all requests of a route together.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bandwidth {
    /// Which bytes.
    pub direction: Direction,
    /// KiB in a second, at least 1.
    pub limit: u64,
    /// What the names of trailers begin with that tell clients of delays; none are sent where this is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trailers: Option<Arc<str>>,
}

/// Where bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Direction {
    /// To the backend.
    Request,
    /// To the client.
    Response,
}

/// Refuses requests while too few of the last ones succeed (503), ever more of them the fewer do.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionControl {
    /// `<namespace>/<name>` of whoever said so: requests that others say the same for count for themselves.
    pub owner: Arc<str>,
    /// The last ones are those of this time, in whole seconds.
    pub window: Timeout,
    /// Percent that must succeed, from 1.
    pub min_success_percent: u32,
    /// How fast refusals grow, from 1.
    pub aggression: u32,
    /// Requests in a second below which none is refused.
    pub min_rate: u32,
    /// Percent that are refused at most.
    pub max_rejection_percent: u32,
    /// Codes of success. Unset: all below 500.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub http_success: Vec<u16>,
    /// Statuses of gRPC that are success. Unset: those that are no fault of a server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grpc_success: Vec<u8>,
}

/// Compresses bodies of responses for clients that take it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Compressor {
    /// Chosen where a client likes several encodings equally well; else the client's own order decides.
    pub preferred: bool,
    /// The encoding.
    pub encoding: Encoding,
    /// Smallest body, where its length is known.
    pub min_length: u32,
}

/// A content encoding (RFC 9110 §8.4.1, RFC 7932, RFC 8878).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Encoding {
    /// `gzip`.
    Gzip,
    /// `br`.
    Brotli,
    /// `zstd`.
    Zstd,
}

impl Encoding {
    /// The encoding as a word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Brotli => "brotli",
            Self::Zstd => "zstd",
        }
    }
}
