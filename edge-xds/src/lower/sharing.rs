//! Bytes that many routes or hosts have in common: what filters do for routes, one by one and together, and when they
//! are tried again, which is the same for all routes under a policy; and where hosts came from, all those of a
//! listener. It is encoded once, and stands once in memory for all pieces that it is a part of.
//!
//! What is shared is told by its allocation in the IR. What comes out doesn't depend on it: a piece has the same bytes
//! whether it shares them or not.

use crate::{
    snapshot::{Piece, SharedBytes},
    wire::put_message,
};
use edge_ir::{FilterEffect, Origins, RetryPolicy, RouteFilters};
use rustc_hash::FxHashMap;
use std::{
    mem::{Discriminant, discriminant},
    ops::Range,
    sync::Arc,
};

/// What was encoded for whom, by address. It holds them, so that no other takes their place in memory.
#[derive(Debug, Default)]
pub(super) struct Sharing {
    filters: FxHashMap<usize, (RouteFilters, SharedBytes)>,
    /// By its kind too: what is empty may have one address whatever it is.
    effects: FxHashMap<(Discriminant<FilterEffect>, usize), (FilterEffect, SharedBytes)>,
    retries: FxHashMap<usize, (Arc<RetryPolicy>, SharedBytes)>,
    origins: FxHashMap<usize, (Origins, SharedBytes)>,
    /// How many there may be before those are looked for that nobody uses any more.
    bound: usize,
}

/// Shorter ones take less room than a reference to them.
const SHORTEST: usize = 48;

impl Sharing {
    /// What filters do; none if nobody shares it.
    pub(super) fn filters(
        &mut self,
        filters: &RouteFilters,
        encode: impl FnOnce(&mut Draft, &mut Self),
    ) -> Option<SharedBytes> {
        if Arc::strong_count(filters) == 1 {
            return None;
        }
        let key = Arc::as_ptr(filters).addr();
        if let Some((_, known)) = self.filters.get(&key) {
            return Some(SharedBytes::clone(known));
        }
        let mut draft = Draft::default();
        encode(&mut draft, self);
        let new: SharedBytes = Arc::new(draft.bytes.into());
        self.filters
            .insert(key, (RouteFilters::clone(filters), SharedBytes::clone(&new)));
        Some(new)
    }

    /// What one filter does; none if nobody shares it.
    pub(super) fn effect(&mut self, effect: &FilterEffect, encode: impl FnOnce(&mut Vec<u8>)) -> Option<SharedBytes> {
        let key = (discriminant(effect), effect.shared()?);
        let new = || (effect.clone(), encoded(encode));
        Some(SharedBytes::clone(&self.effects.entry(key).or_insert_with(new).1))
    }

    /// When tries are made; none if nobody shares it.
    pub(super) fn retry(&mut self, retry: &Arc<RetryPolicy>, encode: impl FnOnce(&mut Vec<u8>)) -> Option<SharedBytes> {
        (Arc::strong_count(retry) > 1).then(|| {
            let key = Arc::as_ptr(retry).addr();
            let new = || (Arc::clone(retry), encoded(encode));
            SharedBytes::clone(&self.retries.entry(key).or_insert_with(new).1)
        })
    }

    /// Where hosts came from; none if nobody shares it.
    pub(super) fn origins(&mut self, origins: &Origins, encode: impl FnOnce(&mut Vec<u8>)) -> Option<SharedBytes> {
        (Arc::strong_count(origins) > 1).then(|| {
            let key = Arc::as_ptr(origins).addr();
            let new = || (Origins::clone(origins), encoded(encode));
            SharedBytes::clone(&self.origins.entry(key).or_insert_with(new).1)
        })
    }

    /// Knows what another knows too.
    pub(super) fn learn(&mut self, other: Self) {
        let Self {
            filters,
            effects,
            retries,
            origins,
            bound: _,
        } = other;
        self.filters.extend(filters);
        self.effects.extend(effects);
        self.retries.extend(retries);
        self.origins.extend(origins);
    }

    /// Forgets what nobody else has any more. It is looked for when there is twice as much as was left the last time,
    /// so that an edit doesn't pay for all.
    pub(super) fn tidy(&mut self) {
        if self.len() > self.bound {
            self.filters.retain(|_, (filters, _)| Arc::strong_count(filters) > 1);
            self.effects.retain(|_, (effect, _)| effect.shared().is_some());
            self.retries.retain(|_, (retry, _)| Arc::strong_count(retry) > 1);
            self.origins.retain(|_, (origins, _)| Arc::strong_count(origins) > 1);
            self.bound = 64 + 2 * self.len();
        }
    }

    fn len(&self) -> usize {
        self.filters.len() + self.effects.len() + self.retries.len() + self.origins.len()
    }
}

fn encoded(encode: impl FnOnce(&mut Vec<u8>)) -> SharedBytes {
    let mut bytes = Vec::new();
    encode(&mut bytes);
    Arc::new(bytes.into())
}

/// A message in the making: its bytes, and which of them are shared.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) bytes: Vec<u8>,
    shared: Vec<(usize, SharedBytes)>,
}

impl Draft {
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.shared.clear();
    }

    /// Writes what is shared.
    pub(super) fn put_shared(&mut self, bytes: &SharedBytes) {
        if bytes.len() >= SHORTEST {
            self.shared.push((self.bytes.len(), SharedBytes::clone(bytes)));
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Writes an embedded message whose fields the closure writes.
    pub(super) fn put_message(&mut self, number: u32, fields: impl FnOnce(&mut Self)) {
        let first = self.shared.len();
        let mut draft = std::mem::take(self);
        let mut end = 0;
        let mut bytes = std::mem::take(&mut draft.bytes);
        put_message(&mut bytes, number, |out| {
            draft.bytes = std::mem::take(out);
            fields(&mut draft);
            *out = std::mem::take(&mut draft.bytes);
            end = out.len();
        });
        // A length in front that takes more than a byte moves what is behind it.
        let moved = bytes.len() - end;
        draft.shared[first..].iter_mut().for_each(|(at, _)| *at += moved);
        draft.bytes = bytes;
        *self = draft;
    }

    /// Copies bytes of a piece, with what is shared in them.
    pub(super) fn put_part(&mut self, piece: &Piece, range: Range<usize>) {
        let begin = self.bytes.len();
        let shared = piece.copy_part(range, &mut self.bytes);
        self.shared
            .extend(shared.map(|(at, bytes)| (begin + at, SharedBytes::clone(bytes))));
    }

    /// What was written, as a piece.
    pub(super) fn piece(&mut self) -> Piece {
        Piece::sharing(&self.bytes, std::mem::take(&mut self.shared))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What a message holds: bytes of its own, shared ones, messages.
    #[derive(Clone, Debug)]
    enum Field {
        Own(Vec<u8>),
        Shared(usize),
        Message(Vec<Field>),
    }

    fn fields() -> impl Strategy<Value = Vec<Field>> {
        let leaf = prop_oneof![
            prop::collection::vec(any::<u8>(), 0..200).prop_map(Field::Own),
            (0..3usize).prop_map(Field::Shared),
        ];
        let field = leaf.prop_recursive(3, 24, 4, |inner| {
            prop::collection::vec(inner, 0..4).prop_map(Field::Message)
        });
        prop::collection::vec(field, 0..6)
    }

    fn shared() -> [SharedBytes; 3] {
        [(1, 20), (2, 60), (3, 300)].map(|(byte, len)| Arc::new(vec![byte; len].into()))
    }

    fn put(draft: &mut Draft, plain: &mut Vec<u8>, fields: &[Field]) {
        for field in fields {
            match field {
                Field::Own(bytes) => {
                    draft.bytes.extend(bytes);
                    plain.extend(bytes);
                }
                Field::Shared(n) => {
                    draft.put_shared(&shared()[*n]);
                    plain.extend(shared()[*n].iter());
                }
                Field::Message(fields) => {
                    let mut inner = Vec::new();
                    draft.put_message(1, |draft| put(draft, &mut inner, fields));
                    put_message(plain, 1, |out| out.extend(inner));
                }
            }
        }
    }

    proptest! {
        #[test]
        fn a_piece_has_the_same_bytes_whether_it_shares_some_or_not(messages in prop::collection::vec(fields(), 1..4)) {
            let (mut draft, mut plain, mut ends) = (Draft::default(), Vec::new(), vec![0]);
            for fields in &messages {
                put(&mut draft, &mut plain, fields);
                ends.push(plain.len());
            }
            let piece = draft.piece();
            let whole = Piece::new(plain.clone().into());
            prop_assert_eq!(piece.bytes(), plain.clone());
            prop_assert_eq!(piece.len(), plain.len());
            prop_assert_eq!(piece.hash(), whole.hash());
            prop_assert_eq!(&piece, &whole);
            prop_assert_eq!(piece.runs().flatten().copied().collect::<Vec<u8>>(), plain.clone());
            // Parts behind something else, as in the host that follows.
            let mut copy = Draft { bytes: vec![7; 9], ..Draft::default() };
            for part in ends.windows(2) {
                copy.put_part(&piece, part[0]..part[1]);
            }
            let copy = copy.piece();
            prop_assert_eq!(&copy.bytes()[9..], &plain[..]);
            let inserts = |fields: &[Field]| fields.iter().any(|field| matches!(field, Field::Shared(1 | 2)));
            if messages.iter().any(|fields| inserts(fields)) {
                prop_assert!(matches!(copy.bytes(), std::borrow::Cow::Owned(_)));
            }
        }
    }

    /// What is empty may stand at one address whatever it is, and two kinds of it are two things.
    #[test]
    fn effects_of_two_kinds_are_never_taken_for_each_other() {
        let mut sharing = Sharing::default();
        let effects = [
            FilterEffect::Override(Arc::default()),
            FilterEffect::ExternalAuth(Arc::default()),
        ];
        let holders = effects.clone();
        for (effect, byte) in holders.iter().zip([1, 2]) {
            let first = sharing.effect(effect, |out| out.push(byte)).unwrap();
            assert_eq!(**first, [byte]);
            let again = sharing.effect(effect, |_| unreachable!()).unwrap();
            assert!(Arc::ptr_eq(&first, &again));
        }
        drop((effects, holders));
        assert_eq!(sharing.effect(&FilterEffect::On, |_| unreachable!()), None);
    }

    #[test]
    fn what_routes_have_in_common_is_encoded_once_while_somebody_has_it() {
        let mut sharing = Sharing::default();
        let new = || {
            Arc::new(RetryPolicy {
                retries: 1,
                triggers: Vec::new(),
                codes: Vec::new(),
                backoff: None,
                max_backoff: None,
                per_try_timeout: None,
                attempts_per_priority: None,
            })
        };
        let (mine, many): (_, Vec<_>) = (new(), (0..200).map(|_| new()).collect());
        assert_eq!(sharing.retry(&mine, |_| unreachable!()), None);
        let other = Arc::clone(&mine);
        let first = sharing.retry(&mine, |out| out.push(1)).unwrap();
        let second = sharing.retry(&other, |_| unreachable!()).unwrap();
        assert!(Arc::ptr_eq(&first, &second));
        let holders = many.clone();
        for retry in &holders {
            sharing.retry(retry, |out| out.push(2));
        }
        drop((many, holders));
        sharing.tidy();
        assert_eq!(sharing.retries.len(), 1);
    }
}
