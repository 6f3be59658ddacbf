//! The binary: reads the command line and says in one line what keeps it from running.

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;
use edge_proxy::cli::{Arguments, words, write_manual};
use edge_proxy::logging::Levels;
use edge_proxy::server;

/// Requests and translation allocate on every core, and musl's own allocator has one lock for all of them.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Usage errors exit with 2 and name the flag; --version and --help with 0.
    let arguments = Arguments::parse_from(words(std::env::args_os()));
    let components = arguments.component_log_level.as_deref().unwrap_or_default();
    let result = match (&arguments.manual, Levels::start(&arguments.log_level, components)) {
        (Some(folder), _) => {
            write_manual(folder).map_err(|error| anyhow::anyhow!("--manual {}: {error}", folder.display()))
        }
        (None, Ok(levels)) => server::run(arguments, levels),
        (None, Err(error)) => Err(anyhow::anyhow!(error)),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // When standard error is gone there is nobody left to tell.
            let _ = writeln!(std::io::stderr(), "edge-proxy: {error}");
            ExitCode::FAILURE
        }
    }
}
