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
        let (filter, handle) = reload::Layer::new(filter(log_filter(level)?));
        let lines = format::layer().with_writer(std::io::stderr).with_ansi(false);
        // A second start in one process (tests) keeps the first.
        let _ = tracing_subscriber::registry().with(filter).with(lines).try_init();
        Ok(Self {
            handle: Arc::new(handle),
        })
    }

    /// The level of now.
    pub fn current(&self) -> String {
        self.handle.with_current(level_of).unwrap_or_default()
    }

    /// Changes the level.
    pub fn set(&self, level: &str) -> Result<(), String> {
        let filter = filter(log_filter(level)?);
        self.handle.reload(filter).map_err(|error| error.to_string())
    }
}

/// What is logged at a level. The HTTP/2 library warns of each client that breaks its limits, and any client may: with
/// every reset stream it would write a line for others to pay for. Who looks for such clients asks for `debug`.
fn filter(level: &str) -> EnvFilter {
    match level {
        "warn" | "info" => EnvFilter::new(format!("{level},h2=error")),
        _ => EnvFilter::new(level),
    }
}

/// The level that a filter has for all that it doesn't name.
fn level_of(filter: &EnvFilter) -> String {
    let directives = filter.to_string();
    let mut unnamed = directives.split(',').filter(|directive| !directive.contains('='));
    unnamed.next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_that_break_the_rules_of_http2_fill_no_log() {
        for level in ["off", "error", "warn", "info", "debug", "trace"] {
            let filter = filter(level);
            assert_eq!(level_of(&filter), level);
            assert_eq!(
                filter.to_string().contains("h2=error"),
                ["warn", "info"].contains(&level)
            );
        }
    }
}
