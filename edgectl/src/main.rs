//! Binary `edgectl`: parses the command line, runs the command, turns the outcome into an exit code.

use clap::Parser;
use edgectl::cli::{Cli, run};
use std::process::ExitCode;

fn main() -> ExitCode {
    // Usage errors end inside `parse` with exit code 2.
    run(Cli::parse())
}
