//! Requests that keep to a rate: so many in a second on average, and so many at once after a quiet time. And to what
//! the API server asks for: when it answers one with 429, all that follow wait for as long as it says.

use super::terms::ClientLimits;
use futures_util::{FutureExt as _, future::BoxFuture};
use http::{Response, StatusCode, header::RETRY_AFTER};
use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    sync::watch,
    time::{Instant, Sleep, sleep},
};
use tower::Service;

/// The longest wait that an API server may ask for: a mistake of something between us must not stop us for an hour.
const LONGEST: Duration = Duration::from_secs(30);

/// A service that takes requests at a rate. Who waits does so in its queue, first come, first served.
pub(super) struct Throttle<S> {
    inner: S,
    limits: ClientLimits,
    /// Requests that may be made now.
    tokens: f64,
    /// When `tokens` was right.
    at: Instant,
    wait: Pin<Box<Sleep>>,
    /// Until when the API server wants to be left alone.
    until: Arc<watch::Sender<Option<Instant>>>,
}

impl<S> Throttle<S> {
    pub(super) fn new(inner: S, limits: ClientLimits) -> Self {
        Self {
            inner,
            limits,
            tokens: f64::from(limits.burst),
            at: Instant::now(),
            wait: Box::pin(sleep(Duration::ZERO)),
            until: Arc::default(),
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
        let by_rate = (missing > 1e-6).then(|| Duration::from_secs_f64(missing / rate));
        let until = *self.until.borrow();
        let by_wish = until
            .map(|until| until.duration_since(now))
            .filter(|left| !left.is_zero());
        by_rate.max(by_wish)
    }
}

/// How long a response asks to be left alone, if it does.
fn wish<B>(response: &Response<B>) -> Option<Duration> {
    if response.status() != StatusCode::TOO_MANY_REQUESTS {
        return None;
    }
    // A date may be there instead (RFC 9110, section 10.2.3), which API servers don't send.
    let seconds: u64 = response.headers().get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds).min(LONGEST))
}

impl<S, R, B> Service<R> for Throttle<S>
where
    S: Service<R, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        while let Some(wait) = self.due(Instant::now()) {
            self.wait.as_mut().reset(Instant::now() + wait);
            ready!(self.wait.as_mut().poll(cx));
        }
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: R) -> Self::Future {
        self.tokens -= 1.0;
        let (answer, until) = (self.inner.call(request), Arc::clone(&self.until));
        let note = move |answer: &Result<S::Response, S::Error>| {
            if let Some(wish) = answer.as_ref().ok().and_then(wish) {
                let end = Instant::now() + wish;
                until.send_modify(|until| *until = until.map_or(Some(end), |until| Some(until.max(end))));
            }
        };
        answer.inspect(note).boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_api_server_that_asks_for_patience_has_it_from_everybody() {
        let answers = [
            ("429", Some("2")),
            ("429", Some("3600")),
            ("429", None),
            ("200", Some("9")),
        ];
        for ((code, after), wanted) in answers.into_iter().zip([2.0, 30.0, 0.0, 0.0]) {
            let service = tower::service_fn(move |()| {
                let mut response = Response::builder().status(code);
                if let Some(after) = after {
                    response = response.header(RETRY_AFTER, after);
                }
                std::future::ready(response.body(()))
            });
            let mut throttle = Throttle::new(service, ClientLimits { qps: 10, burst: 3 });
            throttle.call(()).await.unwrap();
            let wait = throttle.due(Instant::now()).unwrap_or_default();
            // A little of it may have passed.
            assert_eq!(wait.as_secs_f64().ceil(), wanted, "{code} {after:?}");
        }
    }

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
