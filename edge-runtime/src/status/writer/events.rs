//! Events: a Gateway whose proxies refuse a configuration says so where `kubectl describe` shows it, once for each
//! refusal. What can't be posted is tried again for as long as the refusal stands.

use super::{Cluster, objects};
use crate::{
    backoff::{Backoff, random},
    cluster::fault::describe,
    state::{Rejection, RejectionKey, Rejections},
    status::book::Book,
    trouble::Trouble,
};
use edge_translate::api::ObjectKey;
use futures_util::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use jiff::Timestamp;
use k8s_openapi::{
    api::{core::v1::ObjectReference, events::v1::Event},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{
    Api as Objects, Client, Error,
    api::{DynamicObject, PostParams},
};
use std::{collections::BTreeSet, sync::Arc, time::Duration};

/// The reason of these events.
const REASON: &str = "RejectedByDataPlane";
/// Longest note that the API takes, in bytes.
const NOTE: usize = 1024;
/// Longest name of an object, in bytes.
const NAME: usize = 253;
/// The pauses after posts that failed.
const PAUSES: Backoff = Backoff::new(Duration::from_secs(2), Duration::from_secs(60));

/// Which refusals were told: a Gateway, what of it, and why.
type ToldRefusal = (ObjectKey, Arc<str>, Arc<str>);

/// What was told and still stands.
#[derive(Default)]
pub(super) struct Events {
    told: BTreeSet<ToldRefusal>,
    posts: FuturesUnordered<BoxFuture<'static, (Post, Result<(), Error>)>>,
    trouble: Trouble,
}

/// What is to be posted.
struct Post {
    told: ToldRefusal,
    client: Client,
    /// Where the Gateway is read, for its `uid`.
    gateways: Objects<DynamicObject>,
    note: String,
    /// Before it is tried again.
    pauses: Backoff,
}

impl Events {
    /// Posts what is newly refused, and forgets what isn't any more.
    pub(super) fn follow(&mut self, rejections: &Rejections, book: &Book, cluster: &Cluster) {
        let mut standing = BTreeSet::new();
        for (key, rejection) in rejections {
            for gateway in book.gateways_of(&rejection.fleet) {
                let told = (gateway.clone(), Arc::clone(&key.name), Arc::clone(&rejection.reason));
                if !self.told.contains(&told)
                    && !standing.contains(&told)
                    && let Some(gateways) = objects(cluster, gateway)
                {
                    let post = Post {
                        told: told.clone(),
                        client: cluster.api.client(),
                        gateways,
                        note: note(key, rejection),
                        pauses: PAUSES,
                    };
                    self.posts.push(post.after(Duration::ZERO).boxed());
                }
                standing.insert(told);
            }
        }
        self.told = standing;
    }

    /// Forgets everything: another replica tells it.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Resolves when a post has ended; never while there is none.
    pub(super) async fn ended(&mut self) {
        match self.posts.next().await {
            Some((_, Ok(()))) => drop(self.trouble.ends()),
            Some((mut post, Err(error))) => {
                let reason = describe(&error);
                if self.trouble.begins(&reason) {
                    tracing::warn!("events can't be posted and are tried again: {reason}");
                }
                if self.told.contains(&post.told) {
                    let pause = post.pauses.pause();
                    self.posts.push(post.after(pause).boxed());
                }
            }
            None => std::future::pending().await,
        }
    }
}

/// A name for an event about an object, in the form that Kubernetes' own clients give them. The API server doesn't make
/// it: what it would be asked to add to has to be a name already, and ends with a letter or digit then.
fn name(object: &str, number: u64) -> String {
    let number = format!(".{number:016x}");
    // The names of objects are ASCII and may be as long as that of an event.
    let end = object.len().min(NAME - number.len());
    let object = object.get(..end).unwrap_or_default().trim_end_matches(['-', '.']);
    format!("{object}{number}")
}

/// What the proxies refuse, whose it is, and why.
fn note(key: &RejectionKey, rejection: &Rejection) -> String {
    let from: Vec<String> = rejection.origins.iter().map(ToString::to_string).collect();
    let mut note = format!(
        "The proxies of this Gateway refuse a part of their configuration and go on without it: {:?} {}: {}",
        key.kind, key.name, rejection.reason
    );
    if !from.is_empty() {
        note.push_str(&format!(" (from {})", from.join(", ")));
    }
    let mut end = note.len().min(NOTE);
    while !note.is_char_boundary(end) {
        end -= 1;
    }
    note.truncate(end);
    note
}

impl Post {
    /// Posts it after a pause.
    async fn after(self, pause: Duration) -> (Self, Result<(), Error>) {
        tokio::time::sleep(pause).await;
        let result = self.send().await;
        (self, result)
    }

    /// There is nothing to tell of a Gateway that has gone.
    async fn send(&self) -> Result<(), Error> {
        let (gateway, ..) = &self.told;
        let Some(found) = self.gateways.get_opt(&gateway.name).await? else {
            return Ok(());
        };
        let events: Objects<Event> = Objects::namespaced(self.client.clone(), &gateway.namespace);
        let event = event(gateway, found.metadata.uid, self.note.clone());
        events.create(&PostParams::default(), &event).await.map(drop)
    }
}

fn event(gateway: &ObjectKey, uid: Option<String>, note: String) -> Event {
    Event {
        metadata: ObjectMeta {
            name: Some(name(&gateway.name, random())),
            namespace: Some(gateway.namespace.to_string()),
            ..ObjectMeta::default()
        },
        action: Some("Configure".to_owned()),
        event_time: Some(MicroTime(Timestamp::now())),
        note: Some(note),
        reason: Some(REASON.to_owned()),
        regarding: Some(ObjectReference {
            api_version: Some(gateway.kind.api_version()),
            kind: Some(gateway.kind.as_str().to_owned()),
            name: Some(gateway.name.to_string()),
            namespace: Some(gateway.namespace.to_string()),
            uid,
            ..ObjectReference::default()
        }),
        reporting_controller: Some("gateway.edge/edge-gateway".to_owned()),
        reporting_instance: Some("edge-gateway".to_owned()),
        type_: Some("Warning".to_owned()),
        ..Event::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{Method, Request, Response, StatusCode};
    use kube::{Config, client::Body, core::ApiResource};
    use serde_json::json;
    use std::{
        convert::Infallible,
        sync::atomic::{AtomicUsize, Ordering},
    };
    use tower::service_fn;

    /// An API server that turns away the first that is posted, as a busy one does, and counts.
    fn busy(posted: Arc<AtomicUsize>) -> Client {
        let service = service_fn(move |request: Request<Body>| {
            let name = json!({"metadata": {"name": "front", "namespace": "ns", "uid": "1"}});
            let (code, answer) = match (request.method(), posted.load(Ordering::Relaxed)) {
                (&Method::GET, _) => (200, name),
                (_, before) => {
                    posted.fetch_add(1, Ordering::Relaxed);
                    let busy = json!({"kind": "Status", "status": "Failure", "message": "busy", "code": 429});
                    if before == 0 { (429, busy) } else { (201, name) }
                }
            };
            let mut response = Response::new(Body::from(answer.to_string().into_bytes()));
            *response.status_mut() = StatusCode::from_u16(code).unwrap();
            async move { Ok::<_, Infallible>(response) }
        });
        Client::new(
            service,
            Config::new("http://127.0.0.1".parse().unwrap()).default_namespace,
        )
    }

    #[tokio::test]
    async fn what_an_api_server_turns_away_is_posted_again_while_it_stands() {
        let told: ToldRefusal = (
            ObjectKey::new(edge_translate::api::Kind::Gateway, "ns", "front"),
            "c".into(),
            "why".into(),
        );
        for (stands, posts) in [(true, 2), (false, 1)] {
            let posted = Arc::<AtomicUsize>::default();
            let client = busy(Arc::clone(&posted));
            let kind = ApiResource {
                group: "gateway.networking.k8s.io".to_owned(),
                version: "v1".to_owned(),
                api_version: "gateway.networking.k8s.io/v1".to_owned(),
                kind: "Gateway".to_owned(),
                plural: "gateways".to_owned(),
            };
            let post = Post {
                told: told.clone(),
                gateways: Objects::namespaced_with(client.clone(), "ns", &kind),
                client,
                note: "refused".to_owned(),
                pauses: Backoff::new(Duration::from_millis(1), Duration::from_millis(1)),
            };
            let mut events = Events::default();
            events.told.extend(stands.then(|| told.clone()));
            events.posts.push(post.after(Duration::ZERO).boxed());
            while !events.posts.is_empty() {
                events.ended().await;
            }
            assert_eq!(posted.load(Ordering::Relaxed), posts);
            assert_eq!(events.trouble.reason().is_some(), !stands);
        }
    }

    #[test]
    fn an_event_has_a_name_that_the_api_server_takes() {
        assert_eq!(name("front", 10), "front.000000000000000a");
        let long = format!("{}-{}", "a".repeat(235), "b".repeat(17));
        let named = name(&long, u64::MAX);
        assert_eq!(named, format!("{}.ffffffffffffffff", "a".repeat(235)));
        assert!(named.len() <= NAME);
    }
}
