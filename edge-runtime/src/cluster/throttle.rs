//! Requests that keep to a rate: so many in a second on average, and so many at once after a quiet time.

use super::terms::ClientLimits;
use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::time::{Instant, Sleep, sleep};
use tower::Service;

/// A service that takes requests at a rate. Who waits does so in its queue, first come, first served.
pub(super) struct Throttle<S> {
    inner: S,
    limits: ClientLimits,
    /// Requests that may be made now.
    tokens: f64,
    /// When `tokens` was right.
    at: Instant,
    wait: Pin<Box<Sleep>>,
}

impl<S> Throttle<S> {
    pub(super) fn new(inner: S, limits: ClientLimits) -> Self {
        Self {
            inner,
            limits,
            tokens: f64::from(limits.burst),
            at: Instant::now(),
            wait: Box::pin(sleep(Duration::ZERO)),
        }
    }

    /// How long until the next request may be made; none if it may now.
    fn due(&mut self, now: Instant) -> Option<Duration> {
        let rate = f64::from(self.limits.qps);
        let gained = now.duration_since(self.at).as_secs_f64() * rate;
        self.tokens = (self.tokens + gained).min(f64::from(self.limits.burst));
        self.at = now;
        let missing = 1.0 - self.tokens;
        // Less than that is rounding.
        (missing > 1e-6).then(|| Duration::from_secs_f64(missing / rate))
    }
}

impl<S: Service<R>, R> Service<R> for Throttle<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        while let Some(wait) = self.due(Instant::now()) {
            self.wait.as_mut().reset(Instant::now() + wait);
            ready!(self.wait.as_mut().poll(cx));
        }
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: R) -> S::Future {
        self.tokens -= 1.0;
        self.inner.call(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_burst_goes_at_once_and_the_rest_at_the_rate() {
        let mut throttle = Throttle::new((), ClientLimits { qps: 10, burst: 3 });
        let mut now = throttle.at;
        for _ in 0..3 {
            assert_eq!(throttle.due(now), None);
            throttle.tokens -= 1.0;
        }
        for _ in 0..5 {
            let wait = throttle.due(now).unwrap();
            assert!(
                wait > Duration::from_millis(99) && wait < Duration::from_millis(101),
                "{wait:?}"
            );
            now += wait;
            assert_eq!(throttle.due(now), None);
            throttle.tokens -= 1.0;
        }
        // However long it was quiet, there is no more than a burst.
        assert_eq!(throttle.due(now + Duration::from_secs(60)), None);
        assert!(throttle.tokens <= 3.0);
    }
}
