//! Filters of Wasm modules.
//!
//! What module there is behind a URL or in an image is a fact of the world outside, asked for with all that fetching it
//! takes. Proxies get it from the controller, by the digest of its bytes. While nobody has told of it, the entry waits.

use super::{EntryPosition, Read};
use crate::{
    api::{
        Kind,
        extension::{PullPolicy, Wasm, WasmCode, WasmCodeTls, WasmCodeType},
        security::PolicyRef,
    },
    engine::reader::Reader,
    fact::{self, FoundModule, ImageReference, Module, ModuleLook, ModuleSource, WantedModule},
    name::outside,
    own_host,
    phase::{
        authorities,
        listeners::sockets,
        policies::traffic::Problems,
        reference::{self, Referent, Referrer, SecretRefusal},
    },
    settings::Platform,
};
use edge_ir::{Failing, FilterId, FilterInstance, FilterKind, FilterSettings, SecretBytes, WasmFilter};
use serde_json::Value;
use std::{collections::BTreeSet, sync::Arc};

const AREA: &str = "Wasm";
/// The key of what registries are shown, in a Secret of the type that Kubernetes has for it.
const PULL_SECRET: &str = ".dockerconfigjson";

pub(super) fn read(reader: &Reader<'_>, place: EntryPosition<'_>, entry: &Value) -> Result<Read, Arc<str>> {
    let spec: Wasm = place.parse(entry)?;
    place.checked(|problems| {
        let environment = environment(&spec, problems);
        let wanted = wanted(reader, &spec.code, problems)?;
        // Nothing is fetched for an entry that can't run.
        if !problems.is_empty() {
            return None;
        }
        let (source, sha256) = (wanted.source.clone(), wanted.sha256.clone());
        let module = match reader.module(wanted) {
            Some(FoundModule::Here(module)) => module,
            Some(FoundModule::Failed(why)) => {
                problems.add(AREA, format_args!("module {source} can't be had: {why}"));
                return None;
            }
            None => {
                return Some(Read::Awaited(
                    format!("{AREA}: module {source} is being fetched.").into(),
                ));
            }
        };
        check(&source, sha256.as_deref(), module, problems);
        let owner = place.owner();
        let filter = WasmFilter {
            name: spec
                .name
                .as_deref()
                .filter(|name| !name.is_empty())
                .map_or(Arc::clone(&owner), Into::into),
            root_id: spec.root_id.as_deref().unwrap_or_default().into(),
            module: sockets::download(reader, &module.sha256),
            config: spec.config.as_ref().map(|config| config.to_string().into()),
            environment,
            failing: match spec.fail_open {
                Some(true) => Failing::Open,
                Some(false) | None => Failing::Closed,
            },
        };
        Some(Read::Wasm(FilterInstance {
            id: FilterId {
                kind: FilterKind::Wasm,
                owner,
            },
            settings: FilterSettings::Wasm(Arc::new(filter)),
        }))
    })
}

/// Whether a module is the one that the policy means.
fn check(source: &ModuleSource, sha256: Option<&str>, module: &Module, problems: &mut Problems) {
    let found = match source {
        ModuleSource::Url(_) => Some(&*module.sha256),
        ModuleSource::Image(_) => module.image.as_deref(),
    };
    if let Some(wanted) = sha256
        && found != Some(wanted)
    {
        let found = found.unwrap_or("none");
        problems.add(
            AREA,
            format_args!("module downloaded from {source} has checksum {found}, which does not match: {wanted}"),
        );
    }
}

/// Variables that the module sees. A proxy refuses one that stands there twice.
fn environment(spec: &Wasm, problems: &mut Problems) -> Vec<Arc<str>> {
    let keys = spec.env.iter().flat_map(|env| &env.host_keys);
    let mut seen = BTreeSet::new();
    for key in keys.clone() {
        if key.is_empty() || key.contains(['=', '\0']) {
            problems.add(AREA, format_args!("{key:?} is not the name of an environment variable"));
        } else if !seen.insert(key) {
            problems.add(AREA, format_args!("env.hostKeys names {key} twice"));
        }
    }
    keys.map(|key| (&**key).into()).collect()
}

/// An image that a controller may fetch, or why it may not.
fn image_of(url: &str, platform: Platform) -> Result<ImageReference, String> {
    let image = ImageReference::parse(url)?;
    match own_host::host_flaw(image.host(), platform) {
        Some(flaw) => Err(format!("its host {} {flaw}", image.host())),
        None => Ok(image),
    }
}

/// The module that an entry asks for.
fn wanted(reader: &Reader<'_>, code: &WasmCode, problems: &mut Problems) -> Option<WantedModule> {
    match (&code.r#type, &code.http, &code.image) {
        (WasmCodeType::Http, Some(http), None) => {
            if let Err(why) = outside::check_fetched(&http.url, reader.settings().platform) {
                problems.add(AREA, format_args!("invalid URL {}: {why}", http.url));
            }
            let sha256 = digest(http.sha256.as_deref(), problems);
            Some(WantedModule {
                source: ModuleSource::Url((&*http.url).into()),
                look: look(code, sha256.is_some(), ModuleLook::Once, problems),
                sha256,
                authorities: trusted(reader, http.tls.as_ref(), problems),
                credentials: None,
            })
        }
        (WasmCodeType::Image, None, Some(image)) => {
            let named = match image_of(&image.url, reader.settings().platform) {
                Ok(named) => Some(named),
                Err(why) => {
                    problems.add(AREA, format_args!("invalid image {}: {why}", image.url));
                    None
                }
            };
            let sha256 = digest(image.sha256.as_deref(), problems);
            let authorities = trusted(reader, image.tls.as_ref(), problems);
            let credentials = image
                .pull_secret_ref
                .as_ref()
                .and_then(|reference| credentials(reader, reference, problems));
            let named = named?;
            let usual = match named.is_moving() {
                true => ModuleLook::Again,
                false => ModuleLook::Once,
            };
            Some(WantedModule {
                look: look(code, sha256.is_some(), usual, problems),
                source: ModuleSource::Image(named),
                sha256,
                authorities,
                credentials,
            })
        }
        (WasmCodeType::Other(other), _, _) => {
            problems.add(
                AREA,
                format_args!("code of type {other} is not supported, use HTTP or Image"),
            );
            None
        }
        _ => {
            problems.add(AREA, "Exactly one of http or image must be set with correct type");
            None
        }
    }
}

fn digest(text: Option<&str>, problems: &mut Problems) -> Option<Arc<str>> {
    let found = fact::sha256(text?);
    if found.is_none() {
        problems.add(AREA, "sha256 must be 64 hexadecimal digits");
    }
    found
}

/// Whether a module may become another. One that is known by its digest never does.
fn look(code: &WasmCode, is_known: bool, usual: ModuleLook, problems: &mut Problems) -> ModuleLook {
    let wanted = match &code.pull_policy {
        None => usual,
        Some(PullPolicy::Always) => ModuleLook::Again,
        Some(PullPolicy::IfNotPresent) => ModuleLook::Once,
        Some(PullPolicy::Other(other)) => {
            problems.add(AREA, format_args!("pullPolicy {other:?} is not IfNotPresent or Always"));
            usual
        }
    };
    match is_known {
        true => ModuleLook::Once,
        false => wanted,
    }
}

/// Who vouches for the server. Where that can't be told, nothing is asked.
fn trusted(reader: &Reader<'_>, tls: Option<&WasmCodeTls>, problems: &mut Problems) -> Option<Arc<str>> {
    let reference = &tls?.ca_certificate_ref;
    let to = Referent {
        group: &reference.group,
        kind: &reference.kind,
        namespace: reference.namespace.as_deref().unwrap_or(&reference.home),
        name: &reference.name,
    };
    let from = Referrer::of(Kind::EdgeExtensionPolicy, &reference.home);
    match authorities::bundle(reader, from, to) {
        Ok(bundle) => Some(bundle.into()),
        Err(unusable) => {
            problems.add(AREA, unusable.clause());
            None
        }
    }
}

/// What the registry is shown.
fn credentials(reader: &Reader<'_>, reference: &PolicyRef, problems: &mut Problems) -> Option<SecretBytes> {
    let namespace = reference.namespace.as_deref().unwrap_or(&reference.home);
    let name = &reference.name;
    let id = match reference::secret(reader, Kind::EdgeExtensionPolicy, &reference.home, &reference.secret()) {
        Ok(id) => id,
        Err(SecretRefusal::Kind) => {
            let (group, kind) = (&reference.group, &reference.kind);
            problems.add(AREA, format_args!("{group}/{kind} {name} is not a Secret"));
            return None;
        }
        Err(SecretRefusal::NotPermitted) => {
            problems.add(
                AREA,
                format_args!("ref to Secret {namespace}/{name} not permitted by any ReferenceGrant"),
            );
            return None;
        }
    };
    let Some(secret) = reader.secret(id) else {
        problems.add(AREA, format_args!("secret {namespace}/{name} does not exist"));
        return None;
    };
    let Some(found) = secret.data.get(PULL_SECRET) else {
        problems.add(AREA, format_args!("secret {namespace}/{name} has no key {PULL_SECRET}"));
        return None;
    };
    Some(SecretBytes::new(Arc::clone(found.expose())))
}
