//! Which modules of a crate name which others: there must be no circle, so that each can be read, tested and moved
//! with nothing but what lies below it.
//!
//! A module is a file below `src/` with the folder of its name. Tests don't count: they may look at everything.
//! The layers of edge-proxy are told in ARCHITECTURE.md, and held here: a module names only what stands below it there.
//! Of other crates it says what each module is for.

use super::files;
use anyhow::Result;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// Crates whose modules are layers.
const LAYERED: [&str; 2] = ["edge-runtime", "edge-proxy"];

/// Where the layers of edge-proxy are told, from the top to the floor: a row of the table below this title is a layer.
const LAYERS: (&str, &str) = ("ARCHITECTURE.md", "### Inside edge-proxy");

/// Where it is told what modules are for, and the crates of which all modules are named there.
const PLACES: (&str, &str) = ("ARCHITECTURE.md", "## Where a line belongs");
const PLACED: [&str; 4] = ["edge-ir", "edge-translate", "edge-xds", "edge-runtime"];
/// What stands in no row: what tests have in common.
const OF_TESTS: &str = "sample";

type Graph = BTreeMap<String, BTreeSet<String>>;

/// Says which modules stand in a circle.
pub(super) fn check(root: &Path, findings: &mut Vec<String>) -> Result<()> {
    for name in LAYERED {
        let source = root.join(name).join("src");
        if let Some(circle) = circle(&graph(&source)?) {
            findings.push(format!(
                "{name}/src/lib.rs:1: modules in a circle: {}",
                circle.join(" → ")
            ));
        }
    }
    let text = fs::read_to_string(root.join(LAYERS.0))?;
    for name in PLACED {
        let named = placed(&text, name);
        let modules = graph(&root.join(name).join("src"))?.into_keys();
        let missing = modules.filter(|module| !named.contains(module.as_str()) && module != OF_TESTS);
        findings.extend(missing.map(|module| format!("{}:1: {name}: `{module}` has no place", PLACES.0)));
    }
    let layers = layers(&text);
    let misplaced = misplaced(&graph(&root.join("edge-proxy/src"))?, &layers);
    findings.extend(
        misplaced
            .iter()
            .map(|finding| format!("{}:1: edge-proxy: {finding}", LAYERS.0)),
    );
    Ok(())
}

/// The layers that a document tells, the highest first.
fn layers(document: &str) -> Vec<Vec<&str>> {
    let table = document.split(LAYERS.1).nth(1).unwrap_or_default();
    let lines = table.lines().skip_while(|line| !line.starts_with("| `"));
    let rows = lines.take_while(|line| line.starts_with("| `"));
    rows.map(|row| {
        let first = row.split('|').nth(1).unwrap_or_default();
        first.split('`').skip(1).step_by(2).collect()
    })
    .collect()
}

/// The names in the rows of a crate, those of its folders and files included.
fn placed<'a>(document: &'a str, crate_name: &str) -> BTreeSet<&'a str> {
    let section = document.split(PLACES.1).nth(1).unwrap_or_default();
    let section = section.split("\n## ").next().unwrap_or_default();
    let source = format!("{crate_name}/src/");
    let mut is_of_crate = false;
    let mut named = BTreeSet::new();
    for row in section.lines().filter(|line| line.starts_with("| ")) {
        if !row.starts_with("| …") {
            is_of_crate = row.starts_with(&format!("| `{source}"));
        }
        let names = row.split('`').skip(1).step_by(2).filter(|_| is_of_crate);
        named.extend(names.filter_map(|name| {
            let inner = name.strip_prefix(&source).unwrap_or(name);
            let first = inner.split('/').next()?;
            Some(first.strip_suffix(".rs").unwrap_or(first))
        }));
    }
    named
}

/// What doesn't stand where the layers say.
fn misplaced(graph: &Graph, layers: &[Vec<&str>]) -> Vec<String> {
    let place = |module: &str| layers.iter().position(|layer| layer.contains(&module));
    let mut findings = Vec::new();
    for (module, names) in graph {
        let Some(own) = place(module) else {
            findings.push(format!("`{module}` is in no layer"));
            continue;
        };
        let above = names
            .iter()
            .filter(|name| place(name).is_some_and(|other| other <= own));
        findings.extend(above.map(|name| format!("`{module}` names `{name}`, which isn't below it")));
    }
    let told = layers.iter().flatten().filter(|module| !graph.contains_key(**module));
    findings.extend(told.map(|module| format!("`{module}` is a layer and no module")));
    findings
}

/// Which top module names which others.
fn graph(source: &Path) -> Result<Graph> {
    let mut graph = Graph::new();
    let sources = files(source)?.into_iter();
    for path in sources.filter(|path| path.extension().is_some_and(|extension| extension == "rs")) {
        let inner = path.strip_prefix(source).unwrap_or(&path);
        let top = inner
            .iter()
            .next()
            .map(|part| part.to_string_lossy())
            .unwrap_or_default();
        let module = top.strip_suffix(".rs").unwrap_or(&top);
        let is_test = inner.iter().any(|part| part == "tests.rs" || part == "tests");
        if !is_test && !["lib", "main"].contains(&module) {
            let names = names(&fs::read_to_string(&path)?);
            graph.entry(module.to_owned()).or_default().extend(names);
        }
    }
    let modules: BTreeSet<String> = graph.keys().cloned().collect();
    for (module, names) in &mut graph {
        names.retain(|name| name != module && modules.contains(name));
    }
    Ok(graph)
}

/// What stands behind `crate::` in the product's part of a file.
fn names(text: &str) -> BTreeSet<String> {
    let product = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text);
    let lines = product.lines().filter(|line| !line.trim_start().starts_with("//"));
    let code = lines.collect::<Vec<_>>().join("\n");
    code.split("crate::").skip(1).flat_map(first_names).collect()
}

/// The first parts of the paths of a `use` tree: one, or those in its outermost braces.
fn first_names(tree: &str) -> Vec<String> {
    let name = |text: &str| -> String {
        let is_part = |c: &char| c.is_alphanumeric() || *c == '_';
        text.trim_start().chars().take_while(is_part).collect()
    };
    let Some(inside) = tree.strip_prefix('{') else {
        return vec![name(tree)];
    };
    let mut depth = 1;
    let mut found = vec![name(inside)];
    for (at, c) in inside.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 1 => break,
            '}' => depth -= 1,
            ',' if depth == 1 => found.push(name(&inside[at + 1..])),
            _ => {}
        }
    }
    found.retain(|name| !name.is_empty());
    found
}

/// A way through the graph that comes back to where it began, if there is one.
fn circle(graph: &Graph) -> Option<Vec<String>> {
    let mut done = BTreeSet::new();
    graph
        .keys()
        .find_map(|start| walk(graph, start, &mut Vec::new(), &mut done))
}

fn walk(graph: &Graph, module: &str, path: &mut Vec<String>, done: &mut BTreeSet<String>) -> Option<Vec<String>> {
    if let Some(begin) = path.iter().position(|known| known == module) {
        path.push(module.to_owned());
        return Some(path.split_off(begin));
    }
    if done.contains(module) {
        return None;
    }
    path.push(module.to_owned());
    let found = graph
        .get(module)
        .into_iter()
        .flatten()
        .find_map(|next| walk(graph, next, path, done));
    path.pop();
    done.insert(module.to_owned());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_trees_are_read_and_tests_are_not() {
        let text = "//! See [`crate::prose`].\nuse crate::{\n    Error,\n    a::{self, deep::Thing},\n    b,\n};\n\
                    fn f() { crate::c::g(); }\n#[cfg(test)]\nmod tests {\n    use crate::d;\n}\n";
        assert_eq!(names(text), ["Error", "a", "b", "c"].map(str::to_owned).into());
    }

    fn graph(edges: &[(&str, &str)]) -> Graph {
        let mut graph = Graph::new();
        for (from, to) in edges {
            graph.entry((*from).to_owned()).or_default().insert((*to).to_owned());
        }
        graph
    }

    #[test]
    fn a_module_names_only_what_stands_below_it() {
        let document = "# Title\n### Inside edge-proxy\n\nText.\n\n| layer | what |\n|---|---|\n| `a` | top: `z` |\n\
                        | `b`, `c` | |\n\n| `d` | another table |\n";
        let layers = layers(document);
        assert_eq!(layers, [vec!["a"], vec!["b", "c"]]);
        let mut below = graph(&[("a", "b"), ("a", "c")]);
        below.extend(["b", "c"].map(|module| (module.to_owned(), BTreeSet::new())));
        assert!(misplaced(&below, &layers).is_empty());
        let told = misplaced(&graph(&[("b", "c"), ("c", "a"), ("d", "b")]), &layers);
        assert_eq!(
            told,
            [
                "`b` names `c`, which isn't below it",
                "`c` names `a`, which isn't below it",
                "`d` is in no layer",
                "`a` is a layer and no module"
            ]
        );
    }

    #[test]
    fn rows_name_the_modules_of_a_crate() {
        let document = "# Title\n## Where a line belongs\n\n| folder | subject |\n|---|---|\n| `a/src/` | `one`: `two/x` |\n\
                        | … `three` | more |\n| `a/src/four.rs` | |\n| `b/src/` | `five` |\n| … `six` | |\n\n## Next\n\n| `a/src/seven` | |\n";
        assert_eq!(placed(document, "a"), ["", "one", "two", "three", "four"].into());
    }

    #[test]
    fn a_circle_is_told_with_its_way() {
        assert_eq!(circle(&graph(&[("a", "b"), ("a", "c"), ("b", "c")])), None);
        let way = circle(&graph(&[("a", "b"), ("b", "c"), ("c", "b")])).unwrap();
        assert_eq!(way.join(" → "), "b → c → b");
    }
}
