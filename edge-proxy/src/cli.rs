//! The command line: the main flags of Envoy's, so that one can stand in for the other.
//!
//! Flags that steer what this proxy does not have (hot restart, CPU sets, regular expression engines) are accepted
//! and do nothing, because deployments pass them as a matter of course. A flag that nobody knows is an error.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{CommandFactory as _, Parser, ValueEnum};

/// An HTTP proxy that takes Envoy's bootstrap and is configured over xDS.
#[derive(Debug, Clone, Parser)]
#[command(name = "edge-proxy", version)]
pub struct Arguments {
    /// The bootstrap, YAML or JSON.
    #[arg(short = 'c', long, value_name = "FILE")]
    pub config_path: Option<PathBuf>,
    /// The bootstrap as text; merged over the file if both are given.
    // It may begin with the dashes of a YAML document.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub config_yaml: Option<String>,
    /// Serve, or check the configuration and exit.
    #[arg(long, value_enum, default_value_t = Mode::Serve)]
    pub mode: Mode,
    /// Overrides node.cluster.
    #[arg(long, value_name = "NAME")]
    pub service_cluster: Option<String>,
    /// Overrides node.id.
    #[arg(long, value_name = "NAME")]
    pub service_node: Option<String>,
    /// Overrides node.locality.zone.
    #[arg(long, value_name = "ZONE")]
    pub service_zone: Option<String>,
    /// Worker threads; one per core when not given.
    #[arg(long, value_name = "N")]
    pub concurrency: Option<usize>,
    /// trace, debug, info, warning, error, critical or off.
    #[arg(short = 'l', long, value_name = "LEVEL", default_value = "info")]
    pub log_level: String,
    /// Levels of single components, `name:level,…`; those of Envoy's that are not here have no effect.
    #[arg(long, value_name = "LIST")]
    pub component_log_level: Option<String>,
    /// How long open connections may go on after SIGTERM.
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    pub drain_time_s: u64,
    /// How clients are told during the drain time: bit by bit, or all at once.
    #[arg(long, value_enum, default_value_t = DrainStrategy::Gradual)]
    pub drain_strategy: DrainStrategy,
    /// Write the address of the admin interface to this file.
    #[arg(long, value_name = "FILE")]
    pub admin_address_path: Option<PathBuf>,
    /// Write the manual page of this program into a folder and exit, for packages of it.
    #[arg(long, hide = true, value_name = "FOLDER")]
    pub manual: Option<PathBuf>,
    /// Without effect: hot restart.
    #[arg(long, hide = true)]
    pub base_id: Option<u64>,
    /// Without effect: hot restart.
    #[arg(long, hide = true)]
    pub base_id_path: Option<PathBuf>,
    /// Without effect: hot restart.
    #[arg(long, hide = true)]
    pub use_dynamic_base_id: bool,
    /// Without effect: hot restart.
    #[arg(long, hide = true)]
    pub disable_hot_restart: bool,
    /// Without effect: hot restart.
    #[arg(long, hide = true)]
    pub restart_epoch: Option<u64>,
    /// Without effect: hot restart.
    #[arg(long, hide = true)]
    pub parent_shutdown_time_s: Option<u64>,
    /// Without effect: threads follow the CPU set of the process anyway.
    #[arg(long, hide = true)]
    pub cpuset_threads: bool,
    /// Without effect: there are no loadable extensions.
    #[arg(long, hide = true, value_name = "LIST")]
    pub disable_extensions: Option<String>,
    /// Without effect: lines of access logs wait 100 ms at most, or until their file has 64 KiB of them.
    #[arg(long, hide = true)]
    pub file_flush_interval_msec: Option<u64>,
    /// Without effect: lines of access logs wait 100 ms at most, or until their file has 64 KiB of them.
    #[arg(long, hide = true)]
    pub file_flush_min_size_kb: Option<u64>,
    /// Without effect: one log format.
    #[arg(long, hide = true)]
    pub log_format: Option<String>,
    /// Without effect: one log format.
    #[arg(long, hide = true)]
    pub log_format_escaped: bool,
    /// Without effect: levels are those of components.
    #[arg(long, hide = true)]
    pub enable_fine_grain_logging: bool,
    /// Without effect: nothing is deprecated here.
    #[arg(long, hide = true)]
    pub skip_deprecated_logs: bool,
    /// Without effect: one log format.
    #[arg(long, hide = true)]
    pub log_stacktrace_single_entry: bool,
    /// Without effect: what isn't known is refused anyway.
    #[arg(long, hide = true)]
    pub reject_unknown_dynamic_fields: bool,
    /// Without effect: addresses are told as they are.
    #[arg(long, hide = true, value_name = "v4 or v6")]
    pub local_address_ip_version: Option<String>,
    /// Without effect: the system decides.
    #[arg(long, hide = true)]
    pub enable_core_dump: bool,
    /// Without effect: no locks are traced.
    #[arg(long, hide = true)]
    pub enable_mutex_tracing: bool,
    /// Without effect: hot restart.
    #[arg(long, hide = true)]
    pub skip_hot_restart_on_no_parent: bool,
    /// Without effect: hot restart.
    #[arg(long, hide = true)]
    pub skip_hot_restart_parent_stats: bool,
    /// Without effect: hot restart.
    #[arg(long, hide = true)]
    pub socket_path: Option<String>,
    /// Without effect: hot restart.
    #[arg(long, hide = true)]
    pub socket_mode: Option<String>,
}

/// The words of a command line. Envoy takes an option and its value in one word too, with a space between them, and
/// lists of arguments that people give their proxies have it so.
pub fn words(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut words = Vec::new();
    for argument in arguments {
        match argument.to_str().and_then(|text| text.split_once(' ')) {
            Some((option, value)) if is_option(option) => words.extend([option.into(), value.trim_start().into()]),
            _ => words.push(argument),
        }
    }
    words
}

/// `-c` or `--config-path`; no text of a bootstrap, which may begin with dashes as well.
fn is_option(word: &str) -> bool {
    let name = word.strip_prefix("--").or_else(|| word.strip_prefix('-'));
    let is_letter = |c: char| c.is_ascii_alphabetic();
    name.is_some_and(|name| name.starts_with(is_letter) && name.chars().all(|c| is_letter(c) || c == '-'))
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Serve.
    Serve,
    /// Check the configuration and exit.
    Validate,
}

/// How clients are told to leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DrainStrategy {
    /// Over the drain time.
    Gradual,
    /// At once.
    Immediate,
}

/// Writes the manual page into a folder.
pub fn write_manual(folder: &Path) -> std::io::Result<()> {
    clap_mangen::generate_to(Arguments::command(), folder)
}

/// The filter of the log for Envoy's level names.
pub fn log_filter(level: &str) -> Result<&'static str, String> {
    Ok(match level {
        "trace" => "trace",
        "debug" => "debug",
        "info" => "info",
        "warn" | "warning" => "warn",
        "error" | "err" | "critical" => "error",
        "off" => "off",
        other => {
            return Err(format!(
                "unknown log level {other:?}: use trace, debug, info, warning, error, critical or off"
            ));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_of_a_generated_deployment_are_understood() {
        let arguments = Arguments::try_parse_from([
            "edge-proxy",
            "--service-cluster",
            "default/eg",
            "--service-node",
            "pod-1",
            "--config-yaml",
            "admin: {}",
            "--log-level",
            "warn",
            "--cpuset-threads",
            "--drain-strategy",
            "immediate",
            "--component-log-level",
            "misc:error",
            "--drain-time-s",
            "60",
        ])
        .expect("valid");
        assert_eq!(
            (arguments.drain_time_s, arguments.drain_strategy),
            (60, DrainStrategy::Immediate)
        );
        assert_eq!(arguments.service_cluster.as_deref(), Some("default/eg"));
    }

    #[test]
    fn an_option_and_its_value_may_be_one_word() {
        let given = [
            "edge-proxy",
            "--concurrency 3",
            "--config-yaml",
            "---\nadmin: {}",
            "-l warn",
            "--config-path a b",
        ];
        let words = words(given.map(OsString::from));
        let arguments = Arguments::try_parse_from(words).expect("valid");
        assert_eq!(arguments.concurrency, Some(3));
        assert_eq!(arguments.config_yaml.as_deref(), Some("---\nadmin: {}"));
        assert_eq!(arguments.log_level, "warn");
        assert_eq!(arguments.config_path, Some("a b".into()));
    }

    #[test]
    fn an_unknown_flag_is_named() {
        let error = Arguments::try_parse_from(["edge-proxy", "--no-such-flag"]).expect_err("unknown");
        assert!(error.to_string().contains("--no-such-flag"), "{error}");
    }

    #[test]
    fn log_levels_are_those_of_envoy() {
        assert_eq!(
            (log_filter("warning"), log_filter("critical")),
            (Ok("warn"), Ok("error"))
        );
        assert!(log_filter("loud").is_err());
    }
}
