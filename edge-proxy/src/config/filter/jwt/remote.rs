//! Keys that a server has: when they are fetched, and what is known meanwhile.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use http::HeaderValue;
use http::uri::PathAndQuery;

use super::KeySet;
use crate::config::ClusterId;
use crate::config::route::RetryPolicy;

/// Keys that a server has. What is known of them is shared by all workers, and whoever finds it too old fetches it
/// anew.
#[derive(Debug)]
pub struct RemoteKeys {
    /// Whom to ask.
    pub cluster: ClusterId,
    /// What it is called.
    pub authority: HeaderValue,
    /// What to ask for.
    pub target: PathAndQuery,
    /// How long that may take.
    pub timeout: Option<Duration>,
    /// When they are asked for again at once.
    pub retry: Option<Box<RetryPolicy>>,
    /// How long keys are good.
    pub kept: Duration,
    /// How long nobody asks again who has had no answer.
    pub pause: Duration,
    /// Who fetches holds it.
    pub fetching: tokio::sync::Mutex<()>,
    state: RwLock<State>,
}

#[derive(Debug, Default)]
struct State {
    keys: Option<Arc<KeySet>>,
    until: Option<Instant>,
}

/// Whether keys are there, and good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// They are good, or nobody is to be asked for a while.
    Fresh,
    /// They should be fetched anew, and will do meanwhile.
    Stale,
    /// There are none.
    Missing,
}

impl RemoteKeys {
    /// Keys of which nothing is known yet.
    pub fn new(cluster: ClusterId, authority: HeaderValue, target: PathAndQuery) -> Self {
        Self {
            cluster,
            authority,
            target,
            timeout: None,
            retry: None,
            kept: Duration::from_secs(600),
            pause: Duration::from_secs(1),
            fetching: tokio::sync::Mutex::new(()),
            state: RwLock::default(),
        }
    }

    /// The keys, once there are some.
    pub fn keys(&self) -> Option<Arc<KeySet>> {
        self.state.read().unwrap_or_else(PoisonError::into_inner).keys.clone()
    }

    /// Whether they are there and good at a moment.
    pub fn freshness(&self, now: Instant) -> Freshness {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        match (&state.keys, state.until) {
            (_, Some(until)) if now < until => Freshness::Fresh,
            (Some(_), _) => Freshness::Stale,
            (None, _) => Freshness::Missing,
        }
    }

    /// Keeps what was fetched. Old keys stay where nothing came: an issuer that is away for a moment shuts nobody out.
    pub fn keep(&self, fetched: Option<KeySet>, now: Instant) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let lasts = if fetched.is_some() { self.kept } else { self.pause };
        state.until = now.checked_add(lasts);
        if let Some(keys) = fetched {
            state.keys = Some(Arc::new(keys));
        }
    }
}
