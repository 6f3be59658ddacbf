//! The log: to standard error, with levels that the admin interface can change.

use std::fmt;
use std::sync::Arc;

use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, fmt as format, reload};

use crate::cli::log_filter;

/// Changes the level of the running process.
#[derive(Clone)]
pub struct Levels {
    handle: Arc<reload::Handle<EnvFilter, Registry>>,
}

impl fmt::Debug for Levels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Levels")
    }
}

impl Levels {
    /// A log that starts with this level. Components (`name:level,…`) are Envoy's, which this proxy doesn't have, so
    /// they are not taken into account.
    pub fn start(level: &str) -> Result<Self, String> {
        let (filter, handle) = reload::Layer::new(EnvFilter::new(log_filter(level)?));
        let lines = format::layer().with_writer(std::io::stderr).with_ansi(false);
        // A second start in one process (tests) keeps the first.
        let _ = tracing_subscriber::registry().with(filter).with(lines).try_init();
        Ok(Self {
            handle: Arc::new(handle),
        })
    }

    /// The level of now.
    pub fn current(&self) -> String {
        self.handle.with_current(ToString::to_string).unwrap_or_default()
    }

    /// Changes the level.
    pub fn set(&self, level: &str) -> Result<(), String> {
        let filter = EnvFilter::new(log_filter(level)?);
        self.handle.reload(filter).map_err(|error| error.to_string())
    }
}
