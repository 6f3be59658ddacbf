//! How much a connection in HTTP/2 may hold for its client.
//!
//! One budget for all streams of a connection, whatever windows the client opens. Content that has a window is
//! queued for the socket and counts until it is written; while the budget is used up no stream reads its backend, and
//! streams get room in the order in which they asked. Content whose stream has no window stays with the stream, a piece
//! at most, and makes the pieces that others read smaller instead: a client may leave some streams unread for as long
//! as it likes without starving the rest.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::{Buf, Bytes};

/// Below this a limit would cost more frames than it saves memory.
const SMALLEST: usize = 16 * 1024;
/// What a stream may read of its backend at a time even when the budget is used up.
const LEAST_ROOM: usize = 2 * 1024;
/// The most that one stream may have queued.
const OF_ONE_STREAM: usize = 256 * 1024;

/// The budget of a connection.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: usize,
    /// Bytes on their way into the socket.
    queued: Cell<usize>,
    /// Bytes that wait for the window of their stream.
    held: Cell<usize>,
    /// Frames that were queued so far.
    frames: Cell<u64>,
    waiting: RefCell<BTreeMap<u64, Waker>>,
    next: Cell<u64>,
}

impl Budget {
    /// Nothing used yet.
    pub(crate) fn new(limit: usize) -> Rc<Self> {
        Rc::new(Self {
            limit: limit.max(SMALLEST),
            queued: Cell::new(0),
            held: Cell::new(0),
            frames: Cell::new(0),
            waiting: RefCell::default(),
            next: Cell::new(0),
        })
    }

    /// The most that one stream may have queued.
    pub(crate) fn of_one_stream(&self) -> usize {
        self.limit.min(OF_ONE_STREAM)
    }

    /// How much a stream should read of its backend at a time.
    pub(crate) fn room(&self) -> usize {
        let used = self.queued.get() + self.held.get();
        self.limit.saturating_sub(used).max(LEAST_ROOM)
    }

    /// How many frames of content were queued so far.
    pub(crate) fn frames(&self) -> u64 {
        self.frames.get()
    }

    fn has_room(&self) -> bool {
        self.queued.get() < self.limit
    }

    /// Lets the next one have its turn. Whoever is woken and does not use the room calls this again.
    fn pass_on(&self) {
        if self.has_room()
            && let Some((_, waker)) = self.waiting.borrow_mut().pop_first()
        {
            waker.wake();
        }
    }
}

/// What one stream uses of the budget.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Rc<Budget>,
    queued: Cell<usize>,
    held: Cell<usize>,
    /// Where it stands in the line.
    place: Cell<Option<u64>>,
    /// Woken when the socket has taken all.
    written: RefCell<Option<Waker>>,
}

impl Share {
    /// A stream that uses nothing yet.
    pub(crate) fn new(budget: Rc<Budget>) -> Rc<Self> {
        Rc::new(Self {
            budget,
            queued: Cell::new(0),
            held: Cell::new(0),
            place: Cell::new(None),
            written: RefCell::default(),
        })
    }

    /// Ready when the stream may take more content.
    pub(crate) fn poll_room(&self, cx: &Context<'_>) -> Poll<()> {
        if self.budget.has_room() {
            self.leave_line();
            return Poll::Ready(());
        }
        let mut waiting = self.budget.waiting.borrow_mut();
        let place = self.place.get().filter(|place| waiting.contains_key(place));
        let place = place.unwrap_or_else(|| {
            let place = self.budget.next.get();
            self.budget.next.set(place + 1);
            place
        });
        self.place.set(Some(place));
        waiting.insert(place, cx.waker().clone());
        Poll::Pending
    }

    /// The stream has looked for content: if there is still room, the next one may.
    pub(crate) fn pass_on(&self) {
        self.budget.pass_on();
    }

    /// Content waits for the stream's window.
    pub(crate) fn hold(&self, bytes: usize) {
        self.held.set(self.held.get() + bytes);
        self.budget.held.set(self.budget.held.get() + bytes);
    }

    fn let_go(&self, bytes: usize) {
        self.held.set(self.held.get() - bytes);
        self.budget.held.set(self.budget.held.get() - bytes);
    }

    /// Content that was held has a window and goes to the socket.
    pub(crate) fn queue(self: &Rc<Self>, content: Bytes) -> Counted {
        let bytes = content.len();
        self.let_go(bytes);
        self.queued.set(self.queued.get() + bytes);
        self.budget.queued.set(self.budget.queued.get() + bytes);
        // The codec makes more of one only when the window is larger than what was asked for.
        self.budget.frames.set(self.budget.frames.get() + 1);
        Counted {
            content,
            counted: bytes,
            share: Some(Rc::clone(self)),
        }
    }

    /// How much of the stream the socket has not taken.
    pub(crate) fn queued(&self) -> usize {
        self.queued.get()
    }

    /// Has the task woken when the socket has taken all.
    pub(crate) fn wait_until_written(&self, cx: &Context<'_>) {
        *self.written.borrow_mut() = Some(cx.waker().clone());
    }

    /// The stream takes no more.
    pub(crate) fn leave(&self) {
        self.let_go(self.held.get());
        self.leave_line();
        self.written.borrow_mut().take();
        self.budget.pass_on();
    }

    fn leave_line(&self) {
        if let Some(place) = self.place.take() {
            self.budget.waiting.borrow_mut().remove(&place);
        }
    }
}

/// Content on its way into the socket; counts until it is dropped.
#[derive(Debug)]
pub(crate) struct Counted {
    content: Bytes,
    counted: usize,
    share: Option<Rc<Share>>,
}

impl Counted {
    /// No content: the end of a stream.
    pub(crate) fn nothing() -> Self {
        Self {
            content: Bytes::new(),
            counted: 0,
            share: None,
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let Some(share) = self.share.take() else { return };
        let left = share.queued.get() - self.counted;
        share.queued.set(left);
        let budget = &share.budget;
        budget.queued.set(budget.queued.get() - self.counted);
        if left == 0
            && let Some(waker) = share.written.borrow_mut().take()
        {
            waker.wake();
        }
        budget.pass_on();
    }
}

impl Buf for Counted {
    fn remaining(&self) -> usize {
        self.content.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.content.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.content.advance(count);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn content(bytes: usize) -> Bytes {
        Bytes::from(vec![0; bytes])
    }

    fn fill(share: &Rc<Share>, bytes: usize) -> Counted {
        share.hold(bytes);
        share.queue(content(bytes))
    }

    #[test]
    fn room_comes_back_when_content_is_written_and_goes_to_whoever_waits_longest() {
        let budget = Budget::new(SMALLEST);
        let (first, second, third) = (
            Share::new(Rc::clone(&budget)),
            Share::new(Rc::clone(&budget)),
            Share::new(Rc::clone(&budget)),
        );
        let queued = fill(&first, SMALLEST);
        let (a, b) = (Arc::<Woken>::default(), Arc::<Woken>::default());
        let (waker_a, waker_b) = (Waker::from(Arc::clone(&a)), Waker::from(Arc::clone(&b)));
        let count = |woken: &Woken| woken.0.load(Ordering::Relaxed);
        assert!(second.poll_room(&Context::from_waker(&waker_a)).is_pending());
        assert!(third.poll_room(&Context::from_waker(&waker_b)).is_pending());
        drop(queued);
        assert_eq!((count(&a), count(&b)), (1, 0));
        // It found nothing to send, so that the turn is the next one's.
        assert!(second.poll_room(&Context::from_waker(&waker_a)).is_ready());
        second.pass_on();
        assert_eq!((count(&a), count(&b)), (1, 1));
    }

    #[test]
    fn who_leaves_the_line_does_not_keep_its_turn() {
        let budget = Budget::new(SMALLEST);
        let (first, second, third) = (
            Share::new(Rc::clone(&budget)),
            Share::new(Rc::clone(&budget)),
            Share::new(Rc::clone(&budget)),
        );
        let queued = fill(&first, SMALLEST);
        let woken = Arc::<Woken>::default();
        let waker = Waker::from(Arc::clone(&woken));
        assert!(second.poll_room(&Context::from_waker(Waker::noop())).is_pending());
        assert!(third.poll_room(&Context::from_waker(&waker)).is_pending());
        second.leave();
        drop(queued);
        assert_eq!(woken.0.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn what_has_no_window_makes_reads_smaller_and_stops_nobody() {
        let budget = Budget::new(SMALLEST);
        let (stalled, other) = (Share::new(Rc::clone(&budget)), Share::new(Rc::clone(&budget)));
        stalled.hold(SMALLEST);
        assert_eq!(budget.room(), LEAST_ROOM);
        assert!(other.poll_room(&Context::from_waker(Waker::noop())).is_ready());
        stalled.leave();
        assert_eq!(budget.room(), SMALLEST);
    }
}
