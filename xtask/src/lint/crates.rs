//! Which crate stands on which is told in ARCHITECTURE.md, and held here: a new arrow is a line there first.

use std::collections::{BTreeMap, BTreeSet};

/// The document, and the head of the table in it.
pub(super) const DOCUMENT: &str = "ARCHITECTURE.md";
const HEAD: &str = "| crate | stands on |";

/// What nobody needs to build or run the product stands beside the table.
const TOOLS: [&str; 4] = ["xtask", "e2e", "fuzz", "embedding"];

/// What crates stand on, by their names.
type Arrows<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

/// Says where the document and the manifests differ; these as cargo tells them of the workspace.
pub(super) fn check(document: &str, metadata: &serde_json::Value, findings: &mut Vec<String>) {
    let (told, built) = (told(document), built(metadata));
    if told.is_empty() {
        findings.push(format!("{DOCUMENT}:1: there is no table of crates"));
    }
    for (name, names) in &told {
        let Some(needed) = built.get(name) else {
            findings.push(format!("{DOCUMENT}:1: there is no crate {name}"));
            continue;
        };
        let untold = needed.difference(names);
        findings.extend(untold.map(|on| format!("{DOCUMENT}:1: {name} stands on {on}, which its line doesn't say")));
        let wrong = names.difference(needed);
        findings.extend(wrong.map(|on| format!("{DOCUMENT}:1: {name} doesn't stand on {on}, as its line says")));
    }
    let missing = built
        .keys()
        .filter(|name| !told.contains_key(*name) && !TOOLS.contains(name));
    findings.extend(missing.map(|name| format!("{DOCUMENT}:1: {name} has no line in the table of crates")));
}

/// What the document says.
fn told(document: &str) -> Arrows<'_> {
    let table = document.lines().skip_while(|line| !line.starts_with(HEAD));
    let rows = table.skip(2).take_while(|line| line.starts_with('|'));
    rows.filter_map(|row| {
        let mut cells = row.split('|').skip(1).map(|cell| cell.split('`').skip(1).step_by(2));
        let name = cells.next()?.next()?;
        Some((name, cells.next()?.collect()))
    })
    .collect()
}

/// What each crate needs of this workspace in order to be built.
fn built(metadata: &serde_json::Value) -> Arrows<'_> {
    let packages = || metadata["packages"].as_array().into_iter().flatten();
    let own: BTreeSet<&str> = packages().filter_map(|package| package["name"].as_str()).collect();
    let arrows = packages().filter_map(|package| {
        let needed = package["dependencies"]
            .as_array()?
            .iter()
            .filter(|one| one["kind"] != "dev");
        let names = needed
            .filter_map(|one| one["name"].as_str())
            .filter(|name| own.contains(name));
        Some((package["name"].as_str()?, names.collect()))
    });
    arrows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_arrow_stands_in_the_table_and_in_the_manifest() {
        let metadata = json!({"packages": [
            {"name": "core", "dependencies": [{"name": "serde", "kind": null}, {"name": "fuzz", "kind": "dev"}]},
            {"name": "shell", "dependencies": [{"name": "core", "kind": null}]},
            {"name": "fuzz", "dependencies": [{"name": "shell", "kind": null}]},
        ]});
        let found = |rows: &str| {
            let document = format!("# Map\n\n{HEAD} is |\n|---|---|---|\n{rows}\nText with `core` in it.\n");
            let mut findings = Vec::new();
            check(&document, &metadata, &mut findings);
            findings.join("; ")
        };
        assert_eq!(found("| `core` | | x |\n| `shell` | `core` | y |\n"), "");
        let untold = found("| `core` | | x |\n| `shell` | | y |\n");
        assert!(
            untold.contains("shell stands on core, which its line doesn't say"),
            "{untold}"
        );
        let wrong = found("| `core` | `fuzz` | x |\n");
        assert!(wrong.contains("core doesn't stand on fuzz"), "{wrong}");
        assert!(wrong.contains("shell has no line"), "{wrong}");
        assert!(found("| `gone` | | x |\n").contains("no crate gone"));
        assert!(found("").contains("no table"));
    }
}
