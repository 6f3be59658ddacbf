//! The door to development: `cargo xtask <command>`. Nothing here is needed to build or run the product.

mod generate;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "xtask", about = "Development tasks of Edge Gateway")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Writes the generated files that are checked in.
    Gen(generate::Options),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Gen(options) => generate::run(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            use std::io::Write;
            // Standard error may be closed; there is nobody left to tell then.
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
