//! Wasm modules that fleets use: kept in memory as long as translation asks for them, and served to proxies over HTTPS
//! by the digest of their bytes, which only those know who were told of it.
//!
//! The server begins with the first module, so that a controller without any needs no port for them, and a module that
//! can't be served is one that can't be had.

use crate::{
    certs::{ServerTls, TlsFiles},
    http,
    task::Task,
};
use bytes::Bytes;
use edge_translate::WantedModule;
use sha2::{Digest as _, Sha256};
use std::{collections::BTreeMap, net::SocketAddr, sync::Arc};
use tokio::sync::{Mutex, watch};

mod server;

/// Most bytes of all modules together.
const MOST: usize = 256 << 20;
/// So many modules are kept of one that becomes another: proxies may still be about to fetch the one before.
const VERSIONS: usize = 2;

/// SHA-256 of bytes, in lowercase hexadecimal digits.
pub fn digest(bytes: &[u8]) -> Arc<str> {
    format!("{:x}", Sha256::digest(bytes)).into()
}

/// The modules, and their server.
#[derive(Clone)]
pub struct Modules(Arc<Shared>);

struct Shared {
    address: SocketAddr,
    certificate: TlsFiles,
    kept: watch::Sender<Kept>,
    server: Mutex<Option<Task>>,
}

/// Modules by what asks for them, the latest first, each with its digest.
type Kept = BTreeMap<Arc<WantedModule>, Vec<(Arc<str>, Bytes)>>;

impl Modules {
    /// No modules, to be served at an address with the certificate in these files.
    pub fn new(address: SocketAddr, certificate: TlsFiles) -> Self {
        Self(Arc::new(Shared {
            address,
            certificate,
            kept: watch::Sender::default(),
            server: Mutex::default(),
        }))
    }

    /// Keeps a module and serves it, or says why that can't be.
    pub async fn put(&self, wanted: &Arc<WantedModule>, sha256: &Arc<str>, bytes: Bytes) -> Result<(), String> {
        self.serve().await?;
        let is_kept = self.0.kept.send_if_modified(|kept| {
            let others = kept.iter().filter(|(other, _)| *other != wanted);
            let others = others.flat_map(|(_, modules)| modules);
            let held: usize = others.map(|(_, bytes)| bytes.len()).sum();
            if held + bytes.len() > MOST {
                return false;
            }
            let versions = kept.entry(Arc::clone(wanted)).or_default();
            versions.retain(|(known, _)| known != sha256);
            versions.insert(0, (Arc::clone(sha256), bytes));
            versions.truncate(VERSIONS);
            true
        });
        match is_kept {
            true => Ok(()),
            false => Err(format!("all modules together have more than {} MiB", MOST >> 20)),
        }
    }

    /// Forgets modules that nobody asks for.
    pub fn retain(&self, is_asked: impl Fn(&Arc<WantedModule>) -> bool) {
        self.0
            .kept
            .send_modify(|kept| kept.retain(|wanted, _| is_asked(wanted)));
    }

    /// Begins to serve, unless that has begun.
    async fn serve(&self) -> Result<(), String> {
        let mut server = self.0.server.lock().await;
        if server.as_ref().is_some_and(Task::is_running) {
            return Ok(());
        }
        let told = |error: crate::Error| format!("proxies can't be given it: {error}");
        let tls = ServerTls::read(self.0.certificate.clone()).map_err(told)?;
        let remedy = "free that port, or choose another address with --wasm-address";
        let listener = http::listen(self.0.address, "Wasm modules", remedy)
            .await
            .map_err(told)?;
        tracing::info!(address = %self.0.address, "Wasm modules are served");
        let kept = self.0.kept.subscribe();
        *server = Some(Task::spawn("Wasm modules", move |stop| {
            server::serve(listener, tls, kept, stop)
        }));
        Ok(())
    }
}

/// The module with a digest.
fn find(kept: &Kept, sha256: &str) -> Option<Bytes> {
    let mut modules = kept.values().flatten();
    let (_, bytes) = modules.find(|(known, _)| **known == *sha256)?;
    Some(bytes.clone())
}
