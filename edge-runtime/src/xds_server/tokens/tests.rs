//! Reviews by an API server that the test plays: the client is the real one, its connection isn't.

use super::*;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};

/// The audience of the controller's tokens.
pub(in crate::xds_server) const AUDIENCE: &str = "edge-gateway.system.svc.cluster.local";

/// An API server that knows tokens of the form that [`token`] makes.
#[derive(Debug, Default)]
pub(in crate::xds_server) struct Reviewer {
    /// It is away.
    pub(in crate::xds_server) is_away: AtomicBool,
    /// It takes questions and doesn't answer.
    pub(in crate::xds_server) hangs: AtomicBool,
    /// No account is there any more.
    pub(in crate::xds_server) has_forgotten: AtomicBool,
    /// Questions so far.
    pub(in crate::xds_server) asked: AtomicUsize,
    /// Lists of workloads so far.
    pub(in crate::xds_server) listed: AtomicUsize,
    /// Workloads in the namespace `ns`, by the plural of their kind.
    pub(in crate::xds_server) workloads: Mutex<BTreeMap<String, Vec<Value>>>,
}

impl Reviewer {
    /// A client of it.
    pub(in crate::xds_server) fn client(self: &Arc<Self>) -> Client {
        let reviewer = Arc::clone(self);
        let service = tower::service_fn(move |request: Request<Body>| {
            let reviewer = Arc::clone(&reviewer);
            async move { Ok::<_, Infallible>(reviewer.answer(request).await) }
        });
        Client::new(service, "default")
    }

    async fn answer(&self, request: Request<Body>) -> Response<Body> {
        let workloads = request.uri().path().strip_prefix("/apis/apps/v1/namespaces/ns/");
        if workloads.is_none() {
            assert_eq!(request.uri().path(), "/apis/authentication.k8s.io/v1/tokenreviews");
            self.asked.fetch_add(1, Ordering::Relaxed);
        }
        if self.hangs.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        let answer = |status, body: Value| {
            let body = Body::from(body.to_string().into_bytes());
            Response::builder().status(status).body(body).unwrap()
        };
        if self.is_away.load(Ordering::Relaxed) {
            let status =
                json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 503, "message": "away"});
            return answer(StatusCode::SERVICE_UNAVAILABLE, status);
        }
        if let Some(kind) = workloads {
            self.listed.fetch_add(1, Ordering::Relaxed);
            let items = self.workloads.lock().await.get(kind).cloned().unwrap_or_default();
            return answer(StatusCode::OK, json!({"metadata": {}, "items": items}));
        }
        let bytes = request.into_body().collect().await.unwrap().to_bytes();
        let mut review: Value = serde_json::from_slice(&bytes).unwrap();
        let token = review["spec"]["token"].as_str().unwrap().to_owned();
        review["status"] = self.status(&token, &review["spec"]["audiences"]);
        answer(StatusCode::CREATED, review)
    }

    /// As the API server's own authenticator of accounts answers.
    fn status(&self, token: &str, audiences: &Value) -> Value {
        let payload = URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap();
        let claims: Value = serde_json::from_slice(&payload).unwrap();
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap()
            .as_secs();
        if claims["exp"].as_u64().unwrap() <= now {
            return json!({"authenticated": false, "error": "[invalid bearer token, service account token has expired]"});
        }
        if self.has_forgotten.load(Ordering::Relaxed) {
            return json!({"authenticated": false, "error": "[invalid bearer token, service account has been deleted]"});
        }
        if !audiences.as_array().unwrap().contains(&claims["aud"]) {
            return json!({"authenticated": false, "error": "[invalid bearer token, token audiences is invalid]"});
        }
        json!({"authenticated": true, "user": {"username": claims["sub"]}, "audiences": [claims["aud"]]})
    }
}

/// A token of an account that holds for so many seconds.
pub(in crate::xds_server) fn token(account: &str, audience: &str, seconds: i64) -> String {
    let now = jiff::Timestamp::now().as_second();
    let claims = json!({"sub": format!("{ACCOUNT}{account}"), "aud": audience, "exp": now + seconds});
    let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
    format!("{}.{}.{}", part("{}"), part(&claims.to_string()), part("signature"))
}

#[tokio::test]
async fn an_account_is_known_by_its_token_and_asked_about_once() {
    let server = Arc::new(Reviewer::default());
    let tokens = Tokens::new(server.client(), AUDIENCE.into());
    let token = token("ns:edge-ns-gw", AUDIENCE, 3600);
    for _ in 0..3 {
        let proven = tokens.review(&token).await.unwrap();
        tokens.keep(&token, &proven).await;
        assert_eq!(proven.account.to_string(), "ns/edge-ns-gw");
        let left = proven.expires.unwrap().duration_since(SystemTime::now()).unwrap();
        assert!((3590..=3600).contains(&left.as_secs()), "{left:?}");
    }
    assert_eq!(server.asked.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn what_the_api_server_doesnt_know_proves_nothing() {
    let server = Arc::new(Reviewer::default());
    let tokens = Tokens::new(server.client(), AUDIENCE.into());
    for (token, reason) in [
        (token("ns:a", "somebody-else", 3600), "token audiences is invalid"),
        (token("ns:a", AUDIENCE, -1), "has expired"),
    ] {
        let refused = tokens.review(&token).await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::Unauthenticated);
        assert!(refused.message().contains(reason), "{refused}");
        assert!(!refused.message().contains(&token), "a token in a message");
        // One that comes back at once is refused without a question.
        let asked = server.asked.load(Ordering::Relaxed);
        assert_eq!(tokens.review(&token).await.unwrap_err().message(), refused.message());
        assert_eq!(server.asked.load(Ordering::Relaxed), asked);
    }
}

#[test]
fn an_answer_without_our_audience_or_an_account_is_none() {
    let status = |audiences: &[&str], username: &str| -> TokenReviewStatus {
        let value = json!({"authenticated": true, "user": {"username": username}, "audiences": audiences});
        serde_json::from_value(value).unwrap()
    };
    let account = "system:serviceaccount:ns:a";
    assert!(judge(&status(&[AUDIENCE], account), AUDIENCE).is_ok());
    for (status, reason) in [
        (status(&[], account), "not for the audience"),
        (status(&["other"], account), "not for the audience"),
        (status(&[AUDIENCE], "system:admin"), "not a ServiceAccount's"),
        (TokenReviewStatus::default(), "doesn't know it"),
    ] {
        let refused = judge(&status, AUDIENCE).unwrap_err();
        assert!(refused.message().contains(reason), "{refused}");
    }
}

#[tokio::test]
async fn while_the_api_server_is_away_who_is_known_goes_on_and_who_is_new_comes_back() {
    let server = Arc::new(Reviewer::default());
    let mut tokens = Tokens::new(server.client(), AUDIENCE.into());
    // Whatever is known must be asked about again at once.
    tokens.holds = Duration::ZERO;
    tokens.memory = Mutex::new(Memory::with(Room {
        briefly: Duration::ZERO,
        ..Room::default()
    }));
    let (known, new) = (token("ns:a", AUDIENCE, 3600), token("ns:b", AUDIENCE, 3600));
    let proven = tokens.review(&known).await.unwrap();
    tokens.keep(&known, &proven).await;
    // Of no fleet, so it takes no place among those that are.
    let stranger = token("ns:c", AUDIENCE, 3600);
    tokens.review(&stranger).await.unwrap();
    server.is_away.store(true, Ordering::Relaxed);
    let proven = tokens.review(&known).await.unwrap();
    assert!(proven.again <= Instant::now() + RETRY, "it is asked about again soon");
    for unknown in [&new, &stranger] {
        let refused = tokens.review(unknown).await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::Unavailable);
    }
    server.is_away.store(false, Ordering::Relaxed);
    tokens.review(&new).await.unwrap();
    // One that was deleted is found out when it is asked about again.
    server.has_forgotten.store(true, Ordering::Relaxed);
    let refused = tokens.review(&known).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::Unauthenticated);
}

#[tokio::test]
async fn no_debug_form_shows_a_token() {
    let server = Arc::new(Reviewer::default());
    let tokens = Tokens::new(server.client(), AUDIENCE.into());
    let token = token("ns:a", AUDIENCE, 3600);
    let proven = tokens.review(&token).await.unwrap();
    let shown = format!("{tokens:?} {proven:?}");
    assert!(!shown.contains(&token), "{shown}");
}
