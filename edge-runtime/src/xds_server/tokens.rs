//! Whose a token is: the API server says (TokenReview), for one audience.
//!
//! What it said holds for a while and until the token expires. When it can't be asked, what it said last goes on holding
//! until then, and who is new is asked to come back. Tokens are kept as hashes, and nowhere else.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, TokenReviewStatus};
use kube::{Api, Client, api::PostParams};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use std::{
    collections::BTreeMap,
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};
use tokio::{
    sync::{Mutex, Semaphore},
    time::{self, Instant},
};
use tonic::Status;

/// How long what the API server said holds: an account that is deleted is refused after this.
const HOLDS: Duration = Duration::from_secs(600);
/// When it is asked again if it couldn't be asked.
const RETRY: Duration = Duration::from_secs(30);
/// How long an answer may take, and how long one may wait for one's turn.
const PATIENCE: Duration = Duration::from_secs(5);
/// Questions at a time: anybody can make us ask, so it mustn't be the API server that suffers.
const AT_A_TIME: usize = 8;
/// Tokens that are remembered: more than there are proxies.
const REMEMBERED: usize = 8192;
/// What the name of an account's user begins with.
const ACCOUNT: &str = "system:serviceaccount:";

/// A ServiceAccount.
#[derive(Clone, Debug, PartialEq, Eq)]
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
        self.expires.is_some_and(|expires| expires <= SystemTime::now())
    }
}

/// Asks the API server about tokens.
pub(super) struct Tokens {
    reviews: Api<TokenReview>,
    audience: Arc<str>,
    /// How long an answer holds.
    holds: Duration,
    known: Mutex<BTreeMap<[u8; 32], Proven>>,
    turns: Semaphore,
    /// Says in words what is wrong with the API server.
    describe: fn(&kube::Error) -> String,
    /// Why it couldn't be asked last: a reason is told once.
    trouble: Mutex<Option<String>>,
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens")
            .field("audience", &self.audience)
            .finish_non_exhaustive()
    }
}

impl Tokens {
    pub(super) fn new(client: Client, audience: Arc<str>, describe: fn(&kube::Error) -> String) -> Self {
        Self {
            reviews: Api::all(client),
            audience,
            holds: HOLDS,
            known: Mutex::default(),
            turns: Semaphore::new(AT_A_TIME),
            describe,
            trouble: Mutex::default(),
        }
    }

    /// Says whose a token is, or why it proves nothing. `Unavailable`: nobody can say at the moment.
    pub(super) async fn review(&self, token: &str) -> Result<Proven, Status> {
        let key: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        if let Some(known) = self.known(&key).await
            && Instant::now() < known.again
        {
            return Ok(known);
        }
        let said = async {
            let _turn = self.turns.acquire().await;
            // Somebody else may have asked about the same one meanwhile.
            match self.known(&key).await {
                Some(known) if Instant::now() < known.again => Some(Ok(known)),
                _ => self.ask(token).await,
            }
        };
        let Ok(Some(answer)) = time::timeout(2 * PATIENCE, said).await else {
            return self.without_answer(&key).await;
        };
        let mut known = self.known.lock().await;
        match &answer {
            Ok(proven) => {
                known.retain(|_, proven| !proven.has_expired());
                if known.len() < REMEMBERED {
                    known.insert(key, proven.clone());
                }
            }
            Err(_) => drop(known.remove(&key)),
        }
        answer
    }

    async fn known(&self, key: &[u8; 32]) -> Option<Proven> {
        let known = self.known.lock().await.get(key).cloned();
        known.filter(|known| !known.has_expired())
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
                self.trouble.lock().await.take();
                let account = judge(&review.status.unwrap_or_default(), &self.audience);
                return Some(account.map(|account| Proven {
                    account,
                    again: Instant::now() + self.holds,
                    expires: expiry(token),
                }));
            }
            Ok(Err(error)) => (self.describe)(&error),
            Err(_) => "the API server doesn't answer".to_owned(),
        };
        let mut trouble = self.trouble.lock().await;
        if trouble.as_ref() != Some(&problem) {
            tracing::warn!("tokens of proxies can't be reviewed: {problem}");
            *trouble = Some(problem);
        }
        None
    }

    async fn without_answer(&self, key: &[u8; 32]) -> Result<Proven, Status> {
        let known = self.known(key).await;
        let later = |known: Proven| Proven {
            again: Instant::now() + RETRY,
            ..known
        };
        known
            .map(later)
            .ok_or_else(|| Status::unavailable("the proxy's token can't be reviewed at the moment; try again"))
    }
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
