//! The incremental engine: a world, a memo table of units over it, and fleets assembled from what the units give.
//!
//! [`Translator::apply`] takes one change in and marks what read it; [`Translator::translate`] runs what is due, stage
//! by stage, and hands out the result. Both cost what the change touches, apart from one pass over the lists of a
//! fleet that changed (pointers, no encoding).

use crate::{
    api::{Kind, Object, ObjectKey},
    change::Change,
    fact::Answers,
    name::{FleetId, Id},
    phase::{self, gateways::class::Class},
    settings::Settings,
    status::Status,
    translation::Translation,
    world::World,
};
use edge_ir::{Executor, FleetKey, InPlace};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

mod assembly;
mod faults;
pub(crate) mod index;
pub(crate) mod key;
mod memo;
mod questions;
pub(crate) mod reader;
mod recent;
mod renewal;
mod stage;
pub(crate) mod unit;
mod upkeep;
pub(crate) mod value;

use assembly::Assembly;
use faults::Faults;
use index::Index;
use key::{Key, QuestionKey};
use memo::Memo;
use reader::Reader;
use recent::InCommon;
use renewal::Growth;
use unit::{N_STAGES, Runs};
use value::Value;

/// Turns resources into fleets, and keeps them up to date.
pub struct Translator {
    world: World,
    memo: Memo<Key, Value>,
    index: Index,
    assembly: Assembly,
    /// Statuses that changed in this translation; each once, as no unit runs twice.
    changed_statuses: Vec<(ObjectKey, Option<Arc<Status>>)>,
    /// What this translation cost so far.
    runs: Runs,
    /// Questions to the outside that stand.
    asked: BTreeSet<QuestionKey>,
    /// Units that panicked.
    faults: Faults,
    growth: Growth,
    /// What many objects have in common.
    in_common: InCommon,
    /// What units do.
    unit: UnitFunction,
    /// Who runs them where many are due.
    executor: Arc<dyn Executor>,
}

impl fmt::Debug for Translator {
    /// How much it remembers; all that it knows fills a book.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut form = f.debug_struct("Translator");
        form.field("memo_size", &self.memo_size()).finish_non_exhaustive()
    }
}

/// The function of every unit; none when it has no value, for now or because its subject is gone.
type UnitFunction = fn(&Reader<'_>) -> Option<Value>;

impl Translator {
    /// An engine over an empty world.
    pub fn new(settings: Settings) -> Self {
        Self::over(World::new(settings), unit)
    }

    fn over(world: World, unit: UnitFunction) -> Self {
        Self {
            world,
            memo: Memo::new(N_STAGES),
            index: Index::default(),
            assembly: Assembly::default(),
            changed_statuses: Vec::new(),
            runs: Runs::default(),
            asked: BTreeSet::new(),
            faults: Faults::default(),
            growth: Growth::default(),
            in_common: InCommon::default(),
            unit,
            executor: Arc::new(InPlace),
        }
    }

    /// Lets somebody run what is much and can be done in any order. What comes out is the same.
    #[must_use]
    pub fn run_by(self, executor: Arc<dyn Executor>) -> Self {
        Self { executor, ..self }
    }

    /// The settings in force.
    pub fn settings(&self) -> &Settings {
        self.world.settings()
    }

    /// Takes new settings. What read them is translated again. Whoever changes which custom kinds there are has to read
    /// their objects again; another function to check with counts as the same, so that nothing is judged again by it.
    pub fn set_settings(&mut self, settings: Settings) {
        if self.world.set_settings(settings) {
            self.memo.touch(Key::Settings);
        }
    }

    /// Takes a change in. Nothing is computed yet, so that many changes cost one translation.
    pub fn apply(&mut self, change: Change) {
        let touched = match change {
            Change::Put(mut object) => {
                self.in_common.share(&mut object);
                self.world.put(object.key(), Some(object))
            }
            Change::Remove(key) => self.world.put(key, None),
            Change::Fact(fact) => return self.learn(fact),
        };
        if touched.replaced {
            self.growth.turn();
        }
        touched.subjects.into_iter().for_each(|subject| self.wake(subject));
        touched.keys.into_iter().for_each(|key| self.memo.touch(key));
        touched.units.into_iter().for_each(|unit| self.memo.want(unit));
    }

    /// Brings everything up to date and returns it.
    pub fn translate(&mut self) -> Translation {
        let translation = self.update();
        self.renew_if_outgrown();
        translation
    }

    /// Brings everything up to date and returns it, with answers to what is asked from what somebody has at hand.
    pub fn translate_with(&mut self, answers: &Answers) -> Translation {
        let mut translation = self.translate();
        loop {
            let facts = answers.to(&translation.wanted);
            if facts.is_empty() {
                return translation;
            }
            facts.into_iter().for_each(|fact| self.apply(Change::Fact(fact)));
            let earlier = std::mem::replace(&mut translation, self.translate());
            let keys: BTreeSet<ObjectKey> = translation.statuses.iter().map(|(key, _)| key.clone()).collect();
            let kept = earlier.statuses.into_iter().filter(|(key, _)| !keys.contains(key));
            translation.statuses.extend(kept);
            translation.statuses.sort_by(|(a, _), (b, _)| a.cmp(b));
        }
    }

    fn update(&mut self) -> Translation {
        for stage in 0..N_STAGES {
            self.run_stage(stage);
        }
        debug_assert!(self.memo.is_settled(), "a unit was woken after its stage");
        let (fleets, infra) = self.assembly.settle();
        let mut statuses = std::mem::take(&mut self.changed_statuses);
        statuses.sort_by(|(a, _), (b, _)| a.cmp(b));
        Translation {
            fleets,
            infra,
            statuses,
            wanted: self.wanted(),
            faults: self.faults.list(&self.world),
            runs: self.runs.take(),
        }
    }

    /// Everything that we say about any object, sorted by object.
    pub fn statuses(&self) -> BTreeMap<ObjectKey, Arc<Status>> {
        let all = self
            .world
            .subjects()
            .filter(|(kind, _)| phase::statuses::has_status(*kind));
        all.filter_map(|(kind, id)| {
            Some((
                self.world.object_key(kind, id),
                Arc::clone(status_of(&self.memo, kind, id)?),
            ))
        })
        .collect()
    }

    /// Every object that is in force, sorted by kind, namespace and name. EndpointSlices that belong to no backend are
    /// in force nowhere.
    pub fn objects(&self) -> BTreeMap<ObjectKey, Object> {
        self.world.everything().map(|object| (object.key(), object)).collect()
    }

    /// An object that is in force.
    pub fn object(&self, key: &ObjectKey) -> Option<&Object> {
        self.world.object(key.kind, self.world.id(&key.namespace, &key.name))
    }

    /// The Gateways that a fleet is of, sorted.
    pub fn members(&self, fleet: &FleetKey) -> BTreeSet<ObjectKey> {
        let fleet = FleetId(self.world.id("", fleet.as_str()).name);
        let gateways = self.index.members(fleet).iter();
        gateways.map(|id| self.world.object_key(Kind::Gateway, *id)).collect()
    }

    /// Whether a class is ours, and its parameters can't be used.
    pub(crate) fn refuses_class(&self, name: &str) -> bool {
        match self.memo.get(Key::Class(self.world.id("", name).name)) {
            Some(Value::Class(class)) => matches!(**class, Class::Refused { .. }),
            _ => false,
        }
    }

    /// How many values and inputs are remembered; grows and shrinks with the world.
    pub fn memo_size(&self) -> usize {
        self.memo.len()
    }
}

fn status_of(memo: &Memo<Key, Value>, kind: Kind, id: Id) -> Option<&Arc<Status>> {
    match memo.get(Key::Status(kind, id)) {
        Some(Value::Status(status)) => status.as_ref(),
        _ => None,
    }
}

/// The function of each unit.
fn unit(reader: &Reader<'_>) -> Option<Value> {
    Some(match reader.key {
        Key::Class(name) => Value::Class(Arc::new(phase::gateways::class::class(reader, name)?)),
        Key::Gateway(id) => Value::Gateway(Arc::new(phase::gateways::gateway::gateway(reader, id)?)),
        Key::Certificate(id) => Value::Certificate(phase::listeners::certificate::certificate(reader, id)?),
        Key::CertificateView(id) => Value::CertificateView(phase::listeners::certificate::view(reader, id)?),
        Key::Listeners(fleet) => Value::Listeners(Arc::new(phase::listeners::fleet::listeners(reader, fleet)?)),
        Key::FleetShape(fleet) => {
            Value::FleetShape(Arc::new(phase::gateways::fleet_shape::fleet_shape(reader, fleet)?))
        }
        Key::SecurityPolicy(id) => Value::SecurityPolicy(Arc::new(phase::policies::security::policy(reader, id)?)),
        Key::ExtensionPolicy(id) => Value::ExtensionPolicy(Arc::new(phase::policies::extension::policy(reader, id)?)),
        Key::ClientPolicy(id) => Value::ClientPolicy(Arc::new(phase::policies::client::policy(reader, id)?)),
        Key::TrafficPolicy(id) => Value::TrafficPolicy(Arc::new(phase::policies::traffic::policy(reader, id)?)),
        Key::Patches(fleet) => Value::Patches(Arc::new(phase::gateways::patches::patches(reader, fleet)?)),
        Key::CustomPolicies(fleet) => {
            Value::CustomPolicies(Arc::new(phase::policies::custom::over_fleet(reader, fleet)?))
        }
        Key::Collectors(fleet) => Value::Collectors(Arc::new(phase::gateways::collectors::collectors(reader, fleet)?)),
        Key::BackendTls(port) => Value::BackendTls(phase::backends::backend_tls::backend_tls(reader, port)?),
        Key::ListenerViews(id) => Value::ListenerViews(Arc::new(phase::listeners::view::views(reader, id)?)),
        Key::Ready(port) => Value::Ready(phase::backends::endpoints::readiness(reader, port)?),
        Key::Attach(route) => Value::Attach(Arc::new(phase::routes::attach::attach(reader, route)?)),
        Key::Bound(route) => Value::Bound(Arc::new(phase::routes::bound::bound(reader, route)?)),
        Key::Host(id) => Value::Host(Arc::new(phase::routes::host::host(reader, id)?)),
        Key::Cluster(fleet, backend) => {
            Value::Cluster(Arc::new(phase::backends::cluster::cluster(reader, fleet, backend)?))
        }
        Key::Endpoints(fleet, list) => Value::Endpoints(phase::backends::endpoints::endpoints(reader, fleet, list)?),
        Key::Socket(socket) => Value::Socket(Arc::new(phase::listeners::sockets::socket(reader, socket)?)),
        Key::Proxies(fleet) => Value::Endpoints(phase::gateways::proxies::proxies(reader, fleet)?),
        Key::Infra(fleet) => Value::Infra(phase::gateways::infra::infra(reader, fleet)?.map(Arc::new)),
        Key::Status(kind, id) => Value::Status(phase::statuses::status(reader, kind, id)?.map(Arc::new)),
        // No units: inputs are put in from outside, and indexes are kept up as units change (`upkeep`).
        Key::Settings
        | Key::Object(..)
        | Key::Slices(_)
        | Key::Grants(_)
        | Key::Referrers(..)
        | Key::Covers(..)
        | Key::Fact(_)
        | Key::Patched(_)
        | Key::Members(_)
        | Key::PortClaims(..)
        | Key::ListenerRoutes(_)
        | Key::Attached(_)
        | Key::Ancestors(_)
        | Key::Filters(_)
        | Key::InVain(_)
        | Key::RoutePolicies(_) => return None,
    })
}

#[cfg(test)]
mod tests;
