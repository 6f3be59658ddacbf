//! Keys of tokens that a server has: as with stock Envoy 1.40 and `async_fetch` they are there before the first request
//! where they are fetched ahead, and no client waits for what is only old, or ends a fetch by leaving.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use http::Response;
use http_body_util::Full;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::sync::Notify;

use crate::filters::compiled;
use crate::support::{Backend, Config, Proxy, Reply, Speaks, cluster, entry, get, run, snapshot_with, table, until};
use crate::tokens::BEARER_A;

const ROUTES: &str = r#"
- match: {prefix: /}
  route: {cluster: c0}
  typed_per_filter_config:
    envoy.filters.http.jwt_authn: {"@type": HTTP/jwt_authn.v3.PerRouteConfig, requirement_name: a}
"#;

const KEY: &str = r#"{"keys": [{"kty": "oct", "alg": "HS256", "kid": "a", "k": "a2V5IG9mIGE"}]}"#;
const OTHER_KEY: &str = r#"{"keys": [{"kty": "oct", "alg": "HS256", "kid": "other", "k": "a2V5IG9mIGI"}]}"#;

/// A proxy whose keys a server has.
struct Keyed {
    proxy: Proxy,
    server: Backend,
    /// Lets the server give an answer that it holds.
    go: Arc<Notify>,
}

impl Keyed {
    /// The server answers with these by turns, the last again and again, and holds the answers from this one on.
    async fn start(settings: &str, answers: &'static [&'static str], held: usize) -> Self {
        let (asked, go) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
        let wait = Arc::clone(&go);
        let server = Backend::start_async(Speaks::Http1, move |_| {
            let (turn, wait) = (asked.fetch_add(1, Ordering::SeqCst), Arc::clone(&wait));
            async move {
                if turn >= held {
                    wait.notified().await;
                }
                Response::new(Full::from(answers[turn.min(answers.len() - 1)]))
            }
        })
        .await;
        let chain = format!(
            r#"
- name: envoy.filters.http.jwt_authn
  typed_config:
    "@type": HTTP/jwt_authn.v3.JwtAuthentication
    providers:
      a:
        issuer: a
        remote_jwks: {{http_uri: {{uri: 'http://idp.example/keys', cluster: c1, timeout: 60s}}{settings}}}
    requirement_map: {{a: {{provider_name: a}}}}
- {{name: envoy.filters.http.router, typed_config: {{"@type": HTTP/router.v3.Router}}}}
"#
        );
        let backend = Backend::named("served").await;
        let clusters = vec![
            entry(0, cluster(0), &[backend.address]),
            entry(1, cluster(1), &[server.address]),
        ];
        let snapshot = snapshot_with(compiled(&chain, ROUTES), table("*", Vec::new()), clusters);
        let proxy = Proxy::start(Config { snapshot, workers: 2 });
        Self { proxy, server, go }
    }

    async fn ask(&self) -> Reply {
        let mut request = get("h.example", "/");
        request.headers_mut().insert("authorization", BEARER_A.parse().unwrap());
        self.proxy.http1().await.send(request).await
    }
}

#[test]
fn keys_are_fetched_ahead_of_requests() {
    run(async {
        let keyed = Keyed::start(", async_fetch: {fast_listener: true}", &[KEY], usize::MAX).await;
        keyed.server.wait_for(1).await;
        for _ in 0..3 {
            assert_eq!(keyed.ask().await.status, 200);
        }
        assert_eq!(keyed.server.requests(), 1);
    });
}

#[test]
fn keys_that_are_fetched_ahead_are_renewed_without_a_request() {
    run(async {
        let settings = ", cache_duration: 0.001s, async_fetch: {}";
        let keyed = Keyed::start(settings, &[KEY], usize::MAX).await;
        keyed.server.wait_for(3).await;
        assert_eq!(keyed.ask().await.status, 200);
        // What no listener needs any more nobody follows.
        let mut followed = Weak::new();
        keyed.proxy.publish(|snapshot| {
            let before = std::mem::take(&mut snapshot.listeners);
            let mut keys = before.values().flat_map(|listener| listener.remote_keys());
            followed = keys.next().map(Arc::downgrade).unwrap();
        });
        until("the keys to be forgotten", || followed.strong_count() == 0).await;
    });
}

#[test]
fn a_client_that_leaves_ends_no_fetch() {
    run(async {
        let keyed = Keyed::start("", &[KEY], 0).await;
        let mut client = TcpStream::connect(keyed.proxy.address).await.unwrap();
        let request = format!("GET / HTTP/1.1\r\nhost: h.example\r\nauthorization: {BEARER_A}\r\n\r\n");
        client.write_all(request.as_bytes()).await.unwrap();
        keyed.server.wait_for(1).await;
        drop(client);
        let (reply, ()) = tokio::join!(keyed.ask(), async { keyed.go.notify_one() });
        assert_eq!((reply.status, keyed.server.requests()), (200, 1));
    });
}

#[test]
fn nobody_waits_for_keys_that_are_only_old() {
    run(async {
        let keyed = Keyed::start(", cache_duration: 0.001s", &[OTHER_KEY, KEY], 1).await;
        assert_eq!(keyed.ask().await.status, 401);
        // A fetch that hangs holds nobody up.
        while keyed.server.requests() < 2 {
            assert_eq!(keyed.ask().await.status, 401);
        }
        assert_eq!(keyed.ask().await.status, 401);
        assert_eq!(keyed.server.requests(), 2);
        // What it brings in the end counts.
        keyed.go.notify_one();
        while keyed.ask().await.status != 200 {}
    });
}
