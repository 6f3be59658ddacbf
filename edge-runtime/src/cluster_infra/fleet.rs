//! One fleet: brings its objects in line with what is wanted, and says how it is doing.
//!
//! A task of its own, so that what goes wrong with one fleet holds up no other. It looks at its objects whenever what
//! is wanted or what is there changes, writes only what differs, and tries again with growing pauses what failed.

use super::{
    Outputs, Rendering,
    nodes::NodeAddresses,
    report::{nothing_yet, report},
    seen::{ObjectId, View},
    succession::is_needed,
    write::{Account, Fault, Scaled, Turns, Wish, Writer, id},
};
use crate::{backoff::Backoff, due, metrics::Counter, state::Report, task::attempt, trouble::Trouble};
use edge_infra::{Object, ObjectKind};
use edge_ir::{FleetKey, Infra};
use kube::Client;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::{sync::watch, time::Instant};

/// The first and the longest pause after something has failed.
const PAUSES: Backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(60));

/// What a fleet's task works from.
#[derive(Clone, Debug, Default)]
pub(super) struct Work {
    /// What is wanted; nothing: everything of it is to go.
    pub(super) wanted: Option<FleetPlan>,
    /// What is there.
    pub(super) view: View,
    /// How often something of it has gone, or may have.
    pub(super) losses: u64,
    /// Where the nodes are reached, if that matters.
    pub(super) nodes: NodeAddresses,
}

/// A fleet, and how it becomes objects.
type FleetPlan = (Arc<Infra>, Arc<Rendering>);

impl Work {
    /// Whether it is the same work, by its allocations.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let is_same_wish = match (&self.wanted, &other.wanted) {
            (Some(one), Some(two)) => is_same_wish(one, two),
            (None, None) => true,
            _ => false,
        };
        let is_same_view = self.view.len() == other.view.len()
            && self
                .view
                .iter()
                .zip(&other.view)
                .all(|((a, one), (b, two))| a == b && Arc::ptr_eq(one, two));
        is_same_wish && is_same_view && self.losses == other.losses && self.nodes == other.nodes
    }
}

fn is_same_wish(one: &FleetPlan, two: &FleetPlan) -> bool {
    Arc::ptr_eq(&one.0, &two.0) && Arc::ptr_eq(&one.1, &two.1)
}

/// The task of a fleet.
pub(super) struct Fleet {
    key: FleetKey,
    outputs: Outputs,
    writer: Writer,
    /// What became of the latest wish: rendering takes a while, and objects that change often need none.
    rendered: Option<(FleetPlan, Arc<[Object]>)>,
    trouble: Trouble,
}

impl Fleet {
    /// `turns`: of writing, for all fleets together.
    pub(super) fn new(key: FleetKey, client: Client, turns: Arc<Turns>, outputs: Outputs) -> Self {
        Self {
            writer: Writer {
                fleet: key.clone(),
                client,
                metrics: Arc::clone(&outputs.metrics),
                turns,
                settled: BTreeMap::new(),
            },
            key,
            outputs,
            rendered: None,
            trouble: Trouble::default(),
        }
    }

    /// Works until everything of a fleet that isn't wanted any more is gone, or until nobody gives it work.
    pub(super) async fn run(mut self, mut work: watch::Receiver<Work>) -> FleetKey {
        if work.borrow().wanted.is_some() && work.borrow().view.is_empty() {
            self.tell(Some(nothing_yet()));
        }
        let mut backoff = PAUSES;
        loop {
            let now = work.borrow_and_update().clone();
            let done = self.try_to_bring(&now).await;
            self.log(done.as_ref().err());
            self.report(&now, done.as_ref().err());
            if done.is_ok() && now.wanted.is_none() && now.view.is_empty() {
                break;
            }
            let again = match &done {
                Ok(()) => {
                    backoff.reset();
                    None
                }
                Err(_) => Some(Instant::now() + backoff.pause()),
            };
            tokio::select! {
                changed = work.changed() => if changed.is_err() { break },
                () = due::at(again) => {}
            }
        }
        self.key
    }

    /// A bug costs this attempt.
    async fn try_to_bring(&mut self, work: &Work) -> Result<(), Fault> {
        match attempt(Box::pin(self.bring(work))).await {
            Ok(done) => done,
            Err(bug) => {
                self.outputs.metrics.count(Counter::TaskFailures);
                Err(Fault::Failing(bug))
            }
        }
    }

    /// Writes what differs and deletes what isn't wanted. The first fault is told, a refusal before others; it doesn't
    /// keep the rest from being tried.
    async fn bring(&mut self, work: &Work) -> Result<(), Fault> {
        let objects = match &work.wanted {
            Some(wanted) => self.render(wanted)?,
            None => Arc::default(),
        };
        let wish = Wish {
            scaled: Scaled::of(&objects),
            account: match &work.wanted {
                Some((infra, _)) if infra.proxy.cluster.account_name.is_some() => Account::Named,
                _ => Account::Own,
            },
        };
        let mut fault = None;
        for object in objects.iter() {
            let done = self.writer.apply(object, &work.view, work.losses, wish).await;
            fault = worse(fault, done.err());
        }
        // Nothing goes before what takes its place is there.
        if fault.is_none() {
            for (id, seen) in work.view.iter().filter(|(_, seen)| !seen.leaves) {
                if !stays(work, &objects, id) && !is_needed(id, seen, &objects, &work.view) {
                    let done = self.writer.delete(id, seen).await;
                    fault = worse(fault, done.err());
                }
            }
        }
        fault.map_or(Ok(()), Err)
    }

    fn render(&mut self, wanted: &FleetPlan) -> Result<Arc<[Object]>, Fault> {
        if let Some((known, objects)) = &self.rendered
            && is_same_wish(known, wanted)
        {
            return Ok(Arc::clone(objects));
        }
        let (infra, rendering) = wanted;
        let objects: Arc<[Object]> = rendering.objects(infra).map_err(Fault::refused)?.into();
        self.rendered = Some((wanted.clone(), Arc::clone(&objects)));
        Ok(objects)
    }

    fn log(&mut self, fault: Option<&Fault>) {
        match fault {
            Some(fault) if self.trouble.begins(fault.text()) => {
                tracing::warn!(fleet = %self.key, "the objects of its proxies can't be made as wanted: {}", fault.text());
            }
            None if self.trouble.ends() => {
                tracing::info!(fleet = %self.key, "the objects of its proxies are as wanted");
            }
            _ => {}
        }
    }

    fn report(&self, work: &Work, fault: Option<&Fault>) {
        let Some((infra, _)) = &work.wanted else {
            return self.tell(None);
        };
        let is_on_nodes = work.view.values().any(|seen| seen.is_reached_by_nodes());
        let nodes = work.nodes.as_deref();
        // Before the nodes are known, what was said before stays.
        if !is_on_nodes || nodes.is_some() {
            self.tell(Some(report(infra, &work.view, nodes.unwrap_or_default(), fault)));
        }
    }

    fn tell(&self, report: Option<Report>) {
        self.outputs.reports.send_if_modified(|reports| {
            let Some(reports) = reports else { return false };
            match report {
                Some(report) if reports.get(&self.key) == Some(&report) => false,
                Some(report) => {
                    reports.insert(self.key.clone(), report);
                    true
                }
                None => reports.remove(&self.key).is_some(),
            }
        });
    }
}

/// The one of two faults that is told.
fn worse(first: Option<Fault>, second: Option<Fault>) -> Option<Fault> {
    match (&first, &second) {
        (Some(Fault::Failing(_)), Some(Fault::Refused { .. })) => second,
        _ => first.or(second),
    }
}

/// Whether an object is to be there. A Service without a port can't be asked for, and one that goes takes its address
/// with it: while no listener serves it stays as it is.
fn stays(work: &Work, objects: &[Object], which: &ObjectId) -> bool {
    let no_port = work.wanted.as_ref().is_some_and(|(infra, _)| infra.ports.is_empty());
    objects.iter().any(|object| id(object) == *which) || (no_port && which.kind == ObjectKind::Service)
}
