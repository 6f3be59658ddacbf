//! Requests in a time, counted by this process (Envoy's `local_ratelimit`).

use std::sync::{Arc, LazyLock};
use std::time::Instant;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::config::filter::local_rate_limit::{Bucket, RateLimits};
use crate::config::filter::rate_limit_descriptor::Descriptor;
use crate::http::edits::{self, Scene};
use crate::http::filters::{Flow, rate_limit_descriptor};
use crate::http::{Arrived, local_reply};

pub(super) const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
pub(super) const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
pub(super) const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// What buckets count their seconds from.
static BEGINNING: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The limits of a route on one request.
pub(crate) struct Limited<'a> {
    limits: &'a RateLimits,
    /// The bucket that the client is told of.
    told: Option<Arc<Bucket>>,
}

/// A bucket that is for a request.
struct Found {
    bucket: Arc<Bucket>,
    hits: u64,
    shadow: bool,
    sends_headers: Option<bool>,
}

impl<'a> Limited<'a> {
    /// Nothing is known of the request yet.
    pub(super) fn new(limits: &'a RateLimits) -> Self {
        Self { limits, told: None }
    }

    /// Lets a request through that is within its limits.
    pub(super) fn request(&mut self, arrived: &mut Arrived<'_>) -> Flow {
        let limits = self.limits;
        let random = || arrived.exchange.connection.worker.random.next();
        if !limits.enabled.takes(random()) {
            return Flow::Continue;
        }
        let is_enforced = limits.enforced.takes(random());
        if self.take(arrived) {
            return Flow::Continue;
        }
        let connection = std::rc::Rc::clone(&arrived.exchange.connection);
        if !is_enforced {
            edits::edit_request(&mut arrived.head, &limits.unenforced, Scene::of(&connection));
            return Flow::Continue;
        }
        arrived.exchange.note(|record| {
            record.flag("RL");
            record.details = "local_rate_limited".into();
        });
        let (body, audience) = (Bytes::from_static(b"local_rate_limited"), arrived.audience);
        let mut answer = local_reply::text(limits.status, body, None, audience);
        if limits.exhausted && audience == local_reply::Audience::Grpc {
            local_reply::say_code(answer.headers_mut(), 8);
        }
        let scene = Scene::of(&connection);
        edits::edit_response(answer.headers_mut(), &limits.response, scene, &arrived.head);
        Flow::answer(answer)
    }

    /// Takes what the request counts for from its buckets; whether that was to be had.
    fn take(&mut self, arrived: &Arrived<'_>) -> bool {
        let now = BEGINNING.elapsed().as_secs_f64();
        let mut found: Vec<Found> = self
            .limits
            .rules
            .iter()
            .filter_map(|rule| self.find(rule, arrived))
            .collect();
        // The slowest first: what it refuses takes nothing from the others.
        found.sort_by(|a, b| a.bucket.size.rate.total_cmp(&b.bucket.size.rate));
        for one in &found {
            if !one.bucket.take(one.hits, now) && !one.shadow {
                self.tell(&one.bucket, one.sends_headers);
                return false;
            }
        }
        let others = &self.limits.others;
        if (found.is_empty() || self.limits.always_others) && !others.take(1, now) {
            self.tell(others, None);
            return false;
        }
        match found.first() {
            Some(first) => self.tell(&first.bucket, first.sends_headers),
            None => self.tell(others, None),
        }
        true
    }

    fn find(&self, rule: &Descriptor, arrived: &Arrived<'_>) -> Option<Found> {
        let said = rate_limit_descriptor::describe(rule, arrived)?;
        let hits = rate_limit_descriptor::hits(rule, &arrived.metadata)?.unwrap_or(1);
        let mut limits = self.limits.buckets.iter();
        limits.find_map(|limit| {
            Some(Found {
                bucket: limit.bucket(&said)?,
                hits,
                shadow: limit.shadow,
                sends_headers: rule.sends_limit_headers,
            })
        })
    }

    fn tell(&mut self, bucket: &Arc<Bucket>, sends_headers: Option<bool>) {
        self.told = sends_headers
            .unwrap_or(self.limits.sends_limit_headers)
            .then(|| Arc::clone(bucket));
    }

    /// Tells the client of its limit.
    pub(super) fn response(&mut self, fields: &mut HeaderMap) {
        let Some(bucket) = self.told.take() else { return };
        let (left, reset) = bucket.left(BEGINNING.elapsed().as_secs_f64());
        fields.append(LIMIT, HeaderValue::from(bucket.size.max));
        fields.append(REMAINING, HeaderValue::from(left));
        fields.append(RESET, HeaderValue::from(reset));
    }
}
