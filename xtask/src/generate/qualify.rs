//! Writes relative type names in full before `protox` links a file.
//!
//! A relative name such as `common.tap.v3.Config` is looked up from the innermost scope outwards, among the packages
//! that a file can see. `protox` 0.10 looks among the packages of every file it has loaded, so that it stops at a scope
//! that `protoc` never considers, and fails. Envoy's tree has such names; with full names there is nothing to look up.

use prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorProto};
use protox::file::{ChainFileResolver, File, FileResolver};
use std::{collections::BTreeSet, path::Path};

/// Full names, with a leading dot, of all messages and enums of a tree.
#[derive(Default)]
pub(super) struct Symbols(BTreeSet<String>);

impl Symbols {
    /// Takes in what a file defines.
    pub(super) fn add(&mut self, file: &FileDescriptorProto) {
        let package = format!(".{}", file.package());
        for message in &file.message_type {
            self.add_message(&package, message);
        }
        for enumeration in &file.enum_type {
            self.0.insert(format!("{package}.{}", enumeration.name()));
        }
    }

    fn add_message(&mut self, scope: &str, message: &DescriptorProto) {
        let name = format!("{scope}.{}", message.name());
        for nested in &message.nested_type {
            self.add_message(&name, nested);
        }
        for enumeration in &message.enum_type {
            self.0.insert(format!("{name}.{}", enumeration.name()));
        }
        self.0.insert(name);
    }

    /// Replaces a relative name by the full one that it means in a scope; leaves alone what it doesn't know.
    fn qualify(&self, scope: &str, name: &mut Option<String>) {
        let Some(name) = name.as_mut().filter(|name| !name.starts_with('.')) else {
            return;
        };
        let mut scope = scope;
        loop {
            let candidate = format!("{scope}.{name}");
            if self.0.contains(&candidate) {
                *name = candidate;
                return;
            }
            match scope.rfind('.') {
                Some(end) => scope = &scope[..end],
                None => return,
            }
        }
    }

    fn qualify_field(&self, scope: &str, field: &mut FieldDescriptorProto) {
        self.qualify(scope, &mut field.type_name);
        self.qualify(scope, &mut field.extendee);
    }

    fn qualify_message(&self, scope: &str, message: &mut DescriptorProto) {
        let name = format!("{scope}.{}", message.name());
        for field in message.field.iter_mut().chain(&mut message.extension) {
            self.qualify_field(&name, field);
        }
        for nested in &mut message.nested_type {
            self.qualify_message(&name, nested);
        }
    }
}

/// Opens files through another resolver and hands them on with full names.
pub(super) struct Qualifying {
    inner: ChainFileResolver,
    symbols: Symbols,
}

impl Qualifying {
    /// Wraps a resolver.
    pub(super) fn new(inner: ChainFileResolver, symbols: Symbols) -> Self {
        Self { inner, symbols }
    }
}

impl FileResolver for Qualifying {
    fn resolve_path(&self, path: &Path) -> Option<String> {
        self.inner.resolve_path(path)
    }

    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        let mut file: FileDescriptorProto = self.inner.open_file(name)?.into();
        let package = format!(".{}", file.package());
        for message in &mut file.message_type {
            self.symbols.qualify_message(&package, message);
        }
        for extension in &mut file.extension {
            self.symbols.qualify_field(&package, extension);
        }
        for method in file.service.iter_mut().flat_map(|service| &mut service.method) {
            self.symbols.qualify(&package, &mut method.input_type);
            self.symbols.qualify(&package, &mut method.output_type);
        }
        Ok(File::from_file_descriptor_proto(file))
    }
}
