//! Load generators and backends that cost little themselves: fixed bytes out, responses counted by their length.
//!
//! Closed loop: each connection, or stream, has one request in flight. Latencies are of the whole exchange. Neither
//! side parses more than it must, so that the proxy between them is what a measurement sees.

pub mod backend;
pub mod handshakes;
pub mod http1;
pub mod http2;

use anyhow::{Context, Result, bail};
use std::{
    str::FromStr,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

/// How much load there is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Extent {
    /// For a time; written in seconds.
    Time(Duration),
    /// So many requests; written with an `x` behind.
    Requests(u64),
}

impl FromStr for Extent {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.strip_suffix('x') {
            Some(count) => Ok(Self::Requests(count.parse()?)),
            None => Ok(Self::Time(Duration::try_from_secs_f64(text.parse()?)?)),
        }
    }
}

/// What is left of a load that has begun.
#[derive(Debug)]
struct Quota {
    end: Option<Instant>,
    left: AtomicU64,
}

impl Quota {
    fn of(extent: Extent) -> Self {
        let (end, left) = match extent {
            Extent::Time(time) => (Some(Instant::now() + time), u64::MAX),
            Extent::Requests(count) => (None, count),
        };
        Self {
            end,
            left: AtomicU64::new(left),
        }
    }

    /// Takes one more request, if one is left.
    fn take(&self, now: Instant) -> bool {
        let less = |left: u64| left.checked_sub(1);
        self.end.is_none_or(|end| now < end)
            && self
                .left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less)
                .is_ok()
    }
}

/// What a run found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Finished exchanges.
    pub requests: u64,
    /// Connections that broke, and answers other than 200.
    pub errors: u64,
    /// Median latency.
    pub p50: Duration,
    /// 99th percentile of latency.
    pub p99: Duration,
}

impl Summary {
    /// Of latencies in nanoseconds.
    fn of(mut latencies: Vec<u32>, errors: u64, last: Option<anyhow::Error>) -> Result<Self> {
        if latencies.is_empty() {
            let last = last.context("nobody asked");
            bail!("no request was answered: {:#}", last.unwrap_or_else(|nobody| nobody));
        }
        latencies.sort_unstable();
        let at = |percent: usize| Duration::from_nanos(latencies[(latencies.len() - 1) * percent / 100].into());
        Ok(Self {
            requests: latencies.len() as u64,
            errors,
            p50: at(50),
            p99: at(99),
        })
    }
}

/// Nanoseconds since a moment.
fn since(start: Instant) -> u32 {
    u32::try_from(start.elapsed().as_nanos()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_ends_by_its_time_or_its_requests() {
        let now = Instant::now();
        let quota = Quota::of("2x".parse().unwrap());
        assert_eq!([(); 3].map(|()| quota.take(now)), [true, true, false]);
        let quota = Quota::of("0.5".parse().unwrap());
        assert!(quota.take(now));
        assert!(!quota.take(now + Duration::from_secs(9)));
        assert!("x".parse::<Extent>().is_err() && "-1".parse::<Extent>().is_err());
    }
}
