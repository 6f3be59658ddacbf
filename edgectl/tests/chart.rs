//! `edgectl x install` applies what Helm renders from the chart: `charts/golden/<case>/rendered.yaml`, which tier
//! `charts` compares with Helm.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop where it stands")]

use edge_translate::{config, load::Source};
use edgectl::install::{
    MANAGED_BY,
    objects::{Release, definitions, workload},
    values,
};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

fn charts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts")
}

/// Objects by what they are called, without what only one of the two tools writes.
fn by_name(objects: impl IntoIterator<Item = Value>) -> BTreeMap<String, Value> {
    objects
        .into_iter()
        .map(|object| (name(&object), plain(object)))
        .collect()
}

fn name(object: &Value) -> String {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or("-").to_owned();
    format!(
        "{} {}/{}",
        text("/kind"),
        text("/metadata/namespace"),
        text("/metadata/name")
    )
}

fn plain(mut object: Value) -> Value {
    let metadata = object["metadata"].as_object_mut().unwrap();
    metadata["labels"].as_object_mut().unwrap().remove(MANAGED_BY).unwrap();
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.retain(|name, _| !name.starts_with("helm.sh/"));
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
    // The same document, however it is written.
    if let Some(text) = object.pointer_mut("/data/edge-gateway.yaml") {
        *text = serde_yaml::from_str(text.as_str().unwrap()).unwrap();
    }
    object
}

#[test]
fn an_installation_is_what_the_chart_renders() {
    let mut cases = 0;
    for case in fs::read_dir(charts().join("golden"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
    {
        let folder = case.file_name().unwrap().to_string_lossy().into_owned();
        let rendered = fs::read_to_string(case.join("rendered.yaml")).unwrap();
        let documents = rendered
            .split("\n---")
            .map(|text| serde_yaml::from_str::<Value>(text).unwrap());
        let wanted = by_name(documents.filter(|object| !object.is_null()));
        let release = Release {
            name: "edge-gateway".to_owned(),
            namespace: if folder == "default" {
                "edge-gateway-system".to_owned()
            } else {
                folder.clone()
            },
        };
        let values = values::read(&[case.join("values.yaml")], &[]).unwrap();
        let found = by_name(workload(&values, &release));
        assert_eq!(
            found.keys().collect::<Vec<_>>(),
            wanted.keys().collect::<Vec<_>>(),
            "{folder}"
        );
        for (name, wanted) in &wanted {
            let found = &found[name];
            assert!(
                found == wanted,
                "{folder}: {name}:\n{}\nbut Helm renders\n{}",
                serde_json::to_string_pretty(found).unwrap(),
                serde_json::to_string_pretty(wanted).unwrap()
            );
        }
        cases += 1;
    }
    assert!(cases >= 3, "only {cases} cases");
}

#[test]
fn the_configuration_of_an_installation_is_one_that_the_controller_takes() {
    for case in fs::read_dir(charts().join("golden"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
    {
        let values = values::read(&[case.join("values.yaml")], &[]).unwrap();
        let release = Release {
            name: "edge-gateway".to_owned(),
            namespace: "edge-gateway-system".to_owned(),
        };
        let objects = workload(&values, &release);
        let config = objects.iter().find(|object| object["kind"] == "ConfigMap").unwrap();
        let text = config["data"]["edge-gateway.yaml"].as_str().unwrap();
        let source = Source {
            name: "edge-gateway.yaml",
            text,
        };
        config::parse(&source).unwrap_or_else(|error| panic!("{}: {error:?}\n{text}", case.display()));
    }
}

/// Nobody is to be asked where a configuration says that nobody answers.
#[test]
fn an_injector_that_the_configuration_disables_is_not_installed() {
    let release = Release {
        name: "edge-gateway".to_owned(),
        namespace: "edge-gateway-system".to_owned(),
    };
    let files: [PathBuf; 0] = [];
    let objects = |set: &str| workload(&values::read(&files, &[set.to_owned()]).unwrap(), &release);
    let without = objects("topologyInjector.enabled=false");
    assert!(
        without
            .iter()
            .all(|object| object["kind"] != "MutatingWebhookConfiguration")
    );
    assert_eq!(
        objects("config.edgeGateway.provider.cluster.proxyTopologyInjector.disabled=true"),
        without
    );
}

#[test]
fn every_definition_comes_along() {
    let files = fs::read_dir(charts().join("gateway-crds-helm/templates")).unwrap();
    let mut names: Vec<String> = files
        .map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap())
        .collect();
    names.sort();
    let mut found: Vec<String> = definitions().unwrap().iter().map(name).collect();
    found.sort();
    let mut wanted: Vec<String> = names
        .iter()
        .map(|text| name(&serde_yaml::from_str(text).unwrap()))
        .collect();
    wanted.sort();
    assert_eq!(found, wanted);
}
