//! What the API server's side of a controller goes by: how much it may ask, and how a leader is found.

use std::{sync::Arc, time::Duration};

/// Limits towards the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientLimits {
    /// Requests in a second, on average.
    pub qps: u32,
    /// Requests at once.
    pub burst: u32,
}

/// How one replica becomes the writer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Election {
    /// By a Lease.
    Lease(LeaseTerms),
    /// Every replica writes.
    Off,
}

/// Whose Lease, and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseTerms {
    /// Namespace of the Lease.
    pub namespace: Arc<str>,
    /// How long one who doesn't renew it keeps it.
    pub duration: Duration,
    /// How long a leader tries to renew it before it steps down: less than `duration`, so that there are never two.
    pub renew_deadline: Duration,
    /// Time between tries.
    pub retry: Duration,
}
