//! Connections whose other end hasn't shown yet whose it is.
//!
//! Anybody who reaches the socket gets a connection, as it is a stream that is asked for proof. Until one has given it,
//! the connection is a newcomer: it may stay so for a while alone, and of too many connections the oldest newcomer
//! goes. So nobody who shows nothing keeps a proxy from its configuration.

use futures_util::{
    FutureExt as _,
    future::{AbortHandle, Abortable, Pending, pending},
};
use std::{
    collections::VecDeque,
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};
use tokio::time::{Sleep, sleep};

/// How long a connection may be open before a stream on it has shown whose it is. Proxies open theirs at once, and have
/// ten seconds to introduce themselves; the first translation may still be on its way then.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// Whether the other end of a connection has shown whose it is; shared by the connection and its streams.
#[derive(Clone, Debug, Default)]
pub(super) struct Introduction(Arc<AtomicBool>);

impl Introduction {
    /// A stream of the connection was let in.
    pub(super) fn made(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_made(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Those who aren't known yet.
#[derive(Debug)]
pub(super) struct Newcomers {
    patience: Duration,
    /// The oldest first. Some may be known meanwhile, or gone.
    waiting: VecDeque<(Introduction, AbortHandle)>,
}

impl Newcomers {
    /// None yet; each may be one for so long.
    pub(super) fn new(patience: Duration) -> Self {
        Self {
            patience,
            waiting: VecDeque::new(),
        }
    }

    /// One more connection.
    pub(super) fn add(&mut self) -> Newcomer {
        // What is over is forgotten as it comes to the front, so that a server at rest keeps no long list of it.
        while let Some((introduction, _)) = self.waiting.front()
            && (introduction.is_made() || Arc::strong_count(&introduction.0) == 1)
        {
            self.waiting.pop_front();
        }
        let introduction = Introduction::default();
        let (handle, registration) = AbortHandle::new_pair();
        self.waiting.push_back((introduction.clone(), handle));
        Newcomer {
            introduction,
            waiting: Some(Waiting {
                cut: Abortable::new(pending(), registration),
                end: Box::pin(sleep(self.patience)),
            }),
        }
    }

    /// Ends the oldest connection that is still to be known; false if there is none.
    pub(super) fn end_oldest(&mut self) -> bool {
        while let Some((introduction, handle)) = self.waiting.pop_front() {
            if !introduction.is_made() && Arc::strong_count(&introduction.0) > 1 {
                handle.abort();
                return true;
            }
        }
        false
    }
}

/// A connection's end of it.
#[derive(Debug)]
pub(super) struct Newcomer {
    introduction: Introduction,
    /// Until it is known.
    waiting: Option<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    cut: Abortable<Pending<()>>,
    end: Pin<Box<Sleep>>,
}

impl Newcomer {
    /// What the connection's streams share.
    pub(super) fn introduction(&self) -> &Introduction {
        &self.introduction
    }

    /// An error when the connection has to go; otherwise its task is woken when it has to.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        if self.introduction.is_made() {
            self.waiting = None;
        }
        let Some(waiting) = &mut self.waiting else {
            return Poll::Pending;
        };
        if waiting.cut.poll_unpin(context).is_ready() {
            let why = "too many connections are open, and this one has shown nothing";
            return Poll::Ready(io::Error::new(io::ErrorKind::ConnectionAborted, why));
        }
        waiting
            .end
            .poll_unpin(context)
            .map(|()| io::Error::new(io::ErrorKind::TimedOut, "nobody has shown whose the connection is"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;

    #[tokio::test]
    async fn who_shows_nothing_goes_in_the_end() {
        let mut newcomers = Newcomers::new(Duration::from_millis(1));
        let (mut silent, mut known) = (newcomers.add(), newcomers.add());
        known.introduction().made();
        let error = poll_fn(|context| silent.poll(context)).await;
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(poll_fn(|context| known.poll(context)).now_or_never().is_none());
    }

    #[tokio::test]
    async fn of_too_many_the_oldest_that_shows_nothing_goes() {
        let mut newcomers = Newcomers::new(PATIENCE);
        let known = newcomers.add();
        known.introduction().made();
        let gone = newcomers.add();
        let (mut first, mut second) = (newcomers.add(), newcomers.add());
        drop(gone);
        assert!(newcomers.end_oldest());
        let error = poll_fn(|context| first.poll(context)).now_or_never().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionAborted);
        assert!(poll_fn(|context| second.poll(context)).now_or_never().is_none());
        assert!(newcomers.end_oldest());
        assert!(!newcomers.end_oldest());
    }
}
