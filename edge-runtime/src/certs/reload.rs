//! The server's side of mutual TLS, following its files.
//!
//! Files are looked at when a proxy connects, which is rare: three `stat` calls a handshake instead of a watcher, and
//! no moment at which a rotated certificate is not yet known. A set that can't be used is reported once and the last
//! good one keeps serving.

use super::{TlsFiles, unusable};
use crate::{Error, error::describe};
use rustls::{
    RootCertStore, ServerConfig,
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use std::{fs, os::unix::fs::MetadataExt as _, path::Path, sync::Arc};

/// The server's TLS settings as of the files.
#[derive(Debug)]
pub struct ServerTls {
    files: TlsFiles,
    config: Arc<ServerConfig>,
    /// What the files looked like when `config` was read, or when reading them failed last.
    seen: Option<[Stamp; 3]>,
}

/// What tells one version of a file from the next, replaced ones included.
type Stamp = (u64, u64, i64, i64);

impl ServerTls {
    /// Reads the files for the first time.
    pub fn read(files: TlsFiles) -> Result<Self, Error> {
        let seen = stamps(&files);
        let config = Arc::new(load(&files)?);
        Ok(Self { files, config, seen })
    }

    /// The settings for the next handshake.
    pub fn current(&mut self) -> Arc<ServerConfig> {
        let now = stamps(&self.files);
        if now.is_some() && now != self.seen {
            match load(&self.files) {
                Ok(config) => {
                    self.config = Arc::new(config);
                    tracing::info!(certificate = %self.files.certificate.display(), "certificate was reloaded");
                }
                Err(error) => tracing::error!(%error, "the new certificate can't be used; the last good one stays"),
            }
            self.seen = now;
        }
        Arc::clone(&self.config)
    }
}

/// `None` while a file is missing, as happens in the middle of a rotation.
fn stamps(files: &TlsFiles) -> Option<[Stamp; 3]> {
    let stamp = |path: &Path| {
        let meta = fs::metadata(path).ok()?;
        Some((meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec()))
    };
    Some([stamp(&files.certificate)?, stamp(&files.key)?, stamp(&files.authority)?])
}

fn load(files: &TlsFiles) -> Result<ServerConfig, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = PrivateKeyDer::from_pem_slice(&read(&files.key)?)
        .map_err(|error| unusable(&files.key, format!("holds no private key in PEM: {error}")))?;
    let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(&files.certificate, error.to_string()))?
        .with_client_cert_verifier(client_verifier(files, provider)?)
        .with_single_cert(certificates(&files.certificate)?, key);
    let mut config = config.map_err(|error| {
        unusable(
            &files.certificate,
            format!("can't be used with {}: {error}", files.key.display()),
        )
    })?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}

/// A certificate that our authority didn't sign doesn't get through the handshake. None does: what a peer must show is
/// not the same in every mode, and a stream that is refused can say why.
fn client_verifier(
    files: &TlsFiles,
    provider: Arc<rustls::crypto::CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, Error> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&files.authority)? {
        roots
            .add(certificate)
            .map_err(|error| unusable(&files.authority, format!("can't be used as an authority: {error}")))?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .allow_unauthenticated()
        .build()
        .map_err(|error| unusable(&files.authority, format!("can't be used as an authority: {error}")))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let list: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read(path)?).collect();
    match list {
        Ok(list) if !list.is_empty() => Ok(list),
        Ok(_) => Err(unusable(path, "holds no certificate in PEM")),
        Err(error) => Err(unusable(path, format!("holds no certificate in PEM: {error}"))),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let remedy = "run `edgegateway certgen --local`, or mount the certificate there";
    fs::read(path).map_err(|error| unusable(path, format!("can't be read: {}; {remedy}", describe(&error))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certs::{CONTROLLER, Existing, ensure};

    #[test]
    fn rotated_files_are_followed_and_broken_ones_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let make = || ensure(folder.path(), "ns", "cluster.local", Existing::Overwrite).unwrap();
        make();
        let files = TlsFiles::below(folder.path(), CONTROLLER);
        let mut tls = ServerTls::read(files.clone()).unwrap();
        let first = tls.current();
        assert!(Arc::ptr_eq(&first, &tls.current()), "nothing changed");
        make();
        let second = tls.current();
        assert!(!Arc::ptr_eq(&first, &second), "new files are read");
        fs::write(&files.certificate, "no PEM at all").unwrap();
        assert!(Arc::ptr_eq(&second, &tls.current()), "the last good one stays");
        make();
        assert!(
            !Arc::ptr_eq(&second, &tls.current()),
            "and is replaced by the next good one"
        );
    }

    #[test]
    fn a_missing_file_is_named_with_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let error = ServerTls::read(TlsFiles::below(folder.path(), CONTROLLER))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("edge-gateway/tls.key: can't be read: it doesn't exist; run `edgegateway certgen"),
            "{error}"
        );
    }
}
