//! `docs/resources.md`: what may be written in our kinds, from the same definitions that an API server judges by. With
//! `EDGE_UPDATE` set it is written anew.

use super::schema::{is_duration, one_line, type_of};
use edge_crds::definition;
use serde_json::Value;
use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path};

const HEAD: &str = "\
# Resources of gateway.edge/v1alpha1

Made by a test from the definitions (`EDGE_UPDATE=1 cargo test -p edge-crds --test fields`): what may be written. What
becomes of each field, with an example, is told in [policies.md](policies.md).

An API server, `edgectl x validate`, `edgectl x translate` and the file provider judge by these bounds and rules alike.
`[]` stands for the items of a list, `.*` for the members of a map. **Bold** fields must be there where what they are a
part of is. A duration is one of Gateway API's: up to four numbers with `h`, `m`, `s` or `ms`, as `1m30s`. Longer patterns
stand in the definitions alone. Fields without a default do nothing when they are absent, or what their text says.
";

#[test]
fn every_resource_is_told_with_its_bounds_and_rules() {
    let mut told = BTreeMap::new();
    let mut text = HEAD.to_owned();
    for definition in definition::all().unwrap() {
        text.push_str(&section(&definition, &mut told));
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/resources.md");
    if std::env::var_os("EDGE_UPDATE").is_some() {
        fs::write(&path, &text).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == text,
        "docs/resources.md is old: EDGE_UPDATE=1 cargo test -p edge-crds --test fields"
    );
}

/// Everything about a kind.
fn section(definition: &Value, told: &mut BTreeMap<String, String>) -> String {
    let names = &definition["spec"]["names"];
    let kind = names["kind"].as_str().unwrap();
    let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let spec = &schema["properties"]["spec"];
    let short: Vec<String> = names["shortNames"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|name| format!("`{}`", name.as_str().unwrap()))
        .collect();
    let mut text = format!(
        "\n## {kind}\n\n{} `kubectl get {}`",
        one_line(&schema["description"]),
        names["plural"].as_str().unwrap()
    );
    if !short.is_empty() {
        let _ = write!(text, ", in short {}", short.join(" or "));
    }
    let mut kind = Kind {
        name: kind,
        told,
        rows: String::new(),
        rules: rules(&Place::root(), schema) + &rules(&Place::root(), spec),
    };
    kind.below(&Place::root(), spec);
    let _ = write!(
        text,
        ".\n\n| field | type | what it says | bounds |\n|---|---|---|---|\n{}",
        kind.rows
    );
    if !kind.rules.is_empty() {
        let _ = write!(text, "\nRules of {}:\n\n{}", kind.name, kind.rules);
    }
    text
}

/// Where a field stands.
struct Place(String);

impl Place {
    fn root() -> Self {
        Self(String::new())
    }

    fn member(&self, name: &str) -> Self {
        match &*self.0 {
            "" => Self(name.to_owned()),
            above => Self(format!("{above}.{name}")),
        }
    }

    /// Of the items of a list or the members of a map.
    fn each(&self, sign: &str) -> Self {
        Self(format!("{}{sign}", self.0))
    }
}

/// A kind while it is told.
struct Kind<'a> {
    name: &'a str,
    /// Structures that were told already, and where.
    told: &'a mut BTreeMap<String, String>,
    rows: String,
    rules: String,
}

/// Longer patterns say nothing to a reader.
const READABLE: usize = 80;
/// Structures with more fields than this are told once.
const SMALL: usize = 3;

impl Kind<'_> {
    /// The fields of a structure.
    fn below(&mut self, place: &Place, schema: &Value) {
        let required: Vec<&str> = schema["required"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            self.field(&place.member(name), field, required.contains(&name.as_str()));
        }
    }

    fn field(&mut self, place: &Place, schema: &Value, is_required: bool) {
        let (parts, sign) = parts(schema);
        let below = place.each(&sign);
        let shape = parts["properties"].to_string();
        let n_parts = parts["properties"].as_object().map_or(0, serde_json::Map::len);
        let before = self.told.get(&shape).cloned();
        let mut what = one_line(&schema["description"]);
        if let Some(before) = &before {
            let _ = write!(what, " Fields as of {before}.");
        }
        let weight = if is_required { "**" } else { "" };
        let _ = writeln!(
            self.rows,
            "| {weight}`{}`{weight} | {} | {what} | {} |",
            place.0,
            type_of(schema),
            bounds(schema).join("; ")
        );
        if before.is_some() {
            return;
        }
        self.rules.push_str(&rules(place, schema));
        if !sign.is_empty() {
            self.rules.push_str(&rules(&below, parts));
        }
        if n_parts > SMALL {
            self.told.insert(shape, format!("`{}` of {}", place.0, self.name));
        }
        self.below(&below, parts);
    }
}

/// What the fields of a list's items, or of a map's members, belong to, and the sign for them.
fn parts(schema: &Value) -> (&Value, String) {
    let (mut parts, mut sign) = (schema, String::new());
    loop {
        let (inner, more) = match (&parts["items"], &parts["additionalProperties"]) {
            (items, _) if items.is_object() => (items, "[]"),
            (_, members) if members.is_object() => (members, ".*"),
            _ => return (parts, sign),
        };
        parts = inner;
        sign.push_str(more);
    }
}

/// What a value must be, besides its type.
fn bounds(schema: &Value) -> Vec<String> {
    let mut all = own_bounds(schema);
    let (parts, sign) = parts(schema);
    if !sign.is_empty() {
        all.extend(own_bounds(parts).into_iter().map(|bound| format!("each {bound}")));
    }
    all
}

fn own_bounds(schema: &Value) -> Vec<String> {
    let mut all = Vec::new();
    if let Some(values) = schema["enum"].as_array() {
        let values: Vec<String> = values.iter().map(|value| format!("`{}`", plain(value))).collect();
        all.push(format!("one of {}", values.join(", ")));
    }
    for (least, most, what) in [
        ("minimum", "maximum", ""),
        ("minLength", "maxLength", " characters"),
        ("minItems", "maxItems", " items"),
        ("minProperties", "maxProperties", " members"),
    ] {
        match (number(&schema[least]), number(&schema[most])) {
            (None, None) => {}
            (Some(least), None) => all.push(format!("at least {least}{what}")),
            (None, Some(most)) => all.push(format!("at most {most}{what}")),
            (Some(least), Some(most)) if least == most => all.push(format!("{least}{what}")),
            (Some(least), Some(most)) => all.push(format!("{least} to {most}{what}")),
        }
    }
    let pattern = schema["pattern"].as_str().filter(|_| !is_duration(schema));
    if let Some(pattern) = pattern.filter(|pattern| pattern.len() <= READABLE) {
        all.push(format!("matches `{}`", pattern.replace('|', "\\|")));
    }
    if let Some(keys) = schema["x-kubernetes-list-map-keys"].as_array() {
        let keys: Vec<String> = keys.iter().map(|key| format!("`{}`", plain(key))).collect();
        all.push(format!("no two with the same {}", keys.join(" and ")));
    } else if schema["x-kubernetes-list-type"] == "set" {
        all.push("no two alike".to_owned());
    }
    if let Some(default) = schema.get("default") {
        all.push(format!("default `{default}`"));
    }
    all
}

fn number(value: &Value) -> Option<String> {
    value.is_number().then(|| value.to_string())
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The rules of a place, as they are told who breaks them.
fn rules(place: &Place, schema: &Value) -> String {
    let mut text = String::new();
    for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
        let says = match rule["message"].as_str() {
            Some(message) => message.to_owned(),
            None => format!("`{}`", plain(&rule["rule"])),
        };
        let place = if place.0.is_empty() { "spec" } else { &place.0 };
        let _ = writeln!(text, "* `{place}`: {says}");
    }
    text
}
