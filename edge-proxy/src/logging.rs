//! The log: to standard error, with levels that the admin interface can change.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, fmt as format, reload};

use crate::cli::log_filter;

/// Those of Envoy's components that have a part here that does the same, and where it writes. The longest prefix of a
/// target counts.
pub const COMPONENTS: &[(&str, &[&str])] = &[
    ("admin", &["edge_proxy::admin"]),
    (
        "config",
        &["edge_proxy::compile", "edge_proxy::control", "edge_proxy::discovery"],
    ),
    ("connection", &["edge_proxy::connection", "edge_proxy::downstream"]),
    ("dns", &["edge_proxy::dns"]),
    ("ext_proc", &["edge_proxy::http::filters::ext_proc"]),
    ("filter", &["edge_proxy::http::filters"]),
    ("geolocation", &["edge_proxy::http::filters::geoip"]),
    (
        "http",
        &[
            "edge_proxy::http",
            "edge_proxy::downstream::http1",
            "edge_proxy::downstream::http2",
        ],
    ),
    ("http2", &["h2"]),
    ("jwt", &["edge_proxy::calls::keys", "edge_proxy::http::filters::jwt"]),
    ("main", &["edge_proxy::server"]),
    ("oauth2", &["edge_proxy::http::filters::oauth2"]),
    ("router", &["edge_proxy::http::forward"]),
    (
        "secret",
        &["edge_proxy::control::secret_files", "edge_proxy::discovery::sds"],
    ),
    ("tracing", &["edge_proxy::compile::tracing", "edge_proxy::traces"]),
    ("upstream", &["edge_proxy::upstream"]),
];

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
    /// A log that starts with this level, and with others for single components (`name:level,…`).
    ///
    /// # Errors
    /// When one of the two can't be read; the error begins with the name of its flag.
    pub fn start(level: &str, components: &str) -> Result<Self, String> {
        let level = log_filter(level).map_err(|error| format!("--log-level: {error}"))?;
        let components = directives(components).map_err(|error| format!("--component-log-level: {error}"))?;
        let (filter, handle) = reload::Layer::new(filter(level, &components));
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

    /// Changes the level, of components too.
    pub fn set(&self, level: &str) -> Result<(), String> {
        let filter = filter(log_filter(level)?, "");
        self.handle.reload(filter).map_err(|error| error.to_string())
    }
}

/// What is logged at a level. The HTTP/2 library warns of each client that breaks its limits, and any client may: with
/// every reset stream it would write a line for others to pay for. Who looks for such clients asks for `debug`, or for
/// the component `http2`.
fn filter(level: &str, components: &str) -> EnvFilter {
    // Of two directives for the same target the last one counts.
    match level {
        "warn" | "info" => EnvFilter::new(format!("{level},h2=error{components}")),
        _ => EnvFilter::new(format!("{level}{components}")),
    }
}

/// Levels of components as directives, a comma before each. Components that aren't here have nothing to say.
fn directives(components: &str) -> Result<String, String> {
    let mut directives = String::new();
    for pair in components.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let (name, level) = pair
            .split_once(':')
            .ok_or_else(|| format!("{pair:?} is no name:level"))?;
        let level = log_filter(level)?;
        let known = COMPONENTS.iter().filter(|(component, _)| *component == name);
        for target in known.flat_map(|(_, targets)| *targets) {
            let _ = write!(directives, ",{target}={level}");
        }
    }
    Ok(directives)
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
            let filter = filter(level, "");
            assert_eq!(level_of(&filter), level);
            assert_eq!(
                filter.to_string().contains("h2=error"),
                ["warn", "info"].contains(&level)
            );
        }
    }

    /// Whether lines of debugging pass, by their target.
    fn debugged(components: &str) -> [bool; 4] {
        let filter = filter("warn", &directives(components).expect("valid"));
        tracing::subscriber::with_default(tracing_subscriber::registry().with(filter), || {
            [
                tracing::enabled!(target: "edge_proxy::http::exchange", tracing::Level::DEBUG),
                tracing::enabled!(target: "edge_proxy::http::filters::jwt", tracing::Level::DEBUG),
                tracing::enabled!(target: "h2::proto", tracing::Level::DEBUG),
                tracing::enabled!(target: "edge_proxy::server", tracing::Level::DEBUG),
            ]
        })
    }

    #[test]
    fn a_component_has_a_level_of_its_own() {
        assert_eq!(debugged(""), [false, false, false, false]);
        assert_eq!(debugged("http:debug,misc:error"), [true, true, false, false]);
        assert_eq!(debugged("http:debug,jwt:warning"), [true, false, false, false]);
        assert_eq!(debugged("http2:trace"), [false, false, true, false]);
        assert_eq!(debugged("main:debug"), [false, false, false, true]);
        let all = filter("info", &directives("http2:debug").expect("valid"));
        assert_eq!(level_of(&all), "info");
    }

    #[test]
    fn a_level_that_is_none_is_an_error() {
        assert!(directives("http:loud").is_err());
        assert!(directives("http").is_err());
    }

    #[test]
    fn components_are_modules_that_exist() {
        let sources = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let targets = COMPONENTS.iter().flat_map(|(_, targets)| *targets);
        for module in targets.filter_map(|target| target.strip_prefix("edge_proxy::")) {
            let file = sources.join(module.replace("::", "/")).with_extension("rs");
            assert!(file.exists(), "{module}");
        }
    }
}
