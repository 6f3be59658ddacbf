//! The commands, as data.

use crate::{collect, config, dashboard, echo, install, stats, status, translate, validate, version};
use anyhow::{Context, Result};
use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

/// What people do most, at the end of `--help`.
const EXAMPLES: &str = "\
Examples:
  edgectl x translate -f gateway.d                      statuses and xDS of a folder of resources
  edgectl x translate -f gateway.d --to xds -t route    the route configurations alone
  edgectl x translate -f gateway.d --strict >/dev/null  check: fails, and says what isn't in force
  edgectl x status all                                  the conditions that a running controller tells
  edgectl x echo --port 3000                            a backend to try things with

Colours are used on a terminal only, and never when NO_COLOR is set.";

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "edgectl",
    version,
    about = "Inspect, check and translate Edge Gateway configuration"
)]
#[command(after_help = EXAMPLES)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Top-level commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Commands that may still change.
    #[command(subcommand, name = "x", visible_alias = "experimental")]
    Experimental(Experimental),
    /// Shows the configuration that is in force in a cluster.
    #[command(subcommand, visible_alias = "c")]
    Config(config::ConfigCommand),
    /// Prints the versions of this program and of what it speaks.
    #[command(visible_aliases = ["versions", "v"])]
    Version(version::VersionArgs),
    /// Prints a completion script for a shell.
    Completion {
        /// The shell.
        shell: Shell,
    },
    /// Writes the manual pages of this program, for packages of it.
    #[command(hide = true)]
    Manual {
        /// The folder that they go to.
        folder: PathBuf,
    },
}

/// Commands under `edgectl x`.
#[derive(Debug, Subcommand)]
pub enum Experimental {
    /// Shows what becomes of resource files: statuses, the intermediate representation, and xDS.
    Translate(translate::TranslateArgs),
    /// Checks resource files as an API server would: schemas, bounds and rules of Gateway API and of our own kinds.
    Validate(validate::ValidateArgs),
    /// Shows the conditions of objects, in a cluster or of the controller of this machine.
    Status(status::StatusArgs),
    /// Shows what proxies in a cluster count.
    #[command(subcommand)]
    Stats(stats::StatsCommand),
    /// Shows the admin pages of a proxy or a controller in a cluster, in a browser.
    #[command(subcommand, visible_alias = "d")]
    Dashboard(dashboard::DashboardCommand),
    /// Puts what helps to find a fault into one archive: resources, logs, metrics, configurations; no secrets.
    Collect(collect::CollectArgs),
    /// Installs the controller in a cluster, and the definitions of the kinds that it reads.
    Install(install::InstallArgs),
    /// Removes the controller from a cluster.
    Uninstall(install::UninstallArgs),
    /// Runs a small backend that answers every request with what it saw, as JSON.
    Echo(echo::EchoArgs),
}

/// Runs a command. 0: done; 1: it failed, standard error says why. (Wrong usage is 2 and is found while parsing.)
pub fn run(cli: Cli) -> ExitCode {
    let result = match cli.command {
        Command::Experimental(Experimental::Translate(args)) => translate::run(&args),
        Command::Experimental(Experimental::Validate(args)) => validate::run(&args),
        Command::Experimental(Experimental::Status(args)) => status::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Experimental(Experimental::Stats(command)) => stats::run(&command).map(|()| ExitCode::SUCCESS),
        Command::Experimental(Experimental::Dashboard(command)) => dashboard::run(&command).map(|()| ExitCode::SUCCESS),
        Command::Experimental(Experimental::Collect(args)) => collect::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Experimental(Experimental::Echo(args)) => echo::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Experimental(Experimental::Install(args)) => install::install(&args).map(|()| ExitCode::SUCCESS),
        Command::Experimental(Experimental::Uninstall(args)) => install::uninstall(&args).map(|()| ExitCode::SUCCESS),
        Command::Config(command) => config::run(&command).map(|()| ExitCode::SUCCESS),
        Command::Version(args) => version::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Completion { shell } => completion(shell).map(|()| ExitCode::SUCCESS),
        Command::Manual { folder } => manual(&folder).map(|()| ExitCode::SUCCESS),
    };
    result.unwrap_or_else(|error| fail(&error))
}

fn completion(shell: Shell) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "edgectl", &mut script);
    Ok(io::stdout().write_all(&script)?)
}

fn manual(folder: &Path) -> Result<()> {
    clap_mangen::generate_to(Cli::command(), folder).with_context(|| {
        format!(
            "no manual can be written to {}: the folder must be there",
            folder.display()
        )
    })
}

fn fail(error: &anyhow::Error) -> ExitCode {
    if is_gone(error) {
        return ExitCode::SUCCESS;
    }
    // Standard error may be closed as well; there is nobody left to tell then.
    let _ = writeln!(io::stderr(), "error: {error:#}");
    ExitCode::FAILURE
}

/// What was found wrong is said by the exit code, too, when nobody reads the rest of the report.
pub(crate) fn whoever_reads(told: Result<()>) -> Result<()> {
    told.or_else(|error| if is_gone(&error) { Ok(()) } else { Err(error) })
}

/// `edgectl … | head` closes our output; that is its right and no failure worth a message.
fn is_gone(error: &anyhow::Error) -> bool {
    error.chain().any(is_broken_pipe)
}

fn is_broken_pipe(cause: &(dyn std::error::Error + 'static)) -> bool {
    let io = cause.downcast_ref::<io::Error>().map(io::Error::kind);
    // Doesn't name the fault of the output among its causes.
    let json = || {
        cause
            .downcast_ref::<serde_json::Error>()
            .and_then(serde_json::Error::io_error_kind)
    };
    io.or_else(json) == Some(io::ErrorKind::BrokenPipe)
}

/// How structured output is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum OutputFormat {
    /// YAML.
    Yaml,
    /// JSON.
    Json,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_shell_gets_a_script_that_names_the_commands() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "edgectl", &mut script);
            assert!(String::from_utf8(script).unwrap().contains("translate"), "{shell}");
        }
    }

    #[test]
    fn help_names_the_commands_as_they_are_written() {
        let help = Cli::command().render_help().to_string();
        assert!(
            help.contains("\n  x ") && help.contains("[alias: experimental]"),
            "{help}"
        );
        assert!(help.contains("Examples:"), "{help}");
        let error = Cli::try_parse_from(["edgectl", "x", "translate", "-f", "-", "-t", "nonsense"]).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("[possible values: all, bootstrap, endpoint, cluster, listener, route]"),
            "{error}"
        );
    }

    #[test]
    fn a_version_is_no_error() {
        let version = Cli::try_parse_from(["edgectl", "--version"]).unwrap_err();
        assert_eq!(version.exit_code(), 0);
        assert_eq!(
            version.to_string(),
            concat!("edgectl ", env!("CARGO_PKG_VERSION"), "\n")
        );
    }

    #[test]
    fn a_reader_that_goes_is_no_failure() {
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        for format in [OutputFormat::Yaml, OutputFormat::Json] {
            let error = translate::show::write_value(&[1, 2], format, &mut Closed).unwrap_err();
            assert!(error.chain().any(is_broken_pipe), "{format:?}: {error:?}");
        }
    }

    #[test]
    fn wrong_usage_ends_with_code_2() {
        for line in [
            &["edgectl"][..],
            &["edgectl", "x", "translate", "--to", "nonsense", "-f", "-"],
            &["edgectl", "nope"],
        ] {
            assert_eq!(Cli::try_parse_from(line).unwrap_err().exit_code(), 2, "{line:?}");
        }
    }
}
