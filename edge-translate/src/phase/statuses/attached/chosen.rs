//! Why what the selectors of a policy choose is none of its targets.

use crate::{
    api::Kind,
    engine::reader::Reader,
    name::{Id, PolicyId},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// A sentence for each reason; none where it chooses something that it may be for, whatever that hangs under.
pub(super) fn in_vain(reader: &Reader<'_>, policy: PolicyId, may_target: impl Fn(Kind) -> bool) -> Vec<String> {
    let chosen: Vec<(Kind, Id)> = reader.chosen_by(policy).collect();
    if chosen.is_empty() {
        let nothing =
            "spec.targetSelectors: nothing is chosen: where they look, nothing of such a kind has such labels"
                .to_owned();
        return vec![nothing];
    }
    let is_target = |kind: Kind, id: Id| may_target(kind) && reader.admits(policy, kind, id);
    if chosen.iter().any(|(kind, id)| is_target(*kind, *id)) {
        return Vec::new();
    }
    let unfit: BTreeSet<Kind> = chosen
        .iter()
        .map(|(kind, _)| *kind)
        .filter(|kind| !may_target(*kind))
        .collect();
    let mut withheld: BTreeMap<(Kind, Arc<str>), Vec<Arc<str>>> = BTreeMap::new();
    for (kind, id) in chosen {
        if may_target(kind) {
            let place = (kind, reader.text(id.namespace));
            withheld.entry(place).or_default().push(reader.text(id.name));
        }
    }
    let unfit = unfit
        .into_iter()
        .map(|kind| format!("spec.targetSelectors: a {} can't be for a {kind}", policy.kind));
    let home = reader.text(policy.id.namespace);
    let withheld = withheld.into_iter().map(|((kind, namespace), names)| {
        let first = names.iter().min().map_or("", |name| &**name);
        let others = match names.len() - 1 {
            0 => "is".to_owned(),
            n => format!("and {n} more are"),
        };
        format!(
            "spec.targetSelectors: {kind} {namespace}/{first} {others} chosen, and no ReferenceGrant of namespace \
             {namespace} lets a {} of namespace {home} in",
            policy.kind
        )
    });
    unfit.chain(withheld).collect()
}
