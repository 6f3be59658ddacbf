//! Descriptors, by which limits count requests: keys with values that are found in a request.

use std::sync::Arc;

use http::HeaderName;

use crate::config::access::MetadataPath;
use crate::config::address::AddressFilter;
use crate::config::header::HeaderCondition;
use crate::config::route::QueryCondition;

/// How the descriptor of a request is made.
#[derive(Debug)]
pub struct Descriptor {
    /// All of them must have something to say.
    pub entries: Box<[DescriptorEntry]>,
    /// What a request counts for.
    pub hits: Hits,
    /// Whether clients get `x-ratelimit-*` headers; unset: as the filter says.
    pub sends_limit_headers: Option<bool>,
}

/// What a request counts for.
#[derive(Debug)]
pub enum Hits {
    /// As much as any other.
    One,
    /// So many.
    Number(u64),
    /// As many as a filter before this one has found out.
    Metadata(MetadataPath),
}

/// A key and its value.
pub type Pair = (Arc<str>, String);

/// A part of a descriptor: its key, and where its value is from.
#[derive(Debug)]
pub struct DescriptorEntry {
    /// The key.
    pub key: Arc<str>,
    /// The value.
    pub value: EntryValue,
}

/// Where a value is from.
#[derive(Debug)]
pub enum EntryValue {
    /// Always this.
    Fixed(Box<str>),
    /// This, where all conditions hold, or where not all do.
    Headers(Box<str>, Box<[HeaderCondition]>, bool),
    /// This, where all conditions hold, or where not all do.
    Query(Box<str>, Box<[QueryCondition]>, bool),
    /// This, where the client is one of these.
    Client(Box<str>, AddressFilter),
    /// A header; without it there is no entry, and the descriptor is good without it or isn't.
    Header(HeaderName, Absent),
    /// A parameter of the query, likewise.
    Parameter(Box<str>, Absent),
    /// The client's address.
    Address,
}

/// What becomes of a descriptor that an entry is missing of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absent {
    /// It goes on without it.
    Skip,
    /// It is none.
    Drop,
}
