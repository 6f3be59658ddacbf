//! Asking the other side whether it is still there (RFC 9113 §6.7).

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use h2::{Ping, PingPong};
use tokio::time::{Instant, Sleep};

/// Pings at an interval.
#[derive(Debug)]
pub(crate) struct Keepalive {
    pings: PingPong,
    interval: Duration,
    timeout: Duration,
    sleep: Pin<Box<Sleep>>,
    asked: bool,
}

impl Keepalive {
    /// Asks each interval, and waits as long as the timeout.
    pub(crate) fn new(pings: PingPong, interval: Duration, timeout: Duration) -> Self {
        Self {
            pings,
            interval,
            timeout,
            sleep: Box::pin(tokio::time::sleep(interval)),
            asked: false,
        }
    }

    /// Ready when the other side has not answered in time.
    pub(crate) fn poll_dead(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if self.asked && self.pings.poll_pong(cx).is_ready() {
                self.asked = false;
                self.sleep.as_mut().reset(Instant::now() + self.interval);
            }
            if self.sleep.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            if self.asked || self.pings.send_ping(Ping::opaque()).is_err() {
                return Poll::Ready(());
            }
            self.asked = true;
            self.sleep.as_mut().reset(Instant::now() + self.timeout);
        }
    }
}
