//! Memory that the codec of one worker uses again and again.
//!
//! What: buffers for reading and writing, header maps, and the text of the `date` field. A buffer belongs to a connection
//! only while it holds something, so idle connections cost none, and a busy worker works in the same few pages: a buffer
//! that a request was read into is free again when the request has been passed on.

use std::cell::RefCell;
use std::time::{Duration, Instant, SystemTime};

use bytes::{Bytes, BytesMut};
use http::HeaderMap;

/// Room for a read while a head is awaited.
pub(crate) const READ: usize = 16 * 1024;
/// Room for a read of a large body.
pub(crate) const LARGE_READ: usize = 64 * 1024;
/// How much of each kind is kept.
const KEPT: usize = 32;
/// Larger buffers for writing are not kept.
const LARGEST_WRITE: usize = 128 * 1024;

/// The codec's memory.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    reads: RefCell<Vec<BytesMut>>,
    writes: RefCell<Vec<Vec<u8>>>,
    headers: RefCell<Vec<HeaderMap>>,
    date: RefCell<Date>,
}

#[derive(Debug, Default)]
struct Date {
    until: Option<Instant>,
    line: Bytes,
}

impl Buffers {
    /// Makes room for so many bytes in a connection's buffer, if it has none yet with one that was used before.
    pub(crate) fn make_room(&self, buffer: &mut BytesMut, room: usize) {
        if buffer.capacity() == 0
            && let Some(used) = self.reads.borrow_mut().pop()
        {
            *buffer = used;
        }
        // The same memory again, unless a part of it is still in use.
        buffer.reserve(room);
    }

    /// Takes the memory of a buffer back that holds nothing.
    pub(crate) fn recycle(&self, buffer: &mut BytesMut) {
        if !buffer.is_empty() || buffer.capacity() == 0 {
            return;
        }
        let buffer = std::mem::take(buffer);
        let mut reads = self.reads.borrow_mut();
        if reads.len() < KEPT {
            reads.push(buffer);
        }
    }

    /// An empty buffer for writing.
    pub(crate) fn writing(&self) -> Vec<u8> {
        self.writes.borrow_mut().pop().unwrap_or_default()
    }

    /// Takes a buffer for writing back.
    pub(crate) fn recycle_writing(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        let mut writes = self.writes.borrow_mut();
        if buffer.capacity() > 0 && buffer.capacity() <= LARGEST_WRITE && writes.len() < KEPT {
            writes.push(buffer);
        }
    }

    /// An empty header map.
    pub(crate) fn headers(&self) -> HeaderMap {
        self.headers.borrow_mut().pop().unwrap_or_default()
    }

    /// Takes a header map back.
    pub(crate) fn recycle_headers(&self, mut headers: HeaderMap) {
        // A map that grew for an unusual head would be slow to clear ever after.
        if headers.capacity() > 64 || headers.capacity() == 0 {
            return;
        }
        headers.clear();
        let mut kept = self.headers.borrow_mut();
        if kept.len() < KEPT {
            kept.push(headers);
        }
    }

    /// The field `date` (RFC 9110 §6.6.1) as a line.
    pub(crate) fn date(&self, now: Instant) -> Bytes {
        let mut date = self.date.borrow_mut();
        if date.until.is_none_or(|until| now >= until) {
            let time = SystemTime::now();
            let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let rest = Duration::from_secs(1).saturating_sub(Duration::from_nanos(since.subsec_nanos().into()));
            date.until = Some(now + rest);
            date.line = Bytes::from(format!("date: {}\r\n", httpdate::HttpDate::from(time)));
        }
        date.line.clone()
    }
}
