//! Logging: levels by component, as text or JSON, on standard error.
//!
//! Components are what the configuration file calls parts of the controller; each stands for modules of ours. Other
//! people's crates speak only when they warn.

use crate::Error;
use std::{
    collections::BTreeMap,
    env,
    ffi::OsStr,
    io::{self, IsTerminal as _},
};
use tracing_subscriber::{
    EnvFilter, Layer as _, Registry, fmt, layer::SubscriberExt as _, reload, util::SubscriberInitExt as _,
};

/// What is logged and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Logging {
    /// Level by component; `default` for the rest.
    pub levels: BTreeMap<String, String>,
    /// The form of a line.
    pub encoder: Encoder,
}

/// The form of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoder {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Changes the levels of running logging.
pub struct LogControl {
    filter: reload::Handle<EnvFilter, Registry>,
    encoder: Encoder,
}

impl std::fmt::Debug for LogControl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogControl")
            .field("encoder", &self.encoder)
            .finish_non_exhaustive()
    }
}

/// Starts logging for this process. Can be done once.
pub fn start(logging: &Logging) -> Result<LogControl, Error> {
    let (filter, handle) = reload::Layer::new(EnvFilter::new(directives(logging)));
    let lines = fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal() && !is_plain(env::var_os("NO_COLOR").as_deref()));
    let lines = match logging.encoder {
        Encoder::Text => lines.with_target(false).boxed(),
        Encoder::Json => lines.json().boxed(),
    };
    tracing_subscriber::registry()
        .with(filter)
        .with(lines)
        .try_init()
        .map_err(|error| Error::System {
            purpose: "can't start logging",
            source: io::Error::other(error),
        })?;
    Ok(LogControl {
        filter: handle,
        encoder: logging.encoder,
    })
}

/// Whether somebody wants no colours (no-color.org): anything but nothing says so.
fn is_plain(no_color: Option<&OsStr>) -> bool {
    no_color.is_some_and(|value| !value.is_empty())
}

impl LogControl {
    /// Follows a changed configuration. The form of lines stays until the next start.
    pub fn follow(&self, logging: &Logging) {
        if let Err(error) = self.filter.reload(EnvFilter::new(directives(logging))) {
            tracing::warn!(%error, "log levels can't be changed");
        }
        if logging.encoder != self.encoder {
            tracing::warn!("logging.encoder takes effect at the next start");
        }
    }
}

/// The modules behind a component.
fn modules(component: &str) -> &'static [&'static str] {
    match component {
        "provider" => &["edge_runtime::provider", "edge_runtime::watch", "edge_runtime::cluster"],
        "gateway-api" => &["edge_translate", "edge_runtime::world", "edge_runtime::status"],
        "xds-translator" => &["edge_xds", "edge_runtime::world"],
        "xds-server" | "xds" => &["edge_runtime::xds_server"],
        "infrastructure" => &["edge_runtime::host_infra", "edge_runtime::cluster_infra"],
        // The rate limit service is no part of standalone mode.
        _ => &[],
    }
}

/// The filter that `logging` describes, in the language of `tracing`.
fn directives(logging: &Logging) -> String {
    let level = |name: &str| match name {
        "critical" => "error".to_owned(),
        other => other.to_owned(),
    };
    let default = level(logging.levels.get("default").map_or("info", String::as_str));
    let mut list = vec![
        "warn".to_owned(),
        // They warn of every request that fails, which is told where it matters, once.
        "kube_client=off".to_owned(),
        "kube_runtime=off".to_owned(),
        // It warns of every watch that went with its folder.
        "notify=error".to_owned(),
        format!("edge_runtime={default}"),
        format!("edgegateway={default}"),
    ];
    for (component, name) in &logging.levels {
        list.extend(
            modules(component)
                .iter()
                .map(|module| format!("{module}={}", level(name))),
        );
    }
    list.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_left_out_where_somebody_says_so() {
        for (value, is_wanted) in [(None, false), (Some(""), false), (Some("1"), true)] {
            assert_eq!(is_plain(value.map(OsStr::new)), is_wanted, "{value:?}");
        }
    }

    #[test]
    fn components_stand_for_modules_that_are_there() {
        let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        for component in [
            "provider",
            "gateway-api",
            "xds-translator",
            "xds-server",
            "infrastructure",
        ] {
            for module in modules(component)
                .iter()
                .filter_map(|name| name.strip_prefix("edge_runtime::"))
            {
                assert!(
                    source.join(module).with_extension("rs").is_file(),
                    "{component}: {module}"
                );
            }
        }
    }

    #[test]
    fn components_become_modules() {
        let levels = [
            ("default", "error"),
            ("provider", "debug"),
            ("xds", "critical"),
            ("infrastructure", "off"),
            ("global-ratelimit", "trace"),
        ];
        let levels = levels
            .map(|(component, level)| (component.to_owned(), level.to_owned()))
            .into();
        let text = directives(&Logging {
            levels,
            encoder: Encoder::Text,
        });
        assert_eq!(
            text,
            "warn,kube_client=off,kube_runtime=off,notify=error,edge_runtime=error,edgegateway=error,\
             edge_runtime::host_infra=off,edge_runtime::cluster_infra=off,edge_runtime::provider=debug,edge_runtime::watch=debug,\
             edge_runtime::cluster=debug,\
             edge_runtime::xds_server=error"
        );
        assert!(text.parse::<EnvFilter>().is_ok());
    }
}
