//! Acknowledgements of clusters that wait until these can be used.
//!
//! A server takes the acknowledgement for leave to send routes to a cluster. Whether the server has told of
//! everything it knows itself; what the proxy has yet to find out, only the proxy does: the addresses of names, and the
//! health of hosts that are probed. Envoy holds its acknowledgement for the same reason while clusters warm.

use std::collections::VecDeque;

use envoy_types::pb::envoy::service::discovery::v3::DeltaDiscoveryRequest;
use tokio::time::Instant;

use crate::control::{Control, Progress};
use crate::discovery::ads::INITIAL_FETCH;

/// Answers of one stream, in the order of what they answer.
#[derive(Debug, Default)]
pub(super) struct Withheld {
    answers: VecDeque<Answer>,
}

#[derive(Debug)]
struct Answer {
    request: DeltaDiscoveryRequest,
    clusters: Vec<String>,
    /// Sent then in any case, as answers that follow wait for it. Envoy waits as long for what a server owes.
    until: Instant,
}

impl Withheld {
    /// Keeps the answer to clusters of these names, if one of them can't be used yet; otherwise it comes back. While
    /// the proxy starts the server hears of no listener before clusters can be used, and nothing need be withheld.
    pub(super) fn keep(
        &mut self,
        control: &Control,
        request: DeltaDiscoveryRequest,
        clusters: Vec<String>,
    ) -> Option<DeltaDiscoveryRequest> {
        let waits =
            control.progress() == Progress::Live && control.read(|assembly| assembly.awaits_findings(&clusters));
        if !waits {
            return Some(request);
        }
        self.answers.push_back(Answer {
            request,
            clusters,
            until: Instant::now() + INITIAL_FETCH,
        });
        None
    }

    /// When the next answer is due, come what may.
    pub(super) fn due(&self) -> Option<Instant> {
        self.answers.front().map(|answer| answer.until)
    }

    /// The next answer that may be sent.
    pub(super) fn next(&mut self, control: &Control) -> Option<DeltaDiscoveryRequest> {
        let first = self.answers.front()?;
        let waits = Instant::now() < first.until && control.read(|assembly| assembly.awaits_findings(&first.clusters));
        if waits {
            return None;
        }
        self.answers.pop_front().map(|answer| answer.request)
    }
}
