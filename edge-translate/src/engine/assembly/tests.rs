use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// A piece: a name, and what may change about it.
#[derive(Debug, PartialEq)]
struct Item(String, u8);

impl Named for Item {
    fn name(&self) -> &str {
        &self.0
    }
}

fn item(n: u16, value: u8) -> Arc<Item> {
    Arc::new(Item(format!("n{n:04}"), value))
}

/// What becomes of a piece: another value, the same in a new allocation, or gone.
type Edits = Vec<(u16, Option<u8>)>;

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever changes, the list is that of all pieces, and chunks that nothing falls into stay.
    #[test]
    fn chunks_are_merged_like_the_whole(
        history in prop::collection::vec(
            prop_oneof![
                prop::collection::vec((0..900u16, prop::option::weighted(0.6, 0..3u8)), 1..4),
                (0..900u16, 1..500u16).prop_map(|(from, n)| (from..from + n).map(|n| (n, None)).collect::<Edits>()),
                prop::collection::vec((0..900u16, (0..3u8).prop_map(Some)), 100..300),
            ],
            1..12,
        ),
    ) {
        let mut all: BTreeMap<u16, Arc<Item>> = (0..600).map(|n| (n * 3 / 2, item(n * 3 / 2, 0))).collect();
        let mut list = SortedChunks::default();
        all.values().for_each(|item| list.change(None, Some(Arc::clone(item))));
        prop_assert!(list.settle());
        for edits in &history {
            let before = list.items.clone();
            // Each name once, as no unit runs twice in a translation.
            let edits: BTreeMap<u16, Option<u8>> = edits.iter().copied().collect();
            for (n, value) in &edits {
                let now = value.map(|value| item(*n, value));
                let was = match &now {
                    Some(now) => all.insert(*n, Arc::clone(now)),
                    None => all.remove(n),
                };
                list.change(was, now);
            }
            let changed = list.settle();
            let now: Vec<&Item> = list.items.iter().map(|item| &**item).collect();
            prop_assert_eq!(&now, &all.values().map(|item| &**item).collect::<Vec<_>>());
            prop_assert_eq!(changed, before != list.items);
            prop_assert_eq!(list.items.len(), all.len());
            let known: BTreeSet<_> = before.chunks().iter().map(|chunk| Arc::as_ptr(chunk).cast::<()>()).collect();
            let new = list.items.chunks().iter().filter(|chunk| !known.contains(&Arc::as_ptr(chunk).cast::<()>()));
            // A chunk that is touched may fall in two, and join a neighbour.
            let bound = if edits.len() > before.len() { usize::MAX } else { 2 * edits.len() + 1 };
            prop_assert!(new.count() <= bound);
        }
    }
}
