//! What an installation consists of, as a list in the cluster.

use super::objects::Objects;
use crate::install::{INSTANCE, MANAGED_BY, MANAGER};
use anyhow::Result;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fmt;

/// One object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// Group and version.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Namespace, if it is in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name.
    pub name: String,
}

impl Entry {
    /// From its parts.
    pub fn new(api_version: &str, kind: &str, namespace: Option<&str>, name: &str) -> Self {
        Self {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
        }
    }

    /// Of an object.
    pub fn of(object: &Value) -> Self {
        let text = |path: &str| object.pointer(path).and_then(Value::as_str);
        Self::new(
            text("/apiVersion").unwrap_or_default(),
            text("/kind").unwrap_or_default(),
            text("/metadata/namespace"),
            text("/metadata/name").unwrap_or_default(),
        )
    }

    fn is_same(&self, other: &Self) -> bool {
        // A newer version of an API holds the same object.
        let group = |entry: &Self| entry.api_version.rsplit_once('/').map(|(group, _)| group.to_owned());
        self.kind == other.kind
            && self.namespace == other.namespace
            && self.name == other.name
            && group(self) == group(other)
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.kind, self.name),
            None => write!(f, "{} {}", self.kind, self.name),
        }
    }
}

/// The objects of an installation, in the order in which they were applied.
///
/// What holds the objects of others is never in it, so that no list of an earlier installation removes it: namespaces,
/// and definitions of kinds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inventory {
    release: String,
    namespace: String,
    entries: Vec<Entry>,
}

const KEY: &str = "objects.json";

impl Inventory {
    /// One without objects.
    pub fn new(release: &str, namespace: &str) -> Self {
        Self {
            release: release.to_owned(),
            namespace: namespace.to_owned(),
            entries: Vec::new(),
        }
    }

    /// The one in the cluster; empty when nothing is installed.
    ///
    /// # Errors
    /// When the cluster can't be asked.
    pub async fn read(objects: &Objects, release: &str, namespace: &str) -> Result<Self> {
        let mut inventory = Self::new(release, namespace);
        if let Some(found) = objects.get(&inventory.own_entry()).await? {
            inventory.fill(found["data"][KEY].as_str().unwrap_or("[]"))?;
        }
        Ok(inventory)
    }

    fn fill(&mut self, text: &str) -> Result<()> {
        let entries: Vec<Entry> = serde_json::from_str(text)?;
        entries.into_iter().for_each(|entry| self.add(entry));
        Ok(())
    }

    /// Name of the installation.
    pub fn release(&self) -> &str {
        &self.release
    }

    /// Namespace of the controller.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The ConfigMap that holds it.
    pub fn own_entry(&self) -> Entry {
        let name = format!("{}-inventory", self.release);
        Entry::new("v1", "ConfigMap", Some(&self.namespace), &name)
    }

    /// As an object of the cluster.
    pub fn to_object(&self) -> Value {
        let own = self.own_entry();
        let text = serde_json::to_string(&self.entries).unwrap_or_default();
        let labels = json!({MANAGED_BY: MANAGER, INSTANCE: self.release});
        json!({
            "apiVersion": own.api_version, "kind": own.kind,
            "metadata": {"name": own.name, "namespace": own.namespace, "labels": labels},
            "data": {KEY: text},
        })
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Its objects.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    /// Adds one, unless it holds objects of others.
    pub fn add(&mut self, entry: Entry) {
        let holds_others = ["Namespace", "CustomResourceDefinition"].contains(&entry.kind.as_str());
        if !holds_others && !self.holds(&entry) {
            self.entries.push(entry);
        }
    }

    /// Adds those of objects.
    pub fn add_all(&mut self, objects: &[Value]) {
        objects.iter().for_each(|object| self.add(Entry::of(object)));
    }

    /// Whether it has an object, of whatever version.
    pub fn holds(&self, entry: &Entry) -> bool {
        self.entries.iter().any(|known| known.is_same(entry))
    }

    /// This one and what another has besides.
    pub fn united(&self, other: &Self) -> Self {
        let mut both = self.clone();
        other.entries.iter().for_each(|entry| both.add(entry.clone()));
        both
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_the_same_in_another_version_and_not_in_another_group() {
        let mut inventory = Inventory::new("r", "n");
        inventory.add(Entry::new("autoscaling/v1", "HorizontalPodAutoscaler", Some("n"), "a"));
        inventory.add(Entry::new("autoscaling/v2", "HorizontalPodAutoscaler", Some("n"), "a"));
        assert_eq!(inventory.entries().count(), 1);
        assert!(!inventory.holds(&Entry::new("other/v1", "HorizontalPodAutoscaler", Some("n"), "a")));
        let mut newer = Inventory::new("r", "n");
        newer.add(Entry::new("v1", "Secret", Some("n"), "s"));
        assert_eq!(newer.united(&inventory).entries().count(), 2);
    }

    #[test]
    fn the_list_survives_its_object() {
        let mut inventory = Inventory::new("r", "n");
        inventory.add(Entry::new("v1", "Secret", Some("n"), "s"));
        let object = inventory.to_object();
        assert_eq!(object["metadata"]["name"], "r-inventory");
        let entries: Vec<Entry> = serde_json::from_str(object["data"][KEY].as_str().unwrap()).unwrap();
        assert_eq!(entries, inventory.entries);
    }

    #[test]
    fn what_holds_the_objects_of_others_is_on_no_list() {
        let mut inventory = Inventory::new("r", "n");
        // A list that was written by somebody else, or long ago.
        let text = r#"[{"apiVersion":"v1","kind":"Namespace","name":"n"},{"apiVersion":"v1","kind":"Secret","namespace":"n","name":"s"}]"#;
        inventory.fill(text).unwrap();
        inventory.add(Entry::new(
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            None,
            "d",
        ));
        let kinds: Vec<&str> = inventory.entries().map(|entry| entry.kind.as_str()).collect();
        assert_eq!(kinds, ["Secret"]);
    }
}
