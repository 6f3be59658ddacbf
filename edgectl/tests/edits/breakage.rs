//! Ways in which a policy breaks: by what stands in it, and by what it refers to.

use super::case::{Case, is_one_of};
use serde_json::{Map, Value, json};

/// Kinds of policies that protect.
pub(crate) const PROTECTIVE: &[&str] = &["SecurityPolicy", "EdgeExtensionPolicy"];
/// Kinds of objects that hold what they need.
const HELD: &[&str] = &["Secret", "ConfigMap", "ClusterTrustBundle"];
/// Kinds of objects that they ask.
const ASKED: &[&str] = &["Service", "ServiceImport", "Backend"];
/// Fields that have one of a few words.
const WORDS: &[&str] = &[
    "action",
    "defaultAction",
    "type",
    "valueType",
    "format",
    "mode",
    "level",
    "sameSite",
    "attemptsPerPriority",
];

/// What must become of what is covered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strength {
    /// The policy can't be honoured: closed, unless nothing changes because what broke is of no concern there.
    Closes,
    /// It may still be what somebody wants, or another policy is merged with it: the same kinds of guards, or closed.
    Guards,
    /// It says itself that it may be missing.
    Leaves,
}

/// One way.
pub(crate) struct Breakage {
    pub(crate) what: String,
    pub(crate) strength: Strength,
    /// Objects as they are now.
    pub(crate) put: Vec<Value>,
    /// Objects that are gone.
    pub(crate) removed: Vec<Value>,
    /// The policies that it is about.
    pub(crate) policies: Vec<Value>,
}

/// All ways in which the policies of a case break.
pub(crate) fn of(case: &Case) -> Vec<Breakage> {
    let policies: Vec<&Value> = case.of_kinds(PROTECTIVE).collect();
    let is_merged = policies.iter().any(|policy| !policy["spec"]["mergeType"].is_null());
    let mut ways = Vec::new();
    for policy in &policies {
        ways.extend(of_spec(policy, is_merged));
    }
    for object in &case.objects {
        ways.extend(of_reference(case, &policies, object));
    }
    ways
}

/// Ways by what stands in the policy itself.
fn of_spec(policy: &Value, is_merged: bool) -> Vec<Breakage> {
    let mut ways = Vec::new();
    let mut paths = Vec::new();
    let spec = policy["spec"].as_object().into_iter().flatten();
    for (field, value) in spec.filter(|(field, _)| !field.starts_with("target")) {
        collect(value, &format!("/spec/{field}"), &mut paths);
    }
    paths.push("/spec".to_owned());
    for path in paths {
        let value = policy.pointer(&path).unwrap();
        for (what, strength, other) in instead(&path, value) {
            let mut broken = policy.clone();
            *broken.pointer_mut(&path).unwrap() = other;
            ways.push(Breakage {
                what: format!("{what} at {path} of {}", policy["metadata"]["name"]),
                strength: match () {
                    () if may_be_missing(policy, &path) => Strength::Leaves,
                    // What it says there may not count where another says it.
                    () if is_merged && path != "/spec" => Strength::Guards,
                    () => strength,
                },
                put: vec![broken],
                removed: Vec::new(),
                policies: vec![policy.clone()],
            });
        }
    }
    ways
}

/// The pointers of a value and of all in it.
fn collect(value: &Value, path: &str, into: &mut Vec<String>) {
    into.push(path.to_owned());
    let children: Vec<(String, &Value)> = match value {
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| (name.replace('~', "~0").replace('/', "~1"), value))
            .collect(),
        Value::Array(list) => list
            .iter()
            .enumerate()
            .map(|(n, value)| (n.to_string(), value))
            .collect(),
        _ => Vec::new(),
    };
    for (name, child) in children {
        collect(child, &format!("{path}/{name}"), into);
    }
}

/// What may stand in place of a value.
fn instead(path: &str, value: &Value) -> Vec<(&'static str, Strength, Value)> {
    let mut others = Vec::new();
    let field = path
        .rsplit('/')
        .find(|part| part.parse::<usize>().is_err())
        .unwrap_or_default();
    if path != "/spec" {
        let other = match value {
            Value::Object(_) | Value::Array(_) => json!("broken"),
            _ => json!({"broken": true}),
        };
        others.push(("another type", Strength::Closes, other));
    }
    match value {
        Value::Object(fields) => {
            let mut more = fields.clone();
            more.insert("unheardOf".to_owned(), json!(1));
            others.push(("an unknown field", Strength::Closes, Value::Object(more)));
            let is_root = path == "/spec";
            for name in fields.keys().filter(|_| !is_root) {
                let mut fewer = fields.clone();
                fewer.remove(name);
                others.push(("a field less", Strength::Guards, Value::Object(fewer)));
            }
        }
        Value::String(text) => others.extend(other_text(field, text)),
        Value::Number(_) => others.push(("a number out of range", Strength::Guards, json!(-1))),
        _ => {}
    }
    others
}

fn other_text(field: &str, text: &str) -> Option<(&'static str, Strength, Value)> {
    let is_duration = text.strip_suffix(['s', 'm', 'h']).is_some_and(|number| {
        let number = number.strip_suffix('m').unwrap_or(number);
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    });
    let is_range = text
        .split_once('/')
        .is_some_and(|(ip, length)| ip.parse::<std::net::IpAddr>().is_ok() && length.parse::<u8>().is_ok());
    let (what, other) = match () {
        () if WORDS.contains(&field) => ("an unknown word", "NoSuchWord"),
        () if is_duration => ("no duration", "soon"),
        () if is_range => ("no range of addresses", "10.0.0.0/99"),
        () if text.starts_with("http://") || text.starts_with("https://") => {
            return Some(("no URL", Strength::Guards, json!("nowhere")));
        }
        () => return Some(("another text", Strength::Guards, json!("(["))),
    };
    Some((what, Strength::Closes, json!(other)))
}

/// Whether a path leads into an entry that may be missing, by its own word.
fn may_be_missing(policy: &Value, path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    let ["", "spec", "extProc" | "wasm", number, ..] = parts.as_slice() else {
        return false;
    };
    policy
        .pointer(&format!("/spec/{}/{number}", parts[2]))
        .is_some_and(|entry| entry["failOpen"] == true)
}

/// Ways by what policies refer to, and nobody else.
fn of_reference(case: &Case, policies: &[&Value], object: &Value) -> Vec<Breakage> {
    let name = &object["metadata"]["name"];
    let users: Vec<Value> = policies
        .iter()
        .filter(|policy| names(&policy["spec"], name))
        .map(|policy| (*policy).clone())
        .collect();
    let is_others = || {
        let others = case
            .objects
            .iter()
            .filter(|other| !is_one_of(other, PROTECTIVE) && !is_one_of(other, &["ReferenceGrant", "EndpointSlice"]));
        let mut others = others.filter(|other| *other != object);
        others.any(|other| names(&other["spec"], name))
    };
    let is_left_out = |policy: &Value| {
        let added = ["extProc", "wasm"]
            .iter()
            .flat_map(|field| policy["spec"][field].as_array());
        added.flatten().any(|entry| entry["failOpen"] == true)
    };
    let strength = match users.iter().any(is_left_out) {
        true => Strength::Leaves,
        false => Strength::Guards,
    };
    let way = |what: &str, put: Vec<Value>, policies: Vec<Value>| Breakage {
        what: format!("{what}: {} {name}", object["kind"]),
        strength,
        removed: if put.is_empty() {
            vec![object.clone()]
        } else {
            Vec::new()
        },
        put,
        policies,
    };
    if is_one_of(object, &["ReferenceGrant"]) {
        let gives = object["spec"]["to"].as_array().into_iter().flatten();
        let of_use = gives.clone().any(|to| is_one_of(to, HELD) || is_one_of(to, ASKED));
        let all = policies.iter().map(|policy| (*policy).clone()).collect();
        let is_of_routes = object["spec"]["from"]
            .as_array()
            .into_iter()
            .flatten()
            .any(|from| !is_one_of(from, PROTECTIVE));
        return (of_use && !is_of_routes)
            .then(|| way("not permitted", Vec::new(), all))
            .into_iter()
            .collect();
    }
    if users.is_empty() || is_others() {
        return Vec::new();
    }
    if is_one_of(object, ASKED) {
        return vec![way("nobody to ask", Vec::new(), users)];
    }
    if !is_one_of(object, HELD) {
        return Vec::new();
    }
    vec![
        way("missing", Vec::new(), users.clone()),
        way("other keys", vec![with_other_keys(object)], users),
    ]
}

/// Whether a name stands somewhere in a value.
fn names(value: &Value, name: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.values().any(|value| names(value, name)),
        Value::Array(list) => list.iter().any(|value| names(value, name)),
        value => value == name,
    }
}

/// The same with other names for what it holds.
fn with_other_keys(object: &Value) -> Value {
    let mut other = object.clone();
    for field in ["data", "stringData"] {
        let renamed = |data: &Map<String, Value>| -> Map<String, Value> {
            data.iter()
                .map(|(key, value)| (format!("not-{}", key.trim_start_matches('.')), value.clone()))
                .collect()
        };
        if let Some(data) = object[field].as_object() {
            other[field] = Value::Object(renamed(data));
        }
    }
    other
}
