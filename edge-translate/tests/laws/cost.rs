//! What a change costs: the units that run are those that the change leads to, by name and number.

use super::{
    cases,
    history::{Configuration, Edit, Engine, World, history},
    words::read,
};
use edge_translate::api::Object;
use proptest::prelude::*;
use serde_json::json;

/// Units that the last translation ran, as `name×number`.
fn runs(engine: &Engine) -> Vec<String> {
    let runs = engine.translation.runs.iter();
    runs.map(|(name, times)| format!("{name}×{times}")).collect()
}

/// The same object with a status that somebody wrote.
fn with_status(object: &Object) -> Object {
    let mut value = object.to_value().unwrap();
    value["status"] = json!({"conditions": [{"type": "Accepted", "status": "True"}], "parents": [], "ancestors": []});
    read(value)
}

proptest! {
    #![proptest_config(cases(50))]

    /// The echo of a status runs nothing: in a cluster every word that we write comes back as a change.
    #[test]
    fn the_echo_of_a_status_runs_nothing(edits in history(0..50)) {
        let world = World::after(&edits);
        let mut engine = world.translate();
        for object in world.objects.values() {
            engine.take(&Edit::Put(with_status(object)));
        }
        engine.translate();
        prop_assert_eq!(runs(&engine), Vec::<String>::new());
        // And it is not for ever forgotten that there was something else to say.
        for object in world.objects.values() {
            engine.take(&Edit::Remove(object.key()));
        }
        engine.translate();
        prop_assert!(engine.fleets().is_empty());
    }
}

#[test]
fn nothing_runs_without_a_change() {
    let mut engine = Engine::new(Configuration::Cluster);
    engine.translate();
    assert_eq!(runs(&engine), Vec::<String>::new());
}
