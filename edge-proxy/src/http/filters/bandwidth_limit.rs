//! Content that passes no faster than its bucket fills, as Envoy's filter lets it pass.
//!
//! A piece that comes is cut at what the bucket has, and the rest waits an interval; nothing more is read until
//! it has gone, so that whoever sends is slowed.

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response};
use http_body::{Body, Frame, SizeHint};

use crate::clock::{Clock, Kind, Timer};
use crate::config::filter::bandwidth_limit::{Bandwidth, ByteBucket, Trailers};
use crate::http::Arrived;
use crate::http::body::{FilteredBody, ResponseBody};
use crate::http::exchange::Exchange;
use crate::message::body::{Broken, OwnBody};
use crate::message::incoming::Incoming;

/// How long content has taken.
#[derive(Debug, Default)]
pub(super) struct Course {
    began: Cell<Option<Instant>>,
    took: Cell<Duration>,
    waited: Cell<Duration>,
}

/// A limit at work on one request.
#[derive(Debug)]
pub(super) struct Slowing<'a> {
    limit: &'a Bandwidth,
    request: Rc<Course>,
}

impl<'a> Slowing<'a> {
    /// Nothing has passed yet.
    pub(super) fn new(limit: &'a Bandwidth) -> Self {
        Self {
            limit,
            request: Rc::default(),
        }
    }

    /// Slows the content of a request.
    pub(super) fn request(&self, arrived: &mut Arrived<'_>) {
        if !self.limit.requests || arrived.body.is_end_stream() || arrived.notes.upgrade.is_some() {
            return;
        }
        let body = std::mem::replace(&mut arrived.body, Incoming::Empty);
        let clock = &arrived.exchange.connection.worker.clock;
        let flow = Flow::new(body, self.limit, clock, Rc::clone(&self.request));
        arrived.body = Incoming::Filtered(Box::new(flow));
    }

    /// Slows the content of the response.
    pub(super) fn response(
        &self,
        exchange: &Rc<Exchange>,
        mut response: Response<ResponseBody>,
    ) -> Response<ResponseBody> {
        let is_tunnel = exchange.tunnel.borrow().is_some();
        if !self.limit.responses || response.body().is_end_stream() || is_tunnel {
            return response;
        }
        let body = std::mem::replace(response.body_mut(), ResponseBody::Empty);
        let clock = &exchange.connection.worker.clock;
        let course = Rc::<Course>::default();
        let flow = Flow::new(body, self.limit, clock, Rc::clone(&course));
        let trailers = self.limit.trailers.clone();
        *response.body_mut() = ResponseBody::Filtered(Box::new(SlowResponse {
            flow,
            exchange: Rc::clone(exchange),
            told: trailers.map(|trailers| (trailers, Rc::clone(&self.request), course)),
        }));
        response
    }
}

/// Content on its way through a bucket.
#[derive(Debug)]
pub(crate) struct Flow<B> {
    body: B,
    bucket: std::sync::Arc<ByteBucket>,
    interval: Duration,
    timer: Timer,
    course: Rc<Course>,
    /// What has come and must wait.
    rest: Bytes,
    trailers: Option<Frame<Bytes>>,
}

impl<B: Body<Data = Bytes, Error = Broken> + Unpin> Flow<B> {
    fn new(body: B, limit: &Bandwidth, clock: &Rc<Clock>, course: Rc<Course>) -> Self {
        limit.bucket.begin(limit.interval);
        Self {
            body,
            bucket: std::sync::Arc::clone(&limit.bucket),
            interval: limit.interval,
            timer: clock.timer(),
            course,
            rest: Bytes::new(),
            trailers: None,
        }
    }

    /// The next frame.
    pub(crate) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        loop {
            if self.timer.is_set(Kind::Route) {
                ready!(self.timer.poll_expired(cx));
                self.timer.clear(Kind::Route);
            }
            if !self.rest.is_empty() {
                let taken = self.bucket.take(self.rest.len());
                let piece = self.rest.split_to(taken);
                if !self.rest.is_empty() {
                    self.wait();
                }
                if piece.is_empty() {
                    continue;
                }
                self.end_if_over();
                return Poll::Ready(Some(Ok(Frame::data(piece))));
            }
            if let Some(trailers) = self.trailers.take() {
                return Poll::Ready(Some(Ok(trailers)));
            }
            match ready!(Pin::new(&mut self.body).poll_frame(cx)?) {
                None => {
                    self.end_if_over();
                    return Poll::Ready(None);
                }
                Some(frame) => match frame.into_data() {
                    Ok(data) => {
                        if self.course.began.get().is_none() {
                            self.course.began.set(Some(self.timer.clock().now()));
                        }
                        self.rest = data;
                    }
                    Err(trailers) => {
                        self.end_if_over();
                        self.trailers = Some(trailers);
                    }
                },
            }
        }
    }

    fn wait(&self) {
        let waited = self.course.waited.get() + self.interval;
        self.course.waited.set(waited);
        self.timer
            .set(Kind::Route, self.timer.clock().now(), Some(self.interval));
    }

    /// Notes how long it has taken, as far as it has come.
    fn end_if_over(&self) {
        if let Some(began) = self.course.began.get() {
            self.course
                .took
                .set(self.timer.clock().now().saturating_duration_since(began));
        }
    }

    /// True when there is nothing more to read.
    pub(crate) fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.trailers.is_none() && self.body.is_end_stream()
    }

    /// What is left.
    pub(crate) fn size_hint(&self) -> SizeHint {
        let hint = self.body.size_hint();
        let rest = self.rest.len() as u64;
        let mut whole = SizeHint::new();
        whole.set_lower(hint.lower() + rest);
        if let Some(upper) = hint.upper() {
            whole.set_upper(upper + rest);
        }
        whole
    }
}

impl OwnBody for Flow<Incoming> {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        self.poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.size_hint()
    }
}

/// The content of a response, with what is told behind it.
#[derive(Debug)]
struct SlowResponse {
    flow: Flow<ResponseBody>,
    exchange: Rc<Exchange>,
    /// The trailers, and how long request and response have taken.
    told: Option<(Trailers, Rc<Course>, Rc<Course>)>,
}

impl SlowResponse {
    /// Writes what there is to tell.
    fn tell(&mut self, fields: &mut HeaderMap) {
        let Some((names, request, response)) = self.told.take() else {
            return;
        };
        let mut say = |name: HeaderName, time: Duration| {
            if let millis @ 1.. = u64::try_from(time.as_millis()).unwrap_or(u64::MAX) {
                fields.insert(name, HeaderValue::from(millis));
            }
        };
        say(names.request, request.took.get());
        say(names.request_wait, request.waited.get());
        say(names.response, response.took.get());
        say(names.response_wait, response.waited.get());
    }
}

impl FilteredBody for SlowResponse {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let frame = match self.flow.poll_frame(cx) {
            Poll::Ready(frame) => frame.transpose()?,
            Poll::Pending => {
                // What the backend has said is here: its time is over.
                if !self.flow.rest.is_empty() && self.flow.body.is_end_stream() {
                    self.exchange.answered();
                }
                return Poll::Pending;
            }
        };
        self.exchange.moved();
        let mut fields = HeaderMap::new();
        let trailers = match frame.map(Frame::into_trailers) {
            Some(Err(data)) => return Poll::Ready(Some(Ok(data))),
            Some(Ok(trailers)) => trailers,
            None if self.told.is_none() => return Poll::Ready(None),
            None => HeaderMap::new(),
        };
        fields.extend(trailers);
        self.tell(&mut fields);
        let frame = (!fields.is_empty()).then(|| Ok(Frame::trailers(fields)));
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.told.is_none() && self.flow.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.flow.size_hint()
    }

    fn expire(&mut self, exchange: &Exchange, kind: Kind) {
        self.flow.body.expire(exchange, kind);
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    /// Everything that comes through, and how long that takes.
    fn passed(content: &'static [u8], rate: f64) -> (Vec<Bytes>, Duration, Duration) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let runtime = runtime.expect("a runtime");
        tokio::task::LocalSet::new().block_on(&runtime, async {
            let clock = Clock::new();
            tokio::task::spawn_local(Rc::clone(&clock).drive());
            let limit = Bandwidth {
                requests: false,
                responses: true,
                bucket: ByteBucket::new(rate),
                interval: Duration::from_millis(50),
                trailers: None,
            };
            let course = Rc::<Course>::default();
            let body = ResponseBody::Full(Bytes::from_static(content));
            let mut flow = Flow::new(body, &limit, &clock, Rc::clone(&course));
            assert_eq!(flow.size_hint().exact(), Some(content.len() as u64));
            let (begun, mut pieces) = (Instant::now(), Vec::new());
            while let Some(frame) = poll_fn(|cx| flow.poll_frame(cx)).await {
                pieces.push(frame.expect("content").into_data().expect("data"));
            }
            assert!(flow.is_end_stream());
            (pieces, begun.elapsed(), course.waited.get())
        })
    }

    #[test]
    fn content_is_cut_at_what_the_bucket_has_and_stays_the_same() {
        static CONTENT: [u8; 3000] = [7; 3000];
        // 500 bytes at once, and the rest in a quarter of a second.
        let (pieces, took, waited) = passed(&CONTENT, 10_000.0);
        assert_eq!(pieces.concat(), CONTENT);
        assert!(pieces.len() > 3, "{} pieces", pieces.len());
        assert!(took >= Duration::from_millis(240), "{took:?}");
        assert!(waited >= Duration::from_millis(200), "{waited:?}");
    }

    #[test]
    fn what_is_within_the_limit_waits_for_nothing() {
        let (pieces, _, waited) = passed(b"a few bytes", 10_000.0);
        assert_eq!((pieces.len(), waited), (1, Duration::ZERO));
    }
}
