//! Bugs of our own: a unit that panics costs that unit, and nothing else.
//!
//! The unit keeps the value that it had and runs again when something that it read changes. The object behind it says
//! so in its status, and every translation lists what stands.

use super::{
    Translator,
    index::Index,
    key::Key,
    unit::{Subject, unit_name},
};
use crate::{api::Kind, name::Id, phase::statuses::has_status, translation::Fault, world::World};
use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};
use std::{any::Any, collections::BTreeSet};

/// Objects that a fault is laid at.
type Blamed = SmallVec<[(Kind, Id); 1]>;

/// What stands.
#[derive(Default)]
pub(crate) struct Faults(FxHashMap<Key, Standing>);

struct Standing {
    message: String,
    blamed: Blamed,
}

impl Faults {
    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Faults that are laid at an object, as unit and message, sorted.
    pub(crate) fn of(&self, kind: Kind, id: Id) -> Vec<(&'static str, &str)> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let mine = self.0.iter().filter(|(_, f)| f.blamed.contains(&(kind, id)));
        let mut mine: Vec<_> = mine.map(|(key, f)| (unit_name(*key), f.message.as_str())).collect();
        mine.sort_unstable();
        mine
    }

    /// All, sorted.
    pub(super) fn list(&self, world: &World) -> Vec<Fault> {
        let one = |(key, fault): (&Key, &Standing)| {
            let (unit, message) = (unit_name(*key), fault.message.clone());
            let objects = fault.blamed.clone().into_iter();
            objects
                .map(|(kind, id)| Fault {
                    object: world.object_key(kind, id),
                    unit,
                    message: message.clone(),
                })
                .collect::<Vec<_>>()
        };
        let mut all: Vec<Fault> = self.0.iter().flat_map(one).collect();
        all.sort_unstable();
        all
    }
}

impl Translator {
    /// Takes down how a unit ended: with a fault, or well.
    pub(super) fn keep_faults(&mut self, key: Key, fault: Option<String>) {
        if fault.is_none() && self.faults.0.is_empty() {
            return;
        }
        let fault = fault.map(|message| Standing {
            message,
            blamed: blamed(key, &self.index),
        });
        let mut turned = Blamed::new();
        turned.extend(fault.iter().flat_map(|f| f.blamed.clone()));
        let was = match fault {
            Some(fault) => self.faults.0.insert(key, fault),
            None => self.faults.0.remove(&key),
        };
        turned.extend(was.into_iter().flat_map(|f| f.blamed));
        // A status can't say that it couldn't be made.
        if !matches!(key, Key::Status(..)) {
            let spoken_of = turned.into_iter().filter(|(kind, _)| has_status(*kind));
            spoken_of.for_each(|(kind, id)| self.memo.want(Key::Status(kind, id)));
        }
    }
}

/// The objects that a unit works for.
fn blamed(key: Key, index: &Index) -> Blamed {
    let Some(subject) = key.subject() else {
        return Blamed::new();
    };
    match subject {
        Subject::Object(..) | Subject::Route(_) | Subject::Certificate(_) | Subject::Port(_) => {
            subject.object().into_iter().collect()
        }
        Subject::Fleet(fleet) => {
            let mut gateways: Blamed = index.members(fleet).iter().map(|id| (Kind::Gateway, *id)).collect();
            gateways.sort_unstable();
            gateways
        }
        Subject::Socket(socket) => {
            let listeners = index.socket_listeners(socket).iter();
            let gateways: BTreeSet<Id> = listeners.map(|listener| listener.id.gateway).collect();
            gateways.into_iter().map(|id| (Kind::Gateway, id)).collect()
        }
        Subject::Host(host) => smallvec![(Kind::Gateway, host.listener.gateway)],
        Subject::Backend(_, backend) => Subject::Port(backend.port).object().into_iter().collect(),
        Subject::Endpoints(_, list) => Subject::Port(list.port).object().into_iter().collect(),
    }
}

/// What a panic says.
pub(super) fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no message").to_owned()
}
