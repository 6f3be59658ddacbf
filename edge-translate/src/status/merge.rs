//! Laying our status over the one an object carries.
//!
//! The lists of statuses are shared with other controllers (Gateway API: `parents` and `ancestors` are atomic lists,
//! `conditions` are maps by type), so whoever writes them writes the words of others too. They are copied byte for
//! byte.

use super::{Condition, ListenerStatus, ParentStatus, Status, StatusBody, Truth};
use serde_json::{Map, Value, json};

/// Most entries that the API accepts in a list of conditions.
const MAX_CONDITIONS: usize = 8;
/// Most entries in `parents`.
const MAX_PARENTS: usize = 32;
/// Most entries in `ancestors`.
const MAX_ANCESTORS: usize = 16;
/// Field that names the ancestor of a policy's entry.
const ANCESTOR: &str = "ancestorRef";

/// The status to write: ours, with everything of others in `existing` kept.
///
/// `now` (RFC 3339) dates conditions whose status turned; without it they carry no time, as in offline output.
/// `ours` absent takes our entries away.
pub fn merge(existing: Option<&Value>, ours: &Status, now: Option<&str>) -> Value {
    let empty = Map::new();
    let old = existing.and_then(Value::as_object).unwrap_or(&empty);
    let mut new = old.clone();
    let stamp = Stamp {
        generation: ours.observed_generation,
        now,
    };
    match &ours.body {
        StatusBody::Conditions(list) => {
            new.insert("conditions".into(), stamp.conditions(old.get("conditions"), list));
        }
        StatusBody::Class(class) => {
            new.insert(
                "conditions".into(),
                stamp.conditions(old.get("conditions"), &class.conditions),
            );
            let features: Vec<_> = class.features.iter().map(|name| json!({ "name": name })).collect();
            new.insert("supportedFeatures".into(), Value::Array(features));
        }
        StatusBody::Gateway(gateway) => {
            stamp.listeners(old, &gateway.conditions, &gateway.listeners, &mut new);
            if gateway.attached_listener_sets > 0 || new.contains_key("attachedListenerSets") {
                new.insert("attachedListenerSets".into(), json!(gateway.attached_listener_sets));
            }
        }
        StatusBody::ListenerSet(set) => stamp.listeners(old, &set.conditions, &set.listeners, &mut new),
        StatusBody::Unattached(_) => {}
        StatusBody::Parents {
            controller_name,
            parents,
        } => {
            let list = stamp.entries(old.get("parents"), "parentRef", controller_name, parents, MAX_PARENTS);
            new.insert("parents".into(), list);
        }
        StatusBody::Ancestors {
            controller_name,
            ancestors,
        } => {
            let list = stamp.entries(
                old.get("ancestors"),
                ANCESTOR,
                controller_name,
                ancestors,
                MAX_ANCESTORS,
            );
            new.insert("ancestors".into(), list);
        }
    }
    Value::Object(new)
}

/// What is put on every condition.
struct Stamp<'a> {
    generation: i64,
    now: Option<&'a str>,
}

impl Stamp<'_> {
    /// Conditions of a Gateway or ListenerSet, and its listeners.
    fn listeners(
        &self,
        old: &Map<String, Value>,
        conditions: &[Condition],
        listeners: &[ListenerStatus],
        new: &mut Map<String, Value>,
    ) {
        new.insert("conditions".into(), self.conditions(old.get("conditions"), conditions));
        let listeners = listeners.iter().map(|l| self.listener(old.get("listeners"), l));
        new.insert("listeners".into(), Value::Array(listeners.collect()));
    }

    fn listener(&self, old: Option<&Value>, ours: &ListenerStatus) -> Value {
        let before = items(old).find(|l| l["name"] == *ours.name);
        let kinds: Vec<_> = ours
            .supported_kinds
            .iter()
            .map(|kind| json!({ "group": "gateway.networking.k8s.io", "kind": kind }))
            .collect();
        json!({
            "name": ours.name,
            "supportedKinds": kinds,
            "attachedRoutes": ours.attached_routes,
            "conditions": self.conditions(before.and_then(|l| l.get("conditions")), &ours.conditions),
        })
    }

    /// Entries of other controllers as they are, then ours as far as the limit allows. An ancestor's that names no
    /// controller is of ours: those of an EdgeProxy had no place for the name once, and the API server dropped it.
    fn entries(&self, old: Option<&Value>, by: &str, controller: &str, ours: &[ParentStatus], limit: usize) -> Value {
        let is_mine = |entry: &&Value| match entry.get("controllerName") {
            Some(name) => name == controller,
            None => by == ANCESTOR,
        };
        let (mine, foreign): (Vec<_>, Vec<_>) = items(old).partition(is_mine);
        let mut list: Vec<Value> = foreign.into_iter().cloned().collect();
        let room = limit.saturating_sub(list.len());
        let mut kept: Vec<&ParentStatus> = ours.iter().collect();
        if by == ANCESTOR && ours.len() > room {
            // What is wrong is never what is cut off.
            kept.sort_by_key(|entry| urgency(&entry.conditions));
        }
        for (i, entry) in kept.into_iter().take(room).enumerate() {
            let parent = serde_json::to_value(&*entry.parent).unwrap_or_default();
            let before = mine.iter().find(|e| e[by] == parent).and_then(|e| e.get("conditions"));
            let mut conditions = entry.conditions.clone();
            if by == ANCESTOR && i + 1 == room && ours.len() > room {
                conditions.push(aggregated());
            }
            let conditions = self.conditions(before, &conditions);
            list.push(json!({ by: parent, "controllerName": controller, "conditions": conditions }));
        }
        Value::Array(list)
    }

    /// Our conditions, and behind them those of types that we never set.
    fn conditions(&self, old: Option<&Value>, ours: &[Condition]) -> Value {
        let mut list: Vec<Value> = ours
            .iter()
            .map(|c| self.condition(items(old).find(|o| o["type"] == c.kind), c))
            .collect();
        let foreign = items(old).filter(|o| !is_our_type(o));
        let room = MAX_CONDITIONS.saturating_sub(list.len());
        list.extend(foreign.take(room).cloned());
        Value::Array(list)
    }

    fn condition(&self, before: Option<&Value>, ours: &Condition) -> Value {
        let status = match ours.status {
            Truth::True => "True",
            Truth::False => "False",
        };
        let mut value = json!({
            "type": ours.kind,
            "status": status,
            "reason": ours.reason,
            "message": ours.message,
            "observedGeneration": self.generation,
        });
        let kept = before
            .filter(|b| b["status"] == status)
            .and_then(|b| b.get("lastTransitionTime"))
            .cloned();
        if let Some(time) = kept.or_else(|| self.now.map(Value::from)) {
            value["lastTransitionTime"] = time;
        }
        value
    }
}

fn items(list: Option<&Value>) -> impl Iterator<Item = &Value> {
    list.and_then(Value::as_array).into_iter().flatten()
}

/// Condition types that we set somewhere; what is left of them from earlier must not survive us.
const OUR_TYPES: [&str; 15] = [
    "Accepted",
    "Programmed",
    "ResolvedRefs",
    "Conflicted",
    "PartiallyInvalid",
    "BackendsAvailable",
    "RouteRulesOverlap",
    "OverlappingTLSConfig",
    "CertificateOutOfDate",
    "InsecureFrontendValidationMode",
    "Overridden",
    "Merged",
    "Warning",
    "Aggregated",
    "Invalid",
];

/// Which entries stay where there is room for some: what isn't accepted, then what is overridden, then the rest.
fn urgency(conditions: &[Condition]) -> u8 {
    let says = |kind: &str, truth| conditions.iter().any(|c| c.kind == kind && c.status == truth);
    if says("Accepted", Truth::False) {
        0
    } else if says("Overridden", Truth::True) {
        1
    } else {
        2
    }
}

/// Says on the last ancestor that there are more.
fn aggregated() -> Condition {
    Condition::yes(
        "Aggregated",
        "Aggregated",
        format!("Ancestors have been truncated because the number of policy ancestors exceeds {MAX_ANCESTORS}."),
    )
}

fn is_our_type(condition: &Value) -> bool {
    condition["type"].as_str().is_some_and(|t| OUR_TYPES.contains(&t))
}
