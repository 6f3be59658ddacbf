//! Data that a message carries or names.

use std::io;
use std::path::{Path, PathBuf};

use envoy_types::pb::envoy::config::core::v3::DataSource;
use envoy_types::pb::envoy::config::core::v3::data_source::Specifier;

use crate::compile::field::{At, Rejection};

/// Reads files. A trait, so that compiling stays testable without a disk.
pub trait Files: std::fmt::Debug + Send {
    /// The content of a file.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;
    /// The value of an environment variable.
    fn variable(&self, name: &str) -> Option<String>;
}

/// The disk.
#[derive(Debug)]
pub struct Disk;

impl Files for Disk {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        std::fs::read(path)
    }

    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }
}

/// The bytes of a data source.
pub fn bytes(at: &At<'_>, source: &DataSource, files: &dyn Files) -> Result<Vec<u8>, Rejection> {
    // `watched_directory` only says where changes come from; files are read again whenever the resource is compiled.
    match &source.specifier {
        Some(Specifier::InlineBytes(bytes)) => Ok(bytes.clone()),
        Some(Specifier::InlineString(text)) => Ok(text.clone().into_bytes()),
        Some(Specifier::Filename(path)) => files
            .read(Path::new(path))
            .map_err(|error| at.error(format!("cannot read {path}: {error}"))),
        Some(Specifier::EnvironmentVariable(name)) => files
            .variable(name)
            .map(String::into_bytes)
            .ok_or_else(|| at.error(format!("environment variable {name} is not set"))),
        None => Err(at.error("is empty")),
    }
}

/// The system's trusted roots in PEM, from the first place that has them.
pub fn system_roots(files: &dyn Files) -> Option<Vec<u8>> {
    const PLACES: [&str; 5] = [
        "/etc/ssl/certs/ca-certificates.crt",
        "/etc/pki/tls/certs/ca-bundle.crt",
        "/etc/ssl/ca-bundle.pem",
        "/etc/ssl/cert.pem",
        "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    ];
    PLACES.iter().map(PathBuf::from).find_map(|path| files.read(&path).ok())
}
