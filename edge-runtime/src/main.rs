//! The binary `edgegateway`: everything is in the library, so that tests can reach it.

use std::process::ExitCode;

fn main() -> ExitCode {
    edge_runtime::cli::run(std::env::args_os())
}
