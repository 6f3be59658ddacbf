//! The sixth law of translation: the same everywhere. A controller that followed every edit, and the command line that
//! reads the world from a folder of files, serve the same bytes.
//!
//! The generated worlds are those of `edge-translate/tests/laws.rs`; `cargo xtask laws` looks longer here too.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that can't go on should stop where it stands"
)]

#[path = "../../edge-translate/tests/laws/history.rs"]
mod history;
#[path = "../../edge-translate/tests/laws/platform.rs"]
mod platform;
#[path = "../../edge-translate/tests/laws/routes.rs"]
mod routes;
#[path = "../../edge-translate/tests/laws/words.rs"]
mod words;

use edge_ir::FleetKey;
use edge_translate::api::{Object, ObjectKey};
use edge_xds::{
    lower::Lowering,
    snapshot::{ResourceType, Snapshot},
};
use edgectl::translate::{Missing, Options, input::read, translate};
use history::{Configuration, Edit, Engine, World, history};
use proptest::{collection::vec, prelude::*, sample, test_runner::FileFailurePersistence};
use serde_json::{Value, json};
use std::{collections::BTreeMap, fs, path::Path};

fn cases(usual: u32) -> ProptestConfig {
    let times = std::env::var("EDGE_LAWS_TIMES").map_or(1, |text| text.parse().unwrap());
    ProptestConfig {
        cases: usual * times,
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct("tests/laws-regressions.txt"))),
        ..ProptestConfig::default()
    }
}

/// A resource: kind, name, version, bytes.
type Resource = (ResourceType, String, u64, Vec<u8>);

fn resources(snapshot: &Snapshot) -> Vec<Resource> {
    let of = |kind: ResourceType| {
        let entries = snapshot.section(kind).entries().iter();
        entries.map(move |e| (kind, e.name.to_string(), e.version, e.body.contiguous().to_vec()))
    };
    ResourceType::ALL.into_iter().flat_map(of).collect()
}

/// The resources in which two snapshots differ.
fn differences(a: &Snapshot, b: &Snapshot) -> Vec<String> {
    let (a, b) = (resources(a), resources(b));
    [missing(&a, &b), missing(&b, &a)].concat()
}

fn missing(these: &[Resource], those: &[Resource]) -> Vec<String> {
    let missing = these.iter().filter(|resource| !those.contains(resource));
    missing.map(|(kind, name, ..)| format!("{kind:?} {name}")).collect()
}

/// Files of a folder.
const FILES: &[&str] = &["a.yaml", "b.yml", "c.json", "d/a.yaml", "d/e/f.yaml", "d/e/g.yaml"];

/// Puts the objects of a world into files of a folder, in turn into those named, beside things that aren't resources.
fn write(folder: &Path, world: &World, places: &[&str]) {
    let mut files: BTreeMap<&str, Vec<&Object>> = BTreeMap::new();
    for (object, place) in world.objects.values().zip(places.iter().cycle()) {
        files.entry(place).or_default().push(object);
    }
    fs::create_dir_all(folder.join("d/e/.hidden")).unwrap();
    for (name, objects) in &files {
        let text = match name.ends_with(".json") {
            true => json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string(),
            false => {
                let documents: Vec<String> = objects.iter().map(|o| serde_yaml::to_string(o).unwrap()).collect();
                documents.join("\n---\n")
            }
        };
        fs::write(folder.join(name), text).unwrap();
    }
    // A path further back that says otherwise is not in force, nor is what has no resource's name.
    let stale = world
        .objects
        .values()
        .map(|o| serde_yaml::to_string(&stale(o)).unwrap());
    fs::write(folder.join("z.yaml"), stale.collect::<Vec<_>>().join("\n---\n")).unwrap();
    for name in ["notes.txt", ".hidden.yaml", "d/e/.hidden/a.yaml"] {
        fs::write(folder.join(name), "kind: nobody reads this").unwrap();
    }
}

/// The same object without what it says.
fn stale(object: &Object) -> Value {
    let value = object.to_value().unwrap();
    json!({"apiVersion": value["apiVersion"], "kind": value["kind"], "metadata": {
        "name": value["metadata"]["name"], "namespace": value["metadata"]["namespace"], "labels": {"stale": "yes"},
    }})
}

proptest! {
    #![proptest_config(cases(120))]

    /// What is lowered as a fleet changes is what lowering it at once gives.
    #[test]
    fn lowering_follows_every_edit(edits in history(0..25)) {
        let mut engine = Engine::new(Configuration::Cluster);
        let mut lowerings: BTreeMap<FleetKey, Lowering> = BTreeMap::new();
        for edit in &edits {
            engine.take(edit);
            engine.translate();
            lowerings.retain(|key, _| engine.fleets().contains_key(key));
            for (key, fleet) in engine.fleets() {
                let kept = lowerings.entry(key.clone()).or_default().lower(fleet);
                let fresh = Lowering::new().lower(fleet);
                prop_assert_eq!(differences(&kept, &fresh), Vec::<String>::new(), "fleet {} after {:?}", key, edit);
            }
        }
    }

    /// What the command line makes of the world as files is what the controller serves.
    #[test]
    fn the_command_line_serves_what_the_controller_serves(
        edits in history(0..40),
        places in vec(sample::select(FILES), 1..20),
    ) {
        let (mut world, mut engine) = (World::empty(), Engine::new(Configuration::Cluster));
        for edit in &edits {
            world.apply(edit);
            engine.take(edit);
            engine.translate();
        }
        // Offline nobody knows which ports of a machine are held.
        world.held.iter().for_each(|port| engine.take(&Edit::Hold(*port, false)));
        engine.translate();
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), &world, &places);
        let input = read(&[folder.path().to_owned()]).unwrap();
        let options = Options { settings: world.configuration.settings(), missing: Missing::Report, now: Some(world.now), ..Options::default() };
        let outcome = translate(&input.texts, &options);
        let written: Vec<_> = outcome.findings.iter().map(ToString::to_string).collect();
        // Of other kinds objects are read where an extension service knows them.
        let kinds = world.configuration.settings().custom_kinds();
        let is_known = |key: &&ObjectKey| {
            let named = key.custom();
            named.is_none_or(|(name, _)| kinds.iter().any(|kind| name == format!("{}.{}", kind.kind, kind.group)))
        };
        prop_assert_eq!(outcome.objects.len(), world.objects.keys().filter(is_known).count(), "{:?}", written);
        for loaded in &outcome.objects {
            prop_assert_eq!(Some(&loaded.object), world.objects.get(&loaded.object.key()));
        }
        prop_assert_eq!(&outcome.translation.infra, engine.infra());
        let said: BTreeMap<_, _> = outcome.translation.statuses.iter().filter_map(|(k, s)| Some((k.clone(), s.clone()?))).collect();
        prop_assert_eq!(said, engine.translator.statuses());
        let keys: Vec<_> = outcome.snapshots.keys().collect();
        prop_assert_eq!(keys, engine.fleets().keys().collect::<Vec<_>>());
        for (key, fleet) in engine.fleets() {
            let snapshot = Lowering::new().lower(fleet);
            prop_assert_eq!(differences(&outcome.snapshots[key], &snapshot), Vec::<String>::new(), "fleet {}", key);
        }
    }
}
