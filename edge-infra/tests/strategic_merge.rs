//! Strategic merge, case by case, against what kubectl makes of the same patch.
//!
//! `tests/strategic_merge/` has a patch for each rule, the objects that they change, and kubectl's results. With
//! `EDGE_KUBECTL` (the path of a kubectl) the results are computed again: compared, or with `EDGE_UPDATE=1` written.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test reads its cases, runs the oracle, and stops where it stands"
)]

use edge_infra::{Type, strategic_merge};
use serde_json::Value;
use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Objects that patches change.
const OBJECTS: [(&str, Type); 4] = [
    ("deployment", Type::Workload),
    ("service", Type::Service),
    ("autoscaler", Type::Autoscaler),
    ("budget", Type::Budget),
];

#[test]
fn patches_merge_as_kubectl_merges_them() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/strategic_merge");
    let mut expected: BTreeSet<PathBuf> = BTreeSet::new();
    let mut failures = Vec::new();
    for (object, of) in OBJECTS {
        let base = folder.join(format!("{object}.json"));
        expected.insert(base.clone());
        for patch in cases(&folder.join(object)) {
            let result = patch.with_extension("json");
            if let Err(why) = check(&base, &patch, &result, of) {
                failures.push(format!("{}: {why}", patch.display()));
            }
            expected.extend([patch, result]);
        }
    }
    let stray: Vec<_> = files(&folder)
        .into_iter()
        .filter(|file| !expected.contains(file))
        .collect();
    assert!(stray.is_empty(), "files that belong to no case: {stray:?}");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// A patch that kubectl refuses has `null` as its result.
fn check(base: &Path, patch: &Path, result: &Path, of: Type) -> Result<(), String> {
    if let Some(kubectl) = env::var_os("EDGE_KUBECTL") {
        let oracle = ask(&kubectl, base, patch);
        if env::var_os("EDGE_UPDATE").is_some() {
            fs::write(result, format!("{oracle:#}\n")).unwrap();
        } else if oracle != read(result) {
            return Err(format!("kubectl says {oracle:#}"));
        }
    }
    match (strategic_merge(read(base), read(patch), of), read(result)) {
        (Ok(merged), Value::Null) => Err(format!("kubectl refuses it, and we make {merged:#}")),
        (Err(error), Value::Null) if error.place.is_empty() => Err("the error has no place".to_owned()),
        (Err(_), Value::Null) => Ok(()),
        (Err(error), _) => Err(error.to_string()),
        (Ok(merged), wanted) if merged == wanted => Ok(()),
        (Ok(merged), wanted) => Err(format!("{merged:#}\nis not what kubectl makes of it:\n{wanted:#}")),
    }
}

fn ask(kubectl: &std::ffi::OsStr, base: &Path, patch: &Path) -> Value {
    let output = Command::new(kubectl)
        .args(["patch", "--local", "--type=strategic", "-o", "json", "-f"])
        .arg(base)
        .arg("--patch-file")
        .arg(patch)
        .output()
        .unwrap();
    match output.status.success() {
        true => serde_json::from_slice(&output.stdout).unwrap(),
        false => Value::Null,
    }
}

fn read(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_yaml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn cases(folder: &Path) -> Vec<PathBuf> {
    let is_patch = |file: &PathBuf| file.extension().is_some_and(|extension| extension == "yaml");
    files(folder).into_iter().filter(is_patch).collect()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files.extend(self::files(&path)),
            false => files.push(path),
        }
    }
    files.sort();
    files
}
