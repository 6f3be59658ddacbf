//! The bytes of a resource, whole or in pieces.
//!
//! Repeated fields of protobuf messages concatenate: an encoded route configuration is its header followed by its
//! encoded virtual hosts. Kept in pieces, a table of ten thousand hosts is rebuilt after a change to one of them by
//! copying pointers, and hashed by hashing their hashes. It becomes contiguous where it is sent.

use crate::lookup;
use bytes::Bytes;
use std::{
    borrow::Cow,
    ops::Range,
    sync::{Arc, OnceLock},
};
use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

/// Bytes that stand in many pieces, and once in memory. Behind a thin pointer: each piece has several.
pub(crate) type SharedBytes = Arc<Box<[u8]>>;

/// A run of bytes and its hash. What other pieces have too may be shared with them.
#[derive(Debug)]
pub struct Piece {
    /// What isn't shared, without gaps.
    own: Bytes,
    /// What is, in order.
    shared: Box<[Insert]>,
    hash: u64,
    /// Its form for proxies that take large hosts as matchers, made when the first of them is sent it.
    with_matcher: OnceLock<Option<Box<Bytes>>>,
}

/// Shared bytes in a piece.
#[derive(Debug, PartialEq, Eq)]
struct Insert {
    /// Where they stand in the piece.
    at: u32,
    /// How many of its own bytes stand ahead of them.
    own: u32,
    bytes: SharedBytes,
}

impl Insert {
    fn end(&self) -> usize {
        self.at as usize + self.bytes.len()
    }
}

/// Equal bytes are equal, whatever was made of them, and whoever shares them.
impl PartialEq for Piece {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash
            && self.len() == other.len()
            && ((&self.own, &self.shared) == (&other.own, &other.shared) || self.bytes() == other.bytes())
    }
}

impl Eq for Piece {}

impl Piece {
    /// Hashes the bytes once.
    pub fn new(bytes: Bytes) -> Self {
        Self {
            hash: xxh3_64(&bytes),
            own: bytes,
            shared: Box::default(),
            with_matcher: OnceLock::new(),
        }
    }

    /// The same of bytes of which some are shared, by where they stand, in order.
    pub(crate) fn sharing(bytes: &[u8], shared: Vec<(usize, SharedBytes)>) -> Self {
        // What stands further back than this isn't shared: places take four bytes.
        let shared = match u32::try_from(bytes.len()) {
            Ok(_) => shared,
            Err(_) => Vec::new(),
        };
        let all: usize = shared.iter().map(|(_, bytes)| bytes.len()).sum();
        let mut own = Vec::with_capacity(bytes.len() - all);
        let mut done = 0;
        let inserted = |(at, shared): (usize, SharedBytes)| {
            own.extend_from_slice(&bytes[done..at]);
            done = at + shared.len();
            Insert {
                at: at as u32,
                own: own.len() as u32,
                bytes: shared,
            }
        };
        let shared: Box<[Insert]> = shared.into_iter().map(inserted).collect();
        own.extend_from_slice(&bytes[done..]);
        Self {
            hash: xxh3_64(bytes),
            own: own.into(),
            shared,
            with_matcher: OnceLock::new(),
        }
    }

    /// As a large virtual host with a matcher instead of a list, if it is one.
    pub(crate) fn with_matcher(&self) -> Option<&Bytes> {
        self.with_matcher
            .get_or_init(|| lookup::with_matcher(&self.bytes()).map(Box::new))
            .as_deref()
    }

    /// The bytes, in one run; copies only those that share some.
    pub fn bytes(&self) -> Cow<'_, [u8]> {
        match self.shared.is_empty() {
            true => Cow::Borrowed(&self.own),
            false => {
                let mut out = Vec::with_capacity(self.len());
                self.copy_to(&mut out);
                Cow::Owned(out)
            }
        }
    }

    /// The bytes as a handle of their own, which many may have.
    pub(crate) fn contiguous(&self) -> Bytes {
        match self.bytes() {
            Cow::Borrowed(_) => self.own.clone(),
            Cow::Owned(bytes) => bytes.into(),
        }
    }

    /// The bytes, run by run.
    pub fn runs(&self) -> impl Iterator<Item = &[u8]> {
        let mut done = 0;
        let inserts = self.shared.iter().flat_map(move |insert| {
            let ahead = done..insert.own as usize;
            done = ahead.end;
            [&self.own[ahead], &insert.bytes]
        });
        let rest = self.shared.last().map_or(0, |insert| insert.own as usize);
        inserts.chain([&self.own[rest..]])
    }

    /// Appends all bytes.
    pub(crate) fn copy_to(&self, out: &mut Vec<u8>) {
        self.runs().for_each(|run| out.extend_from_slice(run));
    }

    /// Appends some of the bytes, and says what of them is shared, by where it stands in them. Nothing shared may stand
    /// partly in the range.
    pub(crate) fn copy_part(
        &self,
        range: Range<usize>,
        out: &mut Vec<u8>,
    ) -> impl Iterator<Item = (usize, &SharedBytes)> {
        let first = self.shared.partition_point(|insert| (insert.at as usize) < range.start);
        let count = self.shared[first..].partition_point(|insert| (insert.at as usize) < range.end);
        let ahead = first.checked_sub(1).map(|before| &self.shared[before]);
        // Where in its own bytes a place is that stands behind so many shared ones.
        let own = |at: usize, before: Option<&Insert>| match before {
            Some(before) => before.own as usize + (at - before.end()),
            None => at,
        };
        let mut done = own(range.start, ahead);
        let within = &self.shared[first..first + count];
        for insert in within {
            out.extend_from_slice(&self.own[done..insert.own as usize]);
            out.extend_from_slice(&insert.bytes);
            done = insert.own as usize;
        }
        out.extend_from_slice(&self.own[done..own(range.end, within.last().or(ahead))]);
        within
            .iter()
            .map(move |insert| (insert.at as usize - range.start, &insert.bytes))
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        let own_behind = |insert: &Insert| self.own.len() - insert.own as usize;
        self.shared
            .last()
            .map_or(self.own.len(), |insert| insert.end() + own_behind(insert))
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Their hash.
    pub fn hash(&self) -> u64 {
        self.hash
    }
}

/// Pieces that make a message when put together, in chunks: a rope that differs in one of ten thousand pieces has the
/// other chunks of the one before.
#[derive(Clone, Debug)]
pub struct Rope {
    chunks: Arc<[Arc<PieceChunk>]>,
    count: usize,
    len: usize,
}

/// A run of pieces.
#[derive(Debug)]
pub(crate) struct PieceChunk {
    pieces: Box<[Arc<Piece>]>,
    /// Their length in all.
    len: usize,
    /// Their hashes behind each other: that of a rope is made of these, without a look at its pieces.
    hashes: Box<[u8]>,
}

impl PieceChunk {
    /// Of pieces in order.
    pub(crate) fn new(pieces: impl IntoIterator<Item = Arc<Piece>>) -> Self {
        let pieces: Box<[Arc<Piece>]> = pieces.into_iter().collect();
        Self {
            len: pieces.iter().map(|piece| piece.len()).sum(),
            hashes: pieces.iter().flat_map(|piece| piece.hash.to_le_bytes()).collect(),
            pieces,
        }
    }
}

/// How many pieces two ropes share.
pub(crate) struct SameEnds {
    /// Ahead of what differs.
    pub(crate) ahead: usize,
    /// Behind it.
    pub(crate) behind: usize,
}

impl Rope {
    /// Chunks in order.
    pub(crate) fn of_chunks(chunks: Arc<[Arc<PieceChunk>]>) -> Self {
        Self {
            count: chunks.iter().map(|chunk| chunk.pieces.len()).sum(),
            len: chunks.iter().map(|chunk| chunk.len).sum(),
            chunks,
        }
    }

    /// How many pieces two ropes share in whole chunks at both ends, behind a first piece that each has by itself.
    pub(crate) fn same_ends(&self, other: &Self) -> SameEnds {
        fn rest(rope: &Rope) -> &[Arc<PieceChunk>] {
            match rope.chunks.split_first() {
                Some((first, rest)) if first.pieces.len() == 1 => rest,
                _ => &[],
            }
        }
        let (a, b) = (rest(self), rest(other));
        let is_same = |(a, b): &(&Arc<PieceChunk>, &Arc<PieceChunk>)| Arc::ptr_eq(a, b);
        let ahead = a.iter().zip(b).take_while(is_same).count();
        let (ahead, a, b) = (&a[..ahead], &a[ahead..], &b[ahead..]);
        let behind = a.iter().rev().zip(b.iter().rev()).take_while(is_same).count();
        let count = |chunks: &[Arc<PieceChunk>]| chunks.iter().map(|chunk| chunk.pieces.len()).sum();
        SameEnds {
            ahead: count(ahead),
            behind: count(&a[a.len() - behind..]),
        }
    }

    /// The pieces in order.
    pub fn pieces(&self) -> impl Iterator<Item = &Arc<Piece>> + Clone {
        self.chunks.iter().flat_map(|chunk| chunk.pieces.iter())
    }

    /// How many pieces there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// How pieces are cut into chunks tells nothing.
impl PartialEq for Rope {
    fn eq(&self, other: &Self) -> bool {
        let is_same = |(a, b): (&Arc<Piece>, &Arc<Piece>)| Arc::ptr_eq(a, b) || a == b;
        Arc::ptr_eq(&self.chunks, &other.chunks)
            || ((self.count, self.len) == (other.count, other.len) && self.pieces().zip(other.pieces()).all(is_same))
    }
}

impl Eq for Rope {}

impl FromIterator<Arc<Piece>> for Rope {
    fn from_iter<I: IntoIterator<Item = Arc<Piece>>>(pieces: I) -> Self {
        Self::of_chunks([Arc::new(PieceChunk::new(pieces))].into())
    }
}

/// An encoded message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// In one run.
    Whole(Bytes),
    /// In pieces that make the message when put together.
    Rope(Rope),
}

impl Body {
    /// A rope of pieces.
    pub fn rope(pieces: impl IntoIterator<Item = Arc<Piece>>) -> Self {
        Self::Rope(pieces.into_iter().collect())
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::Whole(bytes) => bytes.len(),
            Self::Rope(rope) => rope.len,
        }
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes, run by run.
    pub fn runs(&self) -> impl Iterator<Item = &[u8]> {
        let (whole, rope) = match self {
            Self::Whole(bytes) => (Some(&**bytes), None),
            Self::Rope(rope) => (None, Some(rope)),
        };
        let pieces = rope.into_iter().flat_map(Rope::pieces);
        whole.into_iter().chain(pieces.flat_map(|piece| piece.runs()))
    }

    /// Appends all bytes.
    pub fn copy_to(&self, out: &mut Vec<u8>) {
        match self {
            Self::Whole(bytes) => out.extend_from_slice(bytes),
            Self::Rope(rope) => {
                out.reserve(rope.len);
                rope.pieces().for_each(|piece| piece.copy_to(out));
            }
        }
    }

    /// All bytes in one run; copies only a rope.
    pub fn contiguous(&self) -> Bytes {
        match self {
            Self::Whole(bytes) => bytes.clone(),
            Self::Rope(_) => {
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
            Self::Rope(rope) => {
                let mut hasher = Xxh3Default::new();
                rope.chunks.iter().for_each(|chunk| hasher.update(&chunk.hashes));
                hasher.digest()
            }
        };
        hash.max(1)
    }
}
