//! Bytes in a time (Envoy's `bandwidth_limit`).
//!
//! All requests under one setting take from one bucket, on every worker, without a lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use http::HeaderName;

/// What buckets count their seconds from.
static BEGINNING: LazyLock<Instant> = LazyLock::new(Instant::now);

/// How fast content may pass.
#[derive(Debug)]
pub struct Bandwidth {
    /// That of requests.
    pub requests: bool,
    /// That of responses.
    pub responses: bool,
    /// What it takes from.
    pub bucket: Arc<ByteBucket>,
    /// How long content waits that finds nothing there.
    pub interval: Duration,
    /// Whether clients are told how long it has taken, and in which trailers.
    pub trailers: Option<Trailers>,
}

/// The trailers that tell of milliseconds.
#[derive(Clone, Debug)]
pub struct Trailers {
    /// Of a request's content, from first to last.
    pub request: HeaderName,
    /// What the filter has added to that.
    pub request_wait: HeaderName,
    /// Of a response's content, from first to last.
    pub response: HeaderName,
    /// What the filter has added to that.
    pub response_wait: HeaderName,
}

/// A bucket for the bytes of a second. Kept as the moment at which it would have been empty, in seconds.
#[derive(Debug)]
pub struct ByteBucket {
    rate: f64,
    empty_at: AtomicU64,
}

impl ByteBucket {
    /// One that gets so many bytes a second.
    pub fn new(rate: f64) -> Arc<Self> {
        let empty_at = AtomicU64::new(f64::NEG_INFINITY.to_bits());
        Arc::new(Self { rate, empty_at })
    }

    /// Somebody begins to take from it. The first finds what comes in an interval, not a second: who sends little is
    /// slowed too.
    pub fn begin(&self, interval: Duration) {
        let unused = f64::NEG_INFINITY.to_bits();
        let begun = (now() - interval.as_secs_f64()).to_bits();
        // Whoever was first has done the same.
        let _ = self
            .empty_at
            .compare_exchange(unused, begun, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Takes what there is, up to so many bytes.
    pub fn take(&self, count: usize) -> usize {
        self.take_at(count, now())
    }

    fn take_at(&self, count: usize, now: f64) -> usize {
        let mut seen = self.empty_at.load(Ordering::Relaxed);
        loop {
            let content = ((now - f64::from_bits(seen)) * self.rate).min(self.rate).max(0.0);
            let taken = (content as usize).min(count);
            if taken == 0 {
                return 0;
            }
            let empty_at = (now - (content - taken as f64) / self.rate).to_bits();
            let exchange = self
                .empty_at
                .compare_exchange_weak(seen, empty_at, Ordering::Relaxed, Ordering::Relaxed);
            match exchange {
                Ok(_) => return taken,
                Err(other) => seen = other,
            }
        }
    }
}

fn now() -> f64 {
    BEGINNING.elapsed().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_gives_what_has_come_and_holds_a_second() {
        let bucket = ByteBucket::new(1000.0);
        // As if it had been begun with 50 ms at 10.0.
        bucket.empty_at.store(9.95_f64.to_bits(), Ordering::Relaxed);
        assert_eq!(bucket.take_at(20, 10.0), 20);
        assert!((29..=30).contains(&bucket.take_at(100, 10.0)));
        assert!(bucket.take_at(100, 10.0) <= 1);
        assert!((99..=101).contains(&bucket.take_at(500, 10.1)));
        assert_eq!(bucket.take_at(5000, 100.0), 1000);
        assert_eq!(bucket.take_at(5000, 100.0), 0);
    }

    #[test]
    fn the_first_finds_little() {
        let bucket = ByteBucket::new(1_000_000.0);
        bucket.begin(Duration::from_millis(50));
        assert!((50_000..900_000).contains(&bucket.take(1_000_000)));
        bucket.begin(Duration::from_millis(900));
        assert!(bucket.take(1_000_000) < 800_000);
    }
}
