//! Filters of native modules, which the EdgeProxy of the fleet lists.

use super::{Allowed, EntryPosition, Read};
use crate::{
    api::{
        edge_proxy::{DynamicModule, DynamicModuleSourceType},
        extension::ModuleFilter,
    },
    engine::reader::Reader,
    name::OutsideService,
};
use edge_ir::{
    Download, FilterId, FilterInstance, FilterKind, FilterSettings, ModuleSource, NativeFilter, NativeModule,
};
use serde_json::Value;
use std::sync::Arc;

/// A filter, before it is known what module it is of.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct UnresolvedFilter {
    id: FilterId,
    spec: ModuleFilter,
}

pub(super) fn read(_: &Reader<'_>, place: EntryPosition<'_>, entry: &Value) -> Result<Read, Arc<str>> {
    let id = FilterId {
        kind: FilterKind::DynamicModules,
        owner: place.owner(),
    };
    let spec = place.parse(entry)?;
    Ok(Read::Native(Arc::new(UnresolvedFilter { id, spec })))
}

impl UnresolvedFilter {
    /// The filter, of a module that the fleet may load, and whom a module that must be fetched is asked of.
    pub(super) fn among(&self, allowed: &Allowed) -> Result<(FilterInstance, Option<OutsideService>), Arc<str>> {
        let name = &*self.spec.name;
        let module = allowed.modules.iter().find(|module| &*module.name == name);
        let module = module.ok_or_else(|| {
            Arc::from(format!(
                "DynamicModule: dynamic module \"{name}\" is not registered in the EdgeProxy dynamicModules allowlist."
            ))
        })?;
        let (source, outside) = source(module).map_err(|why| {
            Arc::from(format!(
                "DynamicModule: dynamic module \"{name}\" can't be loaded: {why}."
            ))
        })?;
        // A proxy refuses a whole chain with a filter that would stand in place of the last one, which sends requests
        // on.
        if self.spec.terminal_filter == Some(true) {
            return Err(Arc::from(format!(
                "DynamicModule: terminalFilter of \"{name}\" is not supported by this version: the filter that sends \
                 requests to backends is always the last of a chain."
            )));
        }
        let filter = NativeFilter {
            module: NativeModule {
                name: name.into(),
                source,
                stays: module.do_not_close,
                is_global: module.load_globally,
            },
            filter: self.spec.filter_name.as_deref().unwrap_or_default().into(),
            config: self.spec.config.as_ref().map(|config| config.to_string().into()),
        };
        let instance = FilterInstance {
            id: self.id.clone(),
            settings: FilterSettings::Native(Arc::new(filter)),
        };
        Ok((instance, outside))
    }
}

fn source(module: &DynamicModule) -> Result<(ModuleSource, Option<OutsideService>), &'static str> {
    let source = &module.source;
    match (&source.r#type, &source.local, &source.remote) {
        (DynamicModuleSourceType::Local, Some(local), None) => match local.path.starts_with('/') {
            true => Ok((ModuleSource::File((&*local.path).into()), None)),
            false => Err("the path of a file must be absolute"),
        },
        (DynamicModuleSourceType::Remote, None, Some(remote)) => {
            let is_digest = remote.sha256.len() == 64 && remote.sha256.bytes().all(|b| b.is_ascii_hexdigit());
            if !is_digest {
                return Err("sha256 must be 64 hexadecimal digits");
            }
            let at = OutsideService::at(&remote.url)?;
            let download = Download {
                url: (&*remote.url).into(),
                sha256: (&*remote.sha256).into(),
                cluster: at.cluster(""),
            };
            Ok((ModuleSource::Download(download), Some(at)))
        }
        _ => Err("exactly one of local or remote must be set with correct type"),
    }
}
