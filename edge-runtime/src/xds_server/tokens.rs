//! Whose a token is: the API server says (TokenReview), for one audience.
//!
//! What it said of a proxy's holds for a while and until the token expires ([`memory`]). When it can't be asked, what
//! it said last goes on holding until then, and who is new is asked to come back. Tokens are kept as hashes, and
//! nowhere else.

use crate::{cluster::fault::describe, trouble::Trouble};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, TokenReviewStatus};
use kube::{Api, Client, api::PostParams};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};
use tokio::{
    sync::{Mutex, Semaphore},
    time::{self, Instant},
};
use tonic::Status;

mod memory;

use memory::{Hash, Memory, Room};

/// How long what the API server said holds: an account that is deleted is refused after this.
const HOLDS: Duration = Duration::from_secs(600);
/// When it is asked again if it couldn't be asked.
const RETRY: Duration = Duration::from_secs(30);
/// How long an answer may take, and how long one may wait for one's turn.
const PATIENCE: Duration = Duration::from_secs(5);
/// Questions at a time: anybody can make us ask, so it mustn't be the API server that suffers.
const AT_A_TIME: usize = 8;
/// What the name of an account's user begins with.
const ACCOUNT: &str = "system:serviceaccount:";

/// A ServiceAccount.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Account {
    pub(super) namespace: Arc<str>,
    pub(super) name: Arc<str>,
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// What is known of a token.
#[derive(Clone, Debug)]
pub(super) struct Proven {
    /// Whose it is.
    pub(super) account: Account,
    /// When that must be asked again.
    pub(super) again: Instant,
    /// When the token expires, if it says so.
    pub(super) expires: Option<SystemTime>,
}

impl Proven {
    fn has_expired(&self) -> bool {
        self.has_expired_at(SystemTime::now())
    }

    fn has_expired_at(&self, time: SystemTime) -> bool {
        self.expires.is_some_and(|expires| expires <= time)
    }
}

/// Asks the API server about tokens.
pub(super) struct Tokens {
    reviews: Api<TokenReview>,
    audience: Arc<str>,
    /// How long an answer holds.
    holds: Duration,
    memory: Mutex<Memory>,
    turns: Semaphore,
    trouble: Mutex<Trouble>,
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens")
            .field("audience", &self.audience)
            .finish_non_exhaustive()
    }
}

impl Tokens {
    pub(super) fn new(client: Client, audience: Arc<str>) -> Self {
        Self {
            reviews: Api::all(client),
            audience,
            holds: HOLDS,
            memory: Mutex::new(Memory::with(Room::default())),
            turns: Semaphore::new(AT_A_TIME),
            trouble: Mutex::default(),
        }
    }

    /// Says whose a token is, or why it proves nothing. `Unavailable`: nobody can say at the moment.
    pub(super) async fn review(&self, token: &str) -> Result<Proven, Status> {
        let key = hash(token);
        if let Some(answer) = self.known(&key).await {
            return answer;
        }
        let said = async {
            let _turn = self.turns.acquire().await;
            // Somebody else may have asked about the same one meanwhile.
            match self.known(&key).await {
                Some(answer) => Some(answer),
                None => self.ask(token).await,
            }
        };
        let Ok(Some(answer)) = time::timeout(2 * PATIENCE, said).await else {
            return self.without_answer(&key).await;
        };
        self.memory.lock().await.note(key, &answer, Instant::now());
        answer
    }

    /// A token has proved the account of a fleet: what is known of it is kept.
    pub(super) async fn keep(&self, token: &str, proven: &Proven) {
        let (key, proven) = (hash(token), proven.clone());
        self.memory.lock().await.keep(key, proven, Instant::now());
    }

    async fn known(&self, key: &Hash) -> Option<Result<Proven, Status>> {
        self.memory.lock().await.answer(key, Instant::now())
    }

    /// What the API server says; none if it says nothing.
    async fn ask(&self, token: &str) -> Option<Result<Proven, Status>> {
        let review = TokenReview {
            spec: TokenReviewSpec {
                token: Some(token.to_owned()),
                audiences: Some(vec![self.audience.to_string()]),
            },
            ..TokenReview::default()
        };
        let parameters = PostParams::default();
        let asked = time::timeout(PATIENCE, self.reviews.create(&parameters, &review)).await;
        let problem = match asked {
            Ok(Ok(review)) => {
                self.trouble.lock().await.ends();
                let account = judge(&review.status.unwrap_or_default(), &self.audience);
                return Some(account.map(|account| Proven {
                    account,
                    again: Instant::now() + self.holds,
                    expires: expiry(token),
                }));
            }
            Ok(Err(error)) => describe(&error),
            Err(_) => "the API server doesn't answer".to_owned(),
        };
        if self.trouble.lock().await.begins(&problem) {
            tracing::warn!("tokens of proxies can't be reviewed: {problem}");
        }
        None
    }

    async fn without_answer(&self, key: &Hash) -> Result<Proven, Status> {
        let known = self.memory.lock().await.last(key);
        let later = |known: Proven| Proven {
            again: Instant::now() + RETRY,
            ..known
        };
        known
            .map(later)
            .ok_or_else(|| Status::unavailable("the proxy's token can't be reviewed at the moment; try again"))
    }
}

fn hash(token: &str) -> Hash {
    Sha256::digest(token.as_bytes()).into()
}

/// Takes an answer apart.
fn judge(status: &TokenReviewStatus, audience: &str) -> Result<Account, Status> {
    let refused = |reason: &str| {
        Err(Status::unauthenticated(format!(
            "the proxy's token proves nothing: {reason}"
        )))
    };
    if status.authenticated != Some(true) {
        let reason = status.error.as_deref().unwrap_or("the API server doesn't know it");
        return refused(reason);
    }
    // An authenticator that knows nothing of audiences names none (k8s.io/api/authentication/v1, TokenReviewStatus).
    let is_for_us = status.audiences.iter().flatten().any(|other| other == audience);
    if !is_for_us {
        return refused(&format!("it is not for the audience {audience}"));
    }
    let user = status.user.as_ref().and_then(|user| user.username.as_deref());
    let account = user
        .and_then(|user| user.strip_prefix(ACCOUNT))
        .and_then(|account| account.split_once(':'));
    let Some((namespace, name)) = account else {
        return refused("it is not a ServiceAccount's");
    };
    Ok(Account {
        namespace: namespace.into(),
        name: name.into(),
    })
}

/// When a token expires, by its own words (RFC 7519 §4.1.4). Whether they are true, the API server has said.
fn expiry(token: &str) -> Option<SystemTime> {
    #[derive(Deserialize)]
    struct Claims {
        exp: u64,
    }
    let payload = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    let claims: Claims = serde_json::from_slice(&payload).ok()?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(claims.exp))
}

#[cfg(test)]
pub(super) mod tests;
