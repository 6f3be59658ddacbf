//! What an EdgeExtensionPolicy says: read once for each policy, and decided where it is used, by what the EdgeProxy of the
//! fleet allows and how the services that it names can be spoken to.
//!
//! The entries of its lists are read one by one. One that can't run is left out where it says that it may be missing, and
//! closes what the policy covers where it doesn't; the status tells of it either way. Numbers in the names of filters keep
//! the order of the entries.

use super::{filter_list::FilterList, merge, traffic::Problems, written::homed};
use crate::{
    api::{Generic, Kind, MergeType, Object},
    engine::reader::Reader,
    load::typed::typed,
    name::{BackendId, BackendPort, Extending, Extension, Id, OutsideService, Streams},
    phase::{backends::set, precedence::Seniority},
};
use edge_ir::{FilterEffect, FilterInstance};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::sync::Arc;

mod allowed;
mod native;
mod processor;
mod script;
mod wasm;

pub(crate) use allowed::Allowed;

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
    Native(Arc<native::Wanted>),
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

/// What becomes of what a policy covers, and what is wrong with it.
pub(crate) struct Settled {
    pub(crate) extending: Extending,
    pub(crate) fault: Option<Arc<str>>,
    /// What it waits for, and what becomes of requests until then; none where something is wrong with it.
    pub(crate) awaited: Option<Arc<str>>,
}

/// Reads a policy; none when it doesn't exist.
pub(crate) fn policy(reader: &Reader<'_>, id: Id) -> Option<ExtensionPolicy> {
    let object = object(reader, id)?;
    let draft = draft(reader, &owner(object), &object.spec["mergeType"], &homed(object));
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
    let (Some(how @ (MergeType::StrategicMerge | MergeType::JsonMerge)), Some(parent)) = (&own.merge, parent) else {
        return Some(Arc::clone(&own.draft));
    };
    let (above, below) = (object(reader, policy)?, object(reader, parent)?);
    let mut both = homed(below);
    merge::lay(&mut both, homed(above), how);
    let owner = format!("{}+{}", owner(above), owner(below));
    Some(Arc::new(draft(reader, &owner, &Value::Null, &both)))
}

fn object<'a>(reader: &Reader<'a>, id: Id) -> Option<&'a Generic> {
    match reader.object(Kind::EdgeExtensionPolicy, id)? {
        Object::EdgeExtensionPolicy(policy) => Some(policy),
        _ => None,
    }
}

/// Whose filters are those of a policy.
fn owner(policy: &Generic) -> String {
    format!(
        "edgeextensionpolicy/{}/{}",
        policy.metadata.namespace, policy.metadata.name
    )
}

/// Most entries of a list.
const MOST: usize = 16;

fn draft(reader: &Reader<'_>, owner: &str, merge_type: &Value, fields: &Map<String, Value>) -> Draft {
    let mut draft = Draft::default();
    let is_known = merge_type.is_null() || ["StrategicMerge", "JSONMerge"].iter().any(|known| merge_type == known);
    if !is_known {
        let fault = format!("MergeType: {merge_type} is not StrategicMerge or JSONMerge.");
        draft.faults.push(fault);
    }
    for (field, list) in fields {
        let read: fn(&Reader<'_>, Place<'_>, &Value) -> Result<Read, Arc<str>> = match field.as_str() {
            "extProc" => processor::read,
            "lua" => script::read,
            "dynamicModule" => native::read,
            "wasm" => wasm::read,
            _ => {
                draft.faults.push(format!("Spec: spec.{field}: unknown field."));
                continue;
            }
        };
        let (entries, is_list) = match list {
            Value::Null => (&[][..], true),
            Value::Array(entries) => (entries.as_slice(), true),
            one => (std::slice::from_ref(one), false),
        };
        if entries.len() > MOST {
            let fault = format!("Spec: spec.{field}: there may be at most {MOST}.");
            draft.faults.push(fault);
        }
        for (index, entry) in entries.iter().enumerate() {
            let place = Place { owner, field, index };
            draft.entries.push(Entry {
                missing: missing(field, entry),
                read: match is_list {
                    true => read(reader, place, entry),
                    false => Err(format!("Spec: spec.{field} must be a list.").into()),
                },
            });
        }
    }
    draft
}

/// Only a module in a sandbox and a service may be missing, and only where they say so. Told from what is written, so
/// that no slip elsewhere in the entry opens or closes more.
fn missing(field: &str, entry: &Value) -> Missing {
    match matches!(field, "wasm" | "extProc") && entry["failOpen"] == Value::Bool(true) {
        true => Missing::PassedOn,
        false => Missing::Refused,
    }
}

/// Where an entry stands.
#[derive(Clone, Copy)]
struct Place<'a> {
    owner: &'a str,
    field: &'a str,
    index: usize,
}

impl Place<'_> {
    /// What messages call its list.
    fn area(self) -> &'static str {
        match self.field {
            "extProc" => "ExtProc",
            "lua" => "Lua",
            "wasm" => "Wasm",
            _ => "DynamicModule",
        }
    }

    /// Whose a filter of it is. Numbers of two digits are in order as text.
    fn owner(self) -> Arc<str> {
        let list = match self.field {
            "dynamicModule" => "dynamic-module".to_owned(),
            other => other.to_ascii_lowercase(),
        };
        format!("{}/{list}/{:02}", self.owner, self.index).into()
    }

    /// The entry as its type has it.
    fn parse<T: DeserializeOwned>(self, entry: &Value) -> Result<T, Arc<str>> {
        typed(entry).map_err(|error| {
            let (area, field, index) = (self.area(), self.field, self.index);
            format!("{area}: {}.", error.under(&format!("spec.{field}[{index}]"))).into()
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
    /// What becomes of it in a fleet.
    pub(crate) fn settle(&self, reader: &Reader<'_>, allowed: Option<&Allowed>) -> Settled {
        let none = Allowed::default();
        let allowed = allowed.unwrap_or(&none);
        let mut faults: Vec<&str> = self.faults.iter().map(|fault| &**fault).collect();
        let mut is_closed = !faults.is_empty();
        let mut filters = FilterList::new(reader);
        let mut backends = Vec::new();
        let mut found = Vec::new();
        let mut awaited: Vec<Arc<str>> = Vec::new();
        for entry in &self.entries {
            match entry.run(reader, allowed) {
                Ok(run) => {
                    filters.instance(run.instance, run.outside.into_iter().collect(), FilterEffect::On);
                    backends.extend(run.backend);
                }
                Err(idle) => {
                    is_closed |= entry.missing == Missing::Refused;
                    match idle {
                        Idle::Faulty(why) => found.push(why),
                        Idle::Waiting(what) => awaited.push(what),
                    }
                }
            }
        }
        faults.extend(found.iter().map(|fault| &**fault));
        let extending = match is_closed {
            true => Extending::Refused,
            false => Extending::Policy(reader.extension_id(Extension {
                filters: filters.finish(),
                backends: backends.into(),
                streams: self.streams(),
            })),
        };
        let until_then = match is_closed {
            true => "Until then requests are answered 500.",
            false => "Until then requests go on without it.",
        };
        let is_waiting = faults.is_empty() && !awaited.is_empty();
        Settled {
            extending,
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

impl Entry {
    /// What runs it, or why nothing can.
    fn run(&self, reader: &Reader<'_>, allowed: &Allowed) -> Result<Run, Idle> {
        let alone = |instance| Run {
            instance,
            backend: None,
            outside: None,
        };
        match self.read.as_ref().map_err(Arc::clone)? {
            Read::Processor { instance, backend } => match set::refusal(reader, backend.port) {
                Some(why) => Err(Idle::Faulty(format!("ExtProc: {why}").into())),
                None => Ok(Run {
                    backend: Some(*backend),
                    ..alone(instance.clone())
                }),
            },
            Read::Script { instance, checked } => {
                checked.judge(reader, allowed)?;
                Ok(alone(instance.clone()))
            }
            Read::Wasm(instance) => Ok(alone(instance.clone())),
            Read::Awaited(what) => Err(Idle::Waiting(Arc::clone(what))),
            Read::Native(wanted) => {
                let (instance, outside) = wanted.among(allowed)?;
                Ok(Run {
                    outside,
                    ..alone(instance)
                })
            }
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
