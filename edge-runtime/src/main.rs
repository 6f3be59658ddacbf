//! The binary `edgegateway`: everything is in the library, so that tests can reach it.

use std::process::ExitCode;

/// Requests and translation allocate on every core, and musl's own allocator has one lock for all of them.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    edge_runtime::cli::run(std::env::args_os())
}
