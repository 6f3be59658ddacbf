//! Settings of the translation, as the controller would have them.

use anyhow::{Context, Result, bail};
use edge_translate::{Platform, Settings, config::EdgeGateway, load::Source};
use edge_xds::bootstrap;
use std::{
    fs,
    io::{self, Write as _},
    path::Path,
};

/// The settings of a controller in a cluster with every optional kind switched on, so that what is shown depends on
/// the resources alone.
pub(super) fn of_a_cluster() -> Settings {
    Settings {
        platform: Platform::Cluster,
        check_bootstrap: Some(bootstrap::check),
        check_objects: Some(edge_infra::check),
        ..Settings::default()
    }
}

/// The settings that a controller's configuration file leads to.
pub(super) fn of_file(path: &Path) -> Result<Settings> {
    let name = path.display().to_string();
    let text = fs::read_to_string(path).with_context(|| format!("{name} can't be read"))?;
    let source = Source {
        name: &name,
        text: &text,
    };
    match edge_admission::configuration(&source, |_| Vec::new()) {
        Ok((config, _)) => {
            warn_of_extensions(&name, &config)?;
            Ok(Settings::of(&config, Some(bootstrap::check)).with_object_check(edge_infra::check))
        }
        Err(findings) => bail!(
            "{}",
            findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
        ),
    }
}

/// Nobody is called from here, so what extension services would change isn't shown.
fn warn_of_extensions(name: &str, config: &EdgeGateway) -> Result<()> {
    if config.extensions().next().is_some() {
        writeln!(
            io::stderr().lock(),
            "{name}: warning: extensionManager: extension services are not called here; xDS is shown as it is before they \
             change it"
        )?;
    }
    Ok(())
}
