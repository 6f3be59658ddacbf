//! Infrastructure in a cluster: for each fleet a workload, a Service and what they need, by server-side apply.
//!
//! Only the leader does anything. It follows the published fleets and, by watches, the objects of ours that exist, and
//! gives both to a task for each fleet ([`fleet`]). What has our marks and no fleet goes. Nothing is concluded from what
//! isn't there before all watches are complete and all resources have been read, so that a start deletes nothing.

mod cover;
mod fleet;
mod observe;
mod render;
mod seen;

use crate::{
    cluster::Api,
    state::{Leadership, Published, Reports},
    task::Stop,
};
use edge_ir::FleetKey;
use fleet::{Fleet, Work};
use observe::{News, Places, Watches};
pub use render::Rendering;
use seen::{ObjectId, Seen};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};
use tokio::{
    sync::watch,
    task::{Id, JoinError, JoinSet},
    time,
};

/// How often the authorities are read again that fleets in other namespaces are given.
const AUTHORITIES: Duration = Duration::from_secs(30);

/// What the objects of fleets depend on besides the fleets.
#[derive(Clone, Debug)]
pub struct ClusterTerms {
    /// How objects are rendered.
    pub rendering: Rendering,
    /// File with the authorities behind the controller's certificate.
    pub authorities: PathBuf,
    /// Namespaces that objects of fleets may be in; none means all.
    pub namespaces: Option<BTreeSet<Arc<str>>>,
}

/// Looks after the fleets for as long as this replica leads, until asked to stop. What runs then goes on.
pub async fn run(
    api: Api,
    terms: ClusterTerms,
    published: watch::Receiver<Option<Arc<Published>>>,
    mut leadership: watch::Receiver<Leadership>,
    reports: Arc<watch::Sender<Option<Reports>>>,
    mut stop: Stop,
) {
    loop {
        let leads = leadership.wait_for(|leadership| *leadership == Leadership::Leading);
        tokio::select! {
            () = stop.requested() => return,
            leads = leads => if leads.is_err() { return },
        }
        reports.send_replace(Some(Reports::new()));
        let mut followed = leadership.clone();
        tokio::select! {
            () = stop.requested() => return,
            _ = followed.wait_for(|leadership| *leadership != Leadership::Leading) => {}
            () = lead(&api, &terms, published.clone(), &reports) => return,
        }
    }
}

/// Dropped when the lead is lost: every task of a fleet ends with it, whatever it is doing.
async fn lead(
    api: &Api,
    terms: &ClusterTerms,
    mut published: watch::Receiver<Option<Arc<Published>>>,
    reports: &Arc<watch::Sender<Option<Reports>>>,
) {
    let places = terms.namespaces.clone().map_or(Places::All, Places::Namespaces);
    let mut watches = Watches::start(&api.client(), &places);
    let mut fleets = Fleets {
        api: api.clone(),
        controller: Arc::clone(&terms.rendering.terms.controller_name),
        reports: Arc::clone(reports),
        rendering: Arc::new(terms.rendering.with_authorities(&terms.authorities)),
        state: None,
        objects: BTreeMap::new(),
        incomplete: watches.places.clone(),
        running: BTreeMap::new(),
        tasks: JoinSet::new(),
    };
    let mut look = time::interval(AUTHORITIES);
    loop {
        tokio::select! {
            changed = published.changed() => {
                if changed.is_err() {
                    return;
                }
                fleets.state.clone_from(&published.borrow_and_update());
                fleets.follow_all();
            }
            news = watches.news.recv() => match news {
                Some(news) => fleets.hear(news),
                None => return,
            },
            _ = look.tick() => {
                let rendering = terms.rendering.with_authorities(&terms.authorities);
                if rendering != *fleets.rendering || fleets.state.is_none() {
                    fleets.rendering = Arc::new(rendering);
                    fleets.state.clone_from(&published.borrow());
                    fleets.follow_all();
                }
            }
            Some(ended) = fleets.tasks.join_next_with_id(), if !fleets.tasks.is_empty() => fleets.ended(ended),
        }
    }
}

struct Fleets {
    api: Api,
    controller: Arc<str>,
    reports: Arc<watch::Sender<Option<Reports>>>,
    rendering: Arc<Rendering>,
    /// The fleets that there are to be.
    state: Option<Arc<Published>>,
    /// Objects with our marks, and whose they are.
    objects: BTreeMap<ObjectId, (FleetKey, Arc<Seen>)>,
    /// Watches that haven't told everything yet.
    incomplete: BTreeSet<observe::Place>,
    running: BTreeMap<FleetKey, Running>,
    tasks: JoinSet<FleetKey>,
}

/// The task of a fleet.
struct Running {
    id: Id,
    work: watch::Sender<Work>,
}

impl Fleets {
    fn hear(&mut self, news: News) {
        match news {
            News::Seen(id, marks, seen) => {
                let ours = marks.controller.as_deref() == Some(&*self.controller);
                let fleet = marks.fleet.filter(|_| ours);
                let before = match fleet.clone() {
                    Some(fleet) => self.objects.insert(id, (fleet, seen)),
                    // Somebody has taken the marks away, or it is another controller's.
                    None => self.objects.remove(&id),
                };
                let before = before.map(|(fleet, _)| fleet);
                self.follow_each(
                    fleet
                        .iter()
                        .chain(before.iter().filter(|before| fleet.as_ref() != Some(before))),
                );
            }
            News::Gone(id) => {
                let before = self.objects.remove(&id).map(|(fleet, _)| fleet);
                self.follow_each(before.iter());
            }
            News::Complete(watch, listed) => {
                self.objects.retain(|id, _| !watch.tells_of(id) || listed.contains(id));
                self.incomplete.remove(&watch);
                self.follow_all();
            }
        }
    }

    fn is_ready(&self) -> bool {
        self.incomplete.is_empty() && self.state.is_some()
    }

    fn follow_each<'a>(&mut self, keys: impl Iterator<Item = &'a FleetKey>) {
        if self.is_ready() {
            keys.for_each(|key| self.follow(key));
        }
    }

    /// Gives every fleet its work: those that are wanted, and those of which something is left.
    fn follow_all(&mut self) {
        if !self.is_ready() {
            return;
        }
        let wanted = self.state.iter().flat_map(|state| state.fleets.keys());
        let left = self.objects.values().map(|(fleet, _)| fleet);
        let keys: BTreeSet<FleetKey> = wanted.chain(left).chain(self.running.keys()).cloned().collect();
        keys.iter().for_each(|key| self.follow(key));
    }

    fn follow(&mut self, key: &FleetKey) {
        let fleet = self.state.as_ref().and_then(|state| state.fleets.get(key));
        let infra = match fleet {
            // What can't be used changes nothing: what is there stays as it is, and drift of what was wanted is repaired.
            Some(fleet) => match fleet.infra.clone().or_else(|| self.known(key)) {
                Some(infra) => Some(infra),
                None => return,
            },
            None => None,
        };
        let work = Work {
            wanted: infra.map(|infra| (infra, Arc::clone(&self.rendering))),
            view: self.view(key),
        };
        match self.running.get(key) {
            Some(running) => drop(running.work.send_replace(work)),
            None if work.wanted.is_none() && work.view.is_empty() => {}
            None => self.start(key, work),
        }
    }

    /// What was wanted of a fleet last.
    fn known(&self, key: &FleetKey) -> Option<Arc<edge_ir::Infra>> {
        let work = self.running.get(key)?.work.borrow();
        work.wanted.as_ref().map(|(infra, _)| Arc::clone(infra))
    }

    fn view(&self, key: &FleetKey) -> seen::View {
        let own = self.objects.iter().filter(|(_, (fleet, _))| fleet == key);
        own.map(|(id, (_, seen))| (id.clone(), Arc::clone(seen))).collect()
    }

    fn start(&mut self, key: &FleetKey, work: Work) {
        let fleet = Fleet {
            key: key.clone(),
            client: self.api.client(),
            reports: Arc::clone(&self.reports),
            settled: BTreeMap::new(),
            trouble: crate::cluster::fault::Trouble::default(),
        };
        let (sender, receiver) = watch::channel(work);
        let id = self.tasks.spawn(fleet.run(receiver)).id();
        self.running.insert(key.clone(), Running { id, work: sender });
    }

    /// A task has ended: its fleet is gone, or it has failed, and another one takes its place.
    fn ended(&mut self, ended: Result<(Id, FleetKey), JoinError>) {
        let id = match &ended {
            Ok((id, _)) => *id,
            Err(error) => {
                tracing::error!(%error, "the task of a fleet failed");
                error.id()
            }
        };
        let key = self.running.iter().find(|(_, running)| running.id == id);
        if let Some(key) = key.map(|(key, _)| key.clone()) {
            self.running.remove(&key);
            self.follow(&key);
        }
    }
}
