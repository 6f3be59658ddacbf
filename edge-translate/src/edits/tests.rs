//! What is told of edits, as scripts: each is a rule.

use super::*;
use crate::load::from_value;
use serde_json::json;

/// Files by name.
#[derive(Default)]
struct Files(BTreeMap<&'static str, Vec<Object>>);

impl Sources for Files {
    type Id = &'static str;

    fn object(&self, key: &ObjectKey) -> Option<&Object> {
        self.0.values().flatten().find(|object| object.key() == *key)
    }

    fn objects_of(&self, source: &&'static str) -> impl Iterator<Item = &Object> {
        self.0.get(source).into_iter().flatten()
    }
}

/// One step of a script.
#[derive(Clone, Copy)]
enum Step {
    /// Nothing changes for a while.
    Rest,
    /// These files hold these objects now; that is told of it.
    Edit(&'static [(&'static str, &'static str)], Removals, &'static str),
}

use Removals::{Hold, Tell, TellWithEdits};
use Step::{Edit, Rest};

const SCRIPTS: &[(&str, &[Step])] = &[
    (
        "where nothing is waited for, all is told",
        &[
            Edit(&[("a", "service/s route/r")], Tell, "+route/r +service/s"),
            Edit(&[("a", "service/s service/t")], Tell, "+service/t -route/r"),
            Edit(&[("a", "service/s service/t")], Tell, ""),
        ],
    ),
    (
        "what is gone stays, and what comes later elsewhere doesn't wait for it",
        &[
            Edit(&[("a", "service/s"), ("b", "service/t")], Tell, "+service/s +service/t"),
            Edit(&[("a", "")], Hold, ""),
            Edit(&[("b", "service/t service/u")], Hold, "+service/u"),
            Edit(&[], Tell, "-service/s"),
        ],
    ),
    (
        "what comes back in another file was never gone",
        &[
            Edit(&[("a", "service/s")], Tell, "+service/s"),
            Edit(&[("a", "")], Hold, ""),
            Edit(&[("b", "service/s")], Hold, ""),
            Edit(&[], Tell, ""),
        ],
    ),
    (
        "what comes in an edit waits for what goes in it, and goes with it in the end",
        &[
            Edit(&[("a", "service/s"), ("b", "service/t")], Tell, "+service/s +service/t"),
            Edit(&[("b", "")], Hold, ""),
            Edit(&[("a", "service/u")], Hold, ""),
            Edit(&[], TellWithEdits, "+service/u -service/s"),
            Edit(&[], Tell, "-service/t"),
        ],
    ),
    (
        "the last policy of its kind stays before what stays, whatever of another kind came",
        &[
            Edit(
                &[("a", "policy/p>route/r route/x"), ("b", "route/r")],
                Tell,
                "+policy/p +route/r +route/x",
            ),
            Edit(&[("a", "traffic/p>route/r")], TellWithEdits, "+traffic/p -route/x"),
            Edit(&[], Tell, "-policy/p"),
        ],
    ),
    (
        "a policy goes for another that came in its file",
        &[
            Edit(
                &[("a", "policy/p>route/r"), ("b", "route/r")],
                Tell,
                "+policy/p +route/r",
            ),
            Edit(&[("a", "policy/q>route/r")], TellWithEdits, "+policy/q -policy/p"),
        ],
    ),
    (
        "and isn't kept for what goes too",
        &[
            Edit(&[("a", "policy/p>route/r route/r")], Tell, "+policy/p +route/r"),
            Edit(&[("a", "route/x")], TellWithEdits, "+route/x -policy/p -route/r"),
        ],
    ),
    (
        "a policy isn't kept from a route that came just before it",
        &[
            Edit(&[("a", "service/s")], Tell, "+service/s"),
            Rest,
            Edit(&[("b", "route/r")], Hold, "+route/r"),
            Edit(&[("a", "policy/p>route/r")], Hold, "+policy/p"),
            Edit(&[], Tell, "-service/s"),
        ],
    ),
    (
        "but waits with its edit where the route has long been there",
        &[
            Edit(&[("a", "service/s"), ("b", "route/r")], Tell, "+route/r +service/s"),
            Rest,
            Edit(&[("a", "policy/p>route/r")], Hold, ""),
            Edit(&[], TellWithEdits, "+policy/p -service/s"),
        ],
    ),
    (
        "a route that is gone goes with the policy that leaves it, and no other does",
        &[
            Edit(
                &[("a", "route/r route/s route/t"), ("b", "policy/p>route/r")],
                Tell,
                "+policy/p +route/r +route/s +route/t",
            ),
            Rest,
            Edit(&[("a", "route/t")], Hold, ""),
            Edit(&[("b", "policy/p>route/t")], Hold, "+policy/p -route/r"),
            Edit(&[], Tell, "-route/s"),
        ],
    ),
    (
        "a Gateway isn't given up when its policy goes",
        &[
            Edit(
                &[("a", "gateway/g route/r"), ("b", "policy/p>gateway/g policy/q>route/r")],
                Tell,
                "+gateway/g +route/r +policy/p +policy/q",
            ),
            Rest,
            Edit(&[("a", "")], Hold, ""),
            Edit(&[("b", "service/s")], TellWithEdits, "+service/s -policy/p -policy/q"),
            Edit(&[("c", "service/t")], Hold, "+service/t -route/r"),
            Edit(&[], Tell, "-gateway/g"),
        ],
    ),
    (
        "but is with its routes that move to another",
        &[
            Edit(&[("a", "gateway/g"), ("b", "route/r@g")], Tell, "+gateway/g +route/r"),
            Rest,
            Edit(&[("a", "")], Hold, ""),
            Edit(&[("b", "route/r@h")], Hold, "+route/r -gateway/g"),
        ],
    ),
];

const GATEWAY_API: &str = "gateway.networking.k8s.io/v1";
const OWN: &str = "gateway.edge/v1alpha1";

/// `route/r`, `route/r@gateway`, `gateway/g`, `service/s`, `policy/p>route/r`, `traffic/t>route/r`.
fn object(word: &str) -> Object {
    let (word, target) = word.split_once('>').unwrap_or((word, ""));
    let (word, parent) = word.split_once('@').unwrap_or((word, ""));
    let (kind, name) = word.split_once('/').unwrap();
    let (target_kind, target_name) = target.split_once('/').unwrap_or_default();
    let target_kind = match target_kind {
        "gateway" => "Gateway",
        _ => "HTTPRoute",
    };
    let targets = json!({ "targetRefs": [{ "kind": target_kind, "name": target_name }] });
    let (version, kind, spec) = match kind {
        "route" if parent.is_empty() => (GATEWAY_API, "HTTPRoute", json!({})),
        "route" => (GATEWAY_API, "HTTPRoute", json!({ "parentRefs": [{ "name": parent }] })),
        "gateway" => (
            GATEWAY_API,
            "Gateway",
            json!({ "gatewayClassName": "c", "listeners": [] }),
        ),
        "service" => ("v1", "Service", json!({ "ports": [{ "port": 80 }] })),
        "policy" => (OWN, "SecurityPolicy", targets),
        "traffic" => (OWN, "BackendTrafficPolicy", targets),
        other => panic!("{other}"),
    };
    let metadata = json!({ "name": name, "namespace": "default" });
    let value = json!({ "apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec });
    from_value(&value).unwrap().0
}

/// The word of an object in a script.
fn word(key: &ObjectKey) -> String {
    let kind = match key.kind.as_str() {
        "HTTPRoute" => "route",
        "SecurityPolicy" => "policy",
        "BackendTrafficPolicy" => "traffic",
        "Gateway" => "gateway",
        "Service" => "service",
        other => panic!("{other}"),
    };
    format!("{kind}/{}", key.name)
}

/// A file holds these objects now.
fn write(files: &mut Files, edits: &mut Edits<&'static str>, file: &'static str, text: &str) {
    let now: Vec<Object> = text.split_whitespace().map(object).collect();
    let before = files.0.insert(file, now.clone()).unwrap_or_default();
    for object in now.iter().filter(|object| !before.contains(object)) {
        edits.note_brought(&object.key(), &file);
    }
    for was in before {
        if now.iter().all(|object| object.key() != was.key()) {
            edits.note_left(was.key(), &file);
        }
    }
}

#[test]
fn edits_are_told_by_these_rules() {
    for (rule, steps) in SCRIPTS {
        let (mut files, mut edits) = (Files::default(), Edits::default());
        for (number, step) in steps.iter().enumerate() {
            let Edit(written, removals, expected) = step else {
                edits.rest();
                continue;
            };
            for (file, text) in *written {
                write(&mut files, &mut edits, file, text);
            }
            let told = edits.tell(&files, *removals).into_iter().map(|change| match change {
                Change::Put(object) => format!("+{}", word(&object.key())),
                Change::Remove(key) => format!("-{}", word(&key)),
                Change::Fact(fact) => panic!("{fact:?}"),
            });
            let mut told: Vec<String> = told.collect();
            told.sort();
            let mut expected: Vec<&str> = expected.split_whitespace().collect();
            expected.sort_unstable();
            assert_eq!(told, expected, "{rule}, step {number}");
        }
    }
}

#[test]
fn what_is_gone_was_left_by_one_file_or_by_several() {
    let (mut files, mut edits) = (Files::default(), Edits::default());
    write(&mut files, &mut edits, "a", "service/r service/s");
    write(&mut files, &mut edits, "b", "service/t");
    edits.tell(&files, Tell);
    assert_eq!(
        (edits.left_by(&edits.gone(&files)), edits.has_removals()),
        (None, false)
    );
    write(&mut files, &mut edits, "a", "");
    assert_eq!(edits.left_by(&edits.gone(&files)), Some(&"a"));
    write(&mut files, &mut edits, "b", "");
    assert_eq!((edits.left_by(&edits.gone(&files)), edits.has_removals()), (None, true));
    // What is held elsewhere left nobody.
    edits.retain_left(|key, _, in_force| in_force.is_some() && &*key.name != "t");
    assert_eq!(edits.left_by(&edits.gone(&files)), None);
}
