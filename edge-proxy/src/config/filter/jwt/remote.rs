//! Keys that a server has: when they are fetched, and what is known meanwhile.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use http::HeaderValue;
use http::uri::PathAndQuery;
use tokio::sync::Mutex;

use super::KeySet;
use crate::config::ClusterId;
use crate::config::route::RetryPolicy;

/// Nobody is kept from asking for keys that nobody has for longer than this, however long the pause is between looks
/// ahead of requests.
const MISSING_PAUSE: Duration = Duration::from_secs(1);

/// Keys that a server has. What is known of them is shared by all workers, and by whatever names the same server with
/// the same settings.
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
    /// Whether they are fetched before a request needs them.
    pub ahead: Ahead,
    /// The fetch that is under way holds it.
    pub fetching: Arc<Mutex<()>>,
    state: RwLock<State>,
}

#[derive(Debug, Default)]
struct State {
    keys: Option<Arc<KeySet>>,
    /// When they were asked for last.
    asked: Option<Instant>,
    /// When they are to be asked for again.
    until: Option<Instant>,
}

/// Who has keys fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ahead {
    /// Whoever configures them: they are there before the first request, and are renewed when it is time.
    OfRequests,
    /// Requests that need them.
    Never,
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
            ahead: Ahead::Never,
            fetching: Arc::default(),
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
        let rest = match &state.keys {
            Some(_) => state.until,
            None => state
                .asked
                .and_then(|asked| asked.checked_add(self.pause.min(MISSING_PAUSE))),
        };
        match &state.keys {
            _ if rest.is_some_and(|rest| now < rest) => Freshness::Fresh,
            Some(_) => Freshness::Stale,
            None => Freshness::Missing,
        }
    }

    /// When whoever fetches them ahead of requests does it again; `None` is at once.
    pub fn due(&self) -> Option<Instant> {
        self.state.read().unwrap_or_else(PoisonError::into_inner).until
    }

    /// Keeps what was fetched. Old keys stay where nothing came: an issuer that is away for a moment shuts nobody out.
    pub fn keep(&self, fetched: Option<KeySet>, now: Instant) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let lasts = if fetched.is_some() { self.kept } else { self.pause };
        state.asked = Some(now);
        state.until = now.checked_add(lasts);
        if let Some(keys) = fetched {
            state.keys = Some(Arc::new(keys));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_keys_are_asked_for_again_before_it_is_time_to_look_ahead() {
        let authority = HeaderValue::from_static("idp.example");
        let mut keys = RemoteKeys::new(ClusterId(0), authority, PathAndQuery::from_static("/"));
        keys.pause = Duration::from_secs(60);
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        assert_eq!((keys.freshness(begun), keys.due()), (Freshness::Missing, None));
        keys.keep(None, begun);
        assert_eq!(keys.freshness(begun), Freshness::Fresh);
        assert_eq!((keys.freshness(at(1)), keys.due()), (Freshness::Missing, Some(at(60))));
        keys.keep(Some(KeySet::default()), at(1));
        assert_eq!((keys.freshness(at(600)), keys.due()), (Freshness::Fresh, Some(at(601))));
        keys.keep(None, at(601));
        assert_eq!(keys.freshness(at(602)), Freshness::Fresh);
        assert_eq!((keys.freshness(at(661)), keys.due()), (Freshness::Stale, Some(at(661))));
    }
}
