//! Memory that the codec of one worker uses again and again.
//!
//! Buffers for reading and writing, header maps, and the text of the `date` field. A buffer belongs to a
//! connection only while it holds something, so idle connections cost none, and a busy worker works in the same few
//! pages: a buffer that a request was read into is free again when the request has been passed on.

use std::cell::RefCell;
use std::time::{Duration, Instant, SystemTime};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue};

/// Room for a read while a head is awaited.
pub(crate) const READ: usize = 16 * 1024;
/// Room for a read of a large body: 64 kB with their head, and below the size from which memory is mapped anew each
/// time.
pub(crate) const LARGE_READ: usize = 96 * 1024;
/// How much of each kind is kept.
const KEPT: usize = 32;
/// Larger buffers for writing are not kept.
const LARGEST_WRITE: usize = 128 * 1024;
const DATE: &str = "date: ";

/// Room for the next read of a body of which so much is still to come, if that is known. One byte more, because a read
/// that fills its room does not tell that there is nothing more, and costs another one to find out.
pub(crate) fn room_for(left: Option<u64>, usual: usize) -> usize {
    let room = left.map_or(usual, |left| {
        usize::try_from(left).map_or(LARGE_READ, |left| left.saturating_add(1))
    });
    room.clamp(READ, LARGE_READ)
}

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
        if room < READ {
            // Somebody saves memory: no more than that.
            if buffer.is_empty() {
                *buffer = BytesMut::with_capacity(room);
            }
            buffer.reserve(room);
            return;
        }
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

    /// The value of the field `date`.
    pub(crate) fn date_value(&self, now: Instant) -> Option<HeaderValue> {
        let line = self.date(now);
        let value = line.slice(DATE.len()..line.len().saturating_sub(2));
        HeaderValue::from_maybe_shared(value).ok()
    }

    /// The field `date` (RFC 9110 §6.6.1) as a line.
    pub(crate) fn date(&self, now: Instant) -> Bytes {
        let mut date = self.date.borrow_mut();
        if date.until.is_none_or(|until| now >= until) {
            let time = SystemTime::now();
            let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let rest = Duration::from_secs(1).saturating_sub(Duration::from_nanos(since.subsec_nanos().into()));
            date.until = Some(now + rest);
            date.line = Bytes::from(format!("{DATE}{}\r\n", httpdate::HttpDate::from(time)));
        }
        date.line.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_has_room_for_what_is_known_to_come_and_a_byte_more() {
        assert_eq!(room_for(Some(10), READ), READ);
        assert_eq!(room_for(Some(50_000), READ), 50_001);
        assert_eq!(room_for(Some(u64::MAX), READ), LARGE_READ);
        assert_eq!((room_for(None, READ), room_for(None, LARGE_READ)), (READ, LARGE_READ));
    }

    #[test]
    fn memory_is_used_again_once_nobody_looks_at_it() {
        let buffers = Buffers::default();
        let mut buffer = BytesMut::new();
        buffers.make_room(&mut buffer, READ);
        buffer.extend_from_slice(b"head");
        let address = buffer.as_ptr();
        let head = buffer.split().freeze();
        buffers.recycle(&mut buffer);
        let mut other = BytesMut::new();
        // Somebody still looks at the head.
        buffers.make_room(&mut other, READ);
        assert_ne!(other.as_ptr(), address);
        assert_eq!(head, "head");
        drop(head);
        let address = other.as_ptr();
        other.extend_from_slice(b"head");
        drop(other.split());
        buffers.recycle(&mut other);
        buffers.make_room(&mut buffer, READ);
        assert_eq!(buffer.as_ptr(), address);
    }

    #[test]
    fn the_date_is_a_field_of_its_own_line() {
        let buffers = Buffers::default();
        let date = buffers.date(Instant::now());
        assert!(date.starts_with(b"date: ") && date.ends_with(b" GMT\r\n"), "{date:?}");
        let value = buffers.date_value(Instant::now()).expect("a value");
        assert_eq!(value.as_bytes(), &date[DATE.len()..date.len() - 2]);
    }
}
