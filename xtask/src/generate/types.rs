//! Makes the Rust of `edge-envoy` from that of `envoy-types`, which prost-build wrote: the packages that the workspace
//! speaks and those that these name, without comments. What is left out is the greater part of what a compiler has to
//! do.

use super::compile;
use anyhow::{Context, Result};
use prost::Message as _;
use prost_types::{DescriptorProto, FileDescriptorSet};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::Path,
};

/// The packages, one a line.
const PACKAGES: &str = include_str!("packages.txt");

/// Clients and servers are for programs with sockets; messages alone run anywhere.
const SERVICES: &str = "#[cfg(feature = \"grpc\")]";

/// Names that Rust keeps for itself.
const KEYWORDS: [&str; 1] = ["type"];

/// The generated files by their names, made from the folder of `envoy-types`.
pub(super) fn files(source: &Path) -> Result<Vec<(String, Vec<u8>)>> {
    let set = compile::full_set(&source.join("proto"))?;
    let set = FileDescriptorSet::decode(set.as_slice())?;
    let wanted = PACKAGES.lines().map(str::to_owned).filter(|line| !line.is_empty());
    let packages = closure(wanted.collect(), &references(&set));
    let mut files = vec![("mod.rs".to_owned(), modules(&packages).into_bytes())];
    for package in &packages {
        let original = source.join(format!("src/generated/{}.rs", identifiers(package).join(".")));
        let text = fs::read_to_string(&original).with_context(|| format!("{} can't be read", original.display()))?;
        files.push((format!("{package}.rs"), prune(&text).into_bytes()));
    }
    Ok(files)
}

/// Which packages the messages and services of a package name.
fn references(set: &FileDescriptorSet) -> BTreeMap<String, BTreeSet<String>> {
    let mut packages = BTreeMap::<String, BTreeSet<String>>::new();
    let mut names = Vec::new();
    for file in &set.file {
        packages.entry(file.package().to_owned()).or_default();
        let mut named = BTreeSet::new();
        file.message_type
            .iter()
            .for_each(|message| collect(message, &mut named));
        for method in file.service.iter().flat_map(|service| &service.method) {
            named.extend([method.input_type(), method.output_type()]);
        }
        names.extend(named.into_iter().map(|name| (file.package(), name)));
    }
    let known: BTreeSet<String> = packages.keys().cloned().collect();
    for (package, name) in names {
        if let Some(other) = package_of(name, &known) {
            packages.entry(package.to_owned()).or_default().insert(other.to_owned());
        }
    }
    packages
}

fn collect<'m>(message: &'m DescriptorProto, into: &mut BTreeSet<&'m str>) {
    into.extend(message.field.iter().filter_map(|field| field.type_name.as_deref()));
    message.nested_type.iter().for_each(|nested| collect(nested, into));
}

/// The package of a full name, `.a.b.Message.Nested`.
fn package_of<'n>(name: &'n str, known: &BTreeSet<String>) -> Option<&'n str> {
    let mut package = name.strip_prefix('.')?;
    while !known.contains(package) {
        package = &package[..package.rfind('.')?];
    }
    Some(package)
}

fn closure(wanted: Vec<String>, references: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<String> {
    let mut open = wanted;
    let mut packages = BTreeSet::new();
    while let Some(package) = open.pop() {
        if packages.insert(package.clone()) {
            open.extend(references.get(&package).into_iter().flatten().cloned());
        }
    }
    packages
}

/// What the parts of a package are called in Rust.
fn identifiers(package: &str) -> Vec<String> {
    let raw = |part: &str| match KEYWORDS.contains(&part) {
        true => format!("r#{part}"),
        false => part.to_owned(),
    };
    package.split('.').map(raw).collect()
}

/// A module for each part of a package, and in the last one its file.
fn modules(packages: &BTreeSet<String>) -> String {
    let mut tree = Tree::default();
    for package in packages {
        let mut at = &mut tree;
        for part in identifiers(package) {
            at = at.within.entry(part).or_default();
        }
        at.file = Some(format!("{package}.rs"));
    }
    let mut out = String::from("// Made by `cargo xtask gen`.\n");
    tree.write(0, &mut out);
    out
}

#[derive(Default)]
struct Tree {
    file: Option<String>,
    within: BTreeMap<String, Tree>,
}

impl Tree {
    fn write(&self, depth: usize, out: &mut String) {
        let indent = "    ".repeat(depth);
        if let Some(file) = &self.file {
            // Writing to a text can't fail.
            let _ = writeln!(out, "{indent}include!(\"{file}\");");
        }
        for (name, tree) in &self.within {
            let _ = writeln!(out, "{indent}pub mod {name} {{");
            tree.write(depth + 1, out);
            let _ = writeln!(out, "{indent}}}");
        }
    }
}

/// Takes out comments, and what needs a transport; puts services behind their feature.
fn prune(text: &str) -> String {
    let mut out = String::with_capacity(text.len() / 2);
    let mut skipping = false;
    for line in text.lines() {
        skipping |= line.ends_with("<tonic::transport::Channel> {");
        let is_service = line.starts_with("pub mod ") && (line.ends_with("_client {") || line.ends_with("_server {"));
        if is_service {
            out.push_str(SERVICES);
            out.push('\n');
        }
        if !skipping && !line.trim_start().starts_with("///") {
            out.push_str(line);
            out.push('\n');
        }
        skipping &= line != "    }";
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_transports_go_and_services_have_a_feature() {
        let text = "/// A.\npub struct A {\n    /// B.\n    pub b: u8,\n}\n/// C.\npub mod c_client {\n    impl \
                    C<tonic::transport::Channel> {\n        x\n    }\n    impl<T> C<T> {\n    }\n}\n";
        let pruned = "pub struct A {\n    pub b: u8,\n}\n#[cfg(feature = \"grpc\")]\npub mod c_client {\n    impl<T> C<T> \
                      {\n    }\n}\n";
        assert_eq!(prune(text), pruned);
    }

    #[test]
    fn packages_bring_those_that_they_name_and_stand_in_modules() {
        let of = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        let references = BTreeMap::from([
            ("a.v1".to_owned(), of(&["b.type", "a.v1"])),
            ("b.type".to_owned(), of(&["c"])),
            ("d".to_owned(), of(&["a.v1"])),
        ]);
        let packages = closure(vec!["a.v1".to_owned()], &references);
        assert_eq!(packages, of(&["a.v1", "b.type", "c"]));
        let modules = modules(&packages);
        assert!(
            modules.contains("pub mod b {\n    pub mod r#type {\n        include!(\"b.type.rs\");\n"),
            "{modules}"
        );
        assert_eq!(package_of(".a.v1.M.N", &packages), Some("a.v1"));
    }
}
