//! Every golden policy that protects, broken in every way: what it protects is closed or still guarded, and what others
//! are about stays as it is.

use super::{
    breakage::{self, Breakage, PROTECTIVE, Strength},
    case::{Case, Piece, Place, Places, Running, differences, is_target, key},
};
use edge_translate::api::ObjectKey;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    thread,
};

/// Tests run side by side, in so many threads.
const THREADS: usize = 4;

/// A rule's own CORS stands in place of the policy's there, and a TCP listener has no use for the CORS of a policy of
/// its Gateway: both are closed when the policy breaks, and it makes no difference to them as long as it is whole. That
/// it is about them can't be seen.
const UNSEEN: [&str; 2] = ["security/cors-of-rule", "security/tcp-requests"];

#[test]
fn a_policy_that_breaks_opens_nothing_and_moves_nobody_else() {
    let cases: Vec<Case> = Case::all();
    let cases: Vec<&Case> = cases
        .iter()
        .filter(|case| !UNSEEN.contains(&&*case.name))
        .filter(|case| case.of_kinds(PROTECTIVE).next().is_some())
        .collect();
    let chunks = cases.chunks(cases.len().div_ceil(THREADS));
    let wrong: Vec<String> = thread::scope(|scope| {
        let started: Vec<_> = chunks
            .map(|chunk| scope.spawn(|| chunk.iter().flat_map(|case| wrong(case)).collect::<Vec<_>>()))
            .collect();
        started.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// What is wrong about a case.
fn wrong(case: &Case) -> Vec<String> {
    let mut running = Running::new(case);
    let before = running.places();
    let covered: BTreeMap<ObjectKey, BTreeSet<Place>> = case
        .of_kinds(PROTECTIVE)
        .map(|policy| (key(policy), covered_by(&mut running, &before, policy)))
        .collect();
    let mut wrong = Vec::new();
    for way in breakage::of(case) {
        let places = after(&mut running, case, &way);
        let meant = way.policies.iter().flat_map(|policy| &covered[&key(policy)]);
        let meant: BTreeSet<&Place> = meant.collect();
        let mut say = |place: &Place, what: &str| wrong.push(format!("{}: {}: {place:?} {what}", case.name, way.what));
        for place in differences(&before, &places) {
            if !meant.contains(&place) && !is_idle(&way, &covered, &before, &places, &place) {
                say(&place, "moved");
            }
        }
        for place in meant {
            if !is_safe(&before, &places, place, way.strength) {
                say(place, "is open");
            }
        }
    }
    wrong
}

/// Whether a policy that makes no difference as long as it is whole may be about a place.
fn is_idle(
    way: &Breakage,
    covered: &BTreeMap<ObjectKey, BTreeSet<Place>>,
    before: &Places,
    after: &Places,
    place: &Place,
) -> bool {
    let pieces = || before.get(place).into_iter().chain(after.get(place));
    way.policies.iter().any(|policy| {
        let is_about = |piece: &Piece| piece.origins().iter().any(|origin| is_target(policy, origin));
        covered[&key(policy)].is_empty() && pieces().any(is_about)
    })
}

/// The places at which a policy makes a difference.
fn covered_by(running: &mut Running, before: &Places, policy: &Value) -> BTreeSet<Place> {
    running.remove(policy);
    let without = running.places();
    running.put(policy);
    assert_eq!(
        differences(before, &running.places()),
        BTreeSet::new(),
        "{policy} came back otherwise"
    );
    differences(before, &without)
}

/// What becomes of a case that breaks in a way; it is whole again afterwards.
fn after(running: &mut Running, case: &Case, way: &Breakage) -> Places {
    way.removed.iter().for_each(|object| running.remove(object));
    way.put.iter().for_each(|object| running.put(object));
    let places = running.places();
    let touched: BTreeSet<ObjectKey> = way.removed.iter().chain(&way.put).map(key).collect();
    let whole = case.objects.iter().filter(|object| touched.contains(&key(object)));
    whole.for_each(|object| running.put(object));
    places
}

fn is_safe(before: &Places, after: &Places, place: &Place, strength: Strength) -> bool {
    let (Some(was), now) = (before.get(place), after.get(place)) else {
        return true;
    };
    let Some(now) = now else { return false };
    match strength {
        _ if now.is_closed() || now == was => true,
        Strength::Leaves => true,
        Strength::Closes => false,
        // What was closed is open only if somebody mended it.
        Strength::Guards => was.is_closed() || was.guards().is_subset(&now.guards()),
    }
}
