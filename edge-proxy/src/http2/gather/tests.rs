//! What reaches the socket, and in how many writes.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tokio::io::AsyncWrite;

use super::{Gathered, MOST};

/// A socket that notes each write.
#[derive(Debug, Default)]
struct Socket {
    writes: Vec<Vec<u8>>,
    /// How much it takes before it is full.
    room: usize,
    closed: bool,
}

impl Socket {
    fn with_room(room: usize) -> Gathered<Self> {
        Gathered::new(Self {
            room,
            ..Self::default()
        })
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut all: Vec<u8> = pieces.iter().flat_map(|piece| piece.iter().copied()).collect();
        all.truncate(self.room);
        if all.is_empty() {
            return Poll::Pending;
        }
        let count = all.len();
        self.room -= count;
        self.writes.push(all);
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.closed = true;
        Poll::Ready(Ok(()))
    }
}

fn write(io: &mut Gathered<Socket>, pieces: &[&[u8]]) -> Poll<usize> {
    let pieces: Vec<IoSlice<'_>> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
    let mut cx = Context::from_waker(Waker::noop());
    Pin::new(io).poll_write_vectored(&mut cx, &pieces).map(Result::unwrap)
}

/// Writes all of it, however much is taken at a time, and gives the socket room when it has none.
fn write_all(io: &mut Gathered<Socket>, content: &[u8]) {
    let mut left = content;
    while !left.is_empty() {
        match write(io, &[left]) {
            Poll::Ready(count) => left = &left[count..],
            Poll::Pending => io.0.borrow_mut().io.room += 700,
        }
    }
}

fn send(io: &Gathered<Socket>) {
    io.send(&mut Context::from_waker(Waker::noop()));
}

fn writes(io: &Gathered<Socket>) -> Vec<Vec<u8>> {
    io.0.borrow().io.writes.clone()
}

#[test]
fn what_is_written_in_a_turn_is_one_write() {
    let mut io = Socket::with_room(usize::MAX);
    for answer in ["one", "two", "three"] {
        assert_eq!(
            write(&mut io, &[answer.as_bytes(), b";"]),
            Poll::Ready(answer.len() + 1)
        );
    }
    assert_eq!(writes(&io), Vec::<Vec<u8>>::new());
    send(&io);
    send(&io);
    assert_eq!(writes(&io), [b"one;two;three;"]);
    assert_eq!(io.0.borrow().waiting.capacity(), 0, "nobody needs the memory now");
}

#[test]
fn what_is_large_goes_with_what_came_before_it() {
    let mut io = Socket::with_room(usize::MAX);
    let large = vec![b'x'; MOST];
    assert_eq!(write(&mut io, &[b"head"]), Poll::Ready(4));
    assert_eq!(write(&mut io, &[b"frame", &large]), Poll::Ready(5 + MOST));
    let expected = [b"headframe", large.as_slice()].concat();
    assert_eq!(writes(&io), [expected]);
    send(&io);
    assert_eq!(writes(&io).len(), 1);
}

#[test]
fn a_full_socket_keeps_the_order_and_bounds_what_waits() {
    let mut io = Socket::with_room(0);
    let content: Vec<u8> = (0..10 * MOST).map(|at| (at % 251) as u8).collect();
    for piece in content.chunks(1000) {
        write_all(&mut io, piece);
        send(&io);
        assert!(io.0.borrow().waiting.len() <= MOST);
    }
    io.0.borrow_mut().io.room = usize::MAX;
    send(&io);
    assert_eq!(writes(&io).concat(), content);
}

#[test]
fn the_end_comes_after_what_waits() {
    let mut io = Socket::with_room(2);
    assert_eq!(write(&mut io, &[b"goodbye"]), Poll::Ready(7));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(Pin::new(&mut io).poll_shutdown(&mut cx).is_pending());
    assert!(!io.0.borrow().io.closed);
    io.0.borrow_mut().io.room = 100;
    assert!(Pin::new(&mut io).poll_shutdown(&mut cx).is_ready());
    assert!(io.0.borrow().io.closed);
    assert_eq!(writes(&io).concat(), b"goodbye");
}
