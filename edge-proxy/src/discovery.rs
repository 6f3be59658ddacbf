//! Streams to those who know what the proxy can't read anywhere: the configuration server, and servers of secrets
//! beside the proxy. Each is one at a time, opened again for ever; while nobody is there everything goes on with what
//! was said last.

use std::time::Duration;

pub(crate) mod ads;
mod connect;
pub(crate) mod files;
pub(crate) mod sds;

/// Pauses between attempts: 10 ms, doubled up to 15 s, each drawn from its upper half; a message resets it.
#[derive(Debug)]
struct Backoff {
    next: Duration,
}

impl Backoff {
    const FIRST: Duration = Duration::from_millis(10);
    const LAST: Duration = Duration::from_secs(15);

    /// At the first pause.
    fn new() -> Self {
        Self { next: Self::FIRST }
    }

    /// Back to the first pause.
    fn reset(&mut self) {
        self.next = Self::FIRST;
    }

    /// The next pause, for a random number.
    fn pause(&mut self, random: u64) -> Duration {
        let full = self.next;
        self.next = (full * 2).min(Self::LAST);
        let half = full / 2;
        half + half.mul_f64((random % 1000) as f64 / 1000.0)
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self::new()
    }
}
