//! How many connections a filter chain serves at a time, over all workers (Envoy's `connection_limit`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A limit, and how much of it is taken.
#[derive(Debug)]
pub struct ConnectionLimit {
    /// So many at a time.
    pub most: u64,
    /// How long one beyond that is kept waiting for its end, so that its client doesn't come again at once.
    pub delay: Duration,
    open: AtomicU64,
}

impl ConnectionLimit {
    /// A limit of which nothing is taken.
    pub fn new(most: u64, delay: Duration) -> Self {
        Self {
            most,
            delay,
            open: AtomicU64::new(0),
        }
    }

    fn take(&self) -> bool {
        let more = |open| (open < self.most).then_some(open + 1);
        self.open
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .is_ok()
    }
}

/// A permit within all limits of a chain, given back when dropped.
#[derive(Debug)]
pub struct ConnectionPermit {
    limits: Arc<[ConnectionLimit]>,
    taken: usize,
}

impl ConnectionPermit {
    /// Takes one; when there is none, says how long to wait before the end.
    pub fn take(limits: &Arc<[ConnectionLimit]>) -> Result<Self, Duration> {
        let mut place = Self {
            limits: Arc::clone(limits),
            taken: 0,
        };
        for limit in limits.iter() {
            if !limit.take() {
                return Err(limit.delay);
            }
            place.taken += 1;
        }
        Ok(place)
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        for limit in &self.limits[..self.taken] {
            limit.open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_free_again_when_its_connection_has_ended() {
        let (wide, narrow) = (ConnectionLimit::new(3, Duration::ZERO), Duration::from_secs(1));
        let limits: Arc<[ConnectionLimit]> = [wide, ConnectionLimit::new(1, narrow)].into();
        let first = ConnectionPermit::take(&limits).unwrap();
        // Whoever fails at the second limit takes nothing of the first.
        for _ in 0..5 {
            assert_eq!(ConnectionPermit::take(&limits).map(drop), Err(narrow));
        }
        drop(first);
        assert!(ConnectionPermit::take(&limits).is_ok() && ConnectionPermit::take(&limits).is_ok());
    }
}
