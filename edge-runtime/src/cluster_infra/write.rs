//! Writing one object of a fleet: server-side apply, deletion, and the number of pods that goes over to an autoscaler.

use super::{
    cover::covers,
    seen::{ObjectId, ObservedObject, View},
    succession::{is_another, kept, must_be_remade, probe, said_of_wanted},
};
use crate::{
    cluster::{
        FIELD_MANAGER,
        fault::{describe, is_refusal},
        objects::resource,
    },
    metrics::{Deed, End, Metrics},
};
use edge_infra::{CONTROLLER, FLEET, Object, ObjectKind, REVISION};
use edge_ir::{FleetKey, label};
use kube::{
    Api, Client, Error,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
    core::DynamicObject,
};
use serde::Deserialize as _;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fmt,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
};
use tokio::{
    sync::{Mutex, MutexGuard, Semaphore},
    time::Instant,
};

/// The field manager that holds the number of pods for an autoscaler that hasn't spoken yet.
const HOLDER: &str = "edge-gateway-replicas";
/// Where that number stands.
const REPLICAS: &str = "/spec/replicas";

/// How many objects of all fleets are written at a time. An API server hands out the ports and addresses of Services
/// under one lock: hundreds that come together keep each other from it until their time is up.
pub(super) const AT_A_TIME: usize = 16;
/// How many names may be looked up and taken at a time.
const NAMES: usize = 64;

/// Turns of all fleets: how many write at a time, and who is the first to make an object of a name.
#[derive(Debug)]
pub(super) struct Turns {
    writing: Semaphore,
    /// Several fleets may ask for one name at once. Server-side apply would give it to the last of them, and each would
    /// believe that it is its own; so whoever finds nobody there makes the object before another looks.
    names: [Mutex<()>; NAMES],
}

impl Turns {
    pub(super) fn new() -> Self {
        Self {
            writing: Semaphore::new(AT_A_TIME),
            names: std::array::from_fn(|_| Mutex::new(())),
        }
    }

    /// Waits until nobody else is about to make an object of this name.
    async fn of_name(&self, id: &ObjectId) -> MutexGuard<'_, ()> {
        let mut hasher = DefaultHasher::new();
        id.hash(&mut hasher);
        let n = usize::try_from(hasher.finish() % NAMES as u64).unwrap_or_default();
        self.names[n].lock().await
    }
}

/// Why something isn't as it is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It is refused for what it is: of use is only that somebody changes something.
    Refused {
        /// What is refused, and why.
        text: String,
        /// The fields that it is about, where the API server says it.
        fields: Vec<String>,
    },
    /// The API server isn't able to at the moment.
    Failing(String),
}

impl Fault {
    /// A refusal of our own.
    pub(super) fn refused(text: String) -> Self {
        Self::Refused {
            text,
            fields: Vec::new(),
        }
    }

    fn new(id: &ObjectId, error: &Error) -> Self {
        let text = format!("{} {}: {}", id.kind.as_str(), id.name, describe(error));
        match (is_refusal(error), error) {
            (true, Error::Api(status)) => {
                let causes = status.details.iter().flat_map(|details| &details.causes);
                let fields = causes.map(|cause| cause.field.clone()).collect();
                Self::Refused { text, fields }
            }
            _ => Self::Failing(text),
        }
    }

    pub(super) fn text(&self) -> &str {
        match self {
            Self::Refused { text, .. } | Self::Failing(text) => text,
        }
    }
}

/// Writes the objects of one fleet.
pub(super) struct Writer {
    pub(super) fleet: FleetKey,
    pub(super) client: Client,
    pub(super) metrics: Arc<Metrics>,
    /// Turns of writing, for all fleets together.
    pub(super) turns: Arc<Turns>,
    /// Objects as they were after we had applied them.
    pub(super) settled: BTreeMap<ObjectId, Settled>,
}

/// An object as it was after we had applied it.
#[derive(Debug)]
pub(super) struct Settled {
    /// What was asked for.
    revision: Value,
    /// What became of it: some never look as they were asked for, because the API server writes a value in another way.
    /// None of what is used as it was found: once it is ours to look after, it is to be made as it is asked for.
    fingerprint: Option<u64>,
    /// What watches had told of it before, until they tell more: they come behind our own writes.
    before: Option<Sight>,
}

/// What watches have told of an object, and how often something of its fleet has gone.
type Sight = (Option<Arc<ObservedObject>>, u64);

impl Settled {
    /// Whether an object is as it was asked for, by what watches tell of it by now.
    fn holds(&mut self, revision: &Value, (seen, losses): (Option<&Arc<ObservedObject>>, u64)) -> bool {
        let is_behind = self.before.as_ref().is_some_and(|before| match (before, seen) {
            // It may have come and gone again unseen, but not without being told.
            ((None, known), None) => *known == losses,
            ((Some(before), _), Some(seen)) => Arc::ptr_eq(before, seen),
            _ => false,
        });
        if !is_behind {
            self.before = None;
        }
        let is_same = seen.is_some_and(|seen| Some(seen.fingerprint) == self.fingerprint);
        self.revision == *revision && (is_behind || is_same)
    }
}

impl Writer {
    /// Brings an object in line with what is wanted. `losses`: how often something of the fleet has gone.
    pub(super) async fn apply(&mut self, object: &Object, view: &View, losses: u64, wish: Wish) -> Result<(), Fault> {
        let id = id(object);
        let seen = view.get(&id);
        if !self.is_as_wanted(&id, object, (seen, losses)) {
            let mut as_it_stays = None;
            if let Some(seen) = seen.filter(|seen| must_be_remade(seen, object)) {
                // It is made again as soon as it is seen to be gone.
                if seen.leaves {
                    return Ok(());
                }
                if self.would_be_another(&id, object, seen).await? {
                    return self.delete(&id, seen).await;
                }
                as_it_stays = Some(kept(seen, object));
            }
            let body = as_it_stays.as_ref().unwrap_or(object);
            let (begun, applied) = {
                let turns = Arc::clone(&self.turns);
                // First, so that who waits for a name takes no turn from others.
                let _name = match seen {
                    Some(_) => None,
                    None => Some(turns.of_name(&id).await),
                };
                let _turn = turns.writing.acquire().await;
                (Instant::now(), self.write(&id, body, seen, wish).await)
            };
            self.record(&id, Deed::Apply, begun, &applied);
            let (done, applied) = applied?;
            let settled = Settled {
                revision: revision(object),
                fingerprint: (done == Done::Applied).then(|| ObservedObject::new(id.kind, applied).fingerprint),
                before: Some((seen.cloned(), losses)),
            };
            tracing::info!(fleet = %self.fleet, kind = id.kind.as_str(), name = %id.name, "{done}");
            self.settled.insert(id.clone(), settled);
        }
        match seen {
            // Whoever says how many pods there are says it alone.
            Some(seen) if seen.replicas_set_by.contains(HOLDER) && object.body.pointer(REPLICAS).is_some() => {
                self.hold(&id, None).await.map_err(|error| Fault::new(&id, &error))
            }
            _ => Ok(()),
        }
    }

    fn is_as_wanted(&mut self, id: &ObjectId, object: &Object, sight: (Option<&Arc<ObservedObject>>, u64)) -> bool {
        let settled = self.settled.get_mut(id);
        settled.is_some_and(|settled| settled.holds(&revision(object), sight))
            || sight.0.is_some_and(|seen| covers(&seen.object, &object.body))
    }

    async fn write(
        &self,
        id: &ObjectId,
        object: &Object,
        seen: Option<&Arc<ObservedObject>>,
        wish: Wish,
    ) -> Result<(Done, DynamicObject), Fault> {
        let failed = |error: Error| Fault::new(id, &error);
        let Some(seen) = seen else {
            return self.make(id, object, wish.account).await;
        };
        let is_ours_to_give = seen.replicas_set_by.contains(FIELD_MANAGER) && wish.scaled == Scaled::ByAutoscaler;
        if is_ours_to_give && object.body.pointer(REPLICAS).is_none() {
            self.hand_over(id, seen).await.map_err(failed)?;
        }
        self.put(id, object).await
    }

    /// Makes an object that none of ours is seen for, unless somebody else's has its name. It is this one's turn to do
    /// so.
    async fn make(&self, id: &ObjectId, object: &Object, account: Account) -> Result<(Done, DynamicObject), Fault> {
        let found = self.api(id).get_opt(&id.name).await;
        if let Some(found) = found.map_err(|error| Fault::new(id, &error))? {
            match check_owner(&found, object) {
                Ok(()) => {}
                Err(_) if id.kind == ObjectKind::ServiceAccount && account == Account::Named => {
                    return Ok((Done::Used, found));
                }
                Err(refusal) => return Err(Fault::refused(refusal)),
            }
        }
        self.put(id, object).await
    }

    async fn put(&self, id: &ObjectId, object: &Object) -> Result<(Done, DynamicObject), Fault> {
        let parameters = PatchParams::apply(FIELD_MANAGER).force().validation_strict();
        let applied = self
            .api(id)
            .patch(&id.name, &parameters, &Patch::Apply(&object.body))
            .await;
        let applied = applied.map_err(|error| Fault::new(id, &error))?;
        Ok((Done::Applied, applied))
    }

    /// Leaves the number of pods as it is to an autoscaler. A field that its last manager applies no more falls back to
    /// its default, which is one pod; so another manager of ours takes it first and keeps it until the autoscaler sets
    /// it (server-side apply, "Transferring ownership").
    async fn hand_over(&self, id: &ObjectId, seen: &ObservedObject) -> Result<(), Error> {
        let Some(replicas) = seen.object.pointer(REPLICAS) else {
            return Ok(());
        };
        match self.hold(id, Some(replicas)).await {
            // Not the number any more: somebody else has set it, and it is theirs.
            Err(Error::Api(status)) if status.code == 409 => Ok(()),
            held => held,
        }
    }

    /// Holds the number of pods, or no longer. What others have set isn't overridden.
    async fn hold(&self, id: &ObjectId, replicas: Option<&Value>) -> Result<(), Error> {
        let mut body = json!({
            "apiVersion": id.kind.api_version(),
            "kind": id.kind.as_str(),
            "metadata": { "name": &*id.name, "namespace": &*id.namespace },
        });
        if let Some(replicas) = replicas {
            body["spec"] = json!({ "replicas": replicas });
        }
        let parameters = PatchParams::apply(HOLDER);
        self.api(id)
            .patch(&id.name, &parameters, &Patch::Apply(&body))
            .await
            .map(drop)
    }

    /// Asks the API server for what is to take an object's place: whether it would be another than the one that is
    /// there. A webhook that has made that what it is does so again, and each time it would lose its address for
    /// nothing.
    async fn would_be_another(&self, id: &ObjectId, object: &Object, seen: &ObservedObject) -> Result<bool, Fault> {
        let parameters = PostParams {
            dry_run: true,
            field_manager: Some(FIELD_MANAGER.to_owned()),
        };
        let failed = |error: &Error| Fault::new(id, error);
        let asked = probe(seen, object);
        let probe = DynamicObject::deserialize(&asked).map_err(|error| failed(&Error::SerdeError(error)))?;
        match self.api(id).create(&parameters, &probe).await {
            Ok(made) => Ok(is_another(seen, &ObservedObject::new(id.kind, made), &asked)),
            Err(mut error) => {
                if let Error::Api(status) = &mut error {
                    status.message = said_of_wanted(&status.message, &id.name);
                }
                Err(failed(&error))
            }
        }
    }

    pub(super) async fn delete(&mut self, id: &ObjectId, seen: &ObservedObject) -> Result<(), Fault> {
        let precise = Preconditions {
            uid: Some(seen.uid.clone()),
            resource_version: None,
        };
        let parameters = DeleteParams::background().preconditions(precise);
        let begun = Instant::now();
        let deleted = match self.api(id).delete(&id.name, &parameters).await {
            Ok(_) => Ok(true),
            // It has gone by itself, or made place for another one.
            Err(Error::Api(status)) if [404, 409].contains(&status.code) => Ok(false),
            Err(error) => Err(Fault::new(id, &error)),
        };
        self.record(id, Deed::Delete, begun, &deleted);
        if deleted? {
            tracing::info!(fleet = %self.fleet, kind = id.kind.as_str(), name = %id.name, "deleted");
        }
        self.settled.remove(id);
        Ok(())
    }

    fn record<T>(&self, id: &ObjectId, deed: Deed, begun: Instant, result: &Result<T, Fault>) {
        let end = match result {
            Ok(_) => End::Success,
            Err(_) => End::Failure,
        };
        self.metrics.record(id.kind, (deed, end), begun.elapsed());
    }

    fn api(&self, id: &ObjectId) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &id.namespace, &resource(id.kind))
    }
}

/// What was done so that an object is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Done {
    Applied,
    Used,
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Applied => "applied",
            Self::Used => "it is there already and is used as it is",
        })
    }
}

/// What the objects of a fleet don't say each by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wish {
    pub(super) scaled: Scaled,
    pub(super) account: Account,
}

/// Whose the ServiceAccount of a fleet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Account {
    /// The fleet's alone.
    Own,
    /// An EdgeProxy names it: others may use it too, or an administrator have made it, and it is made only if it isn't
    /// there.
    Named,
}

/// Who decides how many pods a workload has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scaled {
    /// Whoever applies it.
    AsApplied,
    /// An autoscaler.
    ByAutoscaler,
}

impl Scaled {
    pub(super) fn of(objects: &[Object]) -> Self {
        match objects.iter().any(|object| object.kind == ObjectKind::Autoscaler) {
            true => Self::ByAutoscaler,
            false => Self::AsApplied,
        }
    }
}

/// Which object a rendered one is.
pub(super) fn id(object: &Object) -> ObjectId {
    ObjectId {
        kind: object.kind,
        namespace: Arc::clone(&object.namespace),
        name: Arc::clone(&object.name),
    }
}

/// What tells what is asked for from what was asked for before.
fn revision(object: &Object) -> Value {
    object.body["metadata"]["annotations"][REVISION].clone()
}

/// An object of that name that isn't this fleet's isn't touched.
fn check_owner(found: &DynamicObject, wanted: &Object) -> Result<(), String> {
    let label = |name: &str| found.metadata.labels.as_ref().and_then(|labels| labels.get(name));
    let annotation = |name: &str| found.metadata.annotations.as_ref().and_then(|all| all.get(name));
    let labels = wanted.body["metadata"]["labels"].as_object();
    let labelled = labels.into_iter().flatten().filter(|(name, _)| is_owner_label(name));
    let is_labelled = labelled.clone().count() > 0
        && labelled
            .into_iter()
            .all(|(name, value)| label(name).map(String::as_str) == value.as_str());
    // What has lost its marks is known by its labels, and the other way round.
    let marks = &wanted.body["metadata"]["annotations"];
    let is_marked = |mark: &str| annotation(mark).map(|value| marks[mark] == **value);
    match [CONTROLLER, FLEET].map(is_marked) {
        [Some(true), Some(true)] => return Ok(()),
        // A Gateway is of one controller at a time. This one was another's, or ours when we had another name.
        [Some(false), Some(true)] if is_labelled => return Ok(()),
        [Some(false), _] | [_, Some(false)] => {}
        _ if is_labelled => return Ok(()),
        _ => {}
    }
    Err(format!(
        "{} {}/{} exists and is not of this Gateway: rename or delete it, or give this Gateway's another name in an EdgeProxy",
        wanted.kind.as_str(),
        wanted.namespace,
        wanted.name,
    ))
}

/// Labels by which an object tells whose it is.
fn is_owner_label(name: &str) -> bool {
    name == label::MANAGED_BY || name.starts_with("gateway.edge/owning-")
}

#[cfg(test)]
mod tests;
