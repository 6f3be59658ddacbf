//! Events: a Gateway whose proxies refuse a configuration says so where `kubectl describe` shows it, once for each
//! refusal.

use super::{Cluster, objects};
use crate::{
    backoff::random,
    cluster::fault::{Trouble, describe},
    state::{Rejection, RejectionKey, Rejections},
    status::book::Book,
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
use std::{collections::BTreeSet, sync::Arc};

/// The reason of these events.
const REASON: &str = "RejectedByDataPlane";
/// Longest note that the API takes, in bytes.
const NOTE: usize = 1024;
/// Longest name of an object, in bytes.
const NAME: usize = 253;

/// Which refusals were told: a Gateway, what of it, and why.
type Told = (ObjectKey, Arc<str>, Arc<str>);

/// What was told and still stands.
#[derive(Default)]
pub(super) struct Events {
    told: BTreeSet<Told>,
    posts: FuturesUnordered<BoxFuture<'static, Result<(), Error>>>,
    trouble: Trouble,
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
                    && let Some(objects) = objects(cluster, gateway)
                {
                    let post = post(cluster.api.client(), objects, gateway.clone(), note(key, rejection));
                    self.posts.push(post.boxed());
                }
                standing.insert(told);
            }
        }
        self.told = standing;
    }

    /// Resolves when a post has ended; never while there is none.
    pub(super) async fn ended(&mut self) {
        match self.posts.next().await {
            Some(Ok(())) => drop(self.trouble.is_over()),
            Some(Err(error)) => {
                let reason = describe(&error);
                if self.trouble.is_news(&reason) {
                    tracing::warn!("events can't be posted: {reason}");
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

async fn post(client: Client, gateways: Objects<DynamicObject>, key: ObjectKey, note: String) -> Result<(), Error> {
    let Some(gateway) = gateways.get_opt(&key.name).await? else {
        return Ok(());
    };
    let event = Event {
        metadata: ObjectMeta {
            name: Some(name(&key.name, random())),
            namespace: Some(key.namespace.to_string()),
            ..ObjectMeta::default()
        },
        action: Some("Configure".to_owned()),
        event_time: Some(MicroTime(Timestamp::now())),
        note: Some(note),
        reason: Some(REASON.to_owned()),
        regarding: Some(ObjectReference {
            api_version: Some(key.kind.api_version()),
            kind: Some(key.kind.as_str().to_owned()),
            name: Some(key.name.to_string()),
            namespace: Some(key.namespace.to_string()),
            uid: gateway.metadata.uid,
            ..ObjectReference::default()
        }),
        reporting_controller: Some("gateway.edge/edge-gateway".to_owned()),
        reporting_instance: Some("edge-gateway".to_owned()),
        type_: Some("Warning".to_owned()),
        ..Event::default()
    };
    let events: Objects<Event> = Objects::namespaced(client, &key.namespace);
    events.create(&PostParams::default(), &event).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_has_a_name_that_the_api_server_takes() {
        assert_eq!(name("front", 10), "front.000000000000000a");
        let long = format!("{}-{}", "a".repeat(235), "b".repeat(17));
        let named = name(&long, u64::MAX);
        assert_eq!(named, format!("{}.ffffffffffffffff", "a".repeat(235)));
        assert!(named.len() <= NAME);
    }
}
