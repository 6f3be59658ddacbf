//! Resources that services are asked about one by one: clusters, endpoints and listeners.

use super::{Answer, Hook, Question, QuestionKey, Round, Stand, is_unchanged, made};
use crate::snapshot::{Entry, ResourceType};
use bytes::Bytes;
use std::sync::Arc;

/// A resource that is asked about by itself.
#[derive(Debug, Default)]
pub(super) struct Single {
    cached: Option<CachedAnswer>,
    /// The latest that a service has answered for.
    good: Option<Arc<Entry>>,
}

/// What services have made of a resource, all of them having answered.
#[derive(Debug)]
pub(super) struct CachedAnswer {
    /// The resource that they were asked about.
    pub(super) base: Arc<Entry>,
    pub(super) result: Arc<Entry>,
    /// The answers that it was made of.
    pub(super) keys: Vec<QuestionKey>,
}

impl Single {
    /// One that is good as it is served.
    pub(super) fn over(served: &Arc<Entry>) -> Self {
        Self {
            cached: None,
            good: Some(Arc::clone(served)),
        }
    }

    /// Nothing that was answered is known to hold still; what was good stays so.
    pub(super) fn ask_again(&mut self) {
        self.cached = None;
    }

    /// What is served of it, as far as answers go.
    pub(super) fn apply(
        &mut self,
        round: &mut Round<'_>,
        hook: Hook,
        kind: ResourceType,
        entry: &Arc<Entry>,
    ) -> Option<Arc<Entry>> {
        if let Some(cached) = self.cached.as_ref().filter(|cached| is_unchanged(&cached.base, entry)) {
            round.reuse(&cached.keys);
            return Some(Arc::clone(&cached.result));
        }
        self.cached = None;
        let resource = entry.body.contiguous();
        let question = Question::One {
            hook,
            resource: resource.clone(),
            hostnames: Box::default(),
            custom: round.shown.beside(hook, &entry.name),
        };
        match round.ask(question) {
            Stand::Taken(Answer::One(bytes), key) => {
                let result = replaced(entry, kind, &resource, bytes);
                self.good = Some(Arc::clone(&result));
                self.cached = Some(CachedAnswer {
                    base: Arc::clone(entry),
                    result: Arc::clone(&result),
                    keys: vec![key],
                });
                return Some(result);
            }
            Stand::Open(Answer::One(bytes)) => return Some(replaced(entry, kind, &resource, bytes)),
            Stand::Held(problem) => round.hold(kind, &entry.name, Arc::clone(&entry.origins), problem),
            Stand::Pending | Stand::Taken(..) | Stand::Open(_) => {}
        }
        self.good.clone()
    }
}

/// The entry with other bytes; the entry itself, where they aren't. A refusal of it can't be led back to a piece of the
/// IR any more, so it has no source.
fn replaced(entry: &Arc<Entry>, kind: ResourceType, before: &Bytes, bytes: Bytes) -> Arc<Entry> {
    match *before == bytes {
        true => Arc::clone(entry),
        false => made(kind, Arc::clone(&entry.name), bytes, Arc::clone(&entry.origins)),
    }
}
