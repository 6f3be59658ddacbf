//! What a fleet's proxies show the controller: a certificate of their own, in a folder that is the fleet's alone.
//!
//! The files that lead a proxy to it are followed by whoever reads them. So a process that was started with others,
//! by an earlier version of the controller too, is given new ones while it runs and isn't replaced for that.

use super::{HostSettings, bootstrap::text, launch::Start};
use crate::{
    certs::{FleetIdentity, Outcome, PROXY, TlsFiles, ensure_fleet},
    error::describe,
    files::replace,
};
use edge_ir::Infra;
use edge_xds::bootstrap::{certificate_file, trusted_ca_file};
use jiff::Timestamp;
use serde_json::Value;
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Folder of what proves identities, in the runtime folder.
const FOLDER: &str = "fleets";
/// The name that the controller's certificate must have, whatever address it is reached at.
const SERVER_NAME: &str = "edge-gateway";

fn folder(settings: &HostSettings, infra: &Infra) -> PathBuf {
    settings.folders.runtime_dir.join(FOLDER).join(&*infra.name)
}

/// Sees to it that a fleet's proxies have a certificate that is good for a while.
pub(super) fn ensure(settings: &HostSettings, infra: &Infra) -> Result<(), String> {
    let identity = FleetIdentity {
        fleet: &infra.key,
        name: &infra.name,
        namespace: &settings.issuer.namespace,
    };
    let folder = folder(settings, infra);
    let outcome = ensure_fleet(&settings.issuer.certificates, &folder, &identity, Timestamp::now());
    match outcome.map_err(|error| error.to_string())? {
        Outcome::Kept => {}
        Outcome::Made => tracing::debug!(fleet = %infra.key, "the fleet's proxies have a certificate"),
        Outcome::Renewed(why) => tracing::info!(fleet = %infra.key, why, "the certificate of the proxies was renewed"),
    }
    Ok(())
}

/// Leads a process to its certificate and to those whom it may trust, if its files don't yet.
pub(super) fn lead(settings: &HostSettings, infra: &Infra, start: &Start) -> Result<(), String> {
    let own = TlsFiles::within(&folder(settings, infra));
    let authority = TlsFiles::below(&settings.issuer.certificates, PROXY).authority;
    let [_, certificate, trusted] = &start.files;
    put(
        certificate,
        &certificate_file(&text(&own.certificate)?, &text(&own.key)?),
    )?;
    put(trusted, &trusted_ca_file(&text(&authority)?, &[SERVER_NAME]))
}

fn put(path: &Path, content: &Value) -> Result<(), String> {
    let text = content.to_string();
    match fs::read_to_string(path) {
        Ok(there) if there == text => Ok(()),
        // By a rename, which is what Envoy watches for.
        _ => replace(path, text.as_bytes(), 0o600)
            .map_err(|error| format!("can't write {}: {}", path.display(), describe(&error))),
    }
}

/// Removes what proved the identity of fleets that are gone.
pub(super) fn prune(runtime_dir: &Path, names: &BTreeSet<Arc<str>>) {
    let all = runtime_dir.join(FOLDER);
    for entry in fs::read_dir(&all).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(|name| names.contains(name)) {
            continue;
        }
        if let Err(error) = fs::remove_dir_all(entry.path()) {
            tracing::warn!(path = %entry.path().display(), %error, "can't remove the certificate of a fleet that is gone");
        }
    }
    if names.is_empty() {
        // With something left in it, it stays.
        let _ = fs::remove_dir(all);
    }
}
