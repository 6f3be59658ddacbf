//! `docs/policies.md`: every field of our policies, what it says, and which data plane does it. Made from the types and
//! from the golden cases, so that it can't go stale: a field is served if a case has it in an object that is accepted.
//! With `EDGE_UPDATE` set it is written anew.

use super::{
    goldens::{Use, uses},
    schema::{Field, definitions, fields, sample},
};
use edge_translate::load::{Limits, Source, load};
use serde_json::json;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::Path,
};

/// The kinds, with what of them isn't told here: a proxy's pods are told by the definition.
const KINDS: [(&str, &[&str]); 8] = [
    ("ClientTrafficPolicy", &[]),
    ("BackendTrafficPolicy", &[]),
    ("SecurityPolicy", &[]),
    ("EdgeExtensionPolicy", &[]),
    ("EdgePatchPolicy", &[]),
    ("HTTPRouteFilter", &[]),
    ("Backend", &[]),
    ("EdgeProxy", &["provider"]),
];

/// What no golden case shows of edge-proxy by itself: what only rules and logs of others make something of, which it
/// refuses.
const UNTOLD: [(&str, &str, &str); 1] = [(
    "ClientTrafficPolicy",
    "tls.fingerprints",
    "refuses `TLS_JA3_FINGERPRINT`",
)];

/// What edge-proxy serves in part, and where that is told.
const PARTLY: [(&str, &str, &str); 1] = [(
    "EdgeProxy",
    "logging.level",
    "served, of [components that it has](edge-proxy.md#what-edge-proxy-takes)",
)];

const HEAD: &str = "\
# Fields of policies, and who serves them

Made by a test from the types and the golden cases (`EDGE_UPDATE=1 cargo test -p edge-crds --test fields`). *Served*: the
case that is named holds the field in an object that is accepted, and the data plane takes what becomes of it; *refuses*:
edge-proxy rejects what becomes of that case, by the name that is given, and serves what it had; it may be for another field
of the case. *Refused*: only objects that are refused have it, most of them for it; what they cover is closed where that
guards something. *Not in force*: a warning says so with its place. *No case*: nothing shows it yet. Fields below one that
isn't served are left out, and those of a structure that was told before.
";

#[test]
fn every_field_is_told_with_what_becomes_of_it() {
    let uses = uses();
    let schemas = definitions();
    let mut text = HEAD.to_owned();
    let mut told = BTreeMap::new();
    for (kind, without) in KINDS {
        let schema = &schemas[kind];
        let mut all = fields(kind, schema, &mut told);
        all.retain(|field| !without.iter().any(|left_out| field.is_below(left_out)));
        section(kind, &all, &warnings(kind, &sample(schema)), &uses, &mut text);
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/policies.md");
    if std::env::var_os("EDGE_UPDATE").is_some() {
        fs::write(&path, &text).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == text,
        "docs/policies.md is old: EDGE_UPDATE=1 cargo test -p edge-crds --test fields"
    );
}

/// What the loader says of fields that aren't in force: by the field, what happens instead.
fn warnings(kind: &str, spec: &serde_json::Value) -> BTreeMap<String, String> {
    let object = json!({
        "apiVersion": "gateway.edge/v1alpha1", "kind": kind, "metadata": {"name": "all"}, "spec": spec,
    });
    let text = serde_yaml::to_string(&object).unwrap();
    let source = Source {
        name: "all.yaml",
        text: &text,
    };
    let findings = load(&source, &Limits::default()).findings;
    let messages = findings.iter().filter_map(|finding| {
        let (field, instead) = finding.message.split_once(" is not supported by this version: ")?;
        let field = field.strip_prefix("spec.").unwrap_or(field);
        let field: String = field
            .split('[')
            .map(|part| part.split_once(']').map_or(part, |(_, rest)| rest))
            .collect();
        Some((field, instead.to_owned()))
    });
    messages.collect()
}

/// What becomes of a field.
enum Fate<'u> {
    Served(&'u Use),
    Refused(&'u Use),
    NotInForce(String),
    NoCase,
}

fn section(kind: &str, all: &[Field], warnings: &BTreeMap<String, String>, objects: &[Use], text: &mut String) {
    let mut uses: BTreeMap<&str, Vec<&Use>> = BTreeMap::new();
    for used in objects.iter().filter(|used| used.kind == kind) {
        used.fields
            .iter()
            .for_each(|field| uses.entry(field).or_default().push(used));
    }
    let fate = |field: &Field| {
        let plain = field.path.replace("[]", "").replace(".*", "");
        if let Some(instead) = warnings.get(&plain).or_else(|| warnings.get(kind)) {
            return Fate::NotInForce(instead.clone());
        }
        let Some(uses) = uses.get(&*field.path) else {
            return Fate::NoCase;
        };
        // The plainest case says most.
        let plainest = uses.iter().min_by_key(|used| {
            (
                !used.is_accepted,
                used.refused_by_edge_proxy.is_some(),
                used.is_warned,
                used.fields.len(),
            )
        });
        match plainest {
            Some(used) if used.is_accepted => Fate::Served(used),
            Some(used) => Fate::Refused(used),
            None => Fate::NoCase,
        }
    };
    let mut left_out = BTreeSet::new();
    let (mut rows, mut served, mut by_edge_proxy, mut told) = (String::new(), 0, 0, 0);
    for field in all {
        if left_out.iter().any(|above: &String| field.is_below(above)) {
            continue;
        }
        told += 1;
        let fate = fate(field);
        if !matches!(fate, Fate::Served(_)) {
            left_out.insert(field.path.clone());
        }
        let (envoy, own, case) = match &fate {
            Fate::Served(used) => {
                let untold = UNTOLD
                    .iter()
                    .find(|(of, above, _)| *of == kind && (field.path == *above || field.is_below(above)));
                served += 1;
                by_edge_proxy += usize::from(used.refused_by_edge_proxy.is_none() && untold.is_none());
                let own = match (untold, &used.refused_by_edge_proxy) {
                    (Some((_, _, words)), _) => (*words).to_owned(),
                    (None, Some(name)) => format!("refuses `{name}`"),
                    (None, None) => {
                        let partly = PARTLY.iter().find(|(of, path, _)| *of == kind && field.path == *path);
                        partly.map_or("served", |(_, _, words)| words).to_owned()
                    }
                };
                ("served".to_owned(), own, Some(&used.case))
            }
            Fate::Refused(used) => ("refused".to_owned(), "refused".to_owned(), Some(&used.case)),
            Fate::NotInForce(instead) => (format!("not in force: {instead}"), "the same".to_owned(), None),
            Fate::NoCase => ("no case".to_owned(), "no case".to_owned(), None),
        };
        let case = case.map_or(String::new(), |case| format!("[{case}](../golden/{case}/input.yaml)"));
        let _ = writeln!(
            rows,
            "| `{}` | {} | {envoy} | {own} | {case} |",
            field.path, field.meaning
        );
    }
    let _ = write!(
        text,
        "\n## {kind}\n\n{told} fields: {served} are served by Envoy, {by_edge_proxy} by edge-proxy.\n\n\
         | field | what it says | Envoy | edge-proxy | case |\n|---|---|---|---|---|\n{rows}"
    );
}
