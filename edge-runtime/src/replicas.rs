//! What the proxies of all replicas say, in every replica: so the leader's statuses are about all of them.
//!
//! A proxy talks to one replica, and only the leader writes statuses. So each replica keeps an [`account`] of what its
//! proxies refuse and serve in the controller's namespace, in an annotation of a Lease of its own, and watches those of
//! the [`others`]; statuses are made from all together. A Lease, because that is what it is: an account holds while it
//! is renewed, judged as the leader's is by how long it was seen unchanged, and nobody else watches these objects. It
//! belongs to the replica's pod and goes with it.
//!
//! Every replica does that, whether or not it leads: who leads next knows all from the start, and nothing said is taken
//! back in between. It costs one small write every ten seconds, and at most one a second while proxies refuse or take
//! something.

use crate::{
    backoff::{Backoff, random},
    cluster::{
        Api, FIELD_MANAGER,
        fault::describe,
        replica_name,
        watching::{Target, events},
    },
    due,
    state::{Deliveries, Rejections},
    task::Stop,
    trouble::Trouble,
};
use account::Account;
use edge_ir::label::{COMPONENT, MANAGED_BY};
use futures_util::{FutureExt as _, StreamExt as _, future::BoxFuture};
use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference},
};
use kube::{
    Api as Objects, Error,
    api::{DeleteParams, Patch, PatchParams},
    core::{ApiResource, DynamicObject},
    runtime::watcher::Event,
};
use others::{Heard, Others};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::watch,
    time::{self, Instant},
};

mod account;
mod others;
#[cfg(test)]
mod tests;

/// How long an account holds that isn't renewed.
const DURATION: Duration = Duration::from_secs(40);
/// When it is renewed if nothing changes.
const RENEWAL: Duration = Duration::from_secs(10);
/// Quiet that is waited for before a change is told.
const QUIET: Duration = Duration::from_millis(50);
/// Time between two writes, however much changes.
const LEAST: Duration = Duration::from_secs(1);
/// The first and the longest pause after a write that failed.
const PAUSES: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));
/// How long taking the account away may take at the end.
const FAREWELL: Duration = Duration::from_secs(2);
/// The annotation with the account.
const ANNOTATION: &str = "gateway.edge/proxies";
/// By which the Leases of replicas are known.
const LABELS: [(&str, &str); 2] = [(MANAGED_BY, FIELD_MANAGER), (COMPONENT, "replica")];

/// What the proxies say that are connected to this replica.
#[derive(Clone, Debug)]
pub struct Own {
    /// What they refuse.
    pub rejections: watch::Receiver<Rejections>,
    /// What they serve.
    pub deliveries: watch::Receiver<Deliveries>,
}

/// What all proxies say.
#[derive(Clone, Debug, Default)]
pub struct All {
    /// What they refuse.
    pub rejections: Arc<watch::Sender<Rejections>>,
    /// What they serve.
    pub deliveries: Arc<watch::Sender<Deliveries>>,
}

/// Tells and hears until asked to stop.
pub async fn run(api: Api, namespace: Arc<str>, mut own: Own, all: All, mut stop: Stop) {
    let mut heard = events::<DynamicObject>(target(&api, &namespace));
    let mut trouble = Trouble::default();
    let mut replica = Replica::new(&api, &namespace, own.clone(), all);
    loop {
        let (due, ends) = (replica.due(), replica.others.due());
        tokio::select! {
            () = stop.requested() => break,
            Ok(()) = own.rejections.changed() => replica.note(),
            Ok(()) = own.deliveries.changed() => replica.note(),
            Some(event) = heard.next() => match event {
                Ok(event) => {
                    trouble.ends();
                    replica.hear(event);
                }
                Err(fault) => {
                    let reason = fault.to_string();
                    if trouble.begins(&reason) {
                        tracing::warn!("what the proxies of other replicas say isn't heard: {reason}");
                    }
                }
            },
            done = due::done(&mut replica.write) => replica.wrote(done),
            () = due::at(due) => replica.begin_write(),
            () = due::at(ends) => {}
        }
        replica.lay_together();
    }
    replica.leave().await;
}

fn target(api: &Api, namespace: &Arc<str>) -> Target {
    Target {
        // One watch, which must not wait behind a thousand statuses.
        client: api.urgent(),
        resource: ApiResource::erase::<Lease>(&()),
        namespace: Some(Arc::clone(namespace)),
        labels: &LABELS,
        streams_lists: false,
    }
}

/// This replica.
struct Replica {
    leases: Objects<DynamicObject>,
    name: String,
    owner: Option<OwnerReference>,
    own: Own,
    all: All,
    others: Others,
    /// A write that is under way.
    write: Option<BoxFuture<'static, Result<(), Error>>>,
    /// When the last one began.
    begun: Option<Instant>,
    /// When a change that isn't told yet was seen.
    changed: Option<Instant>,
    /// What was told last, or is being told.
    told: Option<Account>,
    /// When a write that failed is tried again.
    again: Option<Instant>,
    backoff: Backoff,
    trouble: Trouble,
}

impl Replica {
    fn new(api: &Api, namespace: &str, own: Own, all: All) -> Self {
        let pod = replica_name();
        let name = pod.clone().unwrap_or_else(|| format!("{:016x}", random()));
        let name = format!("edge-gateway-replica-{}", name.to_lowercase());
        let uid = std::env::var("EDGE_POD_UID").ok();
        let owner = pod.zip(uid).map(|(name, uid)| OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            name,
            uid,
            ..OwnerReference::default()
        });
        Self {
            leases: Objects::namespaced_with(api.urgent(), namespace, &ApiResource::erase::<Lease>(&())),
            others: Others::beside(&name),
            name,
            owner,
            own,
            all,
            write: None,
            begun: None,
            changed: None,
            told: None,
            again: None,
            backoff: PAUSES,
            trouble: Trouble::default(),
        }
    }

    /// Something has changed.
    fn note(&mut self) {
        self.changed.get_or_insert_with(Instant::now);
    }

    /// When to write next, unless a write is under way.
    fn due(&self) -> Option<Instant> {
        if self.write.is_some() {
            return None;
        }
        let Some(begun) = self.begun else {
            return Some(Instant::now());
        };
        let renewal = self.again.unwrap_or(begun + RENEWAL);
        let change = self.changed.filter(|_| self.again.is_none());
        let change = change.map(|changed| (changed + QUIET).max(begun + LEAST));
        Some(change.map_or(renewal, |change| change.min(renewal)))
    }

    fn begin_write(&mut self) {
        let now = Instant::now();
        let account = Account::of(&self.own.rejections.borrow(), &self.own.deliveries.borrow());
        self.changed = None;
        let is_renewal = self.begun.is_none_or(|begun| now >= begun + RENEWAL) || self.again.is_some();
        if !is_renewal && self.told.as_ref() == Some(&account) {
            return;
        }
        let (text, left_out) = account.to_text();
        if left_out > 0 && self.told.as_ref() != Some(&account) {
            tracing::warn!(
                left_out,
                "the proxies of this replica have more to say than a Lease takes: of the rest, nothing shows in statuses \
                 while another replica leads"
            );
        }
        self.told = Some(account);
        self.begun = Some(now);
        self.again = None;
        let (leases, name, lease) = (self.leases.clone(), self.name.clone(), self.lease(&text));
        let how = PatchParams::apply(FIELD_MANAGER).force();
        self.write = Some(async move { leases.patch(&name, &how, &Patch::Apply(&lease)).await.map(drop) }.boxed());
    }

    fn lease(&self, text: &str) -> Lease {
        let labels = LABELS.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Lease {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                labels: Some(labels.into()),
                annotations: Some([(ANNOTATION.to_owned(), text.to_owned())].into()),
                owner_references: self.owner.clone().map(|owner| vec![owner]),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(self.name.clone()),
                lease_duration_seconds: i32::try_from(DURATION.as_secs()).ok(),
                renew_time: Some(MicroTime(Timestamp::now())),
                ..LeaseSpec::default()
            }),
        }
    }

    fn wrote(&mut self, done: Result<(), Error>) {
        self.write = None;
        match done {
            Ok(()) => {
                self.backoff.reset();
                self.others.we_renewed(Instant::now());
                if self.trouble.ends() {
                    tracing::info!("other replicas hear of the proxies of this one again");
                }
            }
            Err(error) => {
                self.told = None;
                self.again = Some(Instant::now() + self.backoff.pause());
                self.others.we_did_not_renew();
                let reason = describe(&error);
                if self.trouble.begins(&reason) {
                    tracing::warn!(
                        lease = self.name,
                        "other replicas don't hear what the proxies of this one refuse: {reason}"
                    );
                }
            }
        }
    }

    fn hear(&mut self, event: Event<DynamicObject>) {
        let now = Instant::now();
        match event {
            Event::Init => self.others.begin(),
            Event::InitApply(lease) | Event::Apply(lease) => self.others.hear(heard_of(lease), now),
            Event::InitDone => self.others.complete(),
            Event::Delete(lease) => self.others.forget(&lease.metadata.name.unwrap_or_default()),
        }
    }

    /// Tells this replica's own tasks what all say.
    fn lay_together(&mut self) {
        let now = Instant::now();
        let mut rejections = self.own.rejections.borrow().clone();
        let mut deliveries = self.own.deliveries.borrow().clone();
        for (replica, account) in self.others.that_hold(now) {
            account.add_to(replica, &mut rejections, &mut deliveries);
        }
        tell(&self.all.rejections, rejections);
        tell(&self.all.deliveries, deliveries);
    }

    /// Others needn't wait until the account runs out.
    async fn leave(&mut self) {
        self.write = None;
        let how = DeleteParams::default();
        let taken_away = self.leases.delete(&self.name, &how);
        if !matches!(time::timeout(FAREWELL, taken_away).await, Ok(Ok(_))) {
            tracing::debug!(
                lease = self.name,
                "the account was not taken away; it runs out by itself"
            );
        }
    }
}

fn tell<T: PartialEq>(to: &watch::Sender<T>, now: T) {
    to.send_if_modified(|before| {
        let is_news = *before != now;
        *before = now;
        is_news
    });
}

fn heard_of(lease: DynamicObject) -> Heard {
    let seconds = lease.data["spec"]["leaseDurationSeconds"].as_u64();
    Heard {
        name: lease.metadata.name.unwrap_or_default(),
        version: lease.metadata.resource_version.unwrap_or_default(),
        duration: seconds.map_or(DURATION, Duration::from_secs),
        text: lease
            .metadata
            .annotations
            .and_then(|mut annotations| annotations.remove(ANNOTATION))
            .unwrap_or_default(),
    }
}
