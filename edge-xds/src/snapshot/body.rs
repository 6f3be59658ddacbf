//! The bytes of a resource, whole or in pieces.
//!
//! Repeated fields of protobuf messages concatenate: an encoded route configuration is its header followed by its
//! encoded virtual hosts. Kept in pieces, a table of ten thousand hosts is rebuilt after a change to one of them by
//! copying pointers, and hashed by hashing their hashes. It becomes contiguous where it is sent.

use crate::lookup;
use bytes::Bytes;
use std::sync::{Arc, OnceLock};
use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

/// A run of bytes and its hash.
#[derive(Debug)]
pub struct Piece {
    bytes: Bytes,
    hash: u64,
    /// Its form for proxies that take large hosts as matchers, made when the first of them is sent it.
    with_matcher: OnceLock<Option<Bytes>>,
}

/// Equal bytes are equal, whatever was made of them.
impl PartialEq for Piece {
    fn eq(&self, other: &Self) -> bool {
        (self.hash, &self.bytes) == (other.hash, &other.bytes)
    }
}

impl Eq for Piece {}

impl Piece {
    /// Hashes the bytes once.
    pub fn new(bytes: Bytes) -> Self {
        let hash = xxh3_64(&bytes);
        let with_matcher = OnceLock::new();
        Self {
            bytes,
            hash,
            with_matcher,
        }
    }

    /// As a large virtual host with a matcher instead of a list, if it is one.
    pub(crate) fn with_matcher(&self) -> Option<&Bytes> {
        self.with_matcher
            .get_or_init(|| lookup::with_matcher(&self.bytes))
            .as_ref()
    }

    /// The bytes.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Their hash.
    pub fn hash(&self) -> u64 {
        self.hash
    }
}

/// An encoded message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// In one run.
    Whole(Bytes),
    /// In pieces that make the message when put together.
    Rope {
        /// The pieces in order.
        pieces: Arc<[Arc<Piece>]>,
        /// Their length in all.
        len: usize,
    },
}

impl Body {
    /// A rope of pieces.
    pub fn rope(pieces: Arc<[Arc<Piece>]>) -> Self {
        let len = pieces.iter().map(|piece| piece.bytes.len()).sum();
        Self::Rope { pieces, len }
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::Whole(bytes) => bytes.len(),
            Self::Rope { len, .. } => *len,
        }
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes, run by run.
    pub fn runs(&self) -> impl Iterator<Item = &Bytes> {
        let (whole, pieces) = match self {
            Self::Whole(bytes) => (Some(bytes), [].as_slice()),
            Self::Rope { pieces, .. } => (None, &**pieces),
        };
        whole.into_iter().chain(pieces.iter().map(|piece| &piece.bytes))
    }

    /// Appends all bytes.
    pub fn copy_to(&self, out: &mut Vec<u8>) {
        match self {
            Self::Whole(bytes) => out.extend_from_slice(bytes),
            Self::Rope { pieces, len } => {
                out.reserve(*len);
                pieces.iter().for_each(|piece| out.extend_from_slice(&piece.bytes));
            }
        }
    }

    /// All bytes in one run; copies only a rope.
    pub fn contiguous(&self) -> Bytes {
        match self {
            Self::Whole(bytes) => bytes.clone(),
            Self::Rope { .. } => {
                let mut out = Vec::new();
                self.copy_to(&mut out);
                out.into()
            }
        }
    }

    /// The version that follows from the content: equal bytes in equal pieces have equal versions. Never 0, which
    /// stands for "unknown" in the protocol.
    pub fn version(&self) -> u64 {
        let hash = match self {
            Self::Whole(bytes) => xxh3_64(bytes),
            Self::Rope { pieces, .. } => {
                let mut hasher = Xxh3Default::new();
                pieces.iter().for_each(|piece| hasher.update(&piece.hash.to_le_bytes()));
                hasher.digest()
            }
        };
        hash.max(1)
    }
}
