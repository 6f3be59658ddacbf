//! Settings of the translation, as the controller would have them.

use anyhow::{Context, Result, bail};
use edge_ir::BootstrapPatch;
use edge_translate::{
    Feature, Platform, Settings,
    config::{EdgeGateway, parse, provider::ProviderType},
    load::Source,
};
use edge_xds::bootstrap::{BootstrapSettings, customise, default_bootstrap};
use std::{fs, path::Path};

/// The settings of a controller in a cluster with every optional kind switched on, so that what is shown depends on
/// the resources alone.
pub(super) fn of_a_cluster() -> Settings {
    Settings {
        platform: Platform::Cluster,
        check_bootstrap: Some(check_bootstrap),
        ..Settings::default()
    }
}

/// The settings that a controller's configuration file leads to.
pub(super) fn of_file(path: &Path) -> Result<Settings> {
    let name = path.display().to_string();
    let text = fs::read_to_string(path).with_context(|| format!("{name} can't be read"))?;
    match parse(&Source {
        name: &name,
        text: &text,
    }) {
        Ok(config) => Ok(of_config(&config)),
        Err(findings) => bail!(
            "{}",
            findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
        ),
    }
}

fn of_config(config: &EdgeGateway) -> Settings {
    let platform = match config.provider.r#type {
        // Standalone: proxies are processes of one machine.
        ProviderType::Custom => Platform::Host,
        _ => Platform::Cluster,
    };
    let backend_api = if config.extension_apis.enable_backend {
        Feature::Enabled
    } else {
        Feature::Disabled
    };
    let controller_name = config.gateway.controller_name.as_ref().into();
    Settings {
        controller_name,
        platform,
        backend_api,
        ..of_a_cluster()
    }
}

/// What the data plane's schema says about a customisation of the bootstrap.
fn check_bootstrap(patch: &BootstrapPatch) -> Result<(), String> {
    let default = default_bootstrap(&BootstrapSettings::default());
    customise(default, patch).map(drop).map_err(|error| error.to_string())
}
