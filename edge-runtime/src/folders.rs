//! Default folders of a user.

use crate::Error;
use std::{env, io, path::PathBuf};

/// Folder for what people configure.
pub(crate) fn config_home() -> Result<PathBuf, Error> {
    below_home(
        ".config/edge-gateway",
        "provider.custom.infrastructure.host.configHome (certgen: --config-home)",
    )
}

/// Folder for what is worth keeping.
pub(crate) fn state_home() -> Result<PathBuf, Error> {
    below_home(
        ".local/state/edge-gateway",
        "provider.custom.infrastructure.host.stateHome",
    )
}

/// Folder for what lives as long as the processes.
pub(crate) fn runtime_dir() -> PathBuf {
    env::temp_dir().join(format!("edge-gateway-{}", rustix::process::getuid().as_raw()))
}

fn below_home(path: &str, field: &'static str) -> Result<PathBuf, Error> {
    match env::home_dir().filter(|home| !home.as_os_str().is_empty()) {
        Some(home) => Ok(home.join(path)),
        None => Err(Error::File {
            purpose: "folder below the home folder",
            path: PathBuf::from("~").join(path),
            remedy: format!("set HOME or {field}"),
            source: io::Error::from(io::ErrorKind::NotFound),
        }),
    }
}
