//! The document of statuses: one entry an object, as YAML for the file and as JSON for the page. Pure, except that it
//! is told the time.

use super::{book::Effective, to_yaml};
use crate::state::Findings;
use edge_translate::{
    api::ObjectKey,
    load::{LoadFinding, Severity},
    status::{StatusBody, merge},
};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// What the file says.
#[derive(Debug, Default)]
pub struct Document {
    /// What each object's entry looks like.
    rendered: BTreeMap<ObjectKey, Entry>,
    /// Statuses from before, by kind, namespace and name.
    earlier: BTreeMap<[String; 3], Value>,
    findings: Findings,
    /// Whether it differs from the one that was taken last.
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

impl Document {
    /// A document that remembers when things turned, if there was one before.
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

    /// An object carries this status, which says when things turned.
    pub fn remember(&mut self, key: &ObjectKey, status: Value) {
        self.earlier.insert(names(key), status);
    }

    /// Takes in what is wrong with the files.
    pub fn set_findings(&mut self, findings: Findings) {
        self.is_changed |= self.findings != findings;
        self.findings = findings;
    }

    /// Brings an object's entry up to date; what turned, turned `now`.
    pub fn set(&mut self, key: ObjectKey, effective: Option<&Effective>, now: &str) {
        let shown = self.rendered.remove(&key);
        // Nothing is written into an object that leads to nothing of ours.
        let written = effective.filter(|effective| !matches!(effective.status.body, StatusBody::Unattached(_)));
        let Some(Effective { status, addresses }) = written else {
            self.is_changed |= shown.is_some();
            return;
        };
        let before = match &shown {
            Some(entry) => Some(entry.status()),
            None => self.earlier.remove(&names(&key)),
        };
        let mut value = merge(before.as_ref(), status, Some(now));
        if let Some(addresses) = addresses {
            value["addresses"] = addresses.clone();
        }
        let entry = Entry::new(&key, value);
        self.is_changed |= shown.as_ref() != Some(&entry);
        self.rendered.insert(key, entry);
    }

    /// The whole in YAML, if it differs from the one that was taken last.
    pub fn take_changed(&mut self) -> Option<String> {
        std::mem::take(&mut self.is_changed).then(|| self.yaml())
    }

    /// It could not be used after all: the next call of [`take_changed`](Self::take_changed) gives it again.
    pub fn keep_changed(&mut self) {
        self.is_changed = true;
    }

    /// The whole.
    pub fn value(&self) -> Value {
        let resources: Vec<Value> = self.rendered.values().map(Entry::value).collect();
        json!({ "findings": self.findings(), "resources": resources })
    }

    /// The whole in YAML.
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

/// Kind, namespace and name.
fn names(key: &ObjectKey) -> [String; 3] {
    [key.api_kind().1, &*key.namespace, key.own_name()].map(str::to_owned)
}

impl Entry {
    fn new(key: &ObjectKey, status: Value) -> Self {
        let mut entry = Map::new();
        let (api_version, kind) = key.api_kind();
        entry.insert("apiVersion".into(), api_version.into());
        entry.insert("kind".into(), kind.into());
        if !key.namespace.is_empty() {
            entry.insert("namespace".into(), (*key.namespace).into());
        }
        entry.insert("name".into(), key.own_name().into());
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
