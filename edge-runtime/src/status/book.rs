//! The book of statuses: pure, except that it is told the time.

use super::{overlay, to_yaml};
use crate::state::{Findings, Published, Rejections, Reports, StatusChanges};
use edge_translate::{
    api::{Kind, ObjectKey},
    load::{LoadFinding, Severity},
    status::{Status, StatusBody, merge},
};
use edge_xds::snapshot::ResourceType;
use serde_json::{Map, Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Everything known about every object.
#[derive(Debug, Default)]
pub struct Book {
    statuses: BTreeMap<ObjectKey, Arc<Status>>,
    /// What each object's entry looks like, as of the last refresh.
    rendered: BTreeMap<ObjectKey, Entry>,
    /// Statuses from an earlier run, by kind, namespace and name.
    earlier: BTreeMap<[String; 3], Value>,
    stale: BTreeSet<ObjectKey>,
    fleets: overlay::Fleets,
    reports: Option<Reports>,
    rejected: BTreeMap<ObjectKey, Vec<overlay::Rejected>>,
    findings: Findings,
    /// Whether the document differs from the one that was taken last.
    is_changed: bool,
}

/// An object's entry as text: a tree of maps takes ten times the memory, and a change writes one entry anew, not all.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    /// In JSON, to be read when the object changes again.
    json: Box<str>,
    /// In YAML, as an item of a list.
    yaml: Box<str>,
}

impl Book {
    /// A book that remembers when things turned, if there was one before.
    pub fn new(earlier: Option<Value>) -> Self {
        let entries = earlier
            .as_ref()
            .and_then(|document| document["resources"].as_array())
            .into_iter()
            .flatten();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let earlier = entries
            .map(|entry| {
                (
                    [&entry["kind"], &entry["namespace"], &entry["name"]].map(text),
                    entry["status"].clone(),
                )
            })
            .collect();
        Self {
            earlier,
            ..Self::default()
        }
    }

    /// Takes the statuses that a translation changed.
    pub fn set_statuses(&mut self, changes: StatusChanges) {
        for (key, status) in changes {
            // Nothing is written into an object that leads to nothing of ours.
            let status = status.filter(|status| !matches!(status.body, StatusBody::Unattached(_)));
            match status {
                Some(status) => {
                    self.statuses.insert(key.clone(), status);
                    self.stale.insert(key);
                }
                None => {
                    self.statuses.remove(&key);
                    self.is_changed |= self.rendered.remove(&key).is_some();
                }
            }
        }
    }

    /// Learns which fleet serves which Gateway and ListenerSet.
    pub fn set_fleets(&mut self, published: Option<&Published>) {
        let mut fleets = BTreeMap::new();
        for (fleet, state) in published.iter().flat_map(|published| &published.fleets) {
            if state.infra.is_none() {
                // It stays as it is, so it stays whose it was.
                let known = self.fleets.iter().filter(|(_, known)| *known == fleet);
                fleets.extend(known.map(|(k, v)| (k.clone(), v.clone())));
            }
            let infra = state.infra.iter().flat_map(|infra| infra.origins.iter());
            let listeners = state.snapshot.section(ResourceType::Listener).entries();
            let listeners = listeners.iter().flat_map(|listener| listener.origins.iter());
            for key in infra.chain(listeners).filter_map(overlay::object_of) {
                fleets.insert(key, fleet.clone());
            }
        }
        if fleets != self.fleets {
            self.fleets = fleets;
            self.outdate_gateways();
        }
    }

    /// Learns how the proxies are.
    pub fn set_reports(&mut self, reports: Option<Reports>) {
        if reports != self.reports {
            self.reports = reports;
            self.outdate_gateways();
        }
    }

    /// Learns what proxies reject.
    pub fn set_rejections(&mut self, rejections: &Rejections) {
        let rejected = overlay::by_object(rejections);
        let differing = self.rejected.keys().chain(rejected.keys());
        let differing = differing
            .filter(|key| self.rejected.get(*key) != rejected.get(*key))
            .cloned();
        self.stale.extend(differing);
        self.rejected = rejected;
    }

    /// Learns what is wrong with the files.
    pub fn set_findings(&mut self, findings: Findings) {
        self.is_changed |= self.findings != findings;
        self.findings = findings;
    }

    fn outdate_gateways(&mut self) {
        self.stale
            .extend(self.statuses.keys().filter(|key| key.kind == Kind::Gateway).cloned());
    }

    /// Brings every entry up to date; what turned, turned `now`.
    pub fn refresh(&mut self, now: &str) {
        for key in std::mem::take(&mut self.stale) {
            let Some(status) = self.statuses.get(&key) else {
                continue;
            };
            let mut status = Status::clone(status);
            let mut addresses = None;
            if key.kind == Kind::Gateway
                && let Some(reports) = &self.reports
            {
                let report = self.fleets.get(&key).and_then(|fleet| reports.get(fleet));
                addresses = Some(overlay::add_infrastructure(&mut status, report));
            }
            if let Some(rejected) = self.rejected.get(&key) {
                overlay::add_rejections(&mut status, &key, rejected, &self.fleets);
            }
            let names = [key.kind.as_str(), &*key.namespace, &*key.name].map(str::to_owned);
            let shown = self.rendered.remove(&key);
            let before = match &shown {
                Some(entry) => Some(entry.status()),
                None => self.earlier.remove(&names),
            };
            let mut value = merge(before.as_ref(), &status, Some(now));
            if let Some(addresses) = addresses {
                value["addresses"] = addresses;
            }
            let entry = Entry::new(&key, value);
            self.is_changed |= shown.as_ref() != Some(&entry);
            self.rendered.insert(key, entry);
        }
    }

    /// The document in YAML, if it differs from the one that was taken last.
    pub fn take_changed(&mut self) -> Option<String> {
        std::mem::take(&mut self.is_changed).then(|| self.yaml())
    }

    /// It could not be used after all: the next call of [`take_changed`](Self::take_changed) gives it again.
    pub fn keep_changed(&mut self) {
        self.is_changed = true;
    }

    /// The whole document.
    pub fn document(&self) -> Value {
        let resources: Vec<Value> = self.rendered.values().map(Entry::value).collect();
        json!({ "findings": self.findings(), "resources": resources })
    }

    /// The whole document in YAML.
    fn yaml(&self) -> String {
        let mut text = to_yaml(&json!({ "findings": self.findings() }));
        if self.rendered.is_empty() {
            text.push_str("resources: []\n");
            return text;
        }
        text.reserve(self.rendered.values().map(|entry| entry.yaml.len()).sum::<usize>() + 16);
        text.push_str("resources:\n");
        for entry in self.rendered.values() {
            text.push_str(&entry.yaml);
        }
        text
    }

    fn findings(&self) -> Vec<Value> {
        self.findings.iter().map(finding).collect()
    }
}

impl Entry {
    fn new(key: &ObjectKey, status: Value) -> Self {
        let mut entry = Map::new();
        entry.insert("apiVersion".into(), key.kind.api_version().into());
        entry.insert("kind".into(), key.kind.as_str().into());
        if !key.namespace.is_empty() {
            entry.insert("namespace".into(), (*key.namespace).into());
        }
        entry.insert("name".into(), (*key.name).into());
        entry.insert("status".into(), status);
        let list = Value::Array(vec![Value::Object(entry)]);
        Self {
            json: list[0].to_string().into(),
            yaml: to_yaml(&list).into(),
        }
    }

    fn value(&self) -> Value {
        // It is our own text.
        serde_json::from_str(&self.json).unwrap_or_default()
    }

    fn status(&self) -> Value {
        self.value()["status"].take()
    }
}

fn finding(finding: &LoadFinding) -> Value {
    let severity = match finding.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    let mut value = json!({
        "severity": severity,
        "file": finding.file,
        "line": finding.line,
        "column": finding.column,
        "message": finding.message,
    });
    if let Some(object) = &finding.object {
        value["object"] = object.to_string().into();
    }
    value
}
