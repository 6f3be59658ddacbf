//! Services of others that scenarios talk to, built from their Go modules, unmodified.

use crate::workspace;
use anyhow::{Context, Result, bail, ensure};
use std::{path::PathBuf, process::Command};

/// A service, by the folder of its module in `e2e/services`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Service {
    /// What looks whether HTTP/2 is spoken by its specification.
    H2spec,
    /// What scenarios log in at.
    OpenIdProvider,
    /// What counts for global rate limits, in Redis.
    RateLimit,
}

impl Service {
    fn name(self) -> &'static str {
        match self {
            Self::H2spec => "h2spec",
            Self::OpenIdProvider => "openid-provider",
            Self::RateLimit => "ratelimit",
        }
    }

    /// Builds it, and gives the folder it is in. Go's own cache says what is up to date.
    pub(crate) fn build(self) -> Result<PathBuf> {
        if matches!(self, Self::RateLimit) {
            let redis = Command::new("redis-server").arg("--version").output();
            ensure!(
                redis.is_ok_and(|output| output.status.success()),
                "global rate limits are counted in Redis: install it (Debian: apt-get install redis-server)"
            );
        }
        let (name, folder) = (self.name(), workspace::target_dir()?.join("services"));
        let mut command = Command::new("sh");
        command
            .args(["build.sh", name])
            .arg(&folder)
            .current_dir(workspace::root()?.join("e2e/services"));
        let status = command.status().context("sh can't be started")?;
        if !status.success() {
            bail!(
                "e2e/services/{name} doesn't build: it needs Go, from https://go.dev/dl and on the PATH, and its modules"
            );
        }
        Ok(folder)
    }
}
