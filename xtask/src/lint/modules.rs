//! Which modules of a crate name which others: there must be no circle, so that each can be read, tested and moved
//! with nothing but what lies below it.
//!
//! A module is a file below `src/` with the folder of its name. Tests don't count: they may look at everything.

use super::files;
use anyhow::Result;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// Crates whose modules are layers, with those modules that name each other in a circle still: they count as one, so that
/// no further one joins them unseen.
const LAYERED: [(&str, &[&str]); 2] = [
    ("edge-runtime", &[]),
    (
        "edge-proxy",
        &[
            "access_log",
            "downstream",
            "http",
            "shared",
            "upstream",
            "worker",
        ],
    ),
];

type Graph = BTreeMap<String, BTreeSet<String>>;

/// Says which modules stand in a circle.
pub(super) fn check(root: &Path, findings: &mut Vec<String>) -> Result<()> {
    for (name, together) in LAYERED {
        let source = root.join(name).join("src");
        if let Some(circle) = circle(&joined(graph(&source)?, together)) {
            findings.push(format!(
                "{name}/src/lib.rs:1: modules in a circle: {}",
                circle.join(" → ")
            ));
        }
    }
    Ok(())
}

/// Which top module names which others.
fn graph(source: &Path) -> Result<Graph> {
    let mut graph = Graph::new();
    for path in files(source)? {
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

/// The graph with some modules as one.
fn joined(graph: Graph, together: &[&str]) -> Graph {
    let name = |module: String| match together.contains(&module.as_str()) {
        true => together.join("+"),
        false => module,
    };
    let mut joined = Graph::new();
    for (module, names) in graph {
        let module = name(module);
        let names = names.into_iter().map(name).filter(|named| *named != module);
        joined
            .entry(module.clone())
            .or_default()
            .extend(names.collect::<Vec<_>>());
    }
    joined
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

    #[test]
    fn a_circle_is_told_with_its_way() {
        let graph = |edges: &[(&str, &str)]| {
            let mut graph = Graph::new();
            for (from, to) in edges {
                graph.entry((*from).to_owned()).or_default().insert((*to).to_owned());
            }
            graph
        };
        assert_eq!(circle(&graph(&[("a", "b"), ("a", "c"), ("b", "c")])), None);
        let way = circle(&graph(&[("a", "b"), ("b", "c"), ("c", "b")])).unwrap();
        assert_eq!(way.join(" → "), "b → c → b");
        let circles = graph(&[("a", "b"), ("b", "c"), ("c", "b"), ("c", "d"), ("d", "b")]);
        assert_eq!(circle(&joined(circles.clone(), &["b", "c", "d"])), None);
        let way = circle(&joined(circles, &["b", "c"])).unwrap();
        assert_eq!(way.join(" → "), "b+c → d → b+c");
    }
}
