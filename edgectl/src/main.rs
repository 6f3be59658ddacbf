//! Binary `edgectl`: parses the command line, runs the command, turns the outcome into an exit code.

use clap::Parser;
use edgectl::cli::{Cli, run};
use std::process::ExitCode;

/// Requests and translation allocate on every core, and musl's own allocator has one lock for all of them.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Usage errors end inside `parse` with exit code 2.
    run(Cli::parse())
}
