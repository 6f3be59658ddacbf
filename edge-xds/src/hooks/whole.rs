//! What services make of all that a fleet is served.

use super::{Answer, HeldResource, Question, Resources, Round, Stand, judge::name_of, made};
use crate::snapshot::{Entry, ResourceType, Section, Snapshot};
use edge_ir::{Origin, Origins};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// What was asked and what became of it.
#[derive(Debug, Default)]
pub(super) struct Whole {
    /// The snapshot that was asked about last, and what became of it.
    kept: Option<(Snapshot, Question, Option<Arc<Said>>)>,
    /// The latest answer.
    good: Option<Arc<Said>>,
}

/// What services say of a fleet.
#[derive(Debug)]
struct Said {
    /// All there is of kinds that they were asked about.
    all: BTreeMap<ResourceType, Arc<Section>>,
    /// What is added to other kinds.
    added: BTreeMap<ResourceType, Vec<Arc<Entry>>>,
}

impl Whole {
    /// A fleet that is good as it is.
    pub(super) fn over(served: &Snapshot) -> Self {
        let all = ResourceType::ALL.map(|kind| (kind, Arc::clone(served.section(kind))));
        let is_any = all.iter().any(|(_, section)| !section.entries().is_empty());
        let said = Said {
            all: all.into(),
            added: BTreeMap::new(),
        };
        Self {
            kept: None,
            good: is_any.then(|| Arc::new(said)),
        }
    }

    /// What was answered isn't known to hold still.
    pub(super) fn ask_again(&mut self) {
        self.kept = None;
    }

    pub(super) fn apply(&mut self, round: &mut Round<'_>, snapshot: Snapshot) -> Snapshot {
        if round.is_pending {
            // What is still to come would be asked about again.
            return self.instead(round, snapshot);
        }
        let kept = self
            .kept
            .take()
            .filter(|(base, ..)| asks_the_same(base, &snapshot, round));
        let (question, known) = match kept {
            Some((_, question, said)) => (question, said),
            None => {
                let question = Question::All {
                    resources: encoded(&snapshot, round),
                    custom: round.shown.beside_all(),
                };
                (question, None)
            }
        };
        let stand = round.ask(question.clone());
        let said = match &stand {
            Stand::Taken(Answer::All(resources), _) => {
                let said = known.unwrap_or_else(|| Arc::new(Said::new(&snapshot, round, resources)));
                self.good = Some(Arc::clone(&said));
                Some(said)
            }
            _ => None,
        };
        self.kept = Some((snapshot.clone(), question, said.clone()));
        match (stand, said) {
            (_, Some(said)) => said.laid_over(snapshot, round),
            (Stand::Open(Answer::All(resources)), _) => {
                Said::new(&snapshot, round, &resources).laid_over(snapshot, round)
            }
            (Stand::Held(problem), _) => {
                round.held.push(HeldResource {
                    kind: ResourceType::Listener,
                    name: "all resources".into(),
                    origins: gateways(&snapshot),
                    problem,
                });
                self.instead(round, snapshot)
            }
            _ => self.instead(round, snapshot),
        }
    }

    /// The latest that was answered; nothing, if there is none.
    fn instead(&self, round: &Round<'_>, snapshot: Snapshot) -> Snapshot {
        match &self.good {
            Some(good) => good.laid_over(snapshot, round),
            None => {
                let kinds = round.hooks.whole.iter();
                kinds.fold(snapshot, |snapshot, kind| snapshot.with(*kind, Arc::default()))
            }
        }
    }
}

impl Said {
    fn new(snapshot: &Snapshot, round: &Round<'_>, answer: &Resources) -> Self {
        let (mut all, mut added) = (BTreeMap::new(), BTreeMap::new());
        for (kind, resources) in answer {
            let base = snapshot.section(*kind);
            let entries = resources.iter().filter_map(|bytes| {
                let name = name_of(bytes)?;
                let before = base.get(&name);
                if let Some(before) = before.filter(|before| before.body.contiguous() == *bytes) {
                    return Some(Arc::clone(before));
                }
                let origins = before.map_or_else(Origins::default, |before| Arc::clone(&before.origins));
                Some(made(*kind, name.into(), bytes.clone(), origins))
            });
            let entries: Vec<Arc<Entry>> = entries.collect();
            match round.hooks.whole.contains(kind) {
                true => drop(all.insert(*kind, Arc::new(Section::new(entries)))),
                false => drop(added.insert(*kind, entries)),
            }
        }
        // Of a kind that they were asked about and say nothing of, nothing is left.
        for kind in &round.hooks.whole {
            all.entry(*kind).or_default();
        }
        Self { all, added }
    }

    fn laid_over(&self, snapshot: Snapshot, round: &Round<'_>) -> Snapshot {
        let whole = round.hooks.whole.iter().fold(snapshot, |snapshot, kind| {
            snapshot.with(*kind, self.all.get(kind).cloned().unwrap_or_default())
        });
        let added = self.added.iter().filter(|(_, added)| !added.is_empty());
        added.fold(whole, |snapshot, (kind, added)| {
            // Of several with one name the first stays: what is there already.
            let all = snapshot.section(*kind).entries().iter().chain(added).cloned();
            let section = Section::new(all.collect());
            snapshot.with(*kind, Arc::new(section))
        })
    }
}

/// Whether all that is asked about is the same.
fn asks_the_same(a: &Snapshot, b: &Snapshot, round: &Round<'_>) -> bool {
    let mut kinds = round.hooks.whole.iter();
    kinds.all(|kind| Arc::ptr_eq(a.section(*kind), b.section(*kind)))
}

fn encoded(snapshot: &Snapshot, round: &Round<'_>) -> Resources {
    let bytes = |kind: &ResourceType| {
        let entries = snapshot.section(*kind).entries().iter();
        (*kind, entries.map(|entry| entry.body.contiguous()).collect())
    };
    round.hooks.whole.iter().map(bytes).collect()
}

/// The Gateways that the listeners come from.
fn gateways(snapshot: &Snapshot) -> Origins {
    let listeners = snapshot.section(ResourceType::Listener).entries().iter();
    let origins = listeners.flat_map(|entry| entry.origins.iter());
    let whole: BTreeSet<Origin> = origins
        .map(|origin| Origin {
            section: None,
            ..origin.clone()
        })
        .collect();
    whole.into_iter().collect()
}
