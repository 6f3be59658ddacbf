//! Limits of requests in a time, counted by this process (Envoy's `local_ratelimit`).
//!
//! A request is described in entries ([`Descriptor`]), and each descriptor that has a bucket takes from it. The
//! buckets change while the configuration stays: all workers take from the same, without a lock where a
//! bucket is known by its entries, and with one where each value of an entry has a bucket of its own.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use http::StatusCode;

use crate::config::filter::rate_limit_descriptor::{Descriptor, Pair};
use crate::config::header::HeaderSteps;
use crate::config::route::Fraction;

/// The limits of a chain or a route.
#[derive(Debug)]
pub struct RateLimits {
    /// Looked at for so many requests.
    pub enabled: Fraction,
    /// Of these so many are refused when they exceed a limit.
    pub enforced: Fraction,
    /// For requests that nothing else is for.
    pub others: Arc<Bucket>,
    /// Whether those take from it too that something else is for.
    pub always_others: bool,
    /// How requests are described.
    pub rules: Box<[Descriptor]>,
    /// What has a limit.
    pub buckets: Vec<Limit>,
    /// The answer.
    pub status: StatusCode,
    /// gRPC clients are told that something is exhausted, not that it is unavailable.
    pub exhausted: bool,
    /// Clients get `x-ratelimit-*` headers where a rule says nothing of them.
    pub sends_limit_headers: bool,
    /// Edits of what is let through all the same.
    pub unenforced: HeaderSteps,
    /// Edits of the answer.
    pub response: HeaderSteps,
}

/// A descriptor that has a limit.
#[derive(Debug)]
pub struct Limit {
    /// The keys with the values; an empty value is each value by itself.
    pub entries: Box<[(Arc<str>, Box<str>)]>,
    /// Whose bucket.
    pub buckets: Buckets,
    /// What exceeds it is only noted.
    pub shadow: bool,
}

/// Buckets that all workers share.
#[allow(
    clippy::disallowed_types,
    reason = "held for a look-up that waits for nothing; after a panic the buckets are as good as before"
)]
pub type SharedBuckets = std::sync::Mutex<BucketCache>;

/// The buckets of a limit.
#[derive(Debug)]
pub enum Buckets {
    /// One.
    One(Arc<Bucket>),
    /// One for each set of values.
    Each(SharedBuckets),
}

/// Buckets by values; those that were not asked for the longest are given up for new ones.
#[derive(Debug)]
pub struct BucketCache {
    size: Size,
    max: usize,
    turn: u64,
    by_values: HashMap<Vec<String>, (u64, Arc<Bucket>)>,
    by_turn: BTreeMap<u64, Vec<String>>,
}

/// How large a bucket is, and how fast it is filled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Size {
    /// So many fit.
    pub max: u32,
    /// So many come in a second.
    pub rate: f64,
}

/// A bucket that is filled steadily. Kept as the moment at which it would have been empty, in seconds, so that taking
/// is one exchange of a number.
#[derive(Debug)]
pub struct Bucket {
    /// Its size.
    pub size: Size,
    empty_at: AtomicU64,
}

/// What may be lost when a number is made a moment and back.
const ROUNDING: f64 = 1e-6;

impl Bucket {
    /// A full one.
    pub fn full(size: Size) -> Arc<Self> {
        let empty_at = AtomicU64::new(f64::NEG_INFINITY.to_bits());
        Arc::new(Self { size, empty_at })
    }

    fn content(&self, empty_at: f64, now: f64) -> f64 {
        ((now - empty_at) * self.size.rate).min(f64::from(self.size.max))
    }

    /// Takes so many at a moment, if they are there.
    pub fn take(&self, count: u64, now: f64) -> bool {
        let mut seen = self.empty_at.load(Ordering::Relaxed);
        loop {
            let content = self.content(f64::from_bits(seen), now);
            let left = content - count as f64;
            if left < -ROUNDING {
                return false;
            }
            let empty_at = (now - left / self.size.rate).to_bits();
            let exchange = self
                .empty_at
                .compare_exchange_weak(seen, empty_at, Ordering::Relaxed, Ordering::Relaxed);
            match exchange {
                Ok(_) => return true,
                Err(other) => seen = other,
            }
        }
    }

    /// What is left at a moment: how many, and the seconds until there is one.
    pub fn left(&self, now: f64) -> (u64, u64) {
        let content = self.content(f64::from_bits(self.empty_at.load(Ordering::Relaxed)), now);
        let whole = (content + ROUNDING).max(0.0).floor();
        let missing = (1.0 - ROUNDING - content).max(0.0) / self.size.rate;
        (whole as u64, missing.ceil() as u64)
    }
}

impl BucketCache {
    /// No values have been seen.
    pub fn empty(size: Size, max: usize) -> Self {
        Self {
            size,
            max: max.max(1),
            turn: 0,
            by_values: HashMap::new(),
            by_turn: BTreeMap::new(),
        }
    }

    fn bucket(&mut self, values: Vec<String>) -> Arc<Bucket> {
        self.turn += 1;
        if let Some((turn, bucket)) = self.by_values.get_mut(&values) {
            if let Some(values) = self.by_turn.remove(turn) {
                self.by_turn.insert(self.turn, values);
            }
            *turn = self.turn;
            return Arc::clone(bucket);
        }
        if self.by_values.len() >= self.max
            && let Some((_, oldest)) = self.by_turn.pop_first()
        {
            self.by_values.remove(&oldest);
        }
        let bucket = Bucket::full(self.size);
        self.by_turn.insert(self.turn, values.clone());
        self.by_values.insert(values, (self.turn, Arc::clone(&bucket)));
        bucket
    }
}

impl Limit {
    /// The bucket for a descriptor, if this limit is for it.
    pub fn bucket(&self, said: &[Pair]) -> Option<Arc<Bucket>> {
        let fits = said.len() == self.entries.len()
            && said
                .iter()
                .zip(&self.entries)
                .all(|((key, value), (want, fixed))| key == want && (fixed.is_empty() || value.as_str() == &**fixed));
        fits.then(|| match &self.buckets {
            Buckets::One(bucket) => Arc::clone(bucket),
            Buckets::Each(seen) => {
                let values = said.iter().map(|(_, value)| value.clone()).collect();
                // What a panic has left behind are whole buckets.
                seen.lock().unwrap_or_else(PoisonError::into_inner).bucket(values)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Size = Size { max: 3, rate: 1.5 };

    #[test]
    fn a_bucket_is_full_and_fills_steadily() {
        let bucket = Bucket::full(SIZE);
        assert_eq!(bucket.left(10.0), (3, 0));
        assert!(bucket.take(2, 10.0) && !bucket.take(2, 10.0) && bucket.take(1, 10.0));
        assert_eq!(bucket.left(10.0), (0, 1));
        assert!(!bucket.take(1, 10.5) && bucket.take(1, 10.7));
        // It doesn't overflow.
        assert_eq!(bucket.left(1000.0), (3, 0));
        assert!(bucket.take(0, 11.0));
    }

    #[test]
    fn values_have_buckets_of_their_own_as_long_as_there_is_room() {
        let limit = Limit {
            entries: [("a".into(), "".into()), ("b".into(), "x".into())].into(),
            buckets: Buckets::Each(SharedBuckets::new(BucketCache::empty(SIZE, 2))),
            shadow: false,
        };
        let bucket = |value: &str, other: &str| {
            let said = [("a".into(), value.to_owned()), ("b".into(), other.to_owned())];
            limit.bucket(&said)
        };
        let take = |value: &str| bucket(value, "x").is_some_and(|bucket| bucket.take(3, 1.0));
        assert!(bucket("1", "y").is_none() && limit.bucket(&[("a".into(), "1".into())]).is_none());
        assert!(take("1") && take("2") && !take("1"));
        // The third takes the place of the second, which was asked for longer ago.
        assert!(take("3") && !take("1") && take("2"));
    }
}
