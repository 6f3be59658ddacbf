//! Definitions of kinds: those of a file, and which must not go over those that are in the cluster.

use crate::cluster::{inventory::Entry, objects::Objects};
use anyhow::{Context, Result, bail};
use semver::Version;
use serde_json::Value;
use std::{fs, path::Path};

/// The kind of definitions.
pub(super) const KIND: &str = "CustomResourceDefinition";
/// Annotations that say which version a definition is of: ours, and Gateway API's.
const VERSIONS: [&str; 2] = [
    "gateway.edge/bundle-version",
    "gateway.networking.k8s.io/bundle-version",
];
/// The annotation that says which kinds and fields a definition of Gateway API has.
const CHANNEL: &str = "gateway.networking.k8s.io/channel";

/// The objects of a file: definitions, and what comes along with them to guard them.
pub(super) fn read(path: &Path) -> Result<Vec<Value>> {
    let name = path.display();
    let text = fs::read_to_string(path).with_context(|| format!("{name} can't be read"))?;
    let mut objects: Vec<Value> = serde_yaml::from_multiple(&text).with_context(|| format!("{name} is not YAML"))?;
    objects.retain(|object| !object.is_null());
    for object in &objects {
        let entry = Entry::of(object);
        let group = entry.api_version.split('/').next().unwrap_or_default();
        if group != "apiextensions.k8s.io" && group != "admissionregistration.k8s.io" {
            bail!("{name} holds {entry}, which defines no kind: apply it apart, or take it out");
        }
    }
    if !objects.iter().any(is_definition) {
        bail!("{name} holds no {KIND}");
    }
    Ok(objects)
}

pub(super) fn is_definition(object: &Value) -> bool {
    object["kind"] == KIND
}

/// The names of objects.
pub(super) fn entries(objects: &[Value]) -> Vec<Entry> {
    objects.iter().map(Entry::of).collect()
}

/// Whether the cluster has any of these: it has somebody who looks after them all then.
pub(super) async fn has_any(objects: &Objects, definitions: &[Value]) -> Result<bool> {
    for definition in definitions.iter().filter(|object| is_definition(object)) {
        if objects.get(&Entry::of(definition)).await?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Refuses to put definitions over newer ones or those of others, on which others may rely.
pub(super) async fn check(objects: &Objects, definitions: &[Value]) -> Result<()> {
    let mut faults = Vec::new();
    for definition in definitions.iter().filter(|object| is_definition(object)) {
        let entry = Entry::of(definition);
        if let Some(there) = objects.get(&entry).await?
            && let Some(fault) = fault(&there, definition)
        {
            faults.push(format!("{} {fault}", entry.name));
        }
    }
    if faults.is_empty() {
        return Ok(());
    }
    bail!(
        "these definitions are in the cluster already, and others may rely on them as they are: {}. Leave them with \
         --skip-crds, or replace them by hand",
        faults.join(", ")
    )
}

/// What speaks against putting a definition over the one that is there.
fn fault(there: &Value, ours: &Value) -> Option<String> {
    let annotation = |object: &Value, name: &str| {
        let text = object["metadata"]["annotations"][name].as_str();
        text.map(str::to_owned)
    };
    let name = VERSIONS.into_iter().find(|name| annotation(ours, name).is_some())?;
    let new = annotation(ours, name)?;
    let Some(old) = annotation(there, name) else {
        return Some("(of unknown origin)".to_owned());
    };
    match (version(&old), version(&new)) {
        (Some(older), Some(newer)) if older <= newer => {}
        (Some(_), Some(_)) => return Some(format!("(of {old}, which is newer than {new})")),
        _ => return Some(format!("(of {old}, which isn't known to be older than {new})")),
    }
    // A field that only the other channel has would be lost.
    match (annotation(there, CHANNEL), annotation(ours, CHANNEL)) {
        (Some(old), Some(new)) if old != new => Some(format!("(of the {old} channel, here of the {new})")),
        _ => None,
    }
}

fn version(text: &str) -> Option<Version> {
    Version::parse(text.strip_prefix('v').unwrap_or(text)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn gateway_api(version: &str, channel: &str) -> Value {
        json!({"kind": KIND, "metadata": {"annotations": {VERSIONS[1]: version, CHANNEL: channel}}})
    }

    #[test]
    fn a_definition_goes_over_the_same_and_older_ones_only() {
        let ours = gateway_api("v1.7.0", "standard");
        for there in ["v1.7.0", "v1.6.2", "v1.7.0-rc.1"] {
            assert_eq!(fault(&gateway_api(there, "standard"), &ours), None, "{there}");
        }
        for (there, said) in [
            (gateway_api("v1.10.0", "standard"), "newer"),
            (gateway_api("v1.7.0", "experimental"), "experimental channel"),
            (gateway_api("main", "standard"), "isn't known to be older"),
            (json!({"metadata": {}}), "unknown origin"),
        ] {
            let fault = fault(&there, &ours).unwrap_or_default();
            assert!(fault.contains(said), "{there}: {fault}");
        }
    }

    #[test]
    fn our_own_definitions_have_a_version() {
        for definition in crate::install::objects::definitions().unwrap() {
            assert_eq!(fault(&definition, &definition), None);
            assert!(fault(&json!({}), &definition).is_some(), "{definition}");
        }
    }

    #[test]
    fn a_file_is_taken_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("install.yaml");
        let definition = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a}\n";
        let guard =
            "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: b}\n";
        let other = "apiVersion: v1\nkind: Namespace\nmetadata: {name: c}\n";
        fs::write(&path, format!("# A note.\n---\n{definition}---\n{guard}")).unwrap();
        assert_eq!(read(&path).unwrap().len(), 2);
        fs::write(&path, format!("{definition}---\n{other}")).unwrap();
        let error = read(&path).unwrap_err().to_string();
        assert!(error.contains("Namespace c"), "{error}");
        fs::write(&path, guard).unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("holds no Custom"));
    }
}
