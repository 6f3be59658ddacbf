//! The commands, as data.

use crate::{echo, translate, version};
use anyhow::Result;
use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use std::{
    io::{self, Write},
    process::ExitCode,
};

/// The whole command line.
#[derive(Debug, Parser)]
#[command(name = "edgectl", about = "Inspect, check and translate Edge Gateway configuration")]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Top-level commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Commands that may still change.
    #[command(subcommand, visible_alias = "x")]
    Experimental(Experimental),
    /// Prints the versions of this program and of what it speaks.
    #[command(visible_aliases = ["versions", "v"])]
    Version(version::VersionArgs),
    /// Prints a completion script for a shell.
    Completion {
        /// The shell.
        shell: Shell,
    },
}

/// Commands under `edgectl x`.
#[derive(Debug, Subcommand)]
pub enum Experimental {
    /// Shows what becomes of resource files: statuses, the intermediate representation, and xDS.
    Translate(translate::TranslateArgs),
    /// Runs a small backend that answers every request with what it saw, as JSON.
    Echo(echo::EchoArgs),
}

/// Runs a command. 0: done; 1: it failed, standard error says why. (Wrong usage is 2 and is found while parsing.)
pub fn run(cli: Cli) -> ExitCode {
    let result = match cli.command {
        Command::Experimental(Experimental::Translate(args)) => translate::run(&args),
        Command::Experimental(Experimental::Echo(args)) => echo::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Version(args) => version::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Completion { shell } => completion(shell).map(|()| ExitCode::SUCCESS),
    };
    result.unwrap_or_else(|error| fail(&error))
}

fn completion(shell: Shell) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "edgectl", &mut script);
    Ok(io::stdout().write_all(&script)?)
}

fn fail(error: &anyhow::Error) -> ExitCode {
    // `edgectl … | head` closes our output; that is its right and no failure worth a message.
    let closed = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    if closed.into_iter().any(|e| e.kind() == io::ErrorKind::BrokenPipe) {
        return ExitCode::SUCCESS;
    }
    // Standard error may be closed as well; there is nobody left to tell then.
    let _ = writeln!(io::stderr(), "error: {error:#}");
    ExitCode::FAILURE
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
