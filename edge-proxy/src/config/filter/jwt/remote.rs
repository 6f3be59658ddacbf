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
    /// Who has them fetched.
    pub mode: FetchMode,
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
pub enum FetchMode {
    /// Whoever configures them (`async_fetch`): they are there before the first request, and are renewed when it is
    /// time.
    Eager,
    /// Requests that need them.
    OnDemand,
}

/// What a request that needs keys has to do about them. It says nothing of whether there are any:
/// [`keys`](RemoteKeys::keys) does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// They are good, or nobody is to be asked for a while.
    Nothing,
    /// They should be fetched anew, and will do meanwhile.
    Refresh,
    /// There are none: they must be fetched, and waited for.
    Fetch,
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
            mode: FetchMode::OnDemand,
            fetching: Arc::default(),
            state: RwLock::default(),
        }
    }

    /// The keys, once there are some.
    pub fn keys(&self) -> Option<Arc<KeySet>> {
        self.state.read().unwrap_or_else(PoisonError::into_inner).keys.clone()
    }

    /// What is to be done about them at a moment.
    pub fn due_at(&self, now: Instant) -> Due {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        let (rest, due) = match &state.keys {
            Some(_) => (state.until, Due::Refresh),
            None => {
                let pause = self.pause.min(MISSING_PAUSE);
                (state.asked.and_then(|asked| asked.checked_add(pause)), Due::Fetch)
            }
        };
        if rest.is_some_and(|rest| now < rest) {
            return Due::Nothing;
        }
        due
    }

    /// When whoever fetches them eagerly does it again; `None` is at once.
    pub fn next_fetch(&self) -> Option<Instant> {
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
        assert_eq!((keys.due_at(begun), keys.next_fetch()), (Due::Fetch, None));
        keys.keep(None, begun);
        assert_eq!(keys.due_at(begun), Due::Nothing);
        assert_eq!((keys.due_at(at(1)), keys.next_fetch()), (Due::Fetch, Some(at(60))));
        keys.keep(Some(KeySet::default()), at(1));
        assert_eq!((keys.due_at(at(600)), keys.next_fetch()), (Due::Nothing, Some(at(601))));
        keys.keep(None, at(601));
        assert_eq!(keys.due_at(at(602)), Due::Nothing);
        assert_eq!((keys.due_at(at(661)), keys.next_fetch()), (Due::Refresh, Some(at(661))));
    }
}
