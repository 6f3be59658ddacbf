//! Compiles a tree of `.proto` files to a descriptor set, in Rust alone.

use super::qualify::{Qualifying, Symbols};
use anyhow::{Context, Result};
use protox::file::{ChainFileResolver, GoogleFileResolver, IncludeFileResolver};
use std::path::{Path, PathBuf};

/// Import roots below the tree. Files of the first are compiled, the others are there to be imported.
const ROOTS: [&str; 8] = [
    "data-plane-api",
    "xds",
    "protoc-gen-validate",
    "googleapis",
    "cel-spec/proto",
    "client_model",
    "opentelemetry-proto",
    "ratelimit",
];

/// Folders of the first root whose messages appear in no configuration: they are spoken by services or logged.
const LEFT_OUT: [&str; 2] = ["envoy/service/", "envoy/data/"];

/// A `.proto` file: its name as imported, and where it lies.
type Source = (String, PathBuf);

/// The encoded descriptor set of everything that a configuration can name, with imports.
pub(super) fn descriptor_set(tree: &Path) -> Result<Vec<u8>> {
    let is_configuration = |n, name: &str| n == 0 && !LEFT_OUT.iter().any(|left_out| name.starts_with(left_out));
    compile(tree, is_configuration)
}

/// That of the whole tree.
pub(super) fn full_set(tree: &Path) -> Result<Vec<u8>> {
    compile(tree, |_, _| true)
}

/// Compiles the files that are wanted, by the number of their root and their name.
fn compile(tree: &Path, is_wanted: impl Fn(usize, &str) -> bool) -> Result<Vec<u8>> {
    let mut resolver = ChainFileResolver::new();
    resolver.add(GoogleFileResolver::new());
    let mut symbols = Symbols::default();
    let mut wanted = Vec::new();
    for (n, root) in ROOTS.iter().enumerate() {
        let root = tree.join(root);
        let mut sources = Vec::new();
        collect(&root, &root, &mut sources)?;
        sources.sort();
        for (name, path) in &sources {
            let text = std::fs::read_to_string(path).with_context(|| format!("{} can't be read", path.display()))?;
            symbols.add(&protox_parse::parse(name, &text)?);
        }
        wanted.extend(
            sources
                .into_iter()
                .map(|(name, _)| name)
                .filter(|name| is_wanted(n, name)),
        );
        resolver.add(IncludeFileResolver::new(root));
    }
    let mut compiler = protox::Compiler::with_file_resolver(Qualifying::new(resolver, symbols));
    compiler.include_imports(true).include_source_info(false);
    compiler.open_files(&wanted)?;
    Ok(compiler.encode_file_descriptor_set())
}

fn collect(root: &Path, folder: &Path, into: &mut Vec<Source>) -> Result<()> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("{} can't be read", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            collect(root, &path, into)?;
        } else if path.extension().is_some_and(|extension| extension == "proto") {
            let name = path
                .strip_prefix(root)?
                .to_str()
                .context("a file name that is not UTF-8")?;
            into.push((name.to_owned(), path));
        }
    }
    Ok(())
}
