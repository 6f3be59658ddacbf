//! Patches on resources: operations of RFC 6902 on their JSON form, names of fields as in protobuf.
//!
//! They act on what the IR was lowered to. A resource that nobody patches is not looked at and keeps its allocation,
//! and one that is patched is made again only when it or its patches are others. A patch that fails drops itself alone:
//! the resource is what its other patches make of it.

mod operation;
mod rules;
mod target;

#[cfg(test)]
mod tests;

use crate::{
    json::{Codec, JsonError, Names},
    snapshot::{Body, Entry, ResourceType, Section, Snapshot},
};
use edge_ir::{Fleet, Patch, PatchFailure, PatchProblem};
pub(crate) use operation::step;
pub(crate) use rules::breach;
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc};
use target::{PatchTarget, target};

/// What patches made of what, last time.
#[derive(Debug, Default)]
pub(crate) struct Patched {
    pieces: BTreeMap<PatchTarget, Piece>,
    sections: BTreeMap<ResourceType, Woven>,
    failures: Arc<Vec<PatchFailure>>,
}

/// A resource under the hands of its patches.
#[derive(Debug)]
struct Piece {
    base: Option<Arc<Entry>>,
    patches: Vec<Patch>,
    /// What they make of it; none where that is nothing new.
    result: Option<Arc<Entry>>,
    /// What is wrong with each patch.
    problems: Vec<Option<PatchProblem>>,
}

/// A section with the results in it.
#[derive(Debug)]
struct Woven {
    base: Arc<Section>,
    results: Vec<Arc<Entry>>,
    section: Arc<Section>,
}

impl Patched {
    /// Patches that could not be applied, in their order.
    pub(crate) fn failures(&self) -> &Arc<Vec<PatchFailure>> {
        &self.failures
    }

    /// Applies the patches of a fleet to what it was lowered to.
    pub(crate) fn apply(&mut self, snapshot: Snapshot, fleet: &Fleet) -> Snapshot {
        if fleet.patches.is_empty() {
            *self = Self::default();
            return snapshot;
        }
        let mut failures = Vec::new();
        let mut by_target: BTreeMap<PatchTarget, Vec<usize>> = BTreeMap::new();
        for (at, patch) in fleet.patches.iter().enumerate() {
            match target(&snapshot, fleet, patch) {
                Ok(target) => by_target.entry(target).or_default().push(at),
                Err(problem) => failures.push((at, problem)),
            }
        }
        let mut before = std::mem::take(&mut self.pieces);
        for (target, indices) in by_target {
            let base = snapshot.section(target.0).get(&target.1);
            let patches = || indices.iter().map(|at| &fleet.patches[*at]);
            let kept = before
                .remove(&target)
                .filter(|piece| is_same(piece.base.as_ref(), base) && piece.patches.iter().eq(patches()));
            let piece = kept.unwrap_or_else(|| Piece::new(&target, base.cloned(), patches().cloned().collect()));
            let problems = indices.iter().zip(&piece.problems);
            failures.extend(problems.filter_map(|(at, problem)| Some((*at, problem.clone()?))));
            self.pieces.insert(target, piece);
        }
        self.failures = in_order(failures, &fleet.patches);
        ResourceType::ALL
            .into_iter()
            .fold(snapshot, |snapshot, kind| self.weave(snapshot, kind))
    }

    /// Puts the results of a kind into its section.
    fn weave(&mut self, snapshot: Snapshot, kind: ResourceType) -> Snapshot {
        let of_kind = self.pieces.iter().filter(|((of, _), _)| *of == kind);
        let results: Vec<Arc<Entry>> = of_kind.filter_map(|(_, piece)| piece.result.clone()).collect();
        if results.is_empty() {
            self.sections.remove(&kind);
            return snapshot;
        }
        let base = Arc::clone(snapshot.section(kind));
        if let Some(woven) = self.sections.get(&kind) {
            let are_same = |(a, b): (&Arc<Entry>, &Arc<Entry>)| Arc::ptr_eq(a, b);
            if Arc::ptr_eq(&woven.base, &base)
                && woven.results.len() == results.len()
                && woven.results.iter().zip(&results).all(are_same)
            {
                return snapshot.with(kind, Arc::clone(&woven.section));
            }
        }
        // Of several entries with one name the first stays.
        let all = results.iter().chain(base.entries()).cloned().collect();
        let section = Arc::new(Section::new(all));
        let woven = Woven {
            base,
            results,
            section: Arc::clone(&section),
        };
        self.sections.insert(kind, woven);
        snapshot.with(kind, section)
    }
}

/// Failures in the order of their patches.
fn in_order(mut failures: Vec<(usize, PatchProblem)>, patches: &[Patch]) -> Arc<Vec<PatchFailure>> {
    failures.sort_by_key(|(at, _)| *at);
    let told = failures.into_iter().map(|(at, problem)| PatchFailure {
        origin: patches[at].origin.clone(),
        index: patches[at].index,
        problem,
    });
    Arc::new(told.collect())
}

fn is_same(a: Option<&Arc<Entry>>, b: Option<&Arc<Entry>>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => Arc::ptr_eq(a, b) || a == b,
        (None, None) => true,
        _ => false,
    }
}

impl Piece {
    fn new(target: &PatchTarget, base: Option<Arc<Entry>>, patches: Vec<Patch>) -> Self {
        // What they make together counts: one may take away what the next puts back in another form.
        let (mut work, mut problems) = Work::through(target, base.as_ref(), &patches, Judged::Together);
        if !work.is_sound(target) {
            (work, problems) = Work::through(target, base.as_ref(), &patches, Judged::OneByOne);
        }
        let result = work.close(target, base.as_deref(), &patches, &problems);
        Self {
            base,
            patches,
            result,
            problems,
        }
    }
}

/// When the values that patches make are looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Judged {
    /// When all have run.
    Together,
    /// Behind each, so that the one at fault is known and left out.
    OneByOne,
}

/// A resource as its patches have left it so far.
struct Work {
    /// None where it isn't there.
    value: Result<Option<Value>, PatchProblem>,
    /// Encoded again, once it is another.
    bytes: Option<Vec<u8>>,
}

impl Work {
    fn open(kind: ResourceType, base: Option<&Arc<Entry>>) -> Self {
        let value = base.map(|entry| json(kind, &entry.body.contiguous())).transpose();
        Self {
            value: value.map_err(|error| PatchProblem::Invalid(error.to_string())),
            bytes: None,
        }
    }

    /// Runs patches in order; a problem is that of the patch in its place.
    fn through(
        target: &PatchTarget,
        base: Option<&Arc<Entry>>,
        patches: &[Patch],
        judged: Judged,
    ) -> (Self, Vec<Option<PatchProblem>>) {
        let mut work = Self::open(target.0, base);
        let problems = patches
            .iter()
            .map(|patch| work.run(target, patch, judged).err())
            .collect();
        (work, problems)
    }

    /// Whether Envoy takes the values that there are.
    fn is_sound(&self, target: &PatchTarget) -> bool {
        self.bytes.as_deref().is_none_or(|bytes| judge(target, bytes).is_ok())
    }

    fn run(&mut self, target: &PatchTarget, patch: &Patch, judged: Judged) -> Result<(), PatchProblem> {
        let value = self.value.as_ref().map_err(Clone::clone)?;
        let changed = operation::change(value.as_ref(), patch)?;
        if value.as_ref() == Some(&changed) {
            return Ok(());
        }
        let bytes = encode(target.0, changed)?;
        // Read back, so that the next patch finds every field under its proper name.
        let value = json(target.0, &bytes).map_err(|error| PatchProblem::Invalid(error.to_string()))?;
        if target::name(target.0, &value) != Some(&*target.1) {
            let message = format!(
                "validation failed for xds resource {}, err:its name must stay {}",
                patch.type_url, target.1
            );
            return Err(PatchProblem::Invalid(message));
        }
        if judged == Judged::OneByOne {
            judge(target, &bytes)?;
        }
        self.value = Ok(Some(value));
        self.bytes = Some(bytes);
        Ok(())
    }

    /// The resource that has become of it; none where no patch made a difference.
    fn close(
        self,
        target: &PatchTarget,
        base: Option<&Entry>,
        patches: &[Patch],
        problems: &[Option<PatchProblem>],
    ) -> Option<Arc<Entry>> {
        let (Some(bytes), Ok(Some(value))) = (self.bytes, self.value) else {
            return None;
        };
        let mut origins: Vec<_> = base.into_iter().flat_map(|base| base.origins.iter().cloned()).collect();
        for (patch, problem) in patches.iter().zip(problems) {
            if problem.is_none() && !origins.contains(&patch.origin) {
                origins.push(patch.origin.clone());
            }
        }
        // A refusal can't be led back to a piece of the IR any more, so the entry has no source.
        let entry = Entry::new(Arc::clone(&target.1), Body::Whole(bytes.into()), origins.into());
        let warmed_by = target::endpoints(target.0, &value).map(Arc::from);
        Some(Arc::new(Entry { warmed_by, ..entry }))
    }
}

fn encode(kind: ResourceType, value: Value) -> Result<Vec<u8>, PatchProblem> {
    let shown: String = match kind {
        ResourceType::Secret => String::new(),
        _ => value.to_string().chars().take(200).collect(),
    };
    let bytes = Codec::cached().and_then(|codec| codec.bytes_from_json(kind.type_url(), value));
    bytes.map_err(|error| {
        PatchProblem::Invalid(match kind {
            // What a secret holds stands in no status.
            ResourceType::Secret => "Unable to unmarshal xds resource: it is no secret any more.".to_owned(),
            _ => format!("Unable to unmarshal xds resource {shown}, err:{error}."),
        })
    })
}

/// Whether Envoy takes the values of what a patch has made. What was there before, it does.
fn judge(target: &PatchTarget, bytes: &[u8]) -> Result<(), PatchProblem> {
    let (type_url, name) = (target.0.type_url(), &target.1);
    let found = Codec::cached().and_then(|codec| breach(codec, type_url, bytes));
    let found = found.map_err(|error| PatchProblem::Invalid(error.to_string()))?;
    found.map_or(Ok(()), |breach| {
        let message = format!("validation failed for xds resource {type_url}, err:in {name}, {breach}");
        Err(PatchProblem::Invalid(message))
    })
}

fn json(kind: ResourceType, bytes: &[u8]) -> Result<Value, JsonError> {
    Codec::cached()?.bytes_to_json(kind.type_url(), bytes, Names::Proto)
}
