//! What an EdgeExtensionPolicy says: read once for each policy, and decided where it is used, by what the EdgeProxy of
//! the fleet allows and how the services that it names can be spoken to.
//!
//! The entries of its lists are read one by one. One that can't run is left out where it says that it may be missing,
//! and closes what the policy covers where it doesn't; the status tells of it either way. Numbers in the names of
//! filters keep the order of the entries.

use super::{
    filter_list::FilterList,
    merge,
    policy::Standing,
    traffic::Problems,
    written::{homed, is_free, merged, own_fields, owner},
};
use crate::{
    api::{Generic, Kind, MergeType, Object},
    engine::reader::Reader,
    load::typed::typed,
    name::{BackendId, BackendPort, Extending, Extension, ExtensionId, Id, OutsideService, Streams},
    phase::{backends::asked, precedence::Seniority},
    status::ended,
};
use edge_ir::{FilterEffect, FilterInstance};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::Arc;

mod allowed;
mod native;
mod processor;
mod script;
mod wasm;

pub(crate) use allowed::Allowed;

const KIND: Kind = Kind::EdgeExtensionPolicy;

/// A policy, read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ExtensionPolicy {
    /// Age and name, which decide between policies for the same.
    pub(crate) seniority: Seniority,
    /// How it merges into that of a parent; it stands alone where this is absent.
    pub(crate) merge: Option<MergeType>,
    /// What it says by itself.
    draft: Arc<Draft>,
    /// Backends that it asks, sorted: what a BackendTLSPolicy may be for.
    pub(crate) asked: Box<[BackendPort]>,
}

/// What a policy says, before it is known where.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Draft {
    /// What is wrong with it as a whole: it is closed.
    faults: Vec<String>,
    entries: Vec<Entry>,
    /// What it is where all entries run, if that is the same in every fleet: made once, however many routes it covers.
    whole: Option<ExtensionId>,
}

/// An entry of a list.
#[derive(Clone, Debug, PartialEq)]
struct Entry {
    missing: Missing,
    /// What it is, or what is wrong with it.
    read: Result<Read, Arc<str>>,
}

/// What becomes of requests where an entry can't run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Missing {
    Refused,
    PassedOn,
}

/// An entry that could be read.
#[derive(Clone, Debug, PartialEq)]
enum Read {
    /// A service that sees requests.
    Processor {
        instance: FilterInstance,
        backend: BackendId,
    },
    /// A script.
    Script {
        instance: FilterInstance,
        checked: Arc<script::Checked>,
    },
    /// A filter of a Wasm module.
    Wasm(FilterInstance),
    /// A filter of a Wasm module that is still being fetched: a sentence that says so.
    Awaited(Arc<str>),
    /// A filter of a native module.
    Native(Arc<native::UnresolvedFilter>),
}

/// Why nothing runs an entry.
enum Idle {
    /// It can't.
    Faulty(Arc<str>),
    /// It will, when what it waits for is there.
    Waiting(Arc<str>),
}

impl From<Arc<str>> for Idle {
    fn from(why: Arc<str>) -> Self {
        Self::Faulty(why)
    }
}

/// What runs an entry.
struct Run {
    instance: FilterInstance,
    /// The backend that it asks.
    backend: Option<BackendId>,
    /// What it asks besides.
    outside: Option<OutsideService>,
}

/// Reads a policy; none when it doesn't exist.
pub(crate) fn policy(reader: &Reader<'_>, id: Id) -> Option<ExtensionPolicy> {
    let object = object(reader, id)?;
    let (owner, merge_type) = (owner(KIND, object), &object.spec["mergeType"]);
    let draft = match is_free(object) {
        true => draft(reader, &owner, merge_type, own_fields(object)),
        false => draft(reader, &owner, merge_type, &homed(object)),
    };
    let readable = draft.entries.iter().filter_map(|entry| entry.read.as_ref().ok());
    let mut asked: Vec<BackendPort> = readable
        .filter_map(|read| match read {
            Read::Processor { backend, .. } => Some(backend.port),
            Read::Script { .. } | Read::Wasm(_) | Read::Awaited(_) | Read::Native(_) => None,
        })
        .flat_map(|port| reader.backends_behind(port))
        .collect();
    asked.sort_unstable();
    asked.dedup();
    Some(ExtensionPolicy {
        seniority: Seniority::of(&object.metadata),
        merge: object.spec["mergeType"].as_str().map(MergeType::from),
        draft: Arc::new(draft),
        asked: asked.into(),
    })
}

/// What a policy says under that of a parent, if it merges with one.
pub(crate) fn under(reader: &Reader<'_>, policy: Id, parent: Option<Id>) -> Option<Arc<Draft>> {
    let own = reader.extension_policy(policy)?;
    let Some((how, parent)) = merge::over(&own.merge, parent) else {
        return Some(Arc::clone(&own.draft));
    };
    let (both, owner) = merged(KIND, object(reader, policy)?, object(reader, parent)?, how);
    Some(Arc::new(draft(reader, &owner, &Value::Null, &both)))
}

fn object<'a>(reader: &Reader<'a>, id: Id) -> Option<&'a Generic> {
    match reader.object(KIND, id)? {
        Object::EdgeExtensionPolicy(policy) => Some(policy),
        _ => None,
    }
}

/// Most entries of a list.
const MOST: usize = 16;

fn draft<'a>(
    reader: &Reader<'_>,
    owner: &str,
    merge_type: &Value,
    fields: impl IntoIterator<Item = (&'a String, &'a Value)>,
) -> Draft {
    let mut draft = Draft::default();
    if let Some(fault) = merge::fault_of(merge_type) {
        draft.faults.push(format!("MergeType: {fault}."));
    }
    for (field, value) in fields {
        let Some(list) = List::named(field) else {
            draft.faults.push(format!("Spec: spec.{field}: unknown field."));
            continue;
        };
        let (entries, is_list) = match value {
            Value::Null => (&[][..], true),
            Value::Array(entries) => (entries.as_slice(), true),
            one => (std::slice::from_ref(one), false),
        };
        if entries.len() > MOST {
            let fault = format!("Spec: spec.{field}: there may be at most {MOST}.");
            draft.faults.push(fault);
        }
        for (index, entry) in entries.iter().enumerate() {
            let place = EntryPosition { owner, list, index };
            draft.entries.push(Entry {
                missing: list.missing(entry),
                read: match is_list {
                    true => place.read(reader, entry),
                    false => Err(format!("Spec: spec.{field} must be a list.").into()),
                },
            });
        }
    }
    draft.whole = draft.whole(reader);
    draft
}

/// A list of entries.
#[derive(Clone, Copy)]
enum List {
    ExtProc,
    Lua,
    DynamicModule,
    Wasm,
}

impl List {
    fn named(field: &str) -> Option<Self> {
        let all = [Self::ExtProc, Self::Lua, Self::DynamicModule, Self::Wasm];
        all.into_iter().find(|list| list.words().0 == field)
    }

    /// Its field, what messages call it, and what names of filters do.
    fn words(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::ExtProc => ("extProc", "ExtProc", "extproc"),
            Self::Lua => ("lua", "Lua", "lua"),
            Self::DynamicModule => ("dynamicModule", "DynamicModule", "dynamic-module"),
            Self::Wasm => ("wasm", "Wasm", "wasm"),
        }
    }

    /// Only a module in a sandbox and a service may be missing, and only where they say so. Told from what is written,
    /// so that no slip elsewhere in the entry opens or closes more.
    fn missing(self, entry: &Value) -> Missing {
        match self {
            Self::Wasm | Self::ExtProc if entry["failOpen"] == Value::Bool(true) => Missing::PassedOn,
            _ => Missing::Refused,
        }
    }
}

/// Where an entry stands.
#[derive(Clone, Copy)]
struct EntryPosition<'a> {
    owner: &'a str,
    list: List,
    index: usize,
}

impl EntryPosition<'_> {
    fn read(self, reader: &Reader<'_>, entry: &Value) -> Result<Read, Arc<str>> {
        match self.list {
            List::ExtProc => processor::read(reader, self, entry),
            List::Lua => script::read(reader, self, entry),
            List::DynamicModule => native::read(reader, self, entry),
            List::Wasm => wasm::read(reader, self, entry),
        }
    }

    /// Whose a filter of it is. Numbers of two digits are in order as text.
    fn owner(self) -> Arc<str> {
        let (.., word) = self.list.words();
        format!("{}/{word}/{:02}", self.owner, self.index).into()
    }

    /// The entry as its type has it.
    fn parse<T: DeserializeOwned>(self, entry: &Value) -> Result<T, Arc<str>> {
        typed(entry).map_err(|error| {
            let (field, area, _) = self.list.words();
            format!("{area}: {}.", error.under(&format!("spec.{field}[{}]", self.index))).into()
        })
    }

    /// What was read of the entry, unless something is wrong with it.
    fn checked<T>(self, read: impl FnOnce(&mut Problems) -> Option<T>) -> Result<T, Arc<str>> {
        let mut problems = Problems::default();
        match read(&mut problems) {
            Some(read) if problems.is_empty() => Ok(read),
            _ => Err(problems.joined()),
        }
    }
}

impl Draft {
    /// What it is where all entries run; none where that depends on the fleet.
    fn whole(&self, reader: &Reader<'_>) -> Option<ExtensionId> {
        let nowhere_else = Allowed::default();
        let settled = |entry: &Entry| {
            let read = entry.read.as_ref().ok().filter(|read| read.is_settled())?;
            read.run(&nowhere_else).ok()
        };
        let runs: Vec<Run> = self.entries.iter().map(settled).collect::<Option<_>>()?;
        self.faults.is_empty().then(|| self.of_runs(reader, runs))
    }

    fn of_runs(&self, reader: &Reader<'_>, runs: Vec<Run>) -> ExtensionId {
        let mut filters = FilterList::new(reader);
        let mut backends = Vec::new();
        for run in runs {
            filters.instance(run.instance, run.outside.into_iter().collect(), FilterEffect::On);
            backends.extend(run.backend);
        }
        reader.extension_id(Extension {
            filters: filters.finish(),
            backends: backends.into(),
            streams: self.streams(),
        })
    }

    /// What becomes of requests in a fleet.
    pub(crate) fn extending(&self, reader: &Reader<'_>, allowed: Option<&Allowed>) -> Extending {
        let none = Allowed::default();
        let allowed = allowed.unwrap_or(&none);
        let runs = |entry: &&Entry| entry.judge(reader, allowed).is_ok();
        let (running, idle): (Vec<&Entry>, Vec<&Entry>) = self.entries.iter().partition(runs);
        let must_run = |entry: &&Entry| entry.missing == Missing::Refused;
        if !self.faults.is_empty() || idle.iter().any(must_run) {
            return Extending::Refused;
        }
        let whole = self.whole.filter(|_| idle.is_empty());
        let run = |entry: &Entry| entry.read.as_ref().ok()?.run(allowed).ok();
        let of_those = || self.of_runs(reader, running.into_iter().filter_map(run).collect());
        Extending::Policy(whole.unwrap_or_else(of_those))
    }

    /// How it stands in a fleet: what is wrong with it, or what it waits for and what becomes of requests until then.
    pub(crate) fn standing(&self, reader: &Reader<'_>, allowed: Option<&Allowed>) -> Standing {
        let none = Allowed::default();
        let allowed = allowed.unwrap_or(&none);
        let mut found: Vec<Arc<str>> = Vec::new();
        let mut awaited: Vec<Arc<str>> = Vec::new();
        let mut until_then = "Until then requests go on without it.";
        for entry in &self.entries {
            let Err(idle) = entry.judge(reader, allowed) else {
                continue;
            };
            if entry.missing == Missing::Refused {
                until_then = "Until then requests are answered 500.";
            }
            match idle {
                Idle::Faulty(why) => found.push(why),
                Idle::Waiting(what) => awaited.push(what),
            }
        }
        let own = self.faults.iter().map(|fault| &**fault);
        let faults: Vec<&str> = own.chain(found.iter().map(|fault| &**fault)).collect();
        let is_waiting = faults.is_empty() && !awaited.is_empty();
        Standing {
            fault: (!faults.is_empty()).then(|| faults.join("\n").into()),
            awaited: is_waiting.then(|| format!("{} {until_then}", awaited.join("\n")).into()),
        }
    }

    /// What becomes of connections whose requests nobody reads.
    fn streams(&self) -> Streams {
        let must_run = |entry: &Entry| entry.missing == Missing::Refused;
        match self.entries.iter().any(must_run) {
            true => Streams::Closed("Only requests can be extended, and this is not about requests.".into()),
            false => Streams::Open,
        }
    }
}

impl Run {
    fn alone(instance: &FilterInstance) -> Self {
        Self {
            instance: instance.clone(),
            backend: None,
            outside: None,
        }
    }
}

impl Read {
    /// Whether it is the same in every fleet that lets it run.
    fn is_settled(&self) -> bool {
        match self {
            Self::Processor { .. } | Self::Script { .. } | Self::Wasm(_) => true,
            Self::Awaited(_) | Self::Native(_) => false,
        }
    }

    /// What runs it in a fleet that lets it.
    fn run(&self, allowed: &Allowed) -> Result<Run, Idle> {
        match self {
            Self::Processor { instance, backend } => Ok(Run {
                backend: Some(*backend),
                ..Run::alone(instance)
            }),
            Self::Script { instance, .. } | Self::Wasm(instance) => Ok(Run::alone(instance)),
            Self::Awaited(what) => Err(Idle::Waiting(Arc::clone(what))),
            Self::Native(wanted) => {
                let (instance, outside) = wanted.among(allowed)?;
                Ok(Run {
                    outside,
                    ..Run::alone(&instance)
                })
            }
        }
    }
}

impl Entry {
    /// Whether it runs in a fleet.
    fn judge(&self, reader: &Reader<'_>, allowed: &Allowed) -> Result<(), Idle> {
        match self.read.as_ref().map_err(Arc::clone)? {
            Read::Processor { backend, .. } => match asked::refusal(reader, backend.port) {
                Some(why) => Err(Idle::Faulty(format!("ExtProc: {}", ended(why)).into())),
                None => Ok(()),
            },
            Read::Script { checked, .. } => Ok(checked.judge(reader, allowed)?),
            Read::Wasm(_) => Ok(()),
            Read::Awaited(what) => Err(Idle::Waiting(Arc::clone(what))),
            Read::Native(wanted) => Ok(wanted.among(allowed).map(drop)?),
        }
    }
}

/// Why what a policy says can't be had for connections; none where it can.
pub(crate) fn fault_of_streams(reader: &Reader<'_>, policy: Id) -> Option<Arc<str>> {
    match reader.extension_policy(policy)?.draft.streams() {
        Streams::Closed(why) => Some(why),
        Streams::Open | Streams::Rules(_) => None,
    }
}
