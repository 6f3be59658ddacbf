//! A memo table with recorded reads, pushed from the change.
//!
//! A node is an *input* (it has no value here, it is only touched), an *index* (the same, but touched while units of
//! its keeper's stage run) or a *unit* (a function's value is kept). A unit writes down every key it reads; touching a
//! key makes its readers due, and a due unit whose new value equals the old one stops there. Units belong to stages,
//! and a stage runs when all before it are done: no unit sees a stale value, none runs twice in a pass, and nothing
//! that no change leads to is looked at.
//!
//! Why not a framework for incremental computation: they revalidate from the result down, so that a pass costs what
//! the world is large; this costs what the change touches. The price is that a read which is not recorded is silent
//! staleness, so units are given [`Reads`] and never the world (the property tests compare with a fresh translation).
//! Only what wakes a unit whenever it changes needs no record: see `unit::Subject`.

use crate::place::{Place, hash_of, spread};
use hashbrown::HashTable;
use ids::NodeIds;
use smallvec::SmallVec;
use std::{cell::RefCell, hash::Hash};

mod ids;

/// A place in the table.
pub(crate) type NodeId = u32;
/// What a unit reads.
type NodeReads = NodeIds<5>;
/// Who reads a node.
type NodeReaders = NodeIds<3>;

/// Room for so many due units of a stage stays.
const DUE_AT_LEAST: usize = 64;

/// A key of the table: copied freely, and it knows whose turn it is.
pub(crate) trait MemoKey: Copy + Eq + Hash {
    /// What its node is.
    fn role(&self) -> Role;

    /// Whether somebody wants to hear when the first reads it and when the last no longer does.
    fn is_followed(&self) -> bool {
        false
    }
}

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Touched before a pass begins.
    Input,
    /// Touched while units of this stage run.
    Index(usize),
    /// Runs in this stage.
    Unit(usize),
}

impl Role {
    /// The stage after which it no longer changes; none for what doesn't change in a pass at all.
    fn settled_after(self) -> Option<usize> {
        match self {
            Self::Input => None,
            Self::Index(stage) | Self::Unit(stage) => Some(stage),
        }
    }
}

struct Node<K, V> {
    key: K,
    value: Option<V>,
    reads: NodeReads,
    /// Who reads this. May hold readers that no longer do: see [`Memo::live_readers`].
    readers: NodeReaders,
    n_readers: u32,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Only touched, never run; or a unit whose subject is gone.
    Input,
    /// A unit that is up to date, with a value or without.
    Clean,
    /// A unit that waits for its stage.
    Due,
}

/// The table.
pub(crate) struct Memo<K, V> {
    /// Where the node of a key is. Keys stay in their nodes, which whoever looks for them touches anyway: without them
    /// the index of fifty thousand nodes fits into the cache of a core.
    index: HashTable<Place>,
    nodes: Vec<Option<Node<K, V>>>,
    free: Vec<NodeId>,
    due: Vec<Vec<NodeId>>,
    /// What nobody reads any more, or did for a while. Forgotten between stages: what units of this one have read keeps
    /// its place until it is taken in.
    unread: Vec<NodeId>,
    /// Followed keys that came or went.
    turned: Vec<K>,
}

/// What a unit is given to read through.
pub(crate) struct Reads<'a, K, V> {
    memo: &'a Memo<K, V>,
    seen: RefCell<ReadLog<K>>,
}

/// What a unit read, in order and as often as it did.
struct ReadLog<K> {
    /// What has a node: no second look-up when the reads are linked.
    known: SmallVec<[NodeId; 16]>,
    /// What nobody asked for before.
    new: Vec<K>,
}

impl<K> Default for ReadLog<K> {
    fn default() -> Self {
        Self {
            known: SmallVec::new(),
            new: Vec::new(),
        }
    }
}

impl<'a, K: MemoKey, V: PartialEq> Reads<'a, K, V> {
    /// Records that the running unit depends on `key`.
    pub(crate) fn note(&self, key: K) {
        self.see(key);
    }

    /// The value of another unit, recorded.
    pub(crate) fn get(&self, key: K) -> Option<&'a V> {
        let id = self.see(key)?;
        self.memo.node(id)?.value.as_ref()
    }

    /// How much was read so far.
    pub(crate) fn count(&self) -> usize {
        let seen = self.seen.borrow();
        seen.known.len() + seen.new.len()
    }

    fn see(&self, key: K) -> Option<NodeId> {
        let id = self.memo.find(&key);
        let mut seen = self.seen.borrow_mut();
        match id {
            Some(id) => seen.known.push(id),
            None => seen.new.push(key),
        }
        id
    }
}

/// What a unit gives.
pub(crate) enum Given<V> {
    /// Its value.
    Value(V),
    /// None for now. It runs again when something that it read changes.
    Nothing,
    /// None, and its subject is gone: the unit is forgotten.
    Gone,
    /// It broke down. What it gave before stays.
    Broken,
}

/// What a unit gave and read when it ran, which nobody knows yet.
pub(crate) struct Ran<K, V> {
    given: Given<V>,
    /// What has a node, sorted, each once.
    known: NodeReads,
    /// What nobody asked for before.
    new: Vec<K>,
}

/// What became of a unit that ran.
pub(crate) enum Outcome<V> {
    /// The same value as before: nobody needs to know.
    Same,
    /// Another value, or none any more; the one before is handed over.
    Changed(Option<V>),
}

impl<K: MemoKey, V: PartialEq> Memo<K, V> {
    /// A table for units of so many stages.
    pub(crate) fn new(n_stages: usize) -> Self {
        let due = (0..n_stages).map(|_| Vec::new()).collect();
        Self {
            index: HashTable::new(),
            nodes: Vec::new(),
            free: Vec::new(),
            due,
            unread: Vec::new(),
            turned: Vec::new(),
        }
    }

    /// The value of a unit.
    pub(crate) fn get(&self, key: K) -> Option<&V> {
        self.value(self.find(&key)?)
    }

    /// The value at a place.
    pub(crate) fn value(&self, id: NodeId) -> Option<&V> {
        self.node(id)?.value.as_ref()
    }

    /// Puts an equal of the value of a unit in its place, which others have too.
    pub(crate) fn put_equal(&mut self, key: K, value: V) {
        if let Some(node) = self.find(&key).and_then(|id| self.node_mut(id)) {
            debug_assert!(
                node.value.as_ref() == Some(&value),
                "whoever read it would have to hear of another"
            );
            node.value = Some(value);
        }
    }

    /// Number of nodes, inputs included.
    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    fn node(&self, id: NodeId) -> Option<&Node<K, V>> {
        self.nodes.get(id as usize).and_then(Option::as_ref)
    }

    fn node_mut(&mut self, id: NodeId) -> Option<&mut Node<K, V>> {
        self.nodes.get_mut(id as usize).and_then(Option::as_mut)
    }

    fn find(&self, key: &K) -> Option<NodeId> {
        let hash = hash_of(key);
        let is_it = |place: &Place| place.hash == hash && self.node(place.number).is_some_and(|n| n.key == *key);
        self.index.find(spread(hash), is_it).map(|place| place.number)
    }

    /// Whether a key has a node: somebody reads it, or it is a unit that lives.
    pub(crate) fn holds(&self, key: K) -> bool {
        self.find(&key).is_some()
    }

    /// Followed keys that came or went since the last time; some may have done both.
    pub(crate) fn take_turned(&mut self) -> Vec<K> {
        std::mem::take(&mut self.turned)
    }

    fn id(&mut self, key: K) -> NodeId {
        if let Some(id) = self.find(&key) {
            return id;
        }
        if key.is_followed() {
            self.turned.push(key);
        }
        let node = Node {
            key,
            value: None,
            reads: NodeReads::new(),
            readers: NodeReaders::new(),
            n_readers: 0,
            state: State::Input,
        };
        let place = Place {
            hash: hash_of(&key),
            number: self.slot(node),
        };
        self.index.insert_unique(place.spread(), place, Place::spread);
        place.number
    }

    /// Puts a node into a free place. Places beyond the end went when the table was cut.
    fn slot(&mut self, node: Node<K, V>) -> NodeId {
        while let Some(id) = self.free.pop() {
            if let Some(place) = self.nodes.get_mut(id as usize) {
                *place = Some(node);
                return id;
            }
        }
        self.nodes.push(Some(node));
        (self.nodes.len() - 1) as NodeId
    }

    /// Makes a unit due: it is new, or something that it reads changed.
    pub(crate) fn want(&mut self, key: K) {
        let id = self.id(key);
        self.want_id(id);
    }

    fn want_id(&mut self, id: NodeId) {
        let Some(node) = self.node_mut(id) else { return };
        let Role::Unit(stage) = node.key.role() else { return };
        if node.state != State::Due {
            node.state = State::Due;
            self.due[stage].push(id);
        }
    }

    /// What is behind `key` changed: its readers are due.
    pub(crate) fn touch(&mut self, key: K) {
        if let Some(id) = self.find(&key) {
            self.touch_id(id);
        }
    }

    /// What is at a place changed.
    pub(crate) fn touch_id(&mut self, id: NodeId) {
        if self.node(id).is_none_or(|node| node.readers.is_empty()) {
            return;
        }
        let readers = self.live_readers(id);
        for reader in readers.iter() {
            self.want_id(*reader);
        }
        if let Some(node) = self.node_mut(id) {
            node.readers = readers;
        }
    }

    /// Takes the list of readers out, cleaned of those that stopped reading. Cleaning waits until the list is needed
    /// or has doubled, because taking one of 10,000 routes out of its Gateway's list at once would cost 10,000 steps.
    fn live_readers(&mut self, id: NodeId) -> NodeReaders {
        let readers = self.node_mut(id).map(|n| std::mem::take(&mut n.readers));
        let mut readers: SmallVec<[NodeId; 16]> = SmallVec::from_slice(&readers.unwrap_or_default());
        readers.sort_unstable();
        readers.dedup();
        readers.retain(|reader| self.node(*reader).is_some_and(|n| n.reads.contains(&id)));
        NodeReaders::from(&*readers)
    }

    /// The next due unit of a stage, with its place in the table.
    pub(crate) fn next_due(&mut self, stage: usize) -> Option<(NodeId, K)> {
        let id = self.due[stage].pop()?;
        Some((id, self.key(id)?))
    }

    /// How many units of a stage are due.
    pub(crate) fn n_due(&self, stage: usize) -> usize {
        self.due[stage].len()
    }

    /// The next due units of a stage, as many as that at most, in the order of [`Self::next_due`].
    pub(crate) fn take_due(&mut self, stage: usize, most: usize) -> Vec<NodeId> {
        let first = self.due[stage].len().saturating_sub(most);
        let mut ids = self.due[stage].split_off(first);
        ids.reverse();
        ids
    }

    /// The key of a node.
    pub(crate) fn key(&self, id: NodeId) -> Option<K> {
        Some(self.node(id)?.key)
    }

    /// Whether nothing waits.
    pub(crate) fn is_settled(&self) -> bool {
        self.due.iter().all(Vec::is_empty)
    }

    /// Runs a unit over the table as it is. Nobody knows of it before [`Self::take_in`], so that many may run at a
    /// time.
    pub(crate) fn run(&self, id: NodeId, unit: impl FnOnce(&Reads<'_, K, V>) -> Given<V>) -> Ran<K, V> {
        let reads = Reads {
            memo: self,
            seen: RefCell::default(),
        };
        let given = unit(&reads);
        let ReadLog { mut known, new } = reads.seen.into_inner();
        debug_assert!(
            self.reads_earlier_stages(id, &known, &new),
            "a unit may only read stages before its own"
        );
        known.sort_unstable();
        known.dedup();
        let known = NodeReads::from(&*known);
        Ran { given, known, new }
    }

    /// Takes in what a unit gave and read.
    pub(crate) fn take_in(&mut self, id: NodeId, ran: Ran<K, V>) -> Outcome<V> {
        let Ran { given, known, new } = ran;
        let gone = matches!(given, Given::Gone);
        let reads = if gone {
            NodeReads::new()
        } else {
            self.ids_of(known, new)
        };
        self.link(id, reads);
        let Some(node) = self.node_mut(id) else {
            return Outcome::Same;
        };
        node.state = if gone { State::Input } else { State::Clean };
        let value = match given {
            Given::Value(value) => Some(value),
            Given::Nothing | Given::Gone => None,
            Given::Broken => return Outcome::Same,
        };
        let outcome = if node.value == value {
            Outcome::Same
        } else {
            Outcome::Changed(std::mem::replace(&mut node.value, value))
        };
        if gone {
            self.unread.push(id);
        }
        outcome
    }

    fn reads_earlier_stages(&self, id: NodeId, known: &[NodeId], new: &[K]) -> bool {
        let after = |id: NodeId| self.node(id).and_then(|n| n.key.role().settled_after());
        let stage = after(id);
        known.iter().all(|read| after(*read) < stage) && new.iter().all(|key| key.role().settled_after() < stage)
    }

    fn ids_of(&mut self, known: NodeReads, new: Vec<K>) -> NodeReads {
        if new.is_empty() {
            return known;
        }
        let mut ids: SmallVec<[NodeId; 16]> = SmallVec::from_slice(&known);
        ids.extend(new.into_iter().map(|key| self.id(key)));
        ids.sort_unstable();
        ids.dedup();
        NodeReads::from(&*ids)
    }

    /// Makes `reads` what the unit reads from now on.
    fn link(&mut self, id: NodeId, reads: NodeReads) {
        let Some(node) = self.node_mut(id) else { return };
        if node.reads == reads {
            return;
        }
        let before = std::mem::take(&mut node.reads);
        for read in reads.iter().filter(|r| before.binary_search(r).is_err()) {
            if let Some(node) = self.node_mut(*read) {
                node.n_readers += 1;
                node.readers.push(id);
            }
        }
        for read in before.iter().filter(|r| reads.binary_search(r).is_err()) {
            self.unlink(*read);
        }
        if let Some(node) = self.node_mut(id) {
            node.reads = reads;
        }
    }

    fn unlink(&mut self, id: NodeId) {
        let Some(node) = self.node_mut(id) else { return };
        node.n_readers -= 1;
        if node.readers.len() > 2 * node.n_readers as usize + 16 {
            let readers = self.live_readers(id);
            if let Some(node) = self.node_mut(id) {
                node.readers = readers;
            }
        }
        if self.node(id).is_some_and(|node| node.n_readers == 0) {
            self.unread.push(id);
        }
    }

    /// A stage is over: nobody keeps the room for all units of a world, which an edit doesn't need.
    pub(crate) fn end_stage(&mut self, stage: usize) {
        self.due[stage].shrink_to(DUE_AT_LEAST);
        self.forget_unread();
    }

    /// Forgets what nobody reads any more.
    pub(crate) fn forget_unread(&mut self) {
        while let Some(id) = self.unread.pop() {
            self.forget_if_unread(id);
        }
    }

    fn forget_if_unread(&mut self, id: NodeId) {
        let Some(node) = self.node(id) else { return };
        if node.n_readers > 0 || node.state != State::Input {
            return;
        }
        let key = node.key;
        if key.is_followed() {
            self.turned.push(key);
        }
        let hash = spread(hash_of(&key));
        if let Ok(place) = self.index.find_entry(hash, |place| place.number == id) {
            place.remove();
        }
        self.nodes[id as usize] = None;
        self.free.push(id);
        // Keep the table as small as the world: after a great deletion most of it would be holes.
        while matches!(self.nodes.last(), Some(None)) {
            self.nodes.pop();
        }
        if self.free.len() > 2 * self.nodes.len() + 64 {
            let end = self.nodes.len() as NodeId;
            self.free.retain(|id| *id < end);
            self.free.shrink_to_fit();
            self.nodes.shrink_to_fit();
            self.index.shrink_to_fit(Place::spread);
        }
    }
}

#[cfg(test)]
mod tests;
