//! Which priorities of a cluster a request has tried (Envoy's `previous_priorities`).

use std::num::NonZeroU32;

use crate::config::endpoint::EndpointSet;
use crate::config::endpoint::view::Passed;

/// What was tried.
#[derive(Debug, Default)]
pub(super) struct Tried {
    attempts: u32,
    seen: Passed,
    past: Passed,
}

impl Tried {
    /// The priorities that the next attempt leaves out. After every so many attempts those that were tried by then are;
    /// when nobody else can help, all begins anew.
    pub(super) fn past(&mut self, most: NonZeroU32, endpoints: &EndpointSet) -> Passed {
        if self.attempts > 0 && self.attempts.is_multiple_of(most.get()) {
            self.past.add_all(self.seen);
            if !endpoints.view().can_pass(self.past) {
                *self = Self::default();
            }
        }
        self.past
    }

    /// An attempt goes to a host of this priority.
    pub(super) fn add(&mut self, priority: Option<usize>) {
        self.attempts += 1;
        if let Some(priority) = priority {
            self.seen.add(priority);
        }
    }
}
