//! Every version of the objects of a kind, as a watch tells them: what was written about each, and how often.

use super::{Kind, Lab, Object, wait_for};
use anyhow::{Result, ensure};
use futures_util::StreamExt as _;
use kube::runtime::{
    WatchStreamExt as _,
    watcher::{self, Event},
};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    pin::pin,
    sync::mpsc::{Receiver, Sender, channel},
};
use tokio::task::JoinHandle;

/// The annotation by which a record finds its end.
const MARK: &str = "e2e.gateway.edge/mark";

/// A record of the objects of a kind in a namespace, from its start on.
pub struct Record {
    lab: &'static Lab,
    versions: Receiver<Value>,
    seen: Vec<Value>,
    marks: u32,
    watch: JoinHandle<()>,
}

impl Lab {
    /// Begins a record. Objects that exist are in it as they are now.
    pub fn record(&'static self, kind: &Kind, namespace: &str) -> Result<Record> {
        let api = self.api(&kind.named(namespace, ""))?;
        let (sender, versions) = channel();
        let watch = self.runtime.spawn(follow(api, sender));
        Ok(Record {
            lab: self,
            versions,
            seen: Vec::new(),
            marks: 0,
            watch,
        })
    }
}

async fn follow(api: kube::Api<kube::core::DynamicObject>, sender: Sender<Value>) {
    let mut events = pin!(watcher::watcher(api, watcher::Config::default()).default_backoff());
    while let Some(event) = events.next().await {
        let Ok(Event::InitApply(object) | Event::Apply(object)) = event else {
            continue;
        };
        // Both fail at the test's end only.
        let Ok(version) = serde_json::to_value(object) else {
            return;
        };
        if sender.send(version).is_err() {
            return;
        }
    }
}

impl Record {
    /// What each object has said so far, by name, in order: first what it said when the record or the object began,
    /// which a definition may have filled in. One of them is marked to know how far the record is.
    pub fn statuses(&mut self, marked: &Object) -> Result<BTreeMap<String, Vec<Value>>> {
        self.marks += 1;
        let mark = self.marks.to_string();
        self.lab
            .change(marked, &json!({ "metadata": { "annotations": { MARK: mark } } }))?;
        wait_for("the record to be complete", || {
            self.seen.extend(self.versions.try_iter());
            let is_marked = |version: &Value| version["metadata"]["annotations"][MARK] == mark.as_str();
            Ok(self.seen.iter().any(is_marked).then_some(()))
        })?;
        Ok(statuses(&self.seen))
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.watch.abort();
    }
}

/// Of consecutive versions with the same status the first counts.
fn statuses(versions: &[Value]) -> BTreeMap<String, Vec<Value>> {
    let mut said: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for version in versions {
        let name = version["metadata"]["name"].as_str().unwrap_or_default();
        let statuses = said.entry(name.to_owned()).or_default();
        let status = &version["status"];
        if statuses.last() != Some(status) {
            statuses.push(status.clone());
        }
    }
    said
}

/// How many statuses were written.
pub fn writes<'a>(statuses: impl IntoIterator<Item = &'a Vec<Value>>) -> usize {
    statuses.into_iter().map(|statuses| statuses.len() - 1).sum()
}

/// Wants nothing to have been said about an object twice, be it again after something else or in other words of time.
pub fn said_once(statuses: &BTreeMap<String, Vec<Value>>) -> Result<()> {
    for (name, statuses) in statuses {
        let mut said = Vec::new();
        for status in statuses {
            let text = timeless(status);
            ensure!(!said.contains(&text), "{name} says again {status:#}\nafter {said:#?}");
            said.push(text);
        }
    }
    Ok(())
}

/// A status without the times in it.
fn timeless(status: &Value) -> Value {
    match status {
        Value::Array(list) => list.iter().map(timeless).collect(),
        Value::Object(fields) => fields
            .iter()
            .filter(|(name, _)| *name != "lastTransitionTime")
            .map(|(name, value)| (name.clone(), timeless(value)))
            .collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(name: &str, status: &Value) -> Value {
        json!({ "metadata": { "name": name }, "status": status })
    }

    #[test]
    fn a_status_counts_when_it_changes() {
        let (up, down) = (json!({"a": 1}), json!({"a": 2}));
        let versions = [
            version("one", &Value::Null),
            version("one", &up),
            version("two", &up),
            version("one", &up),
            version("one", &down),
        ];
        let said = statuses(&versions);
        assert_eq!(said["one"], [Value::Null, up.clone(), down]);
        assert_eq!(said["two"], [up]);
        assert!(said_once(&said).is_ok());
        assert_eq!((writes(said.values()), writes([&said["two"]])), (2, 0));
    }

    #[test]
    fn what_is_said_again_is_found() {
        let at = |time: &str, a: u64| json!({"conditions": [{"a": a, "lastTransitionTime": time}]});
        let of = |list: &[Value]| BTreeMap::from([("one".to_owned(), list.to_vec())]);
        assert!(said_once(&of(&[at("1", 1), at("2", 2)])).is_ok());
        assert!(said_once(&of(&[at("1", 1), at("2", 1)])).is_err());
        assert!(said_once(&of(&[at("1", 1), at("2", 2), at("3", 1)])).is_err());
    }
}
